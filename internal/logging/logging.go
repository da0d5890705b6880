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
	told *slog.Logger // writes to out itself

	mu     sync.Mutex
	queue  []byte
	lines  uint64 // in the queue
	lost   uint64 // ever
	closed bool

	wake chan struct{}
	done chan struct{}
}

// New is a logger of lines in slog's text format, at that level and above, and the Writer behind
// it, which is to be closed.
func New(out io.Writer, level slog.Leveler) (*slog.Logger, *Writer) {
	options := &slog.HandlerOptions{Level: level}
	w := &Writer{
		out: out, told: slog.New(slog.NewTextHandler(out, options)),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	go w.run()
	return slog.New(slog.NewTextHandler(w, options)), w
}

// Write queues a line, or loses it when there is no room, or after Close.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	if w.closed || len(w.queue)+len(line) > queueMost {
		w.lost++
	} else {
		w.queue = append(w.queue, line...)
		w.lines++
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
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
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	select {
	case <-w.done:
	case <-time.After(closeWait):
	}
	return nil
}

func (w *Writer) run() {
	defer close(w.done)
	var told uint64
	for range w.wake {
		for {
			queue, lines, lost, closed := w.take()
			if len(queue) > 0 {
				if _, err := w.out.Write(queue); err != nil {
					w.mu.Lock()
					w.lost += lines
					w.mu.Unlock()
				}
			}
			if lost != told {
				w.told.Warn("log lines are lost: nobody reads them fast enough", "lines", lost-told)
				told = lost
			}
			if len(queue) > 0 {
				continue
			}
			if closed {
				return
			}
			break
		}
	}
}

// take takes all that waits.
func (w *Writer) take() (queue []byte, lines, lost uint64, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	queue, lines = w.queue, w.lines
	w.queue, w.lines = nil, 0
	return queue, lines, w.lost, w.closed
}
