package bgp

import (
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/rib"
)

// unused are the routes of the neighbour that are not used.
func (w *world) unused() []api.BGPRouteInfo {
	list, err := w.process.State().Routes(api.BGPRouteQuery{Unused: true}, time.Now())
	if err != nil {
		w.Fatal(err)
	}
	return list
}

// Hosts that the FDB has no room for are not used, and used when there is some.
func TestHostsWithoutRoom(t *testing.T) {
	w := start(t, nil)
	w.most = 2
	w.options.Receive([]evpn.Update{hostAt(macOf(0), 0), hostAt(macOf(1), 0), hostAt(macOf(2), 0), hostAt(macOf(3), 0)})
	w.done()
	list := w.unused()
	if len(list) != 2 || !strings.HasPrefix(list[0].Why, "table full") || !strings.Contains(list[0].Why, "raise fdb.size") {
		t.Fatalf("not used are %+v", list)
	}
	info := w.process.State().Info(time.Now(), nil)
	if info.Routes.NoRoom != 2 || info.Routes.Used != 2 || len(info.Problems) != 1 || !strings.Contains(info.Problems[0].Text, "table full: 2 routes") {
		t.Errorf("told are %+v and %v", info.Routes, info.Problems)
	}
	if c := w.process.State().Counters(); c.Routes.NoRoom != 2 {
		t.Errorf("counted are %+v", c.Routes)
	}
	if w.problems[ProblemWrite] == nil {
		t.Error("that they could not be written is no problem")
	}

	// One goes, and the tables are made anew.
	w.options.Receive([]evpn.Update{withdrawn(hostAt(macOf(0), 0)), withdrawn(hostAt(macOf(1), 0))})
	w.process.Applied(time.Millisecond, nil)
	w.done()
	if list := w.unused(); len(list) > 0 || len(w.macs) != 2 {
		t.Errorf("not used are %+v, in the table %v", list, w.macs)
	}
}

// Routes likewise, be it by a single write or by new tables.
func TestRoutesWithoutRoom(t *testing.T) {
	w := start(t, nil)
	w.most = 2
	w.options.Receive([]evpn.Update{network(0), network(1), network(2)})
	w.done()
	list := w.unused()
	if len(list) != 1 || list[0].For != "tenant" || !strings.HasPrefix(list[0].Why, "table full") {
		t.Fatalf("not used are %+v", list)
	}
	w.process.Applied(time.Millisecond, []rib.Place{{Router: "tenant", Prefix: network(0).Route.Prefix}, {Router: "tenant", Prefix: network(1).Route.Prefix}})
	w.done()
	if list := w.unused(); len(list) != 2 || list[0].Prefix != network(0).Route.Prefix || list[1].Prefix != network(1).Route.Prefix {
		t.Errorf("new tables left two out, not used are %+v", list)
	}
	w.process.Applied(time.Millisecond, nil)
	w.done()
	if list := w.unused(); len(list) > 0 {
		t.Errorf("with room not used are %+v", list)
	}
}

// A neighbour with more routes than is usual keeps its session, and the rest is not used.
func TestDefaultOfMaximumPrefixes(t *testing.T) {
	w := start(t, func(o *Options) { o.Edge.BGP.MostPrefixes = 3 })
	w.options.Receive([]evpn.Update{network(0), network(1), network(2), network(3), network(4)})
	w.done()
	list := w.unused()
	if len(list) != 2 || !strings.Contains(list[0].Why, "more than 3 routes") || len(w.routes) != 3 || len(w.failed) > 0 {
		t.Fatalf("not used are %+v, %d are written, failed %v", list, len(w.routes), w.failed)
	}
	w.options.Receive([]evpn.Update{withdrawn(network(0)), network(1)})
	w.done()
	if list := w.unused(); len(list) != 1 || len(w.routes) != 3 {
		t.Errorf("when one went not used are %+v, %d are written", list, len(w.routes))
	}
}
