package datapath

import (
	"fmt"
	"math/bits"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

// segmentOwner is the flag of an owner of entries that is a segment, SEGMENT_OWNER of bpf/abi/limits.h.
const segmentOwner = 0x10000

// ownerIndex is where the maps have an owner, as owner_index() of bpf/abi/limits.h.
func ownerIndex(owner uint32) uint32 {
	if owner&segmentOwner != 0 {
		return owner &^ segmentOwner
	}
	return maxSegments + owner
}

// limitCounts are l's limits of entries, by bpfLimitedCount.
func limitCounts(l overlay.Limits) [bpfLimitedCountCOUNT_MAX]uint32 {
	return [...]uint32{
		bpfLimitedCountCOUNT_MACS: l.MACs, bpfLimitedCountCOUNT_NEIGHBOURS: l.Neighbours,
		bpfLimitedCountCOUNT_HALF_OPEN_IN: l.HalfOpen, bpfLimitedCountCOUNT_HALF_OPEN_OUT: l.HalfOpen,
		bpfLimitedCountCOUNT_CONNECTIONS:  l.Connections,
		bpfLimitedCountCOUNT_NAT_SESSIONS: l.NATSessions, bpfLimitedCountCOUNT_FLOWS: l.Flows,
	}
}

// limitRates are l's limits a second, by bpfLimitedRate.
func limitRates(l overlay.Limits) [bpfLimitedRateRATE_MAX]uint32 {
	return [...]uint32{
		bpfLimitedRateRATE_BROADCAST: l.Broadcast, bpfLimitedRateRATE_MULTICAST: l.Multicast,
		bpfLimitedRateRATE_UNKNOWN_UNICAST: l.UnknownUnicast, bpfLimitedRateRATE_NEW_FLOWS: l.NewFlows,
		bpfLimitedRateRATE_ICMP_ERRORS: l.ICMPErrors, bpfLimitedRateRATE_RESETS: l.Resets,
		bpfLimitedRateRATE_NEIGHBOUR_REQUESTS: l.NeighbourRequests, bpfLimitedRateRATE_LOG_LINES: l.LogLines,
		bpfLimitedRateRATE_HOST_EVENTS: l.HostEvents,
	}
}

// limitedTables are what limits count the entries of.
func limitedTables(maps map[string]*ebpf.MapSpec) [bpfLimitedCountCOUNT_MAX]uint32 {
	var sizes [bpfLimitedCountCOUNT_MAX]uint32
	for count, name := range [...]string{
		bpfLimitedCountCOUNT_MACS: bpfMapFdb, bpfLimitedCountCOUNT_NEIGHBOURS: bpfMapNeighbours,
		bpfLimitedCountCOUNT_HALF_OPEN_IN: bpfMapCtHalfOpen, bpfLimitedCountCOUNT_HALF_OPEN_OUT: bpfMapCtHalfOpen,
		bpfLimitedCountCOUNT_CONNECTIONS:  bpfMapCtEstablished,
		bpfLimitedCountCOUNT_NAT_SESSIONS: bpfMapNatSessions, bpfLimitedCountCOUNT_FLOWS: bpfMapFlows,
	} {
		sizes[count] = maps[name].MaxEntries
	}
	return sizes
}

// allSlots is the mask of rings whose entries tell when they are gone.
const allSlots = 1<<32 - 1

// ringMask is the size, less 1, of a ring with room for twice as many keys as there may be
// entries: those of entries that are gone stay until they are overwritten.
func ringMask(limit, table uint32) uint32 {
	if limit == 0 || limit > table {
		limit = table
	}
	return 1<<bits.Len32(2*limit-1) - 1
}

// configureLimits makes room for the keys of all limited entries. It comes after the sizes of
// their tables.
func (li *Limits) configureLimits(spec *ebpf.CollectionSpec) {
	li.limitedTables = limitedTables(spec.Maps)
	var room uint32
	for count, size := range li.limitedTables {
		if bpfLimitedCount(count) != bpfLimitedCountCOUNT_FLOWS { // whose keys are never more than its entries
			size *= 2
		}
		room += size
	}
	spec.Maps[bpfMapLimitEntries].MaxEntries = room
}

// putLimits writes what the owner may take. What it has taken stays.
func (li *Limits) putLimits(owner uint32, l overlay.Limits) error {
	v := bpfLimits{Counts: limitCounts(l), Rates: limitRates(l)}
	for count, limit := range v.Counts {
		v.RingMasks[count] = ringMask(limit, li.limitedTables[count])
	}
	for _, count := range []bpfLimitedCount{bpfLimitedCountCOUNT_HALF_OPEN_IN, bpfLimitedCountCOUNT_HALF_OPEN_OUT, bpfLimitedCountCOUNT_CONNECTIONS} {
		v.RingMasks[count] = allSlots
	}
	if l.Observe {
		v.Observe = 1
	}
	if err := li.maps.OwnerLimits.Put(ownerIndex(owner), v); err != nil {
		return fmt.Errorf("write limits: %w", err)
	}
	return nil
}

// limits are what the owner may take.
func (li *Limits) limits(owner uint32) (l bpfLimits, err error) {
	if err := li.maps.OwnerLimits.Lookup(ownerIndex(owner), &l); err != nil {
		return l, fmt.Errorf("read limits: %w", err)
	}
	return l, nil
}

// remoteLimits are those of a remote: half of what it may teach, so that no remote has it all.
func (li *Limits) remoteLimits() overlay.Limits {
	half := func(count bpfLimitedCount) uint32 { return max(li.limitedTables[count]/2, 1) }
	return overlay.Limits{MACs: half(bpfLimitedCountCOUNT_MACS), Neighbours: half(bpfLimitedCountCOUNT_NEIGHBOURS)}
}

// writeLimits writes those of all ports, remotes and segments.
func (li *Limits) writeLimits(t fib.Tables) error {
	for _, p := range t.Ports {
		if err := li.putLimits(li.numbers.names.portIDs[p.Name], p.Limits); err != nil {
			return fmt.Errorf("port %s: %w", p.Name, err)
		}
	}
	for pair, id := range li.numbers.names.pathIDs {
		if err := li.putLimits(id, li.remoteLimits()); err != nil {
			return fmt.Errorf("path %s: %w", pair, err)
		}
	}
	for _, s := range t.Segments {
		if err := li.putLimits(segmentOwner+li.numbers.names.segIDs[s.Name], s.Limits); err != nil {
			return fmt.Errorf("segment %s: %w", s.Name, err)
		}
	}
	return nil
}
