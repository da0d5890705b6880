package datapath

import (
	"errors"
	"io"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// pinLock is the lock of the directory of pins, which two handles of one process have while one succeeds
// the other. They are opened and closed by one goroutine.
type pinLock struct {
	io.Closer
	handles int
}

// lockPins takes the lock, or shares that of the handle before.
func lockPins(k kernel.Kernel, dir string, before *Datapath) (*pinLock, error) {
	if before != nil {
		before.lock.handles++
		return before.lock, nil
	}
	lock, err := k.Pins.Lock(dir)
	if err != nil {
		return nil, err
	}
	return &pinLock{lock, 1}, nil
}

// Close lets go of it with the last handle.
func (l *pinLock) Close() error {
	if l.handles--; l.handles > 0 {
		return nil
	}
	return l.Closer.Close()
}

// succeed takes over from the handle that was open before. From then on what is steered is written here,
// by the names that the other one gave: the tables are those that it filled.
func (d *Datapath) succeed() error {
	before := d.before
	if before == nil {
		return nil
	}
	// It has gone on since these were read.
	if err := errors.Join(d.numbers.read(), d.Egress.restoreEgress(), d.Routes.restoreRoutes()); err != nil {
		return err
	}
	d.before = nil
	d.numbers.names, d.numbers.edges = before.numbers.names, before.numbers.edges
	d.Hosts.members, d.Ports.cut = before.Hosts.members, before.Ports.cut
	d.Egress.own, d.Egress.owned, d.Egress.owners = before.Egress.own, before.Egress.owned, before.Egress.owners
	return nil
}
