package datapath

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// RenewLease has the programs answer for leased addresses for another half second. A
// process that has ended no longer calls it: the others of the group hear nothing more of
// the gateway, and take its addresses, while its programs go on.
func (d *Datapath) RenewLease() error {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &ts); err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	const ms = 1e6
	if err := d.objs.Pulses.Put(uint32(edgePulsePULSE_LEASE), uint32(ts.Nano()/ms)); err != nil {
		return fmt.Errorf("renew the lease of addresses: %w", err)
	}
	return nil
}
