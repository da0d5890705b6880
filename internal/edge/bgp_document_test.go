package edge

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/evpn/speaker"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// What the tables have no room for is told as not used, counted and a problem; it is used when there is room.
func TestBGPRoutesWithoutRoom(t *testing.T) {
	w := newBGPWorld(newWorld(t))
	c, _ := w.runBGP()
	ctx := context.Background()
	w.receive(joins(far), prefixAt(far, "10.7.0.0/16", farMAC))
	w.within("tables are in force", func() bool { return len(w.routeTo("tenant", prefix("10.7.0.0/16")).Hops) == 1 })
	w.set(func() {
		w.failing["put routes"] = rib.WithNoRoom(errFake, rib.NoRoom{Routes: []rib.Place{{Router: "tenant", Prefix: prefix("10.8.0.0/16")}}})
		w.failing["apply"] = errFake // which would have room
	})
	// Tables that were under way before had room for all.
	w.within("tables cannot be applied any more", func() bool { return w.problem(c, applyTables) })
	w.receive(prefixAt(far, "10.8.0.0/16", farMAC))
	unused := func() []api.BGPRouteInfo {
		list, err := c.BGP().Routes(ctx, api.BGPRouteQuery{Unused: true})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	w.within("the route is told as not used", func() bool { return len(unused()) == 1 })
	if r := unused()[0]; r.Prefix != prefix("10.8.0.0/16") || !strings.HasPrefix(r.Why, "table full: ") {
		t.Errorf("not used is %+v", r)
	}
	if !w.problem(c, "table full", "1 routes") {
		t.Error("it is no problem")
	}
	text, err := c.Metrics(ctx)
	if info, again := c.BGP().Info(ctx); err != nil || again != nil || info.Routes.NoRoom != 1 || !strings.Contains(text, "selvage_bgp_no_room_routes 1") {
		t.Errorf("counted are %+v, %v %v", info.Routes, err, again)
	}
	w.set(func() { clear(w.failing) })
	w.within("it is used", func() bool { return len(unused()) == 0 })
}

func TestBGPDocuments(t *testing.T) {
	w := newBGPWorld(newWorld(t))
	c, _ := w.runBGP()
	ctx := context.Background()
	w.set(func() {
		w.learned.sessions = []speaker.Neighbour{{
			Name: "rr1", Addr: rr, AS: 65000, State: "active", Since: time.Now().Add(-time.Minute), LastError: "nothing listens there: start it",
			Families: []speaker.FamilyCounts{{Family: overlay.FamilyEVPN, Received: 3}},
		}}
	})
	unrouted := prefixAt(far, "10.7.0.0/16", overlay.MAC{})
	foreign := prefixAt(far, "10.8.0.0/16", farMAC)
	foreign.Route.Targets = targetOf(9)
	w.receive(joins(far), hostAt(far, hostA, addr("10.0.0.7"), 0), unrouted, foreign)
	w.within("the routes are there", func() bool { i, err := c.BGP().Info(ctx); return err == nil && i.Routes.Received == 4 })
	info, err := c.BGP().Info(ctx)
	if err != nil || info.AS != 65000 || info.Neighbours[0].Why != "nothing listens there: start it" || len(info.Routes.Why) != 2 {
		t.Errorf("%+v, %v", info, err)
	}
	for _, words := range [][]string{{"BGP neighbour rr1", "no session for 1m0s", "start it"}, {"router MAC", "1 routes"}, {"route target"}} {
		if !w.problem(c, words...) {
			t.Errorf("no problem with %q: %v", words, info.Problems)
		}
	}
	for _, x := range []struct {
		q    api.BGPRouteQuery
		want int
	}{
		{api.BGPRouteQuery{Neighbour: "rr1", Type: api.BGPRouteMAC, MAC: hostA}, 1},
		{api.BGPRouteQuery{Neighbour: "192.0.2.100", Addr: prefix("10.0.0.0/24")}, 1},
		{api.BGPRouteQuery{Neighbour: "rr1", Addr: prefix("10.7.1.0/24")}, 1},
		{api.BGPRouteQuery{Neighbour: "self", Type: api.BGPRouteMulticast}, 1},
		{api.BGPRouteQuery{Unused: true, Type: api.BGPRoutePrefix}, 2},
		{api.BGPRouteQuery{Neighbour: "rr1", Segment: "blue", Type: api.BGPRouteMulticast, VNI: 100}, 1},
		{api.BGPRouteQuery{Neighbour: "rr1", VNI: 77}, 0},
	} {
		got, err := c.BGP().Routes(ctx, x.q)
		if err != nil || len(got) != x.want {
			t.Errorf("%+v: %d routes, want %d: %+v, %v", x.q, len(got), x.want, got, err)
		}
	}
	if _, err := c.BGP().Routes(ctx, api.BGPRouteQuery{Neighbour: "rr9"}); err == nil || !strings.Contains(err.Error(), "rr9") {
		t.Errorf("an unknown neighbour: %v", err)
	}
	status, err := c.Status(ctx)
	if err != nil || status.BGP == nil || status.BGP.Neighbours != (api.Tally{Up: 0, Total: 1}) || status.BGP.Unused != 2 {
		t.Errorf("%+v, %v", status.BGP, err)
	}
	if _, err := c.BGP().Reset(ctx, "rr1", true); err != nil || w.called("refresh 192.0.2.100") != 1 {
		t.Errorf("soft reset: %v", err)
	}
	text, err := c.Metrics(ctx)
	for _, line := range []string{
		`selvage_bgp_neighbour_up{neighbour="rr1"} 0`, `selvage_bgp_routes{state="used"} 2`, `selvage_bgp_route_changes_total 4`,
		`selvage_bgp_neighbour_prefixes{direction="received",family="evpn",neighbour="rr1"} 3`, `selvage_bgp_fib_update_seconds_count`,
	} {
		if err != nil || !strings.Contains(text, line) {
			t.Errorf("metrics without %s: %v", line, err)
		}
	}
}
