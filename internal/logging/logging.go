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
	// linesMost is how many lines wait at most.
	linesMost = 1 << 16
	// closeWait is how long the end of a program waits for the last lines to be taken.
	closeWait = time.Second
)

// Writer is an io.Writer that never waits and never fails. Each Write is one line.
type Writer struct {
	out    io.Writer
	single bool         // out takes one line at a time
	self   *slog.Logger // writes to out itself

	mu     sync.Mutex
	change *sync.Cond
	queue  []byte
	ends   []int  // of the lines in the queue
	lost   uint64 // ever
	told   uint64 // of these
	closed bool

	done chan struct{}
}

// newWriter writes to out what format makes of lines.
func newWriter(out io.Writer, format Format) *Writer {
	w := &Writer{out: out, single: format == Journald, self: slog.New(format.handler(out)), done: make(chan struct{})}
	w.change = sync.NewCond(&w.mu)
	go w.run()
	return w
}

// Write queues a line, or loses it when there is no room, or after Close.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.queue)+len(line) > queueMost || len(w.ends) >= linesMost {
		w.lost++
	} else {
		w.queue = append(w.queue, line...)
		w.ends = append(w.ends, len(w.queue))
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
		queue, ends, lost, more := w.take()
		if !more {
			return
		}
		if failed := w.write(queue, ends); failed > 0 {
			w.mu.Lock()
			w.lost += failed
			w.mu.Unlock()
		}
		if lost > 0 {
			w.self.Warn("log lines are lost: nobody reads them fast enough", "lines", lost)
		}
	}
}

// write writes lines that end there, and says how many could not be written.
func (w *Writer) write(queue []byte, ends []int) (failed uint64) {
	if !w.single {
		if _, err := w.out.Write(queue); err != nil {
			failed = uint64(len(ends))
		}
		return failed
	}
	begin := 0
	for _, end := range ends {
		if _, err := w.out.Write(queue[begin:end]); err != nil {
			failed++
		}
		begin = end
	}
	return failed
}

// take waits for lines, or for some to be lost, and takes all. more is false when the Writer is
// closed, and there are none.
func (w *Writer) take() (queue []byte, ends []int, lost uint64, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) == 0 && w.lost == w.told && !w.closed {
		w.change.Wait()
	}
	queue, ends, lost = w.queue, w.ends, w.lost-w.told
	w.queue, w.ends, w.told = nil, nil, w.lost
	return queue, ends, lost, len(queue) > 0 || lost > 0
}
