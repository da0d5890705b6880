package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/datapath"
)

// leaseEvery is how often the data path is told that this process lives: it answers for
// addresses that others may take over for 500 ms without.
const leaseEvery = 100 * time.Millisecond

// Lessee is a data path that wants to know that a process lives.
type Lessee interface {
	Lease() (datapath.Lease, error)
}

// Lease is this process's word that it follows what other gateways do. Its lock is held for
// no work but that, so nothing that takes long lets the lease run out.
type Lease struct {
	mu   sync.Mutex
	held datapath.Lease // zero while there is none
	wake chan struct{}  // has a mark when there is another
}

// NewLease is of no data path yet.
func NewLease() *Lease { return &Lease{wake: make(chan struct{}, 1)} }

// Of has the lease be of a data path from now on; nil has none.
func (l *Lease) Of(dp Lessee) (err error) {
	var next datapath.Lease
	if dp != nil {
		if next, err = dp.Lease(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held.Close != nil {
		err = l.held.Close()
	}
	l.held = next
	background.Notify(l.wake)
	return err
}

// renew renews it, if there is one.
func (l *Lease) renew() (held bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held.Renew == nil {
		return false, nil
	}
	return true, l.held.Renew()
}

// Keep renews it until ctx ends.
func (l *Lease) Keep(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(leaseEvery)
	defer tick.Stop()
	for {
		held, err := l.renew()
		if err != nil {
			log.Error("renew the lease of egress addresses", "err", err)
		}
		if held {
			tick.Reset(leaseEvery)
		} else {
			tick.Stop() // until there is one
		}
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-tick.C:
		}
	}
}
