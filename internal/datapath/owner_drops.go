package datapath

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
)

// OwnerDrop counts the packets of one port, segment or remote that were dropped for one reason.
type OwnerDrop struct {
	Kind  OwnerKind
	Owner string // "": of none of that kind, of one that is gone, or there was no room to tell
	Drop
}

// ownerReason is an owner with a reason.
type ownerReason struct {
	kind   OwnerKind
	owner  string
	reason bpfReason
}

// OwnerDrops are those of all owners of a kind, the most first. Their sum is that of Drops: what is
// not known of an owner is told of none.
func (tf *Traffic) OwnerDrops(kind OwnerKind) ([]OwnerDrop, error) {
	all, err := tf.Drops() // first, so that no owner has more than all
	if err != nil {
		return nil, err
	}
	owners := map[ownerReason]Counters{}
	if err := tf.eachOwnerDrop(func(k bpfDropOwner, c Counters) {
		if name := tf.numbers.dropOwner(kind, k); name != "" && int(k.Reason) < len(tf.prog.words.reasons) {
			at := ownerReason{kind, name, k.Reason}
			owners[at] = owners[at].plus(c)
		}
	}); err != nil {
		return nil, err
	}
	rest := make(map[string]Drop, len(all))
	for _, drop := range all {
		rest[drop.Reason] = drop
	}
	var list []OwnerDrop
	for at, c := range owners {
		w := tf.prog.words.reasons[at.reason]
		list = append(list, OwnerDrop{at.kind, at.owner, Drop{Reason: w.name, Description: w.text, Packets: c.Packets, Bytes: c.Bytes}})
		left := rest[w.name]
		left.Packets -= min(c.Packets, left.Packets)
		left.Bytes -= min(c.Bytes, left.Bytes)
		rest[w.name] = left
	}
	for _, drop := range rest {
		if drop.Packets > 0 {
			list = append(list, OwnerDrop{Kind: kind, Drop: drop})
		}
	}
	slices.SortFunc(list, func(a, b OwnerDrop) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Reason, b.Reason))
	})
	return list, nil
}

// dropOwner is the owner of a kind; "": none.
func (nu *numbers) dropOwner(kind OwnerKind, k bpfDropOwner) string {
	switch kind {
	case OwnerPort:
		return nu.names.ports[k.Vport]
	case OwnerSegment:
		return nu.names.segments[k.Segment]
	case OwnerRemote:
		if _, remote := nu.vportName(k.Vport); remote.IsValid() {
			return remote.String()
		}
	}
	return ""
}

// eachOwnerDrop sums the counters over the cores.
func (tf *Traffic) eachOwnerDrop(do func(bpfDropOwner, Counters)) error {
	var key bpfDropOwner
	var perCPU []bpfCounter
	entries := tf.maps.OwnerDrops.Iterate()
	for entries.Next(&key, &perCPU) {
		var sum Counters
		for _, c := range perCPU {
			sum = sum.plus(toCounters(c))
		}
		do(key, sum)
	}
	if err := entries.Err(); err != nil {
		return fmt.Errorf("read the drops of ports and segments: %w", err)
	}
	return nil
}

// newOwners are numbers of vports and segments that were given anew.
type newOwners struct{ vports, segments map[uint32]bool }

// clearDrops starts the drops of new owners at zero.
func (tf *Traffic) clearDrops(fresh newOwners) error {
	if len(fresh.vports)+len(fresh.segments) == 0 {
		return nil
	}
	var gone []bpfDropOwner
	if err := tf.eachOwnerDrop(func(k bpfDropOwner, _ Counters) {
		if fresh.vports[k.Vport] || fresh.segments[k.Segment] {
			gone = append(gone, k)
		}
	}); err != nil {
		return err
	}
	for _, k := range gone {
		if err := tf.maps.OwnerDrops.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("clear the drops of a new port or segment: %w", err)
		}
	}
	return nil
}
