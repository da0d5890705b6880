package datapath

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// sweeper is the program that looks at every connection, and where it counts.
type sweeper struct {
	program *ebpf.Program
	tally   *ebpf.Map
}

func (s *sweeper) close() error {
	if s == nil {
		return nil
	}
	return errors.Join(s.program.Close(), s.tally.Close())
}

// GCStats is what the sweep found.
type GCStats struct {
	States      map[string]int // connections by state, as StateNames
	Connections int            // in the table from which nothing is pushed out
	HalfOpen    int            // in the other: without an answer, or over
	Waiting     int            // without an answer
	Expired     int            // that the sweep removed
	HalfOpens   map[string]int // those that wait, by port, of ports that have any
}

// Sweep removes the connections that have expired and counts the others. It looks at
// each of them, in the kernel.
func (d *Datapath) Sweep() (GCStats, error) {
	c := GCStats{States: map[string]int{}, HalfOpens: map[string]int{}}
	if d.cfg.Firewall == nil {
		return c, nil
	}
	tally, err := d.sweep()
	if err != nil {
		return c, err
	}
	for state, n := range tally.States {
		c.States[StateNames[state]] = int(n)
	}
	c.Connections, c.HalfOpen, c.Expired = int(tally.Established), int(tally.HalfOpen), int(tally.Expired)
	counts := make([]bpfHalfOpenCount, d.objs.HalfOpenCounts.MaxEntries())
	if err := readArray(d.objs.HalfOpenCounts, counts); err != nil {
		return c, err
	}
	for id, name := range d.names.ports {
		if n := int32(counts[id].Count); n > 0 { // the programs may count one too many down
			c.HalfOpens[name] = int(n)
			c.Waiting += int(n)
		}
	}
	return c, nil
}

func (d *Datapath) sweep() (tally bpfCtGcStats, err error) {
	d.fw.sweeping.Lock()
	defer d.fw.sweeping.Unlock()
	if d.fw.sweeper == nil {
		if d.fw.sweeper, err = d.loadSweeper(); err != nil {
			return tally, err
		}
	}
	ret, err := d.fw.sweeper.program.Run(&ebpf.RunOptions{})
	if err == nil && ret != 0 {
		err = fmt.Errorf("it returned %d", ret)
	}
	if err != nil {
		return tally, fmt.Errorf("sweep the connections: %w", err)
	}
	if err := d.fw.sweeper.tally.Lookup(uint32(0), &tally); err != nil {
		return tally, fmt.Errorf("read what the sweep counted: %w", err)
	}
	return tally, nil
}

func (d *Datapath) loadSweeper() (*sweeper, error) {
	spec, err := loadConntrackGc()
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
	return &sweeper{program: objects.DetachProgram(conntrackGcProgConntrackGc), tally: objects.DetachMap(conntrackGcMapCtGcResult)}, nil
}

// Table is one of the firewall's tables.
type Table struct {
	Name  string
	Used  int // entries, -1 where nobody counts them
	Size  int
	Bytes uint64 // memory now, as the kernel accounts it
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
func (d *Datapath) FirewallTables(c GCStats) []Table {
	if d.cfg.Firewall == nil {
		return nil
	}
	table := func(name string, m *ebpf.Map, used int) Table {
		return Table{Name: name, Used: used, Size: int(m.MaxEntries()), Bytes: memory(m)}
	}
	list := []Table{
		table(TableConnections, d.objs.CtEstablished, c.Connections), table(TableHalfOpen, d.objs.CtHalfOpen, c.HalfOpen),
		table(TableFragments, d.objs.Fragments, -1), table(TableRules, d.objs.Rules, len(d.fw.numbers.Rules)),
	}
	var id ebpf.MapID
	if err := d.objs.Policy.Lookup(uint32(0), &id); err == nil {
		if lines, err := ebpf.NewMapFromID(id); err == nil {
			list = append(list, table(TablePolicy, lines, -1))
			lines.Close()
		}
	}
	return append(list, table(TableLogs, d.objs.Logs, -1))
}
