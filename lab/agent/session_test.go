package agent

import (
	"bufio"
	"encoding/json"
	"io"
	"testing"
)

// quits is an agent that answers each request, says goodbye and is gone.
type quits struct{ gone chan struct{} }

func (quits) Kill()         {}
func (q quits) Wait() error { <-q.gone; return nil }
func (quits) Said() string  { return "" }

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
