package datapath

import "fmt"

// RenewLease has the programs answer for leased addresses for another half second. A
// process that has ended no longer calls it: the others of the group hear nothing more of
// the gateway, and take its addresses, while its programs go on.
func (d *Datapath) RenewLease() error {
	now, err := coarseNS()
	if err != nil {
		return err
	}
	const ms = 1e6
	if err := d.objs.GlobalCounters.Put(uint32(bpfGlobalCounterGLOBAL_LEASE), uint32(now/ms)); err != nil {
		return fmt.Errorf("renew the lease of addresses: %w", err)
	}
	return nil
}
