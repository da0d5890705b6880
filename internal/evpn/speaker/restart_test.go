package speaker

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
)

// hostRoute is a type 2 of this side.
func hostRoute(n byte) evpn.Route {
	return evpn.Route{
		Key:     evpn.Key{Type: evpn.MACIP, RD: overlay.AddrDistinguisher(here4, 7), MAC: overlay.MAC{2, 0, 0, 0, 1, n}, Addr: netip.AddrFrom4([4]byte{10, 0, 10, n})},
		NextHop: here4, VNI: 10010, Targets: []overlay.RouteTarget{overlay.ASTarget(65000, 10010)}, Encapsulation: overlay.VXLAN,
	}
}

// FRR dies and comes back: that is told as a session, and nothing as withdrawn.
func TestLostSessionWithdrawsNothing(t *testing.T) {
	l := newLive(t)
	frr4 := l.frr4
	l.evpnNetwork()
	l.start(evpnPeer, "vni 50099\n")
	// The other neighbour is never there, and FRR is told all without it.
	s, h := speak(t, l.config(peer(frr4, overlay.FamilyEVPN), peer(l.addr(netip.MustParseAddr("192.0.2.99")), overlay.FamilyEVPN)))
	l.must(s.Announce([]evpn.Route{l.hostRoute(1)}))
	l.awaitUp(s, h, frr4, true)
	theirs := func(r evpn.Route) bool {
		return r.Type == evpn.MACIP && r.Addr == netip.MustParseAddr("10.0.10.5")
	}
	l.awaitRoute(h, "FRR's host", frr4, theirs)
	l.await("all about the neighbour", func() error { // numbers of routes are a while old
		if n := s.Neighbours()[0]; !n.Established || n.State != "established" || !n.Complete || n.Families[0].Received == 0 || n.Families[0].Advertised != 1 ||
			n.Hold != 9*time.Second || n.Keepalive != 3*time.Second || n.RouterID != frr4 || n.LastError != "" || !n.Restart.Negotiated {
			return fmt.Errorf("the neighbour is %+v", n)
		}
		return nil
	})
	l.frr.Kill()
	l.await("the session to be lost", func() error {
		if last, _ := h.last(frr4); last.Up {
			return fmt.Errorf("%+v", last)
		}
		return nil
	})
	l.await("the cause", func() error {
		if n := s.Neighbours()[0]; n.Established || n.Flaps != 1 || !strings.Contains(l.there.Replace(n.LastError), "nothing listens there: start BGP at 192.0.2.2") {
			return fmt.Errorf("%+v", n)
		}
		return nil
	})
	if last, _ := h.last(frr4); last.Ended {
		t.Error("a neighbour that died left for good")
	}
	if _, gone := h.counts(); gone != 0 {
		t.Errorf("%d routes of a lost session were withdrawn", gone)
	}
	l.must(l.frr.Start(t.Context()))
	back := time.Now()
	l.awaitUp(s, h, frr4, true)
	t.Logf("back and complete %s after FRR had started", time.Since(back).Round(10*time.Millisecond))
	l.awaitRoute(h, "FRR's host again", frr4, theirs)
	l.await("FRR to have this side's host again", func() error {
		if out := l.do("show evpn mac vni 10010"); !strings.Contains(out, "02:00:00:00:01:01") {
			return errors.New(out)
		}
		return nil
	})
	if _, gone := h.counts(); gone != 0 {
		t.Errorf("%d routes were withdrawn", gone)
	}

	l.must(l.frr.Stop(t.Context()))
	l.await("the session to be lost again", func() error {
		if _, lost := h.last(frr4); lost != 2 {
			return fmt.Errorf("lost %d times", lost)
		}
		return nil
	})
	if last, _ := h.last(frr4); last.Ended {
		t.Error("a neighbour whose process was stopped left for good")
	}
	if _, gone := h.counts(); gone != 0 {
		t.Errorf("%d routes of a stopped neighbour were withdrawn", gone)
	}
	l.must(l.frr.Start(t.Context()))
	l.awaitUp(s, h, frr4, true)
	l.do("configure terminal", "router bgp 65000", "neighbor 192.0.2.1 shutdown")
	l.await("the neighbour to leave for good", func() error {
		if last, _ := h.last(frr4); !last.Ended {
			return fmt.Errorf("%+v, %s", last, s.Neighbours()[0].LastError)
		}
		return nil
	})
	if n := s.Neighbours()[0]; !strings.Contains(n.LastError, "it was shut down there") {
		t.Errorf("a neighbour that was shut down is %+v", n)
	}
}

// unicast is a prefix of this side to the neighbours of an uplink.
func unicast(prefix string, hop netip.Addr) evpn.Route {
	return evpn.Route{Key: evpn.Key{Prefix: netip.MustParsePrefix(prefix), Uplink: "wan"}, NextHop: hop}
}

const unicastPeer = `
router bgp 65000
 bgp router-id 192.0.2.2
 no bgp default ipv4-unicast
 neighbor 192.0.2.1 remote-as 65000
 address-family ipv4 unicast
  neighbor 192.0.2.1 activate
 exit-address-family
`

// The process ends and a new one comes: FRR goes on with the routes of the first until the
// second has said all, and then without those that it did not say. (FRR 8.4 does so for
// unicast routes, and not for EVPN's.)
func TestNeighbourKeepsRoutesOfRestartedProcess(t *testing.T) {
	l := newLive(t)
	here4, frr4 := l.here4, l.frr4
	l.start(unicastPeer, "")
	n := peer(frr4, overlay.FamilyIPv4)
	n.Uplink = "wan"
	b := l.config(n)
	routes := []evpn.Route{unicast("10.1.0.0/24", here4), unicast("10.2.0.0/24", here4)}
	s, h := speak(t, b)
	l.must(s.Announce(routes))
	l.awaitUp(s, h, frr4, true)
	shown := func() string { return l.do("show bgp ipv4 unicast") }
	has := func(i int) bool { return strings.Contains(shown(), routes[i].Prefix.String()) }
	l.await("FRR to have both prefixes", func() error {
		if !has(0) || !has(1) {
			return errors.New(shown())
		}
		return nil
	})
	l.must(s.Close(true))
	l.await("FRR to keep both as stale", func() error {
		if out := shown(); strings.Count(out, "\nS>i") != 2 {
			return errors.New(out)
		}
		return nil
	})

	s, err := Start(t.Context(), Options{Config: b, NextHop: here4, Adopted: true, Receive: h.receive, Session: h.session})
	l.must(err)
	defer func() { l.must(s.Close(false)) }()
	l.must(s.Announce(routes[:1]))
	l.await("FRR to drop the prefix that is gone", func() error {
		out := shown()
		if !strings.Contains(out, routes[0].Prefix.String()) {
			t.Fatal("FRR dropped the prefix that is announced again")
		}
		if strings.Contains(out, routes[1].Prefix.String()) || strings.Contains(out, "\nS>") {
			return errors.New(out)
		}
		return nil
	})
	// The session alone is lost, and FRR goes on with the prefix meanwhile.
	_, before := h.last(frr4)
	l.run(l.far, "ss -K dst 192.0.2.1")
	l.await("a new session", func() error {
		if last, lost := h.last(frr4); lost == before || !last.Up {
			return fmt.Errorf("%+v, lost %d times", last, lost)
		}
		return nil
	})
	l.await("FRR to have it fresh", func() error {
		out := shown()
		if !has(0) {
			t.Fatal("FRR dropped the prefix of a session that was lost")
		}
		if strings.Contains(out, "\nS>") {
			return errors.New(out)
		}
		return nil
	})
}
