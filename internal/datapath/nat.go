package datapath

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/overlay"
)

const (
	// maxNATFragments is how many datagrams are remembered until their last fragment came.
	maxNATFragments = 16384
	// The table of connections that came in untranslated and wait for their reply grows with that of
	// sessions. A vport has a sixteenth of it in notes, and as many entries for its slots.
	leastNATInbound, mostNATInbound = 16384, 65536
	natInboundShares                = 16
	// mostDispensable bounds the sessions that are remembered as such that can go when there is
	// no room, of each kind.
	mostDispensable = 65536
	// leastRing is the smallest ring buffer that the kernel makes: a page.
	leastRing = 4096
)

// Egress is what of Tables.Egress is in force.
type Egress struct {
	prog     *programs
	maps     egressMaps
	numbers  *numbers
	changes  *Changes
	routes   *Routes
	sessions *NATSessions
	policies *egressPolicies

	// changing is held by SteerEgress and Apply while they write entries and pool, and by
	// who reads those.
	changing sync.Mutex
	pool     addressPool
	owned    map[bpfLocalKey]uint32 // locals of the addresses that gateways answer for
	own      map[bpfLocalKey]bool   // and those of the edge itself, which are not theirs
	owners   map[bpfLocalKey]egressOwner
}

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
	inbound := min(max(e.NATSessions/4, leastNATInbound), mostNATInbound)
	for name, size := range map[string]uint32{
		bpfMapNatSessions: e.NATSessions, bpfMapNatReverse: 2 * e.NATSessions,
		bpfMapNatHostCounts: 2 * e.NATSessions, bpfMapNatFragments: maxNATFragments, bpfMapNatInbound: inbound,
		bpfMapNatOver: min(e.NATSessions, mostDispensable), bpfMapNatUnanswered: min(e.NATSessions, mostDispensable),
	} {
		spec.Maps[name].MaxEntries = size
	}
	timeouts, err := timeoutsNS(e.Timeouts)
	if err != nil {
		return fmt.Errorf("egress: %w", err)
	}
	for name, value := range map[string]any{bpfVarWithNat: true, bpfVarNatTimeouts: timeouts, bpfVarNatDnsTimeout: uint64(e.DNSTimeout), bpfVarNatEventsWanted: hasReaders(e),
		bpfVarNatInboundMask: uint32(1)<<(bits.Len32(inbound/natInboundShares)-1) - 1} {
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
func (eg *Egress) restoreEgress() error {
	eg.numbers.egresses = make([]bpfEgressPolicy, eg.maps.EgressPolicies.MaxEntries())
	eg.pool.addrs = make([]bpfAddr, eg.maps.Pool.MaxEntries())
	eg.pool.taken = make([]bool, len(eg.pool.addrs))
	if err := readArray(eg.maps.EgressPolicies, eg.numbers.egresses); err != nil {
		return err
	}
	return readArray(eg.maps.Pool, eg.pool.addrs)
}
