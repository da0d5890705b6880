package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/tail"
)

// Both ends write a line of JSON for each message, and one without anything every beat.
const (
	beat = time.Second
	// silence is how long nothing comes before the other end is taken for lost.
	silence = 5 * time.Second
	// longestLine is more than any answer has.
	longestLine = 16 << 20
)

// errSilent is the cause when the other end is lost.
var errSilent = fmt.Errorf("nothing came for %s", silence)

// message is a request, its answer, or with nothing in it a heartbeat.
type message struct {
	ID    uint64          `json:"id,omitempty"` // of a request, and of its answer
	Op    string          `json:"op,omitempty"` // of a request
	Body  json.RawMessage `json:"body,omitempty"`
	Error string          `json:"error,omitempty"` // of an answer
}

// wire writes messages, each whole.
type wire struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *wire) send(m message) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.out.Write(append(line, '\n'))
	return err
}

// keepAlive sends heartbeats until stop is closed or the other end does not take them.
func (w *wire) keepAlive(stop <-chan struct{}) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			if w.send(message{}) != nil {
				return
			}
		}
	}
}

// readyMark is the agent's own first message.
const readyMark = `{"op":"` + opReady + `"}`

// noise is the most that comes before a mark, in bytes.
const noise = 64 << 10

// Await reads up to the end of a line with a mark in it, wherever login shells and sudo leave that, and returns what stands
// behind the mark. Of what came instead it returns the end.
func Await(out *bufio.Reader, mark string) (rest, came string, err error) {
	var other tail.Buffer
	for read := 0; read < noise; {
		line, err := out.ReadSlice('\n') // which the reader's buffer bounds
		if at := strings.LastIndex(string(line), mark); at >= 0 && err == nil {
			return string(line[at+len(mark):]), "", nil
		}
		_, _ = other.Write(line) // which never fails
		if errors.Is(err, bufio.ErrBufferFull) {
			break
		} else if err != nil {
			return "", other.String(), err
		}
		read += len(line)
	}
	return "", other.String(), fmt.Errorf("its shell prints more than %d bytes before it does anything", noise)
}

// Printed ends an error with the end of what was printed, unless that is empty.
func Printed(text string) string {
	const most = 400
	if text == "" {
		return ""
	}
	return fmt.Sprintf("; it printed %q", text[max(0, len(text)-most):])
}

// watchdog calls lost once when fed is not called for the time of silence.
type watchdog struct{ timer *time.Timer }

func newWatchdog(lost func()) *watchdog { return &watchdog{time.AfterFunc(silence, lost)} }

func (w *watchdog) fed()  { w.timer.Reset(silence) }
func (w *watchdog) stop() { w.timer.Stop() }

// receive hands over each message until the input ends, which is no error. Empty lines are
// none: those that sudo did not ask for.
func receive(in *bufio.Reader, dog *watchdog, each func(message)) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		dog.fed()
		if len(lines.Bytes()) == 0 {
			continue
		}
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("message %.80q: %w", lines.Text(), err)
		}
		if m.ID != 0 {
			each(m)
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		return err
	}
	return nil
}
