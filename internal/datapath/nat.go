package datapath

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

const (
	// maxNATFragments is how many datagrams are remembered until their last fragment came.
	maxNATFragments = 16384
	// natInbound is NAT_INBOUND of bpf/abi/nat.h.
	natInbound = 16384
	// mostDispensable bounds the sessions that are remembered as such that can go when there is
	// no room, of each kind.
	mostDispensable = 65536
	// leastRing is the smallest ring buffer that the kernel makes: a page.
	leastRing = 4096
)

// translation is what of Tables.Egress is in force.
type translation struct {
	// changing is held by SteerEgress and Apply while they write entries and pool, and by
	// who reads those.
	changing sync.Mutex
	entries  []bpfEgressPolicy // by number; 0 is never used
	pool     []bpfAddr
	taken    []bool                 // which of pool are an entry's, or were before the last change
	next     uint32                 // where the search for free ones begins
	owned    map[bpfLocalKey]uint32 // locals of the addresses that gateways answer for
	own      map[bpfLocalKey]bool   // and those of the edge itself, which are not theirs
	owners   map[bpfLocalKey]egressOwner

	// rules is nil where no policy is. numbers are those that its image was made with.
	rules   *policy.Policy
	numbers policy.Numbers

	natEvents ring[bpfNatEvent]
	sessions  conntrackTable[bpfNatSession, bpfNatGcStats]
}

func (n *translation) close() error { return errors.Join(n.natEvents.close(), n.sessions.close()) }

// configureEgress sizes the tables and sets what the programs have to know of e.
func configureEgress(spec *ebpf.CollectionSpec, e *overlay.Egress) error {
	if e == nil { // what takes memory before it is used has one entry, as others in bpf/abi/maps.h
		spec.Maps[bpfMapNatEvents].MaxEntries = leastRing
		spec.Maps[bpfMapPortForwards].MaxEntries = 1
		return nil
	}
	if e.NATSessions == 0 {
		return errors.New("egress: table of sessions without entries")
	}
	for name, size := range map[string]uint32{
		bpfMapNatSessions: e.NATSessions, bpfMapNatReverse: 2 * e.NATSessions,
		bpfMapNatHostCounts: 2 * e.NATSessions, bpfMapNatFragments: maxNATFragments, bpfMapNatInbound: natInbound,
		bpfMapNatOver: min(e.NATSessions, mostDispensable), bpfMapNatUnanswered: min(e.NATSessions, mostDispensable),
	} {
		spec.Maps[name].MaxEntries = size
	}
	timeouts, err := timeoutsNS(e.Timeouts)
	if err != nil {
		return fmt.Errorf("egress: %w", err)
	}
	for name, value := range map[string]any{bpfVarWithNat: true, bpfVarNatTimeouts: timeouts, bpfVarNatDnsTimeout: uint64(e.DNSTimeout), bpfVarNatEventsWanted: hasReaders(e)} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// hasReaders reports whether somebody reads the news of sessions.
func hasReaders(e *overlay.Egress) bool {
	for _, g := range e.Gateways {
		if g.Replication != nil {
			return true
		}
	}
	return e.Log
}

// restoreEgress reads which numbers a former process gave to egresses.
func (d *Datapath) restoreEgress() error {
	d.nat.entries = make([]bpfEgressPolicy, d.objs.EgressPolicies.MaxEntries())
	d.nat.pool = make([]bpfAddr, d.objs.Pool.MaxEntries())
	d.nat.taken = make([]bool, len(d.nat.pool))
	if err := readArray(d.objs.EgressPolicies, d.nat.entries); err != nil {
		return err
	}
	return readArray(d.objs.Pool, d.nat.pool)
}
