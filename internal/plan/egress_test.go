package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

func one(a string) overlay.AddrRange { return overlay.AddrRange{First: addr(a), Last: addr(a)} }

// egressEdge is gateway with two policies at its uplink: "web", which B and this edge serve,
// and "own", which this edge serves alone. wan masquerades and forwards.
func egressEdge() overlay.Edge {
	e := gateway()
	e.Routers[0].Uplinks[0].NAT = &overlay.UplinkNAT{
		Masquerade: true, Required: true, Ports: overlay.DefaultNATPorts, Limit: 7,
		PortForwards: []overlay.PortForward{
			{Protocol: 6, Addr: addr("198.51.100.2"), Ports: overlay.PortRange{First: 65534, Last: 65535}, To: addr("10.0.0.5"), ToPort: 80},
			{Protocol: 17, Addr: addr("198.51.100.11"), Ports: overlay.PortRange{First: 53, Last: 53}, To: addr("10.0.0.6"), ToPort: 5353},
		},
	}
	e.Egress = &overlay.Egress{
		Gateways: []overlay.GatewayGroup{
			{Name: "both", Mode: overlay.ActiveStandby, Members: []netip.Addr{remoteB, self}},
			{Name: "self", Mode: overlay.ActiveActive, Members: []netip.Addr{self}},
		},
		Policies: []overlay.EgressPolicy{
			{Name: "web", Router: "tenant", VNI: 9001, Tunnel: overlay.Tunnel{Encapsulation: overlay.NVGRE}, Remotes: []netip.Addr{remoteB},
				TEPs: []string{"a"}, Gateways: "both", Pool: []overlay.AddrRange{one("198.51.100.10"), one("198.51.100.11")}, Uplink: "wan",
				PerConnection: true, Independent: true, Open: true, Ports: overlay.PortRange{First: 2000, Last: 2009}, Limit: 3,
				To: []netip.Prefix{prefix("0.0.0.0/0")}, Except: []netip.Prefix{prefix("203.0.113.0/24")}},
			{Name: "own", Router: "tenant", VNI: 9002, Tunnel: overlay.Tunnel{Encapsulation: overlay.NVGRE}, Remotes: []netip.Addr{remoteC},
				Gateways: "self", Pool: []overlay.AddrRange{one("198.51.100.20")}, Uplink: "wan", Ports: overlay.DefaultNATPorts,
				From: []overlay.Member{{Port: "p0"}}},
		},
	}
	return e
}

// states says so of B, and of this edge.
func states(b, own nat.State) func(netip.Addr) nat.State {
	return func(a netip.Addr) nat.State {
		return map[netip.Addr]nat.State{remoteB: b, self: own}[a]
	}
}

// Each policy has a segment without gateway addresses, from which remotes, TEPs and ports
// follow as from any other.
func TestEgressSegments(t *testing.T) {
	e := egressEdge()
	var got []overlay.Segment
	for _, s := range AllSegments(e, gatewayState()) {
		if strings.HasPrefix(s.Name, "egress-") {
			got = append(got, s)
		}
	}
	want := []overlay.Segment{
		{Name: "egress-web", VNI: 9001, Tunnel: overlay.Tunnel{Encapsulation: overlay.NVGRE}, Remotes: []netip.Addr{remoteB}, TEPs: []string{"a"}, ClampMSS: true,
			Gateway: &overlay.Gateway{Router: "tenant", MAC: overlay.EgressMAC}},
		{Name: "egress-own", VNI: 9002, Tunnel: overlay.Tunnel{Encapsulation: overlay.NVGRE}, Remotes: []netip.Addr{remoteC}, ClampMSS: true,
			Gateway: &overlay.Gateway{Router: "tenant", MAC: overlay.EgressMAC}},
	}
	for i := range want {
		want[i].Limits = e.DefaultSegmentLimits()
	}
	if d := cmp.Diff(want, got, sameAddr, samePrefix); d != "" {
		t.Error(d)
	}
	e.Segments, e.Routers = nil, nil
	if got := Remotes(e); !slices.Equal(got, []netip.Addr{remoteB, remoteC}) {
		t.Errorf("remotes %v, want those of the policies", got)
	}
}

// paths counts where the buckets of a family go.
func paths(e fib.Egress, family int) map[string]int {
	counts := map[string]int{}
	for _, w := range e.Ways[family] {
		switch {
		case w.Here:
			counts["here"]++
		case w.Remote.IsValid():
			counts[w.Remote.String()]++
		default:
			counts["nobody"]++
		}
	}
	return counts
}

func TestTranslate(t *testing.T) {
	e, v := egressEdge(), gatewayState()
	var tables fib.Tables
	Translate(&tables, e, v, states(nat.Gone, nat.Serving))
	if len(tables.Egress) != 3 {
		t.Fatalf("%d egresses", len(tables.Egress))
	}
	for i, family := range []map[string]int{{"here": 256}, {"here": 256}, {"here": 256}} {
		if d := cmp.Diff(family, paths(tables.Egress[i], 0)); d != "" {
			t.Errorf("%s: %s", tables.Egress[i].Name, d)
		}
		if d := cmp.Diff(map[string]int{"nobody": 256}, paths(tables.Egress[i], 1)); d != "" {
			t.Errorf("%s, IPv6: %s", tables.Egress[i].Name, d)
		}
		tables.Egress[i].Ways = [2][fib.EgressBuckets]fib.EgressNexthop{}
	}
	pool := []netip.Addr{addr("198.51.100.10"), addr("198.51.100.11")}
	own := []netip.Addr{addr("198.51.100.20")}
	want := fib.Tables{
		Egress: []fib.Egress{
			{Name: "web", Router: "tenant", Segment: "egress-web", Uplink: "wan", PerConnection: true, Independent: true, Open: true,
				Ports: overlay.PortRange{First: 2000, Last: 2009}, Limit: 3, Pool: [2][]netip.Addr{pool}, Owned: pool, Leased: true},
			{Name: "own", Router: "tenant", Segment: "egress-own", Uplink: "wan", Ports: overlay.DefaultNATPorts, Pool: [2][]netip.Addr{own}, Owned: own},
			{Name: "uplink/wan", Router: "tenant", Uplink: "wan", Ports: overlay.DefaultNATPorts, Limit: 7,
				Pool: [2][]netip.Addr{{addr("198.51.100.2")}}},
		},
		PortForwards: []fib.Forward{
			{Router: "tenant", Egress: "uplink/wan", Proto: 6, Addr: addr("198.51.100.2"), Port: 65534, To: addr("10.0.0.5"), ToPort: 80},
			{Router: "tenant", Egress: "uplink/wan", Proto: 6, Addr: addr("198.51.100.2"), Port: 65535, To: addr("10.0.0.5"), ToPort: 81},
			{Router: "tenant", Egress: "web", Proto: 17, Addr: addr("198.51.100.11"), Port: 53, To: addr("10.0.0.6"), ToPort: 5353},
		},
		Translated: []string{"wan"},
	}
	if d := cmp.Diff(want, tables, sameAddr); d != "" {
		t.Errorf("tables (-want +got):\n%s", d)
	}
	if d := cmp.Diff(egressEdge(), e, sameAddr, samePrefix); d != "" {
		t.Errorf("the configuration was changed (-want +got):\n%s", d)
	}
}

// The gateways' state decides who serves; a policy that this edge serves alone asks its
// uplink instead.
func TestEgressesFollowState(t *testing.T) {
	const s, d, g = nat.Serving, nat.Draining, nat.Gone
	b := remoteB.String()
	for _, c := range []struct {
		b, own     nat.State
		uplinkDown bool
		web, alone string
		owned      int // by this edge, of web
	}{
		{s, s, false, b, "here", 0}, {g, s, false, "here", "here", 2}, {d, s, false, "here", "here", 2}, {s, g, false, b, "here", 0},
		{g, g, false, "nobody", "here", 0}, {g, d, false, "here", "here", 2}, {s, g, true, b, "nobody", 0},
	} {
		name := fmt.Sprintf("B %s, own %s, uplink down %v", c.b, c.own, c.uplinkDown)
		v := gatewayState()
		if c.uplinkDown {
			v.Links["eth1"] = host.Link{Name: "eth1", Index: 7}
		}
		list := Egresses(egressEdge(), v, states(c.b, c.own))
		if got := paths(list[0], 0); got[c.web] != 256 {
			t.Errorf("%s: web goes to %v, want %s", name, got, c.web)
		}
		if got := paths(list[1], 0); got[c.alone] != 256 {
			t.Errorf("%s: own goes to %v, want %s", name, got, c.alone)
		}
		if len(list[0].Owned) != c.owned || len(list[0].Pool[0]) != c.owned {
			t.Errorf("%s: answers for %v and gives %v", name, list[0].Owned, list[0].Pool)
		}
	}
}

// An edge that is no gateway has ways and nothing else; one that only forwards has an egress
// that translates nothing.
func TestEgressesElsewhere(t *testing.T) {
	e := egressEdge()
	e.Egress.Gateways[0].Members = []netip.Addr{remoteB, remoteC}
	e.Routers[0].Uplinks[0].NAT.Masquerade = false
	list := Egresses(e, gatewayState(), states(nat.Serving, nat.Serving))
	web, wan := list[0], list[2]
	if got := paths(web, 0); got[remoteB.String()] != 256 || web.Uplink != "" || len(web.Owned)+len(web.Pool[0]) > 0 {
		t.Errorf("web goes to %v, uplink %q, owned %v, pool %v", got, web.Uplink, web.Owned, web.Pool)
	}
	if wan.Name != "uplink/wan" || len(wan.Pool[0])+len(wan.Pool[1]) > 0 {
		t.Errorf("%s gives %v", wan.Name, wan.Pool)
	}
	e.Egress, e.Routers[0].Uplinks[0].NAT = nil, nil
	if list := Egresses(e, gatewayState(), nil); list != nil {
		t.Errorf("without anything to translate: %v", list)
	}
	if segments := Segments(e); slices.ContainsFunc(segments, func(s overlay.Segment) bool { return strings.HasPrefix(s.Name, "egress-") }) {
		t.Errorf("segments %v", segments)
	}
}

func TestOwnState(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*overlay.Edge, *host.State)
		want   nat.State
		why    string
	}{
		"all is well":    {func(*overlay.Edge, *host.State) {}, nat.Serving, ""},
		"no egress":      {func(e *overlay.Edge, _ *host.State) { e.Egress = nil }, nat.Serving, ""},
		"no interface":   {func(_ *overlay.Edge, v *host.State) { delete(v.Links, "eth1") }, nat.Gone, "uplink wan: interface eth1 does not exist"},
		"interface down": {func(_ *overlay.Edge, v *host.State) { v.Links["eth1"] = host.Link{Index: 7} }, nat.Gone, "uplink wan: interface eth1 is down"},
		"nobody to take over": {func(e *overlay.Edge, v *host.State) {
			delete(v.Links, "eth1")
			e.Egress.Policies = e.Egress.Policies[1:]
		}, nat.Serving, ""},
		"no gateway": {func(e *overlay.Edge, v *host.State) {
			delete(v.Links, "eth1")
			e.Egress.Gateways[0].Members = []netip.Addr{remoteB, remoteC}
		}, nat.Serving, ""},
	} {
		e, v := egressEdge(), gatewayState()
		c.change(&e, &v)
		if got, why := OwnState(e, v); got != c.want || why != c.why {
			t.Errorf("%s: %s (%s), want %s (%s)", name, got, why, c.want, c.why)
		}
	}
}

// The rules compile with the places that they name: routers and ports.
func TestEgressRules(t *testing.T) {
	fw, places := EgressRules(egressEdge())
	p, err := policy.Compile(fw, places)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dst, place, want string }{
		{"8.8.8.8", "", "web"}, {"203.0.113.9", "", "web"}, {"2001:db8::1", "p0", "own"}, {"2001:db8::1", "p1", ""},
	} {
		j := p.Evaluate(policy.Query{Src: addr("10.0.0.1"), Dst: addr(c.dst), SrcPlace: c.place, Place: nat.PlaceName("tenant"), Direction: overlay.Out})
		r := p.Rules()[j.Rule]
		if c.dst == "203.0.113.9" {
			if r.Section != nat.SectionExcept || r.Name != c.want {
				t.Errorf("%+v: %s %s", c, r.Section, r.Name)
			}
		} else if (r.Section == nat.SectionPolicy) != (c.want != "") || c.want != "" && r.Name != c.want {
			t.Errorf("%+v: %s %s", c, r.Section, r.Name)
		}
	}
	if _, places := EgressRules(gateway()); places != nil {
		t.Errorf("places %v without egress", places)
	}
}

// The packages do not know each other, and their tables have the same sizes.
func TestSizesAgree(t *testing.T) {
	if nat.Buckets != fib.EgressBuckets || overlay.MaxGateways != fib.MaxGateways {
		t.Errorf("%d and %d buckets, %d and %d gateways", nat.Buckets, fib.EgressBuckets, overlay.MaxGateways, fib.MaxGateways)
	}
}

// A gateway gives the first address of each family of its own uplink, answers for none besides, and leaves flows with the other
// one while that is there.
func TestTranslateToUplinkAddress(t *testing.T) {
	e, v := egressEdge(), gatewayState()
	e.Routers[0].Uplinks[0].Addresses = []netip.Prefix{prefix("198.51.100.2/24"), prefix("198.51.100.3/24"), prefix("2001:db8:51::2/64"), prefix("2001:db8:51::3/64")}
	p := &e.Egress.Policies[0]
	p.Pool, p.UplinkAddress = nil, true
	pool := [2][]netip.Addr{{addr("198.51.100.2")}, {addr("2001:db8:51::2")}}
	for _, c := range []struct {
		b    nat.State
		kept []netip.Addr
		ways map[string]int
	}{
		{nat.Gone, nil, map[string]int{"here": 256}},
		{nat.Draining, []netip.Addr{remoteB}, map[string]int{"here": 256}},
		{nat.Serving, []netip.Addr{remoteB}, map[string]int{remoteB.String(): 256}},
	} {
		var tables fib.Tables
		Translate(&tables, e, v, states(c.b, nat.Serving))
		got := tables.Egress[0]
		for f := range got.Ways {
			if d := cmp.Diff(c.ways, paths(got, f)); d != "" {
				t.Errorf("the other is %s: %s", c.b, d)
			}
		}
		got.Ways = [2][fib.EgressBuckets]fib.EgressNexthop{}
		want := fib.Egress{Name: "web", Router: "tenant", Segment: "egress-web", Uplink: "wan", PerConnection: true, Independent: true, Open: true,
			Ports: overlay.PortRange{First: 2000, Last: 2009}, Limit: 3, Pool: pool, Kept: c.kept, Leased: true}
		if d := cmp.Diff(want, got, sameAddr); d != "" {
			t.Errorf("the other is %s (-want +got):\n%s", c.b, d)
		}
	}
}
