package edge

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
)

// A static route leaves an uplink whose link is lost before the host is looked at, and where none of its next hops is
// left, neighbours no longer hear of it and another edge's takes its place.
func TestLostUplinkIsLeft(t *testing.T) {
	w := newBGPWorld(newWorld(t))
	w.config.Routers[0].Uplinks = []overlay.Uplink{
		{Name: "wan", Interface: "eth1", MAC: uplinkMAC, Addresses: []netip.Prefix{prefix("198.51.100.2/24")}},
		{Name: "wan2", Interface: "eth2", MAC: uplinkMAC, Addresses: []netip.Prefix{prefix("198.51.101.2/24")}},
	}
	w.config.Routers[0].Routes = []overlay.Route{{
		Prefix: prefix("0.0.0.0/0"), Kind: overlay.Unicast, Via: []overlay.NextHop{{Addr: addr("198.51.100.1")}, {Addr: addr("198.51.101.1")}},
	}}
	w.config.BGP.Neighbours = append(w.config.BGP.Neighbours, overlay.BGPNeighbour{
		Name: "tor1", Addr: addr("198.51.100.1"), AS: 65100, Uplink: "wan", Families: []overlay.BGPFamily{overlay.FamilyIPv4},
	})
	w.config.Routers[0].L3.EVPN.Announce = []overlay.RouteSource{overlay.SourceStatic, overlay.SourceUplink}
	w.hostState.Links["eth1"] = host.Link{Name: "eth1", Index: 8, MTU: 1500, Up: true}
	w.hostState.Links["eth2"] = host.Link{Name: "eth2", Index: 9, MTU: 1500, Up: true}
	c, _ := w.runBGP()
	w.receive(prefixAt(far, "0.0.0.0/0", farMAC))
	leads := func() string {
		var words []string
		for _, hop := range w.routeTo("tenant", prefix("0.0.0.0/0")).Hops {
			words = append(words, hop.Segment)
		}
		return strings.Join(words, " ")
	}
	advertised := func(p string) bool {
		return w.has(func(f *fakeFabric) bool {
			for _, r := range f.announced {
				if r.Type == evpn.Prefix && r.Prefix == prefix(p) {
					return true
				}
			}
			return false
		})()
	}
	w.within("the far edge is known", func() bool { return len(w.remotesOf("tenant-l3")) == 1 })
	w.within("neighbours hear of the way out", func() bool { return advertised("0.0.0.0/0") && advertised("198.51.100.0/24") })
	if got := leads(); got != "wan wan2" {
		t.Fatalf("it leads by %q", got)
	}
	setUp := func(name string, up bool) {
		w.set(func() {
			link := w.hostState.Links[name]
			link.Up = up
			w.hostState.Links[name] = link
		})
	}
	observed := w.called("observe")
	w.linksLost <- 8
	w.within("one uplink is left", func() bool { return leads() == "wan2" })
	w.within("the session with the router behind it is ended", w.has(func(f *fakeFabric) bool {
		return slices.Equal(f.failed, []string{"198.51.100.1 uplink wan: interface eth1 is down"})
	}))
	w.within("its network is withdrawn", func() bool { return !advertised("198.51.100.0/24") })
	if n := w.called("observe"); n != observed || !advertised("0.0.0.0/0") {
		t.Errorf("the host was looked at %d times, and the default route is advertised: %v", n-observed, advertised("0.0.0.0/0"))
	}
	setUp("eth1", false)
	setUp("eth2", false)
	w.within("the other edge's route is used", func() bool { return leads() == "tenant-l3" })
	w.within("the default route is withdrawn", func() bool { return !advertised("0.0.0.0/0") })
	if !w.problem(c, "router tenant: the static route 0.0.0.0/0 is not used", "interface eth1 is down") {
		t.Error("no problem says so")
	}
	var states []string
	list, err := c.Routes(t.Context(), netip.Addr{})
	for _, r := range list {
		for _, hop := range r.Hops {
			if r.Prefix == prefix("0.0.0.0/0") {
				states = append(states, r.Origin+" "+hop.State+" "+hop.Why)
			}
		}
	}
	if got := strings.Join(states, ", "); err != nil || got != "static down interface eth1 is down, static down interface eth2 is down, bgp resolved " {
		t.Errorf("routes are %s, %v", got, err)
	}
	list, err = c.Routes(t.Context(), addr("203.0.113.9"))
	if err != nil || len(list) != 1 || list[0].Origin != "bgp" {
		t.Errorf("the route to an address is %+v, %v", list, err)
	}
	setUp("eth2", true)
	w.within("the uplink that is back is used", func() bool { return leads() == "wan2" && advertised("0.0.0.0/0") && !advertised("198.51.100.0/24") })
	if failed := w.spoken().failed; len(failed) != 1 {
		t.Errorf("sessions ended: %v", failed)
	}
}
