// Package logging writes log lines without having anybody wait for whoever reads them.
//
// Its one invariant: to log is never to wait. Lines are queued and written by one goroutine. When
// the reader is slow or gone (a stopped pipe, a full disk, a journal that hangs) the queue fills,
// further lines are lost, and their number is told. Do not use it for what must not be lost.
package logging

import (
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// queueMost is how many bytes wait at most: some ten thousand lines.
	queueMost = 1 << 20
	// closeWait is how long the end of a program waits for the last lines to be taken.
	closeWait = time.Second
)

// Writer is an io.Writer that never waits and never fails. Each Write is one line.
type Writer struct {
	out  io.Writer
	self *slog.Logger // writes to out itself

	mu     sync.Mutex
	change *sync.Cond
	queue  []byte
	lines  uint64 // in the queue
	lost   uint64 // ever
	told   uint64 // of these
	closed bool

	done chan struct{}
}

// New is a logger of lines in slog's text format, at that level and above, and the Writer behind
// it, which is to be closed.
func New(out io.Writer, level slog.Leveler) (*slog.Logger, *Writer) {
	options := &slog.HandlerOptions{Level: level}
	w := &Writer{out: out, self: slog.New(slog.NewTextHandler(out, options)), done: make(chan struct{})}
	w.change = sync.NewCond(&w.mu)
	go w.run()
	return slog.New(slog.NewTextHandler(w, options)), w
}

// Write queues a line, or loses it when there is no room, or after Close.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.queue)+len(line) > queueMost {
		w.lost++
	} else {
		w.queue = append(w.queue, line...)
		w.lines++
	}
	w.change.Signal()
	return len(line), nil
}

// Lost is how many lines were lost since the start.
func (w *Writer) Lost() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// Close writes what waits, for a second at most, and loses all that comes after it.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closed = true
	w.change.Signal()
	w.mu.Unlock()
	select {
	case <-w.done:
	case <-time.After(closeWait):
	}
	return nil
}

func (w *Writer) run() {
	defer close(w.done)
	for {
		queue, lines, lost, more := w.take()
		if !more {
			return
		}
		if _, err := w.out.Write(queue); err != nil {
			w.mu.Lock()
			w.lost += lines
			w.mu.Unlock()
		}
		if lost > 0 {
			w.self.Warn("log lines are lost: nobody reads them fast enough", "lines", lost)
		}
	}
}

// take waits for lines, or for some to be lost, and takes all. more is false when the Writer is
// closed, and there are none.
func (w *Writer) take() (queue []byte, lines, lost uint64, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) == 0 && w.lost == w.told && !w.closed {
		w.change.Wait()
	}
	queue, lines, lost = w.queue, w.lines, w.lost-w.told
	w.queue, w.lines, w.told = nil, 0, w.lost
	return queue, lines, lost, len(queue) > 0 || lost > 0
}
