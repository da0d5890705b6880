package agent

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// quits is an agent that answers each request, says goodbye and is gone.
type quits struct{ gone chan struct{} }

func (quits) Kill()         {}
func (q quits) Wait() error { <-q.gone; return nil }
func (quits) Said() string  { return "" }

// killed is one whose output ends when it is killed.
type killed struct {
	quits
	out io.Closer
}

func (k killed) Kill() { k.out.Close() }

// hostile is a far end that answers hello with the text of another, or prints without an end.
func hostile(t *testing.T, write func(requests io.Reader, answers io.Writer)) (*Session, error) {
	t.Helper()
	requests, in := io.Pipe()
	out, answers := io.Pipe()
	process := killed{quits{make(chan struct{})}, out}
	go func() {
		defer close(process.gone)
		write(requests, answers)
		answers.Close()
		requests.Close()
	}()
	return NewSession(t.Context(), "there", process, bufio.NewReaderSize(out, noise), in)
}

// What comes before an agent is ready takes no more memory, however much it is and whether it has lines.
func TestNoiseIsBounded(t *testing.T) {
	for _, text := range []string{"A", "A\n"} {
		_, err := hostile(t, func(_ io.Reader, answers io.Writer) {
			for range 100 {
				_, _ = io.WriteString(answers, strings.Repeat(text, 2000)) // until nobody reads it
			}
		})
		if err == nil || !strings.Contains(err.Error(), "prints more than") || len(err.Error()) > 2000 {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A far end's texts have no line breaks or escape sequences, and what stands before its first message on the same line is left out.
func TestTextsAreLines(t *testing.T) {
	const text = "a\nselvage: all is well\x1b[2J"
	s, err := hostile(t, func(requests io.Reader, answers io.Writer) {
		w := wire{out: answers}
		_, _ = io.WriteString(answers, "[sudo] ")
		_ = w.send(message{Op: opReady})
		lines := bufio.NewScanner(requests)
		for lines.Scan() {
			var m message
			if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == 0 {
				continue
			}
			answer := message{ID: m.ID, Error: text}
			if m.Op == opHello {
				body, _ := json.Marshal(Hello{Name: text, Restored: []string{text}})
				answer = message{ID: m.ID, Body: body}
			}
			_ = w.send(answer)
			if m.Op == opBye {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = "a selvage: all is well\ufffd[2J"
	if err := s.Close(); s.Hello.Name != want || s.Hello.Restored[0] != want || err == nil || err.Error() != "there: "+want {
		t.Errorf("%+v, %v", s.Hello, err)
	}
}

// An agent that says goodbye and ends at once has answered: that is no lost connection, whoever is first to see it.
func TestGoodbyeIsAnAnswer(t *testing.T) {
	for range 200 {
		requests, in := io.Pipe()
		out, answers := io.Pipe()
		process := quits{make(chan struct{})}
		go func() {
			defer close(process.gone)
			w := wire{out: answers}
			_ = w.send(message{Op: opReady})
			lines := bufio.NewScanner(requests)
			for lines.Scan() {
				var m message
				if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == 0 {
					continue
				}
				_ = w.send(message{ID: m.ID, Body: json.RawMessage(`{}`)})
				if m.Op == opBye {
					break
				}
			}
			answers.Close()
			requests.Close()
		}()
		s, err := NewSession(t.Context(), "here", process, bufio.NewReader(out), in)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
