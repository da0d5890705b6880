package datapath

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// natSweeper is the program that looks at every session, and where it counts.
type natSweeper struct {
	program          *ebpf.Program
	tally, pressures *ebpf.Map
	last             uint32 // number of the last sweep
}

func (s *natSweeper) close() error {
	if s == nil {
		return nil
	}
	return errors.Join(s.program.Close(), s.tally.Close(), s.pressures.Close())
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
func (d *Datapath) NATSweep() (NATGCStats, error) {
	c := NATGCStats{States: map[string]int{}}
	if d.cfg.Egress == nil {
		return c, nil
	}
	tally, err := d.natSweep()
	if err != nil {
		return c, err
	}
	for state, n := range tally.States {
		c.States[StateNames[state]] = int(n)
	}
	c.Sessions, c.Mappings, c.Replicas, c.Expired = int(tally.Sessions), int(tally.Mappings), int(tally.Replicas), int(tally.Expired)
	return c, nil
}

func (d *Datapath) natSweep() (tally bpfNatGcStats, err error) {
	d.nat.sweeping.Lock()
	defer d.nat.sweeping.Unlock()
	if d.nat.sweeper == nil {
		if d.nat.sweeper, err = d.loadNATSweeper(); err != nil {
			return tally, err
		}
	}
	ret, err := d.nat.sweeper.program.Run(&ebpf.RunOptions{})
	if err == nil && ret != 0 {
		err = fmt.Errorf("it returned %d", ret)
	}
	if err != nil {
		return tally, fmt.Errorf("sweep the sessions: %w", err)
	}
	if err := d.nat.sweeper.tally.Lookup(uint32(0), &tally); err != nil {
		return tally, fmt.Errorf("read what the sweep of sessions counted: %w", err)
	}
	d.nat.sweeper.last = tally.Run
	return tally, nil
}

func (d *Datapath) loadNATSweeper() (*natSweeper, error) {
	spec, err := loadNatGc()
	if err != nil {
		return nil, err
	}
	if err := configure(spec, d.cfg); err != nil {
		return nil, err
	}
	objects, err := loadUpon(spec, d.maps())
	if err != nil {
		return nil, err
	}
	defer objects.Close()
	return &natSweeper{
		program: objects.DetachProgram(natGcProgNatGc), tally: objects.DetachMap(natGcMapNatGcResult),
		pressures: objects.DetachMap(natGcMapPortUsages),
	}, nil
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
func (d *Datapath) NATTables(c NATGCStats) []Table {
	if d.cfg.Egress == nil {
		return nil
	}
	table := func(name string, m *ebpf.Map, used int) Table {
		return Table{Name: name, Used: used, Size: int(m.MaxEntries()), Bytes: memory(m)}
	}
	entries := c.Sessions + c.Mappings
	return []Table{
		table(TableNATSessions, d.objs.NatSessions, entries), table(TableReturns, d.objs.NatReverse, entries),
		table(TableHosts, d.objs.NatHostCounts, -1), table(TablePortForwards, d.objs.PortForwards, -1),
		table(TableNATFragments, d.objs.NatFragments, -1), table(TablePool, d.objs.Pool, d.poolUsed()),
		table(TableNATEvents, d.objs.NatEvents, -1),
	}
}

func (d *Datapath) poolUsed() (n int) {
	d.nat.changing.Lock()
	defer d.nat.changing.Unlock()
	for i := range d.nat.entries {
		for _, f := range d.nat.entries[i].Family {
			n += int(f.Count)
		}
	}
	return n
}
