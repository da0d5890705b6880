package edge

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
)

// leaseEvery is how often the data path is told that this process lives: it answers for
// addresses that others may take over for 500 ms without.
const leaseEvery = 100 * time.Millisecond

// lease is this process's word that it follows what other gateways do. Its lock is held for
// no work but that, so nothing that takes long lets the lease run out.
type lease struct {
	mu   sync.Mutex
	held datapath.Lease // zero while there is none
}

// of has the lease be of dp from now on; nil has none.
func (l *lease) of(dp *DataPath) (err error) {
	var next datapath.Lease
	if dp != nil {
		if next, err = dp.Clock.Lease(); err != nil {
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

func (l *lease) renew() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held.Renew == nil {
		return nil
	}
	return l.held.Renew()
}

// renewLease renews it until ctx ends.
func (e *edge) renewLease(ctx context.Context) {
	tick := time.NewTicker(leaseEvery)
	defer tick.Stop()
	for {
		if err := e.lease.renew(); err != nil {
			e.log.Error("renew the lease of egress addresses", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// leased marks what another gateway may take over should this process die. The last
// gateway's addresses are answered for without it too.
func leased(config overlay.Edge, list []fib.Egress, all map[netip.Addr]gatewayStates) {
	for i := range list {
		list[i].Leased = slices.ContainsFunc(groupMembers(config, list[i].Name), func(m netip.Addr) bool {
			return m != self(config) && all[m].State != nat.Gone
		})
	}
}

// groupMembers are the gateways of a policy.
func groupMembers(config overlay.Edge, policy string) []netip.Addr {
	for _, p := range config.Egress.Policies {
		for _, g := range config.Egress.Gateways {
			if p.Name == policy && g.Name == p.Gateways {
				return g.Members
			}
		}
	}
	return nil
}
