package datapath

import (
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// trunk makes p0 a trunk of VLAN 10 in blue and VLAN 20 in green, with alice in
// VLAN 10 and dave in VLAN 20. p1 is an access port of blue (carol), p2 of green
// (erin), bob is behind the first remote.
func trunk(tables *fib.Tables, w *world) {
	vlan := func(name, segment string, id uint16) fib.Port {
		p := w.port("p0", segment)
		p.Name, p.VLAN = name, id
		return p
	}
	tables.Ports = []fib.Port{vlan("p0.10", "blue", 10), vlan("p0.20", "green", 20), w.port("p1", "blue"), w.port("p2", "green")}
	tables.Segments[0].Static = []overlay.StaticMAC{
		{MAC: macOf(alice), Port: "p0.10"}, {MAC: macOf(carol), Port: "p1"}, {MAC: macOf(bob), Remote: w.family.remotes[0]},
	}
	tables.Segments[1].Static = []overlay.StaticMAC{{MAC: macOf(dave), Port: "p0.20"}, {MAC: macOf(erin), Port: "p2"}}
}

func trunkWorld(t testing.TB, to way, keep bool, change ...func(*world)) *world {
	t.Helper()
	w := newWorld(t, to.family, tunnelled(to.tunnel))
	trunk(&w.tables, w)
	w.tables.Segments[0].KeepTags, w.tables.Segments[1].KeepTags = keep, keep
	for _, c := range change {
		c(w)
	}
	w.apply(t)
	return w
}

func withTags(tags, src, dst string) []byte { return pkttest.Frame(src, dst, tags+udp4) }

// The VLAN is the segment, whatever its priority bits say.
func TestTrunk(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		w := trunkWorld(t, ways()[0], keep)
		w.follow(t, []step{
			{"p0", withTags("vlan 10 ", alice, carol), "p1"}, {"p1", say(carol, alice), "p0.10"},
			{"p0", withTags("vlan 20 ", dave, erin), "p2"}, {"p2", say(erin, dave), "p0.20"},
			{"p0", withTags("vlan 0xf00a ", alice, bob), "first"}, {"first", say(bob, alice), "p0.10"},
			{"p0", withTags("vlan 10 ", alice, erin), "flood"}, // another segment's
			{"p0", withTags("vlan 30 ", alice, carol), "drop"}, {"p0", say(alice, carol), "drop"}, {"p0", withTags("vlan 0 ", alice, carol), "drop"},
			{"p0", withTags("vlan 4095 ", alice, carol), "drop"},
		})
		for tags, reason := range map[string]string{"vlan 30 ": "vlan-tagged", "": "unknown-port", "vlan 0 ": "vlan-tagged", "vlan 30 vlan 10 ": "vlan-tagged"} {
			w.wantDrop(t, dropCase{reason: reason, from: "p0", packet: packet{bytes: withTags(tags, alice, carol)}})
		}
	}
}

// An access port passes tags where its segment keeps them, up to two.
func TestTagsThroughTheTunnel(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		for _, keep := range []bool{false, true} {
			w := to.world(t, func(_ *Config, tables *fib.Tables) { tables.Segments[0].KeepTags = keep })
			for _, tags := range []string{"vlan 7 ", "vlan 0xe007 ", "svlan 7 ", "svlan 100 vlan 7 ", "vlan 100 vlan 7 ", "vlan 0 vlan 7 "} {
				for _, words := range []string{udp4, tcp6, "fragment 10.0.0.1 > 10.0.0.2 1480 64", "raw 0x88b5 60", arp} {
					in := pkttest.Frame(alice, bob, tags+words)
					tunnel := w.fromRemote(exchanged(in))
					if !keep {
						if tags != "vlan 0 vlan 7 " {
							w.wantDrop(t, dropCase{reason: "vlan-tagged", from: "p0", packet: packet{bytes: in}})
						}
						w.wantDrop(t, dropCase{reason: "vlan-tagged", from: "u0", packet: packet{bytes: tunnel}})
						continue
					}
					r := w.fromPort(t, "p0", in)
					if tags == "vlan 0 vlan 7 " { // a priority alone, and a tag that stays
						w.wantTunnel(t, in, paddedTags(pkttest.Frame(alice, bob, "vlan 7 "+words)), r)
						continue
					}
					w.wantTunnel(t, in, paddedTags(in), r)
					w.fromUnderlay(t, tunnel).want(t, tunnel, forwarded)
				}
			}
			for _, tags := range []string{"vlan 1 vlan 2 vlan 3 ", "svlan 1 svlan 2 vlan 3 vlan 4 "} {
				in := pkttest.Frame(alice, bob, tags+udp4)
				w.wantDrop(t, dropCase{reason: "vlan-tagged", from: "p0", packet: packet{bytes: in}})
				w.wantDrop(t, dropCase{reason: "vlan-tagged", from: "u0", packet: packet{bytes: w.fromRemote(exchanged(in))}})
			}
		}
	})
}

// paddedTags is a tagged frame as it crosses the tunnel: without its tags it has
// at least Ethernet's minimum.
func paddedTags(frame []byte) []byte {
	n := 0
	for kind := frame[12]; kind == 0x81 || kind == 0x88 && frame[13+4*n] == 0xa8; kind = frame[12+4*n] {
		n++
	}
	plain := padded(append(append([]byte(nil), frame[:12]...), frame[12+4*n:]...))
	return append(append([]byte(nil), frame[:12+4*n]...), plain[12:]...)
}

// wantTaps wants exactly these frames; at the underlay what is in the first
// remote's tunnel.
func (w *world) wantTaps(t testing.TB, taps map[string]*tap, in []byte, want map[string][]byte) {
	t.Helper()
	for dev, p := range taps {
		got := p.drain(t)
		if len(got) != map[bool]int{false: 0, true: 1}[want[dev] != nil] {
			pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: in}}, "%d frames at %s", len(got), dev)
			continue
		}
		if len(got) == 0 {
			continue
		}
		b := got[0].bytes
		if o := w.sent("blue", w.family.remotes[0], b); dev == "u0" && len(b) >= o.Len() {
			check.Equal(t, "tunnel packet", o.Wrap(want[dev]), b)
			continue
		}
		check.Equal(t, "frame at "+dev, want[dev], b)
	}
}

// A flooded frame leaves by each port with that port's tags, and into the tunnel with its own.
func TestFloodWithTags(t *testing.T) {
	w := trunkWorld(t, ways()[0], true, func(w *world) {
		w.tables.Segments[0].Remotes = w.tables.Segments[0].Remotes[:1]
		w.tables.Ports = append(w.tables.Ports, w.port("s0", "blue")) // after the VLAN's: its copy has no VLAN 10
		extra := w.port("s0", "blue")
		extra.Name, extra.VLAN = "s0.11", 11
		w.tables.Ports = append(w.tables.Ports, extra)
	})
	taps := w.taps(t)
	for _, inner := range []string{"", "vlan 7 "} {
		plain := pkttest.Frame(carol, all, inner+udp4)
		taps["p1"].send(t, plain)
		w.wantTaps(t, taps, plain, map[string][]byte{"u0": plain, "p0": pkttest.Frame(carol, all, "vlan 10 "+inner+udp4)})
		in := pkttest.Frame(alice, all, "vlan 10 "+inner+udp4)
		taps["p0"].send(t, in)
		plain = pkttest.Frame(alice, all, inner+udp4)
		w.wantTaps(t, taps, in, map[string][]byte{"u0": plain, "p1": plain})
		plain = pkttest.Frame(bob, all, inner+udp4)
		taps["u0"].send(t, w.fromRemote(plain))
		w.wantTaps(t, taps, plain, map[string][]byte{"p0": pkttest.Frame(bob, all, "vlan 10 "+inner+udp4), "p1": plain})
	}
}

// What the edge says itself leaves a VLAN with its tag: answers and errors, for a new flow and for one in the cache.
func TestTheEdgeSpeaksWithTags(t *testing.T) {
	to := ways()[0]
	w := routedWorld(t, to)
	w.tables.Ports[0].VLAN = 10
	w.apply(t)
	taps := w.taps(t)
	receive := func(words string) []byte {
		t.Helper()
		in := pkttest.Frame(alice, gatewayMAC, "vlan 10 "+words)
		w.refill(t)
		taps["p0"].send(t, in)
		got := taps["p0"].drain(t)
		if len(got) != 1 {
			pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: in}}, "%d frames, want one", len(got))
			return nil
		}
		b := got[0].bytes
		check.Equal(t, "tag", []byte{0x81, 0, 0, 10}, b[12:16])
		return append(append([]byte(nil), b[:12]...), b[16:]...)
	}
	about := func(words string) []byte { return pkttest.Frame(alice, gatewayMAC, words) }
	check.Packet(t, nil, receive("arp 10.0.1.10 ? 10.0.1.1"), check.Ether(gatewayMAC, alice), check.ARP(2, gatewayMAC, addr(gateway4), alice, addr("10.0.1.10")))
	check.Packet(t, nil, receive("icmp 10.0.1.10 > 10.0.1.1 56"), check.Ether(gatewayMAC, alice), check.IP(addr(gateway4), addr("10.0.1.10")), check.ICMP(0, 0))
	for _, c := range []struct {
		words string
		want  refusal
	}{
		{"ttl 1 udp 10.0.1.10:1 > 10.0.2.13:2 40", refusal{kind: 11, source: gateway4}},
		{"ttl 1 udp [2001:db8:1::a]:1 > [2001:db8:2::d]:2 40", refusal{kind: 3, source: gateway6}},
		{"udp 10.0.1.10:1 > 10.9.2.5:2 40", refusal{kind: 3, code: 1, source: gateway4}},
		{"udp 10.0.1.10:1 > 10.0.1.1:2 40", refusal{kind: 3, code: 3, source: gateway4}},
	} {
		if out := receive(c.words); out != nil {
			w.isError(t, out, about(c.words), c.want)
		}
	}
	big := "df " + sized("10.0.1.10", "10.0.3.7", to.mtu(0)+1)
	for range 2 {
		want := tooBig(gateway4, to.mtu(0))
		want.routed = true
		if out := receive(big); out != nil {
			w.isError(t, out, about(big), want)
		}
	}
}
