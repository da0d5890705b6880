package datapath

import (
	"fmt"
	"slices"
	"strings"
)

// OwnerKind is what has limits.
type OwnerKind string

// The kinds of owners. Remotes own drops only: all tenants behind one share it.
const (
	OwnerPort    OwnerKind = "port"
	OwnerSegment OwnerKind = "segment"
	OwnerRemote  OwnerKind = "remote"
)

// LimitUsage is what a port or segment has taken of what all share.
type LimitUsage struct {
	Kind    OwnerKind
	Owner   string
	Observe bool
	Counts  []CountUsage
	Rates   []RateUsage
}

// CountUsage is of entries of a table.
type CountUsage struct {
	Name, Description string
	Used              int
	Limit             uint32 // 0: none
	Exceeded          uint64 // entries that were evicted or refused at the limit
}

// RateUsage is of packets a second.
type RateUsage struct {
	Name, Description string
	Limit             uint32 // 0: none
	Exceeded          uint64 // packets above it
	// Sent by the owner; otherwise the edge sends them for it, and observing does not change that.
	Sent bool
}

// LimitUsages are those of all ports, then of all segments, by name.
func (li *Limits) LimitUsages() ([]LimitUsage, error) {
	list := make([]LimitUsage, 0, len(li.numbers.names.portIDs)+len(li.numbers.names.segIDs))
	for _, of := range []struct {
		kind  OwnerKind
		ids   map[string]uint32
		first uint32
	}{{OwnerPort, li.numbers.names.portIDs, 0}, {OwnerSegment, li.numbers.names.segIDs, segmentOwner}} {
		for name, id := range of.ids {
			u, err := li.limitUsage(of.first + id)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", of.kind, name, err)
			}
			u.Kind, u.Owner = of.kind, name
			list = append(list, u)
		}
	}
	slices.SortFunc(list, func(a, b LimitUsage) int {
		if a.Kind != b.Kind {
			return strings.Compare(string(a.Kind), string(b.Kind))
		}
		return strings.Compare(a.Owner, b.Owner)
	})
	return list, nil
}

func (li *Limits) limitUsage(owner uint32) (LimitUsage, error) {
	limits, err := li.limits(owner)
	if err != nil {
		return LimitUsage{}, err
	}
	usage := *li.usage(owner)
	u := LimitUsage{Observe: limits.Observe != 0}
	for i, w := range li.prog.words.counts {
		u.Counts = append(u.Counts, CountUsage{
			Name: w.name, Description: w.text, Used: int(max(usage.Used[i], 0)), Limit: limits.Counts[i], Exceeded: usage.Exceeded[i],
		})
	}
	for i, w := range li.prog.words.rates {
		u.Rates = append(u.Rates, RateUsage{
			Name: w.name, Description: w.text, Limit: limits.Rates[i], Exceeded: usage.Limited[i],
			Sent: bpfLimitedRate(i) <= bpfLimitedRateRATE_NEW_FLOWS,
		})
	}
	return u, nil
}
