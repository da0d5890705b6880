package speaker

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
)

// The first statement that matches decides, in the order of the policies; what none matches
// is accepted.
func TestClassify(t *testing.T) {
	ten := []overlay.PrefixRange{{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Min: 8, Max: 24}}
	hosts := []overlay.PrefixRange{{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Min: 32, Max: 32}}
	policies := []overlay.RoutePolicy{
		{Name: "a", Statements: []overlay.RouteStatement{
			{Prefixes: ten, Communities: []overlay.Community{7}, LocalPref: value(1)},
			{Prefixes: hosts, Reject: true},
		}},
		{Name: "b", Statements: []overlay.RouteStatement{
			{Prefixes: ten, LocalPref: value(2), Prepend: 2, Add: []overlay.Community{7, 8}},
			{Communities: []overlay.Community{9}, Reject: true},
			{MED: value(3)},
		}},
	}
	prefix := func(s string, communities ...overlay.Community) evpn.Route {
		return evpn.Route{Key: evpn.Key{Prefix: netip.MustParsePrefix(s)}, Communities: communities, ASPath: []uint32{65001}}
	}
	mac := hostRoute(1)
	mac.Addr = netip.Addr{}
	for name, c := range map[string]struct {
		route          evpn.Route
		reject         bool
		localPref, med uint32
	}{
		"both conditions":        {prefix("10.1.0.0/16", 7), false, 1, 0},
		"one of them":            {prefix("10.1.0.0/16"), false, 2, 0},
		"too long":               {prefix("10.1.0.0/25"), false, 0, 3},
		"another prefix":         {prefix("11.0.0.0/8", 9), true, 0, 0},
		"a host":                 {hostRoute(1), true, 0, 0},
		"a MAC address alone":    {mac, false, 0, 3},
		"of the other family":    {prefix("::/0"), false, 0, 3},
		"shorter than the range": {prefix("0.0.0.0/0"), false, 0, 3},
	} {
		r := c.route
		v := classify(policies, &r)
		if v.reject != c.reject {
			t.Errorf("%s: rejected is %v", name, v.reject)
		}
		r.LocalPref, r.MED = 0, 0
		v.amend(&r, 65000)
		if r.LocalPref != c.localPref || r.MED != c.med {
			t.Errorf("%s becomes %+v", name, r)
		}
		if c.localPref == 2 && (!slices.Equal(r.ASPath, []uint32{65000, 65000, 65001}) || !slices.Equal(r.Communities, []overlay.Community{7, 8})) {
			t.Errorf("%s becomes %+v", name, r)
		}
	}
}

// What cannot be configured is refused at once, in words.
func TestRefusedConfigurations(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.9:1791")
	must(t, err)
	defer taken.Close()
	for want, change := range map[string]func(*overlay.BGP){
		"an AS and a router ID": func(b *overlay.BGP) { b.AS = 0 },
		"the same port": func(b *overlay.BGP) {
			b.Listen = []netip.AddrPort{netip.AddrPortFrom(one, 1791), netip.AddrPortFrom(two, 1792)}
		},
		"localPref 0": func(b *overlay.BGP) {
			b.Policies = []overlay.RoutePolicy{{Name: "zero", Statements: []overlay.RouteStatement{{LocalPref: value(0)}}}}
			b.Neighbours[0].Export = []string{"zero"}
		},
		"listen for BGP at": func(b *overlay.BGP) {
			b.Listen = []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("127.0.0.9"), 1791)}
		},
	} {
		b := config(peer(two, overlay.FamilyEVPN))
		change(&b)
		s, err := Start(t.Context(), Options{Config: b, Receive: func([]evpn.Update) {}, Session: func(evpn.Session) {}})
		if err == nil {
			_ = s.Close(false)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is said as %v", want, err)
		}
	}
	s, err := Start(t.Context(), Options{Config: config(), Receive: func([]evpn.Update) {}, Session: func(evpn.Session) {}})
	must(t, err)
	b := config()
	b.AS++
	if err := s.Configure(b); err == nil || !strings.Contains(err.Error(), "start a new one") {
		t.Errorf("another AS is refused as %v", err)
	}
	must(t, s.Close(true))
	must(t, s.Close(true))
	if err := s.Configure(config()); err == nil {
		t.Error("a speaker that is closed was configured")
	}
}
