package gateway

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
)

// A gateway gives its work away when the last router at its uplink is dead, and takes it back when one answers. Routers elsewhere, and
// those of which nothing is known, keep it from nothing.
func TestRoutersThatAreDead(t *testing.T) {
	first, second, reflector := netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.9"), netip.MustParseAddr("192.0.2.100")
	config := configOf(gw1)
	config.Egress.Gateways[0].Replication = nil
	config.BGP = &overlay.BGP{Neighbours: []overlay.BGPNeighbour{
		{Name: "tor1", Addr: first, Uplink: "wan", Liveness: true}, {Name: "rr", Addr: reflector}, {Name: "tor2", Addr: second, Uplink: "wan", Liveness: true},
	}}
	r := NewRole(slog.New(slog.DiscardHandler), &Replication{})
	const why = "no packet for 150ms"
	for i, c := range []struct {
		dead map[netip.Addr]string
		own  nat.State
	}{
		{nil, nat.Gone}, // it asks for next hops
		{nil, nat.Serving},
		{map[netip.Addr]string{first: why}, nat.Serving},
		{map[netip.Addr]string{first: why, reflector: why}, nat.Serving},
		{map[netip.Addr]string{first: why, second: why}, nat.Gone},
		{map[netip.Addr]string{second: why}, nat.Gone}, // it comes, and asks for next hops
		{map[netip.Addr]string{second: why}, nat.Serving},
	} {
		f := Facts{
			Config: config, HostState: host.State{Links: map[string]host.Link{"wan0": {Up: true}}}, Watched: noon, Dead: c.dead,
			Results: map[overlay.Pair]bfd.Result{pair: {State: bfd.Up, Since: noon, ServiceSince: noon}},
		}
		if _, err := r.Move(f, &steering{}, at(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
		own := r.States()[gw1]
		if own.State != c.own || len(c.dead) == 2 && own.State == nat.Gone && !strings.Contains(own.Why, "no router at uplink wan answers to BFD: tor2, "+why) {
			t.Errorf("%d, with %v it is %s (%s), want %s", i, c.dead, own.State, own.Why, c.own)
		}
	}
	alone := config
	alone.Egress = &overlay.Egress{Gateways: []overlay.GatewayGroup{{Name: "gws", Members: []netip.Addr{gw1}}}, Policies: config.Egress.Policies}
	if got := unreached(alone, map[netip.Addr]string{first: why, second: why}); got != "" {
		t.Errorf("a gateway without others is kept from serving: %s", got)
	}
}

// A gateway whose addresses are found by BGP alone comes when a router hears of them, and at once when nobody else serves. One that
// serves goes on without.
func TestComesWithSession(t *testing.T) {
	router := netip.MustParseAddr("198.51.100.1")
	config := configOf(gw1)
	config.Egress.Gateways[0].Replication = nil
	config.BGP = &overlay.BGP{Neighbours: []overlay.BGPNeighbour{
		{Name: "tor1", Addr: router, Uplink: "wan", Announce: []overlay.RouteSource{overlay.SourceEgress}}, {Name: "rr", Addr: netip.MustParseAddr("192.0.2.100")},
	}}
	far := netip.MustParseAddr("100.64.0.30")
	serves, gone := bfd.Result{State: bfd.Up, Since: noon, ServiceSince: noon}, bfd.Result{State: bfd.Up, Service: bfd.OutOfService, Since: noon, ServiceSince: noon}
	for name, c := range map[string]struct {
		pool       netip.Addr
		advertised bool
		other      bfd.Result
		session    bool
		own        nat.State
	}{
		"no router hears":            {far, true, serves, false, nat.Gone},
		"one does":                   {far, true, serves, true, nat.Serving},
		"nobody else serves":         {far, true, gone, false, nat.Serving},
		"found in the network":       {pool, true, serves, false, nat.Serving},
		"told to nobody in any case": {far, false, serves, false, nat.Serving},
	} {
		t.Run(name, func(t *testing.T) {
			config.Egress.Policies[0].Pool = []overlay.AddrRange{{First: c.pool, Last: c.pool}}
			config.BGP.Neighbours[0].Announce = nil
			if c.advertised {
				config.BGP.Neighbours[0].Announce = []overlay.RouteSource{overlay.SourceEgress}
			}
			r := NewRole(slog.New(slog.DiscardHandler), &Replication{})
			move := func(after time.Duration) Status {
				f := Facts{
					Config: config, HostState: host.State{Links: map[string]host.Link{"wan0": {Up: true}}}, Watched: noon,
					Results: map[overlay.Pair]bfd.Result{pair: c.other},
				}
				if _, err := r.Move(f, &steering{}, at(after)); err != nil {
					t.Fatal(err)
				}
				return r.States()[gw1]
			}
			r.Sessions.Set(router, c.session)
			move(0) // it asks for next hops
			if own := move(20 * time.Second); own.State != c.own {
				t.Errorf("it is %s (%s), want %s", own.State, own.Why, c.own)
			}
			r.Sessions.Set(router, true)
			move(21 * time.Second)
			r.Sessions.Set(router, false)
			if own := move(22 * time.Second); own.State != nat.Serving {
				t.Errorf("when the session is lost it is %s (%s)", own.State, own.Why)
			}
		})
	}
}
