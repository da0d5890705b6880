package datapath

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// Hosts at ports are listed with their addresses, those behind remotes are not.
func TestHosts(t *testing.T) {
	w := bgpWorld(t, func(_ *Config, tables *fib.Tables) {
		tables.Segments[0].Static = []overlay.StaticMAC{{MAC: macOf(carol), Port: "p1"}}
		tables.Segments[0].Neighbours = neighbours("10.0.1.12", carol)
	})
	w.bgpMAC(t, bob, "second", false)
	w.arpEntry(t, "10.0.1.11", bob)
	w.send(t, "first", pkttest.Frame(nobody, all, "arp 10.0.1.50 ! 10.0.1.50"))
	w.send(t, "p0", pkttest.Frame(alice, all, "arp 10.0.1.10 ! 10.0.1.10"))
	w.arpEntry(t, "10.0.1.20", alice) // BGP knows one that she did not say
	list, err := w.dp.Hosts.Hosts()
	must(t, err)
	got := make([]string, 0, len(list))
	for _, h := range list {
		got = append(got, fmt.Sprint(h.Segment, " ", h.Port, " ", h.MAC, " ", h.Addr, " ", h.Origin, " ", h.Static, " ", h.IdleNS < 1e10))
	}
	slices.Sort(got)
	want := []string{
		"blue p0 " + alice + " 10.0.1.10 learned false true", "blue p0 " + alice + " 10.0.1.20 bgp false true", "blue p0 " + alice + " invalid IP learned false true",
		"blue p1 " + carol + " 10.0.1.12 static true true", "blue p1 " + carol + " invalid IP static true true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("hosts\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Only what a host at a port said itself is forgotten.
func TestForget(t *testing.T) {
	w := bgpWorld(t, func(_ *Config, tables *fib.Tables) {
		tables.Segments[0].Static = []overlay.StaticMAC{{MAC: macOf(carol), Port: "p1"}}
	})
	w.send(t, "p0", say(alice, all))
	w.bgpMAC(t, bob, "second", false)
	w.send(t, "first", say(nobody, all))
	w.follow(t, []step{{"p1", say(carol, alice), "p0"}, {"p1", say(carol, alice), "p0"}})
	for _, mac := range []string{alice, bob, carol, nobody, dave} {
		must(t, w.dp.Hosts.Forget("blue", macOf(mac)))
	}
	w.wantFDBEntry(t, alice, "", "")
	w.wantFDBEntry(t, bob, "second", OriginBGP)
	w.wantFDBEntry(t, carol, "p1", OriginStatic)
	w.wantFDBEntry(t, nobody, "first", OriginLearned)
	w.follow(t, []step{{"p1", say(carol, alice), "flood"}})
	if err := w.dp.Hosts.Forget("grey", macOf(alice)); err == nil || !strings.Contains(err.Error(), `no segment "grey"`) {
		t.Errorf("%v", err)
	}
}

// A host is asked at its port alone, by the gateway or, where there is none, by nobody.
func TestAsk(t *testing.T) {
	addrs := []netip.Addr{addr("10.0.1.10"), addr("2001:db8:1::a")}
	for _, c := range []struct {
		name, mac, from4, from6 string
		world                   func(*testing.T) *world
	}{
		{"gateway", gatewayMAC, gateway4, gateway6, func(t *testing.T) *world { return routedWorld(t, ways()[0]) }},
		{"none", requesterMAC.String(), "0.0.0.0", linkLocal(requesterMAC).String(), func(t *testing.T) *world { return bgpWorld(t) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.world(t)
			far, others := w.tap(t, "p0x", "p0"), []*tap{w.tap(t, "p1x", "p1"), w.tap(t, "u0x", "u0")}
			w.do(t, func() { must(t, w.dp.HostEvents.SolicitHost("blue", "p0", macOf(alice), addrs)) })
			got := far.receive(t, 2)
			for _, o := range others {
				if n := len(o.drain(t)); n != 0 {
					t.Errorf("%d frames elsewhere", n)
				}
			}
			check.Packet(t, nil, got[0].bytes, check.Ether(c.mac, alice), check.ARP(1, c.mac, addr(c.from4), zero, addrs[0]))
			check.Packet(t, nil, got[1].bytes, check.Ether(c.mac, alice), check.IP(addr(c.from6), addrs[1], check.TTL(255)), check.Solicitation(addrs[1], c.mac))
			// What is answered is learned, and goes no further than it must.
			w.send(t, "p0", pkttest.Frame(alice, c.mac, "arp 10.0.1.10 ! 10.0.1.10"))
			if n := w.neighbour(t, "blue", "10.0.1.10"); n == nil || n.MAC != macOf(alice) || n.Port != "p0" {
				t.Errorf("%+v", n)
			}
		})
	}
	w := newWorld(t, underIPv4)
	w.do(t, func() {
		must(t, w.dp.HostEvents.SolicitHost("blue", "p9", macOf(alice), addrs)) // it went
		if err := w.dp.HostEvents.SolicitHost("grey", "p0", macOf(alice), addrs); err == nil {
			t.Error("no segment, and no error")
		}
	})
}
