package bfd

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

/*
  near                                    far
 ┌───────────────────────┐              ┌───────────────────────┐
 │ lo 203.0.113.1        │              │ lo 203.0.113.2        │
 │    2001:db8:f::1   l0 ├──────────────┤ l0    2001:db8:f::2   │
 │                    l1 ├──────────────┤ l1                    │
 └───────────────────────┘              └───────────────────────┘
 l0: 192.0.2.0/30 and 2001:db8:1::/64, l1: 192.0.2.4/30 and 2001:db8:2::/64
*/

var (
	nearLo4, nearLo6 = netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("2001:db8:f::1")
	farLo4, farLo6   = netip.MustParseAddr("203.0.113.2"), netip.MustParseAddr("2001:db8:f::2")
)

func newTwoLinks(t *testing.T) *bench {
	tier.Root(t)
	t.Parallel()
	lab, err := topo.New(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, lab: lab}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, host := range map[string]**topo.Host{"near": &b.near, "far": &b.far} {
		*host, err = lab.Host(name)
		b.must(err)
	}
	for i := range 2 {
		end := func(h *topo.Host, last int) topo.LinkEnd {
			return topo.LinkEnd{Host: h, Name: fmt.Sprintf("l%d", i), Addrs: []netip.Prefix{
				netip.MustParsePrefix(fmt.Sprintf("192.0.2.%d/30", 4*i+last)), netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::%d/64", i+1, last)),
			}}
		}
		b.must(lab.Link(t.Context(), end(b.near, 1), end(b.far, 2), 1500))
	}
	for h, far := range map[*topo.Host]int{b.near: 2, b.far: 1} {
		b.run(h, fmt.Sprintf("ip addr add 203.0.113.%d/32 dev lo", 3-far))
		b.run(h, fmt.Sprintf("ip addr add 2001:db8:f::%d/128 dev lo", 3-far))
		b.run(h, fmt.Sprintf("ip route add 203.0.113.%d nexthop via 192.0.2.%d dev l0 nexthop via 192.0.2.%d dev l1", far, far, 4+far))
		b.run(h, fmt.Sprintf("ip -6 route add 2001:db8:f::%d nexthop via 2001:db8:1::%d dev l0 nexthop via 2001:db8:2::%d dev l1", far, far, far))
	}
	b.must(b.near.Reach(t.Context(), farLo4))
	b.must(b.near.Reach(t.Context(), farLo6))
	return b
}

// byNextHops are the sessions of a pair with two next hops, that of the pair first.
func (b *bench) byNextHops(h, other *topo.Host, local, remote netip.Addr) []Peer {
	b.t.Helper()
	all := peerOf(local, remote, 2)
	peers := []Peer{all}
	for _, name := range []string{"l0", "l1"} {
		one := all
		one.Via = overlay.Via{Addr: remote, Interface: name}
		one.SrcMAC, one.NextMAC = b.macOf(h, name), b.macOf(other, name)
		b.must(h.Do(func() error {
			i, err := net.InterfaceByName(name)
			if err == nil {
				one.Ifindex = i.Index
			}
			return err
		}))
		peers = append(peers, one)
	}
	return peers
}

func (b *bench) macOf(h *topo.Host, name string) overlay.MAC {
	b.t.Helper()
	fields := strings.Fields(b.run(h, "ip -o link show "+name))
	for i, word := range fields {
		if word == "link/ether" {
			mac, err := overlay.ParseMAC(fields[i+1])
			b.must(err)
			return mac
		}
	}
	b.t.Fatalf("%s has no MAC address", name)
	return overlay.MAC{}
}

// cut has h drop all that arrives on a link, which stays up.
func (b *bench) cut(h *topo.Host, name string) {
	b.t.Helper()
	b.run(h, "nft add table inet deaf")
	b.run(h, "nft add chain inet deaf in { type filter hook prerouting priority -300 ; }")
	b.run(h, "nft add rule inet deaf in iifname "+name+" drop")
}

// Each next hop has its own life, seen from the end that uses it. The pair lives on as long as one does.
func TestNextHopsHaveTheirOwnLife(t *testing.T) {
	for name, addrs := range map[string][2]netip.Addr{"IPv4": {nearLo4, farLo4}, "IPv6": {nearLo6, farLo6}} {
		t.Run(name, func(t *testing.T) {
			b := newTwoLinks(t)
			near, far := b.monitor(b.near), b.monitor(b.far)
			there, back := b.byNextHops(b.near, b.far, addrs[0], addrs[1]), b.byNextHops(b.far, b.near, addrs[1], addrs[0])
			b.set(b.near, near, there...)
			for _, p := range there {
				b.await(near, p.Pair, "asked", func(r Result) bool { return r.State == Unknown && r.Sent > 0 })
			}
			b.set(b.far, far, back...)
			for i := range there {
				b.awaitState(near, there[i].Pair, Up)
				b.awaitState(far, back[i].Pair, Up)
			}
			b.cut(b.far, "l1")
			if r := b.awaitState(near, there[2].Pair, Down); r.Usable() || !strings.Contains(r.Why, "no packet for 150ms") {
				t.Errorf("the dead next hop is %+v", r)
			}
			for _, pair := range []overlay.Pair{there[0].Pair, there[1].Pair} {
				if r := near.Results()[pair]; r.State != Up {
					t.Errorf("%s is %+v, want it up: its link is", pair, r)
				}
			}
			b.hear(b.far)
			b.awaitState(near, there[2].Pair, Up)
			if r := near.Results()[there[0].Pair]; r.Failures > 0 {
				t.Errorf("the pair is %+v, want no failure: one next hop was there all the time", r)
			}
		})
	}
}

// What is pinned to a link that is lost is dead at once, and nothing else is for that; it comes back after its hold.
func TestLinkLost(t *testing.T) {
	b := newTwoLinks(t)
	near, far := b.monitor(b.near), b.monitor(b.far)
	there := b.byNextHops(b.near, b.far, nearLo4, farLo4)
	there[1].Pinned, there[2].Pinned = true, true
	b.set(b.near, near, there...)
	b.set(b.far, far, b.byNextHops(b.far, b.near, farLo4, nearLo4)...)
	b.awaitState(near, there[0].Pair, Up)
	const lost = "its link was lost"
	near.LinkLost(0)                                                       // that of a session without a link of its own
	b.await(near, there[2].Pair, "dead with its link", func(Result) bool { // once it is up, which a busy machine may undo
		near.LinkLost(there[2].Ifindex)
		r := near.Results()[there[2].Pair]
		return r.State == Down && r.Why == lost
	})
	for _, p := range there[:2] {
		if r := near.Results()[p.Pair]; r.Why == lost {
			t.Errorf("%s is %+v, want it to have its link", p.Pair, r)
		}
	}
	// The link was there all the time.
	if r := b.awaitState(near, there[2].Pair, Up); r.Failures == 0 {
		t.Errorf("the next hop is %+v, want a failure", r)
	}
}

// A remote that has one next hop, or does not look at them, answers by what it has. One that does not
// reflect leaves them unknown, and the session of the pair as it is.
func TestNextHopsOfOneEnd(t *testing.T) {
	b := newTwoLinks(t)
	near, far := b.monitor(b.near), b.monitor(b.far)
	there := b.byNextHops(b.near, b.far, nearLo4, farLo4)
	b.run(b.far, "nft add table inet deaf")
	b.run(b.far, "nft add chain inet deaf in { type filter hook prerouting priority -300 ; }")
	b.run(b.far, "nft add rule inet deaf in udp dport 7784 drop")
	b.set(b.near, near, there...)
	b.set(b.far, far, peerOf(farLo4, nearLo4, 2))
	b.awaitState(near, there[0].Pair, Up)
	for _, p := range there[1:] {
		b.await(near, p.Pair, "asked and unknown", func(r Result) bool { return r.Sent > 1 && r.State == Unknown && r.Usable() })
	}
	b.hear(b.far)
	for _, p := range there {
		b.awaitState(near, p.Pair, Up)
	}
	b.set(b.near, near, there[0])
	b.await(near, there[0].Pair, "alone", func(Result) bool { return len(near.Results()) == 1 })
	b.set(b.near, near, there...)
	b.awaitState(near, there[2].Pair, Up)
}

// Of strangers, and of packets that ask for no reflection, none is reflected.
func TestReflectorRefuses(t *testing.T) {
	b := newTwoLinks(t)
	m := b.monitor(b.near)
	b.set(b.near, m, peerOf(nearLo4, farLo4, 2))
	good := packet{state: down, demand: true, multiplier: 3, mine: 7, yours: reflectorOf(nearLo4)}
	for _, c := range []struct {
		name   string
		from   netip.Addr
		ttl    int
		change func(p *packet)
		want   Reason
	}{
		{"good", farLo4, sentTTL, func(*packet) {}, ""},
		{"stranger", farLo6, sentTTL, func(*packet) {}, NoSession},
		{"another discriminator", farLo4, sentTTL, func(p *packet) { p.yours++ }, NoSession},
		{"far away", farLo4, sentTTL - 2, func(*packet) {}, TooFar},
		{"a reflection", farLo4, sentTTL, func(p *packet) { p.demand = false }, NotStarting},
	} {
		p := good
		c.change(&p)
		m.mu.Lock()
		got := m.reflect(nearLo4, receipt{from: c.from, port: 50000, ttl: c.ttl}, p)
		m.mu.Unlock()
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
