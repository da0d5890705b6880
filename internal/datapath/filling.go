package datapath

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// filling is how many entries tables have, for who must not walk them: as of the last walk of those that the data path
// fills, and as of now of the others. Any goroutine may read it.
type filling struct {
	fdb, neighbours, flows    entryCount
	routes, nextHops, nhGroup entryCount
	nextCount                 time.Time // of tables that do not age, by the goroutine that ages
}

// entryCount is 0 until it was counted, else one more than there are.
type entryCount struct{ plusOne atomic.Int64 }

func (c *entryCount) set(n int)  { c.plusOne.Store(int64(n) + 1) }
func (c *entryCount) less(n int) { c.plusOne.Add(-int64(n)) }

// used is -1 where nobody has counted yet.
func (c *entryCount) used() int { return int(c.plusOne.Load()) - 1 }

// begin takes over what was counted of tables by a handle beside this one.
func (f *filling) begin(previous *filling) {
	f.fdb.plusOne.Store(previous.fdb.plusOne.Load())
	f.neighbours.plusOne.Store(previous.neighbours.plusOne.Load())
	f.flows.plusOne.Store(previous.flows.plusOne.Load())
}

// of is that of a table of hosts.
func (f *filling) of(count bpfLimitedCount) *entryCount {
	if count == bpfLimitedCountCOUNT_MACS {
		return &f.fdb
	}
	return &f.neighbours
}

// The tables whose filling is known without a look at their entries.
const (
	TableFDB           = "fdb"
	TableNeighbours    = "neighbours"
	TableFlows         = "flows"
	TableTransitFlows  = "transit-flows"
	TableVports        = "vports"
	TableRoutes        = "routes"
	TableNextHops      = "next-hops"
	TableNextHopGroups = "next-hop-groups"
)

// countShare is how many times as long as a count takes there is none.
const countShare = 100

// countHosts counts hosts where nothing ages, which else counts them.
func (ho *Hosts) countHosts() error {
	begin := time.Now()
	if begin.Before(ho.prog.filling.nextCount) {
		return nil
	}
	_, fdb := ho.deleteFDB(func(bpfFdbKey, bpfFdbEntry) bool { return false })
	neighbours := ho.deleteNeighbours(func(bpfNeighbourKey, bpfNeighbour) bool { return false })
	ho.prog.filling.nextCount = begin.Add(countShare * time.Since(begin))
	return errors.Join(fdb, neighbours)
}

// Tables are those of hosts, flows, ports and routes, with the memory of none. Used is -1 where nobody has counted yet.
func (fl *Flows) Tables() ([]Table, error) {
	f := &fl.prog.filling
	sized := func(name string, m kernel.Map, less int, used int) Table {
		return Table{Name: name, Used: used, Size: int(m.MaxEntries()) - less}
	}
	names := &fl.numbers.names
	list := []Table{
		sized(TableFDB, fl.hosts.maps.Fdb, 0, f.fdb.used()), sized(TableNeighbours, fl.hosts.maps.Neighbours, 0, f.neighbours.used()),
		sized(TableFlows, fl.maps.Flows, 0, f.flows.used()),
		sized(TableVports, fl.numbers.maps.Vports, 1, len(names.portIDs)+len(names.pathIDs)),
		sized(TableRoutes, fl.routes.maps.Routes, 0, f.routes.used()),
		sized(TableNextHops, fl.routes.maps.Nexthops, 1, f.nextHops.used()),
		sized(TableNextHopGroups, fl.routes.maps.NexthopGroups, 1, f.nhGroup.used()),
	}
	if !fl.prog.cfg.Transit {
		return list, nil
	}
	transit, err := fl.transitCache()
	return append(list, Table{Name: TableTransitFlows, Used: transit.Used, Size: transit.Size}), err
}

// Totals are as Stats, but no map is walked, unless nobody ever has: entries are as of the last count.
func (fl *Flows) Totals() (s Stats, err error) {
	if f := &fl.prog.filling; f.fdb.used() < 0 || f.flows.used() < 0 {
		return fl.Stats()
	}
	if s, err = fl.counted(); err != nil {
		return s, err
	}
	s.FDBUsed = fl.prog.filling.fdb.used()
	tc := fl.tcCache()
	tc.Used = fl.prog.filling.flows.used()
	s.Caches = []Cache{tc}
	if fl.prog.cfg.Transit {
		transit, err := fl.transitCache()
		if err != nil {
			return s, err
		}
		s.Caches = append(s.Caches, transit)
	}
	for _, c := range s.Caches {
		s.FlowsUsed += max(c.Used, 0)
	}
	return s, nil
}
