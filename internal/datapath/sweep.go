package datapath

import (
	"errors"
	"fmt"
	"os"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/policy"
)

// GCStats is what the sweep over the firewall's connections found.
type GCStats struct {
	States      map[string]int      // connections by state, as StateNames
	Connections int                 // in the table from which nothing is pushed out
	HalfOpen    int                 // in the other: without an answer, or over
	Waiting     int                 // without an answer
	Expired     int                 // that the sweep removed
	HalfOpens   map[string]HalfOpen // those that wait, by port, of ports that have any
}

// HalfOpen are the connections of a port that wait for an answer.
type HalfOpen struct {
	In, Out int    // opened from outside, and by the workload
	Limit   uint32 // of each, 0: none
}

// Sweep removes the connections that have expired and counts the others. It looks at
// each of them, in the kernel.
func (fw *Firewall) Sweep() (GCStats, error) {
	c := GCStats{States: map[string]int{}, HalfOpens: map[string]HalfOpen{}}
	if fw.prog.cfg.Firewall == nil {
		return c, nil
	}
	tally, err := fw.connections.sweep()
	if err != nil {
		return c, err
	}
	c.States = byStateName(tally.States)
	c.Connections, c.HalfOpen, c.Expired = int(tally.Established), int(tally.HalfOpen), int(tally.Expired)
	for id, name := range fw.numbers.names.ports {
		n, err := fw.halfOpens(id)
		if err != nil {
			return c, fmt.Errorf("half-open connections of port %s: %w", name, err)
		}
		if n.In > 0 || n.Out > 0 {
			c.HalfOpens[name] = n
			c.Waiting += n.In + n.Out
		}
	}
	return c, nil
}

// halfOpens are those of the port with the vport id.
func (fw *Firewall) halfOpens(id uint32) (n HalfOpen, err error) {
	var u bpfLimitUsage
	var l bpfLimits
	if err := errors.Join(fw.limits.maps.OwnerUsages.Lookup(ownerIndex(id), &u), fw.limits.maps.OwnerLimits.Lookup(ownerIndex(id), &l)); err != nil {
		return n, err
	}
	// Two cores may count one too many down.
	n.In = int(max(u.Used[bpfLimitedCountCOUNT_HALF_OPEN_IN], 0))
	n.Out = int(max(u.Used[bpfLimitedCountCOUNT_HALF_OPEN_OUT], 0))
	n.Limit = l.Counts[bpfLimitedCountCOUNT_HALF_OPEN_IN]
	return n, nil
}

// NATGCStats is what the sweep over the sessions found.
type NATGCStats struct {
	States   map[string]int // sessions by state, as StateNames
	Sessions int            // of connections
	Mappings int            // ports that are held for all peers
	Replicas int            // of Sessions: those of other gateways
	Expired  int            // that the sweep removed
}

// NATSweep removes the sessions that have expired and counts the others. It looks at
// each of them, in the kernel.
func (se *NATSessions) NATSweep() (NATGCStats, error) {
	c := NATGCStats{States: map[string]int{}}
	if se.prog.cfg.Egress == nil {
		return c, nil
	}
	tally, err := se.table.sweep()
	if err != nil {
		return c, err
	}
	c.States = byStateName(tally.States)
	c.Sessions, c.Mappings, c.Replicas, c.Expired = int(tally.Sessions), int(tally.Mappings), int(tally.Replicas), int(tally.Expired)
	return c, nil
}

func byStateName(counts [bpfCtStateCT_STATE_MAX]uint32) map[string]int {
	all := make(map[string]int, len(counts))
	for state, n := range counts {
		all[StateNames[state]] = int(n)
	}
	return all
}

// Table is one of the tables of the firewall or NAT.
type Table struct {
	Name  string
	Used  int // entries, -1 where nobody counts them
	Size  int
	Bytes uint64 // memory now, as the kernel accounts it
}

func table(name string, m kernel.Map, used int) Table {
	return Table{Name: name, Used: used, Size: int(m.MaxEntries()), Bytes: m.Memlock()}
}

// The tables of the firewall.
const (
	TableConnections = "connections"
	TableHalfOpen    = "half-open"
	TableFragments   = "fragments"
	TableRules       = "rules"
	TablePolicy      = "policy"
	TableLogs        = "logs"
)

// FirewallTables are the tables with what the census c counted; nil without a firewall.
func (fw *Firewall) FirewallTables(c GCStats) []Table {
	if fw.prog.cfg.Firewall == nil {
		return nil
	}
	list := []Table{
		table(TableConnections, fw.maps.CtEstablished, c.Connections), table(TableHalfOpen, fw.maps.CtHalfOpen, c.HalfOpen),
		table(TableFragments, fw.maps.Fragments, -1), table(TableRules, fw.maps.Rules, len(fw.inForce.Rules)),
	}
	if fw.lines > 0 {
		list = append(list, Table{Name: TablePolicy, Used: -1, Size: int(fw.lines), Bytes: imageMemory(fw.lines)})
	}
	return append(list, table(TableLogs, fw.maps.Logs, -1))
}

// imageMemory is what the kernel accounts for an array of so many lines whose memory is mapped: to ask it takes CAP_SYS_ADMIN.
func imageMemory(lines uint32) uint64 {
	page := uint64(os.Getpagesize())
	return page + (uint64(lines)*4*policy.LineWords+page-1)/page*page
}

// The tables of NAT.
const (
	TableNATSessions  = "nat-sessions"
	TableReturns      = "nat-reverse"
	TableHosts        = "nat-sources"
	TablePortForwards = "port-forwards"
	TableNATFragments = "nat-fragments"
	TablePool         = "nat-pool"
	TableNATEvents    = "nat-events"
)

// NATTables are the tables with what the census c counted; nil where nothing is translated.
func (eg *Egress) NATTables(c NATGCStats) []Table {
	if eg.prog.cfg.Egress == nil {
		return nil
	}
	entries := c.Sessions + c.Mappings
	return []Table{
		table(TableNATSessions, eg.sessions.maps.NatSessions, entries), table(TableReturns, eg.sessions.maps.NatReverse, entries),
		table(TableHosts, eg.maps.NatHostCounts, -1), table(TablePortForwards, eg.sessions.maps.PortForwards, -1),
		table(TableNATFragments, eg.maps.NatFragments, -1), table(TablePool, eg.maps.Pool, eg.poolUsed()),
		table(TableNATEvents, eg.sessions.maps.NatEvents, -1),
	}
}

func (eg *Egress) poolUsed() (n int) {
	eg.changing.Lock()
	defer eg.changing.Unlock()
	for i := range eg.numbers.egresses {
		for _, f := range eg.numbers.egresses[i].Family {
			n += int(f.Count)
		}
	}
	return n
}
