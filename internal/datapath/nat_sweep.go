package datapath

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// natSweeper is the program that looks at every binding, and where it counts.
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

// NATCensus is what the sweep over the bindings found.
type NATCensus struct {
	States   map[string]int // bindings by state, as StateNames
	Bindings int            // of connections
	Mappings int            // ports that are held for all peers
	Replicas int            // of Bindings: those of other gateways
	Expired  int            // that the sweep removed
}

// NATSweep removes the bindings that have expired and counts the others. It looks at
// each of them, in the kernel.
func (d *Datapath) NATSweep() (NATCensus, error) {
	c := NATCensus{States: map[string]int{}}
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
	c.Bindings, c.Mappings, c.Replicas, c.Expired = int(tally.Bindings), int(tally.Mappings), int(tally.Replicas), int(tally.Expired)
	return c, nil
}

func (d *Datapath) natSweep() (tally natsweepNatCensus, err error) {
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
		return tally, fmt.Errorf("sweep the bindings: %w", err)
	}
	if err := d.nat.sweeper.tally.Lookup(uint32(0), &tally); err != nil {
		return tally, fmt.Errorf("read what the sweep of bindings counted: %w", err)
	}
	d.nat.sweeper.last = tally.Sweep
	return tally, nil
}

func (d *Datapath) loadNATSweeper() (*natSweeper, error) {
	spec, err := loadNatsweep()
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
		program: objects.DetachProgram(natsweepProgNatSweep), tally: objects.DetachMap(natsweepMapNatTally),
		pressures: objects.DetachMap(natsweepMapPressures),
	}, nil
}

// The tables of NAT.
const (
	TableBindings     = "bindings"
	TableReturns      = "returns"
	TableHosts        = "sources"
	TableForwards     = "forwards"
	TableNATFragments = "nat-fragments"
	TablePool         = "pool"
	TableNews         = "news"
)

// NATTables are the tables with what the census c counted; nil where nothing is translated.
func (d *Datapath) NATTables(c NATCensus) []Table {
	if d.cfg.Egress == nil {
		return nil
	}
	table := func(name string, m *ebpf.Map, used int) Table {
		return Table{Name: name, Used: used, Size: int(m.MaxEntries()), Bytes: memory(m)}
	}
	entries := c.Bindings + c.Mappings
	return []Table{
		table(TableBindings, d.objs.Bindings, entries), table(TableReturns, d.objs.Returns, entries),
		table(TableHosts, d.objs.HostCounts, -1), table(TableForwards, d.objs.Forwards, -1),
		table(TableNATFragments, d.objs.NatFragments, -1), table(TablePool, d.objs.Pool, d.poolUsed()),
		table(TableNews, d.objs.News, -1),
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
