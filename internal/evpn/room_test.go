package evpn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// What is not in force is not told to others: packets would not come through.
func TestRoutesWithoutRoomAreNotAnnounced(t *testing.T) {
	w := newWorld(t, edge())
	w.receive(rr1, network("10.9.0.0/16", remote2))
	at := rib.Place{Router: "red", Prefix: prefix("10.9.0.0/16")}
	toWAN := Key{Type: Unicast, Prefix: at.Prefix, Uplink: "wan"}
	if _, told := w.table.adjOut.own[toWAN]; !told {
		t.Fatalf("the uplink is not told of %s", at.Prefix)
	}
	w.take(w.table.RoutesPut([]rib.LearnedRoute{{Router: "red", Route: overlay.Route{Prefix: at.Prefix}}}, []rib.Place{at}))
	if len(w.last.Withdraw) != 1 || w.last.Withdraw[0] != toWAN || len(w.last.Routes) > 0 {
		t.Errorf("changes are %+v, want it withdrawn", w.last)
	}
	if s := w.status(rr1, network("10.9.0.0/16", remote2).Key, "red"); s.Used || s.Problem != tableFull {
		t.Errorf("status is %+v", s)
	}
	changed := edge()
	changed.BGP.Duplicates.Moves = 7
	w.configure(changed)
	if len(w.last.Announce) > 0 || w.table.Counts().NoRoom != 1 {
		t.Errorf("a reload announces %+v, counts are %+v", w.last.Announce, w.table.Counts())
	}
	w.take(w.table.RoutesLeftOut(nil))
	if len(w.last.Announce) != 1 || w.table.Counts().Used != 1 || len(w.table.room.leftOut) > 0 {
		t.Errorf("with room changes are %+v, counts %+v", w.last, w.table.Counts())
	}
	w.take(w.table.RoutesLeftOut([]rib.Place{at, {Router: "red", Prefix: prefix("10.1.0.0/16")}, {Router: "none", Prefix: at.Prefix}}))
	w.withdraw(rr1, network("10.9.0.0/16", remote2))
	if len(w.table.room.leftOut) > 0 {
		t.Errorf("of a route that went %d are kept", len(w.table.room.leftOut))
	}
}

// Beyond the default a neighbour's routes are kept, and used when others of it go, or when it gets
// a limit of its own.
func TestMostPrefixes(t *testing.T) {
	e := edge()
	e.BGP.MostPrefixes = 3
	w := newWorld(t, e)
	route := func(n int) Route { return network(fmt.Sprintf("10.%d.0.0/16", n), remote2) }
	for n := range 5 {
		w.receive(rr1, route(n))
	}
	w.receive(rr2, route(7))
	w.receive(tor1, unicast("10.20.0.0/16", tor1))
	check := func(used, noRoom int) {
		t.Helper()
		if c := w.table.Counts(); c.Used != used || c.NoRoom != noRoom || c.Used+c.NoRoom != c.Received {
			t.Errorf("counts are %+v, want %d used and %d without room", c, used, noRoom)
		}
	}
	check(5, 2)
	if s := w.status(rr1, route(4).Key, ""); s.Used || s.Problem != moreThanMost || !strings.Contains(s.Why, "more than 3 routes") {
		t.Errorf("status is %+v", s)
	}
	w.receive(rr1, route(0).with(func(r *Route) { r.MED = 7 }), route(4).with(func(r *Route) { r.MED = 7 })) // what is changed stays what it was
	check(5, 2)
	w.withdraw(rr1, route(4))
	check(5, 1)
	w.withdraw(rr1, route(0))
	check(5, 0)
	w.receive(rr1, route(0), route(4))
	check(5, 2)
	w.session(Session{Neighbour: rr1}) // stale ones are used as before
	if c := w.table.Counts(); c.Used != 5 || c.NoRoom != 2 {
		t.Errorf("counts are %+v when the session is lost", c)
	}
	e = edge()
	e.BGP.MostPrefixes = 4
	w.configure(e)
	check(6, 1)
	e.BGP.Neighbours = append([]overlay.BGPNeighbour(nil), e.BGP.Neighbours...)
	e.BGP.Neighbours[0].MaxPrefixes = 1000
	w.configure(e)
	check(7, 0)
	e = edge()
	e.BGP.MostPrefixes = 1
	w.configure(e)
	check(3, 4)
	w.session(Session{Neighbour: rr1, Ended: true})
	check(2, 0)
	if len(w.table.adjIn.relieved) > 0 {
		t.Error("a neighbour that is gone is kept")
	}
}
