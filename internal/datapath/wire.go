package datapath

import (
	"errors"
	"sync"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// errWireClosed is the error of a frame after the data path was closed.
var errWireClosed = errors.New("send a frame: the data path is closed")

// openWire is a socket that stays open until the data path is closed: to close one has its process wait for an RCU
// grace period, about 10 ms. The zero value opens it with the first frame.
type openWire struct {
	mu     sync.Mutex
	wire   kernel.Wire // nil: none is open
	closed bool
}

// send sends a frame as it is. It must be called in the edge's network namespace, and may be called by many goroutines.
func (ev *HostEvents) send(ifindex int, frame []byte) (err error) {
	w := &ev.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errWireClosed
	}
	if w.wire == nil {
		if w.wire, err = ev.prog.kernel.Wire(); err != nil {
			return err
		}
	}
	return w.wire.Send(ifindex, frame)
}

// close ends that. A second one does nothing.
func (w *openWire) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	wire := w.wire
	if w.wire = nil; wire == nil {
		return nil
	}
	return wire.Close()
}
