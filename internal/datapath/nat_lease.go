package datapath

import (
	"fmt"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// Lease has the programs answer for leased addresses. A process that has ended no longer renews it: the others of the
// group hear nothing more of the gateway, and take its addresses, while its programs go on.
// It is good until it is closed, also while its Datapath is closed and another one opened.
type Lease struct {
	// Renew makes it last for another half second.
	Renew func() error
	Close func() error
}

// Lease returns the lease of this data path.
func (cg *Changes) Lease() (Lease, error) {
	counters, err := cg.maps.GlobalCounters.Clone()
	if err != nil {
		return Lease{}, fmt.Errorf("lease of addresses: %w", err)
	}
	return Lease{Renew: func() error { return renewLease(cg.prog.kernel.Clock, counters) }, Close: counters.Close}, nil
}

func renewLease(clock kernel.Clock, counters kernel.Map) error {
	now, err := clock.Coarse()
	if err != nil {
		return err
	}
	const ms = 1e6
	if err := counters.Put(uint32(bpfGlobalCounterGLOBAL_LEASE), uint32(now/ms)); err != nil {
		return fmt.Errorf("renew the lease of addresses: %w", err)
	}
	return nil
}
