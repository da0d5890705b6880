package datapath

import (
	"testing"
	"time"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// suppressing is a world whose blue answers for known remote hosts.
func suppressing(t testing.TB, to way, change ...func(*Config, *fib.Tables)) *world {
	t.Helper()
	return newWorld(t, to.family, append([]func(*Config, *fib.Tables){tunnelled(to.tunnel), func(_ *Config, tables *fib.Tables) {
		tables.Segments[0].Suppress = true
	}}, change...)...)
}

// answered wants an ARP or ND answer at a port from mac for an address.
func (w *world) answered(t *testing.T, from string, in []byte, mac, address string) {
	t.Helper()
	var r result
	drops, events := w.counted(t, func() { r = w.fromPort(t, from, in) })
	if events["proxy-replied"] != 1 || events["flooded"] != 0 || sum(drops) != 0 {
		t.Errorf("events %v, drops %v; want an answer", events, drops)
	}
	r.want(t, in, forwarded)
	requester := macString(in[6:12])
	if in[12] == 8 {
		sender := in[etherLen+14 : etherLen+18]
		check.Packet(t, in, r.out, check.Ether(mac, requester), check.ARP(2, mac, addr(address), requester, addrOfBytes(sender)))
		return
	}
	source := addrOfBytes(in[etherLen+8 : etherLen+24])
	check.Packet(t, in, r.out, check.Ether(mac, requester), check.IP(addr(address), source, check.TTL(255)), check.Advertisement(check.Solicited|check.Override, addr(address), mac))
}

// A remote host that was heard is answered for; others are asked for everywhere.
func TestSuppression(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, to way) {
		w := suppressing(t, to)
		asks := map[string]string{"arp 10.0.1.10 ? 10.0.1.11": "10.0.1.11", "ns 2001:db8:1::a ? 2001:db8:1::b": "2001:db8:1::b"}
		for words := range asks { // nothing is known yet
			w.follow(t, []step{{"p0", pkttest.Frame(alice, all, words), "flood"}})
		}
		w.follow(t, []step{ // bob asks, and so tells where he is
			{"first", pkttest.Frame(bob, all, "arp 10.0.1.11 ? 10.0.1.99"), "flood"},
			{"first", pkttest.Frame(bob, all, "ns 2001:db8:1::b ? 2001:db8:1::99"), "flood"},
		})
		for words, address := range asks {
			for range 2 {
				w.answered(t, "p0", pkttest.Frame(alice, all, words), bob, address)
			}
			// Asked to his face, he is to say himself whether he lives (RFC 4861 section 7.3).
			w.follow(t, []step{{"p1", pkttest.Frame(carol, bob, words), "first"}})
		}
		// Out of a tunnel nothing is answered for others.
		w.follow(t, []step{{"second", pkttest.Frame(erin, all, "arp 10.0.1.14 ? 10.0.1.11"), "flood"}})
		// Alice is local: she answers herself.
		w.follow(t, []step{{"p1", pkttest.Frame(carol, all, "arp 10.0.1.12 ? 10.0.1.10"), "flood"}})
	})
}

// Who moved here looks for a duplicate of himself; an answer would be his own.
func TestOwnProbeIsNotAnswered(t *testing.T) {
	t.Parallel()
	w := suppressing(t, ways()[0])
	w.follow(t, []step{
		{"first", pkttest.Frame(bob, all, "arp 10.0.1.11 ! 10.0.1.11"), "flood"}, {"first", pkttest.Frame(bob, all, "na 2001:db8:1::b ! ff02::1"), "flood"},
		{"p0", pkttest.Frame(bob, all, "arp 0.0.0.0 ? 10.0.1.11"), "flood"}, {"p0", pkttest.Frame(bob, all, "ns :: ? 2001:db8:1::b"), "flood"},
		{"p0", pkttest.Frame(bob, all, "arp 10.0.1.11 ? 10.0.1.11"), "flood"},
		{"p1", pkttest.Frame(carol, all, "arp 10.0.1.12 ? 10.0.1.11"), "flood"}, // he is at a port now
	})
	// Another one who probes for his address is told.
	w = suppressing(t, ways()[0])
	w.follow(t, []step{{"first", pkttest.Frame(bob, all, "arp 10.0.1.11 ! 10.0.1.11"), "flood"}})
	w.answered(t, "p0", pkttest.Frame(alice, all, "arp 0.0.0.0 ? 10.0.1.11"), bob, "10.0.1.11")
}

// What tells of a neighbour, and what does not.
func TestNeighbourLearning(t *testing.T) {
	for _, c := range []struct {
		name, from, mac, words string
		address                string
		want                   string // MAC, "": none
	}{
		{"ARP request", "p0", alice, "arp 10.0.1.10 ? 10.0.1.11", "10.0.1.10", alice},
		{"ARP reply", "p0", alice, "arp 10.0.1.10 ! 10.0.1.11", "10.0.1.10", alice},
		{"gratuitous ARP", "first", bob, "arp 10.0.1.11 ! 10.0.1.11", "10.0.1.11", bob},
		{"ARP probe", "p0", alice, "arp 0.0.0.0 ? 10.0.1.10", "10.0.1.10", ""},
		{"target of a request", "p0", alice, "arp 10.0.1.10 ? 10.0.1.11", "10.0.1.11", ""},
		{"solicitation", "p0", alice, "ns 2001:db8:1::a ? 2001:db8:1::b", "2001:db8:1::a", alice},
		{"link-local", "p0", alice, "ns fe80::a ? 2001:db8:1::b", "fe80::a", alice},
		{"target of a solicitation", "p0", alice, "ns 2001:db8:1::a ? 2001:db8:1::b", "2001:db8:1::b", ""},
		{"duplicate detection", "p0", alice, "ns :: ? 2001:db8:1::a", "2001:db8:1::a", ""},
		{"advertisement", "first", bob, "na 2001:db8:1::b ! 2001:db8:1::a", "2001:db8:1::b", bob},
		{"unsolicited advertisement", "second", erin, "na 2001:db8:1::e ! ff02::1", "2001:db8:1::e", erin},
		{"IPv4 packet", "p0", alice, udp4, "10.0.0.1", ""},
		{"router solicitation", "p0", alice, "ttl 255 icmp 2001:db8:1::a > ff02::2 133/0 0", "2001:db8:1::a", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := suppressing(t, ways()[0])
			w.send(t, c.from, pkttest.Frame(c.mac, all, c.words))
			n := w.neighbour(t, "blue", c.address)
			if got := n != nil; got != (c.want != "") || got && (n.MAC != macOf(c.want) || n.Static || n.Port+remoteName(n) == "") {
				t.Errorf("%s is %+v, want %q", c.address, n, c.want)
			}
			if other := w.neighbour(t, "green", c.address); other != nil {
				t.Errorf("green knows %+v", other)
			}
		})
	}
}

func remoteName(n *Neighbour) string {
	if n.Remote.IsValid() {
		return n.Remote.String()
	}
	return ""
}

// Malformed ARP and ND are dropped with a reason.
func TestMalformedNeighbourTalk(t *testing.T) {
	w := suppressing(t, ways()[0])
	ask, solicit := pkttest.Frame(alice, all, "arp 10.0.1.10 ? 10.0.1.11"), pkttest.Frame(alice, all, "ns 2001:db8:1::a ? 2001:db8:1::b")
	short := append([]byte(nil), solicit[:etherLen+ipv6Len+20]...)
	short[etherLen+5] = 20
	for name, c := range map[string]dropCase{
		"ARP for IPv6":                 {reason: "malformed-arp", packet: packet{bytes: changed(ask, etherLen+2, 0x86, 0xdd)}},
		"ARP with long MAC addresses":  {reason: "malformed-arp", packet: packet{bytes: changed(ask, etherLen+4, 8)}},
		"ARP with long IP addresses":   {reason: "malformed-arp", packet: packet{bytes: changed(ask, etherLen+5, 16)}},
		"solicitation without address": {reason: "malformed-l4", packet: packet{bytes: resummed6(short)}},
	} {
		c.from = "p0"
		t.Run(name, func(t *testing.T) { w.wantDrop(t, c) })
	}
}

// Silent neighbours age, at a multiple of a MAC's time.
func TestNeighbourAgeing(t *testing.T) {
	w := suppressing(t, ways()[0], func(_ *Config, tables *fib.Tables) {
		tables.Segments[0].Neighbours = neighbours("10.0.1.99", carol)
	})
	w.send(t, "p0", pkttest.Frame(alice, all, "arp 10.0.1.10 ! 10.0.1.10"))
	w.ageHosts(t, time.Minute)
	for _, c := range []struct {
		ageing time.Duration
		known  bool
	}{{0, true}, {time.Hour, true}, {time.Minute / neighbourAgeing * 2, true}, {time.Minute / neighbourAgeing, false}} {
		if _, err := w.dp.Age(c.ageing); err != nil {
			t.Fatal(err)
		}
		if got := w.neighbour(t, "blue", "10.0.1.10") != nil; got != c.known {
			t.Errorf("after ageing with %v the neighbour is known: %t", c.ageing, got)
		}
	}
	if n := w.neighbour(t, "blue", "10.0.1.99"); n == nil || !n.Static {
		t.Errorf("the static neighbour is %+v", n)
	}
}
