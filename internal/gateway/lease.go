package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

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
}

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
	return err
}

func (l *Lease) renew() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held.Renew == nil {
		return nil
	}
	return l.held.Renew()
}

// Keep renews it until ctx ends.
func (l *Lease) Keep(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(leaseEvery)
	defer tick.Stop()
	for {
		if err := l.renew(); err != nil {
			log.Error("renew the lease of egress addresses", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
