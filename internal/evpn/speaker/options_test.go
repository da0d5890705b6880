package speaker

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
)

// External sessions over IPv4 and IPv6 with an AS of four octets, a password and TTL
// security; a wrong password is named.
func TestSessionOptions(t *testing.T) {
	l := newLive(t)
	frr4, frr6 := l.frr4, l.frr6
	l.start(`
router bgp 4200000001
 bgp router-id 192.0.2.2
 no bgp default ipv4-unicast
 no bgp ebgp-requires-policy
 neighbor 192.0.2.1 remote-as 65000
 neighbor 192.0.2.1 password secret
 neighbor 2001:db8::1 remote-as 65000
 neighbor 2001:db8::1 ttl-security hops 1
 address-family ipv4 unicast
  neighbor 192.0.2.1 activate
  network 10.5.0.0/24
 exit-address-family
 address-family ipv6 unicast
  neighbor 2001:db8::1 activate
  network 2001:db8:5::/64
 exit-address-family
 no bgp network import-check
`, "")
	four, six := peer(frr4, overlay.FamilyIPv4), peer(frr6, overlay.FamilyIPv6)
	four.AS, six.AS = 4200000001, 4200000001
	four.Name, six.Name = "four", "six"
	four.Uplink, six.Uplink = "wan", "wan"
	four.Password = "wrong"
	six.Security, six.Hops = true, 1
	b := l.config(four, six)
	s, h := speak(t, b)
	own6 := unicast("2001:db8:77::/64", l.addr(netip.MustParseAddr("2001:db8::77")))
	l.must(s.Announce([]evpn.Route{unicast("10.7.0.0/24", l.addr(netip.MustParseAddr("192.0.2.77"))), own6}))
	l.awaitUp(s, h, frr6, true)
	l.await("the wrong password to be named", func() error {
		if n := s.Neighbours()[0]; n.Established || !strings.Contains(n.LastError, "same password") {
			return fmt.Errorf("%+v", n)
		}
		return nil
	})
	b.Neighbours = slices.Clone(b.Neighbours)
	b.Neighbours[0].Password = "secret"
	l.must(s.Configure(b))
	l.awaitUp(s, h, frr4, true)
	if _, lost := h.last(frr6); lost != 0 {
		t.Error("the session with another neighbour was lost by the change")
	}
	r := l.awaitRoute(h, "the IPv4 prefix of FRR", frr4, func(r evpn.Route) bool { return r.Prefix.String() == "10.5.0.0/24" })
	if r.Uplink != "wan" || r.NextHop != frr4 || !slices.Equal(r.ASPath, []uint32{4200000001}) || r.LocalPref != 100 {
		t.Errorf("the IPv4 prefix is %+v", r)
	}
	r = l.awaitRoute(h, "the IPv6 prefix of FRR", frr6, func(r evpn.Route) bool { return r.Prefix.String() == "2001:db8:5::/64" })
	if r.Uplink != "wan" || r.NextHop != frr6 {
		t.Errorf("the IPv6 prefix is %+v", r)
	}
	l.await("FRR to have the prefixes, with next hops that are neither end's", func() error {
		out := l.do("show bgp ipv4 unicast 10.7.0.0/24") + l.do("show bgp ipv6 unicast 2001:db8:77::/64")
		for _, want := range []string{"192.0.2.77 from 192.0.2.1", "2001:db8::77 from 2001:db8::1", "65000"} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("no %q in %s", want, out)
			}
		}
		return nil
	})
	b.Neighbours = b.Neighbours[:1]
	l.must(s.Configure(b))
	l.await("the end of a neighbour that is no more", func() error {
		if last, _ := h.last(frr6); !last.Ended || len(s.Neighbours()) != 1 {
			return fmt.Errorf("%+v", last)
		}
		return nil
	})
}

// Without TTL security there its packets leave with 1, and are not let in here.
func TestDeafNeighbour(t *testing.T) {
	l := newLive(t)
	l.start(`
router bgp 65001
 bgp router-id 192.0.2.2
 neighbor 2001:db8::1 remote-as 65000
`, "")
	n := peer(l.frr6, overlay.FamilyIPv6)
	n.AS, n.Security, n.Hops = 65001, true, 1
	s, _ := speak(t, l.config(n), func(o *Options) { o.deaf = 3 * time.Second })
	l.await("a session without TTL security to fail", func() error {
		if n := s.Neighbours()[0]; n.Established || !strings.Contains(n.LastError, "ttlSecurity is set at both ends") {
			return fmt.Errorf("%+v", n)
		}
		return nil
	})
}

const policyPeer = `
router bgp 65001
 bgp router-id 192.0.2.2
 no bgp default ipv4-unicast
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor 192.0.2.1 remote-as 65000
 neighbor 2001:db8::1 remote-as 65000
 address-family ipv4 unicast
  neighbor 192.0.2.1 activate
  neighbor 192.0.2.1 route-map marks out
  neighbor 2001:db8::1 activate
  network 10.5.0.0/24
  network 10.6.0.0/16
  network 10.8.0.0/24
 exit-address-family
ip prefix-list eight permit 10.8.0.0/24
route-map marks permit 10
 match ip address prefix-list eight
 set community 65001:8
route-map marks permit 20
`

func value(v uint32) *uint32 { return &v }

// Policies on the way in and out, of one neighbour and not of the other; they change while
// the sessions go on.
func TestPolicies(t *testing.T) {
	l := newLive(t)
	here4, frr4, frr6 := l.here4, l.frr4, l.frr6
	l.start(policyPeer, "")
	four, six := peer(frr4, overlay.FamilyIPv4), peer(frr6, overlay.FamilyIPv4)
	four.AS, six.AS = 65001, 65001
	four.Uplink, six.Uplink = "wan", "other"
	four.Import, four.Export = []string{"in"}, []string{"out"}
	b := l.config(four, six)
	b.Policies = []overlay.RoutePolicy{
		{Name: "in", Statements: []overlay.RouteStatement{
			{Prefixes: []overlay.PrefixRange{{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Min: 16, Max: 16}}, Reject: true},
			{Communities: []overlay.Community{65001<<16 | 8}, LocalPref: value(300), Add: []overlay.Community{65000<<16 | 1}},
		}},
		{Name: "out", Statements: []overlay.RouteStatement{
			{Prefixes: []overlay.PrefixRange{{Prefix: netip.MustParsePrefix("10.70.0.0/16"), Min: 24, Max: 32}}, Reject: true},
			{MED: value(77), Prepend: 2, Add: []overlay.Community{65000<<16 | 9}},
		}},
	}
	s, h := speak(t, b)
	other := unicast("10.71.0.0/24", l.addr(netip.MustParseAddr("192.0.2.9")))
	other.Uplink = "other"
	l.must(s.Announce([]evpn.Route{unicast("10.70.1.0/24", here4), unicast("10.71.0.0/24", here4), other}))
	l.awaitUp(s, h, frr4, true)
	l.awaitUp(s, h, frr6, true)
	r := l.awaitRoute(h, "a prefix with a community", frr4, func(r evpn.Route) bool { return r.Prefix.String() == "10.8.0.0/24" })
	if r.LocalPref != 300 || !slices.Equal(r.Communities, []overlay.Community{65001<<16 | 8, 65000<<16 | 1}) {
		t.Errorf("it is %+v", r)
	}
	refused := func(r evpn.Route) bool { return r.Prefix.String() == "10.6.0.0/16" }
	r = l.awaitRoute(h, "all prefixes by the neighbour without policies", frr6, refused)
	if r.Uplink != "other" {
		t.Errorf("a prefix of the other uplink is %+v", r)
	}
	for _, addr := range []netip.Addr{frr4, frr6} { // for ECMP
		l.awaitRoute(h, "the same prefix by both neighbours", addr, func(r evpn.Route) bool { return r.Prefix.String() == "10.5.0.0/24" })
	}
	l.await("counts", func() error { // they are a while old
		if f := s.Neighbours()[0].Families[0]; f.Received < 3 || f.Accepted != 2 || f.Advertised != 1 {
			return fmt.Errorf("%+v", f)
		}
		return nil
	})
	shown := func() string { return l.do("show bgp ipv4 unicast 10.71.0.0/24") }
	l.await("each way its own attributes", func() error {
		out := shown()
		mine, others, found := strings.Cut(out, "192.0.2.9 from 2001:db8::1")
		if !found {
			mine, others = out, ""
		}
		if !strings.Contains(out, "65000 65000 65000") || !strings.Contains(out, "metric 77") || !strings.Contains(out, "65000:9") || mine == out || others == "" ||
			strings.Contains(out, "Large") {
			return errors.New(out)
		}
		return nil
	})
	if out := l.do("show bgp ipv4 unicast"); strings.Contains(out, "10.70.1.0/24") {
		t.Errorf("FRR has a prefix that is rejected:\n%s", out)
	}

	b.Policies = []overlay.RoutePolicy{{Name: "in"}, {Name: "out"}}
	l.must(s.Configure(b))
	l.awaitRoute(h, "the prefix that was rejected", frr4, refused)
	l.await("FRR to have all as they are", func() error {
		if out := shown() + l.do("show bgp ipv4 unicast"); strings.Contains(out, "metric 77") || !strings.Contains(out, "10.70.1.0/24") {
			return errors.New(out)
		}
		return nil
	})
	for _, addr := range []netip.Addr{frr4, frr6} {
		if _, lost := h.last(addr); lost != 0 {
			t.Errorf("policies cost the session with %s", addr)
		}
	}
}

// A neighbour that announces too much is warned of, put off, and back by command.
func TestMaximumPrefixes(t *testing.T) {
	l := newLive(t)
	frr4 := l.frr4
	l.start(strings.ReplaceAll(policyPeer, "network 10.8.0.0/24", "network 10.8.0.0/24\n  network 10.9.0.0/24"), "")
	n := peer(frr4, overlay.FamilyIPv4)
	n.AS, n.MaxPrefixes = 65001, 3
	b := l.config(n)
	s, h := speak(t, b)
	l.await("the session to be ended", func() error {
		if n := s.Neighbours()[0]; n.Established || !strings.Contains(n.LastError, "more than maximumPrefixes (3)") {
			return fmt.Errorf("%+v", n)
		}
		return nil
	})
	b.Neighbours = slices.Clone(b.Neighbours)
	b.Neighbours[0].MaxPrefixes = 4
	l.must(s.Configure(b))
	l.awaitUp(s, h, frr4, true)
	l.await("all prefixes to be counted", func() error { // counts are read anew after a while
		if f := s.Neighbours()[0].Families[0]; f.Received != 4 || f.Limit != 4 {
			return fmt.Errorf("counts %+v", f)
		}
		return nil
	})
	b.Neighbours = slices.Clone(b.Neighbours)
	b.Neighbours[0].MaxPrefixes = 1
	l.must(s.Configure(b))
	l.await("the session to be ended again", func() error {
		if n := s.Neighbours()[0]; n.Established || !strings.Contains(n.LastError, "maximumPrefixes (1)") {
			return fmt.Errorf("%+v", n)
		}
		return nil
	})
	l.do("configure terminal", "router bgp 65001", "address-family ipv4 unicast", "no network 10.5.0.0/24", "no network 10.6.0.0/16", "no network 10.8.0.0/24")
	l.must(s.Refresh(frr4, false))
	l.awaitUp(s, h, frr4, true)
}

// A session is opened anew by command, softly without its loss, and ended by BFD's word.
func TestResets(t *testing.T) {
	l := newLive(t)
	frr4 := l.frr4
	l.start(unicastPeer, "")
	n := peer(frr4, overlay.FamilyIPv4)
	s, h := speak(t, l.config(n))
	l.awaitUp(s, h, frr4, true)
	l.must(s.Refresh(frr4, true))
	l.must(s.Refresh(frr4, false))
	l.await("a reset by command", func() error {
		if last, lost := h.last(frr4); lost != 1 || !last.Up {
			return fmt.Errorf("%+v, lost %d times: %s", last, lost, s.Neighbours()[0].LastError)
		}
		return nil
	})
	s.Fail(frr4, "BFD: no answer")
	l.await("BFD's word", func() error {
		if _, lost := h.last(frr4); lost != 2 {
			return errors.New(s.Neighbours()[0].LastError)
		}
		return nil
	})
}

// A neighbour that may advertise one route, and does, is as it should be.
func TestFewPrefixesAreNoWarning(t *testing.T) {
	for most, want := range map[uint32]uint32{0: 0, 1: 0, 9: 0, 10: warnPercent, 1_000_000: warnPercent} {
		if got := warnsAt(most); got != want {
			t.Errorf("of %d prefixes: at %d %%, want %d", most, got, want)
		}
	}
}
