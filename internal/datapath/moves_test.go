package datapath

import (
	"testing"

	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// The edge says in the host's own words where it is now: for each address that is known, else by RARP when others know the host elsewhere.
func TestAnnouncement(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, to way) {
		for _, vlan := range []uint16{0, 10} {
			w := suppressing(t, to)
			port := "p0"
			if vlan != 0 {
				w.tables.Ports[0].Name, w.tables.Ports[0].VLAN, port = "p0.10", vlan, "p0.10"
			}
			w.tables.Segments[0].Remotes = to.family.remotes[:1]
			w.apply(t)
			taps := w.taps(t)
			announce := func(remote bool) map[string][]tapped {
				w.do(t, func() {
					must(t, w.dp.HostEvents.Announce([]Move{{Segment: "blue", Port: port, MAC: macOf(bob), WasRemote: remote}}))
				})
				got := map[string][]tapped{}
				for dev, p := range taps {
					got[dev] = p.drain(t)
				}
				return got
			}
			if got := announce(false); len(got["p1"])+len(got["u0"])+len(got["p0"]) != 0 {
				t.Errorf("a new host without an address is announced: %v", got)
			}
			rarp := announce(true)
			if len(rarp["p1"]) != 1 || len(rarp["u0"]) != 1 || len(rarp["p0"]) != 0 {
				t.Fatalf("%d RARPs at a port, %d at a remote, %d where the host is", len(rarp["p1"]), len(rarp["u0"]), len(rarp["p0"]))
			}
			check.Packet(t, nil, rarp["p1"][0].bytes, check.Ether(bob, all, check.EtherType(0x8035)))
			w.send(t, "first", pkttest.Frame(bob, all, "arp 10.0.1.11 ! 10.0.1.11"))
			w.send(t, "first", pkttest.Frame(bob, all, "na 2001:db8:1::b ! ff02::1"))
			w.fromPort(t, "p0", withVLAN(pkttest.Frame(bob, all, tcp4), vlan)) // so he has come
			for _, p := range taps {
				p.drain(t)
			}
			got := announce(true)
			if len(got["p1"]) != 2 || len(got["u0"]) != 2 || len(got["p0"])+len(got["p2"]) != 0 {
				t.Fatalf("%d announcements at a port and %d at a remote, want one for each address", len(got["p1"]), len(got["u0"]))
			}
			for _, g := range got["p1"] {
				if g.bytes[13] == 6 {
					check.Packet(t, nil, g.bytes, check.Ether(bob, all), check.ARP(1, bob, addr("10.0.1.11"), zero, addr("10.0.1.11")))
					continue
				}
				check.Packet(t, nil, g.bytes, check.Ether(bob, "33:33:00:00:00:01"),
					check.IP(addr("2001:db8:1::b"), addr("ff02::1"), check.TTL(255)), check.Advertisement(check.Override, addr("2001:db8:1::b"), bob))
			}
			if at := w.fdb(t, bob); at != port {
				t.Errorf("after the announcement he is at %q", at)
			}
		}
	})
}
