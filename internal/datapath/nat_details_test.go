package datapath

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// A UDP checksum that comes out as zero is written as all ones (RFC 768): zero says that
// there is none.
func TestNATZeroChecksum(t *testing.T) {
	natWays(t, func(t *testing.T, w *world) {
		for _, v6 := range []bool{false, true} {
			n := w.talk(t)
			steps := natFamily(v6, natAsk, natAnswer)
			n.follow(steps...)
			for _, s := range steps {
				name, words, _ := natStepBy(s)
				_, want := natBegin(s[len(name)+len(words)+len(": ")+len(" => "):])
				from := natHostOf(name)
				in := natFrame(from.src, from.dst, words)
				received := natFrame(from.src, from.dst, want)
				at := etherLen + 20 + 6
				if v6 {
					at += 20
				}
				// The payload's first two bytes make the translated packet's sum zero.
				sum, word := binary.BigEndian.Uint16(received[at:]), binary.BigEndian.Uint16(received[at+2:])
				total := uint32(sum) + uint32(word)
				for total > 0xffff {
					total = total&0xffff + total>>16
				}
				in = withWord(in, at, uint16(total))
				why, r := w.natOffer(t, from, in)
				_, out := w.natArrived(t, r)
				if why != "" || out[at] != 0xff || out[at+1] != 0xff || len(pkttest.Dissect(out).Faults) > 0 {
					pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: in}, {Name: "out", Bytes: out}}, "%s: %s", s, why)
				}
			}
		}
	})
}

// withWord is a UDP frame with another first word of its payload, and its checksum.
func withWord(frame []byte, sumAt int, word uint16) []byte {
	b := append([]byte(nil), frame...)
	at, seed := pseudoSum(b)
	binary.BigEndian.PutUint16(b[sumAt+2:], word)
	binary.BigEndian.PutUint16(b[at:], 0)
	binary.BigEndian.PutUint16(b[at:], ^pkttest.Sum(b[sumAt-6:], uint32(seed)))
	return b
}

// Options of IPv4 stand between the addresses and the ports.
func TestNATHeaderOptions(t *testing.T) {
	natWays(t, func(t *testing.T, w *world) {
		n := w.talk(t)
		n.follow(natAsk)
		for _, count := range []int{4, 8, 40} {
			for _, reply := range []bool{false, true} {
				from, to, src, dst := natHostOf("bob"), natHostOf("isp"), "10.0.1.11", "203.0.113.5"
				sport, dport := uint16(4100), uint16(53)
				talk := pkttest.Talk{Src: netip.MustParseAddrPort("198.51.100.100:4100"), Dst: netip.MustParseAddrPort("203.0.113.5:53")}
				if reply {
					from, to, src, dst, sport, dport = to, from, dst, webFirst4, dport, sport
					talk = pkttest.Talk{Src: netip.MustParseAddrPort("203.0.113.5:53"), Dst: netip.MustParseAddrPort("10.0.1.11:4100")}
				}
				ip := pkttest.IPv4(src, dst)
				for range count {
					ip.Options = append(ip.Options, layers.IPv4Option{OptionType: 1, OptionLength: 1})
				}
				in := pkttest.Packet(pkttest.Ether(from.src, from.dst), ip, pkttest.UDP(sport, dport), pkttest.Payload(30))
				why, r := w.natOffer(t, from, in)
				at, out := w.natArrived(t, r)
				want := natLowered(append(append(hardware(to.dmac), hardware(to.smac)...), pkttest.Readdressed(in, talk)[12:]...))
				if why != "" || at != to.name {
					t.Fatalf("%d bytes of options, reply %t: %s at %q", count, reply, why, at)
				}
				check.Equal(t, "with options", want, out)
			}
		}
	})
}

// A SYN's MSS is lowered for the tunnel that it comes or goes through, and its addresses
// and ports are changed: both in one checksum.
func TestNATClampsMSS(t *testing.T) {
	w := natWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) {
		for i := range tables.Segments {
			if s := &tables.Segments[i]; s.Name != "up" {
				s.ClampMSS = true
			}
		}
	})
	w.talk(t).follow(
		"bob: tcp 10.0.1.11:80 > 203.0.113.5:80 syn seq 9 mss 9000 => isp: tcp 198.51.100.100:$p > 203.0.113.5:80 syn seq 9 mss 1410",
		"isp: tcp 203.0.113.5:80 > 198.51.100.100:$p syn+ack seq 50 acks 10 mss 9000 => bob: tcp 203.0.113.5:80 > 10.0.1.11:80 syn+ack seq 50 acks 10 mss 1410",
		"bob: tcp [2001:db8:1::b]:80 > [2001:db8:77::5]:80 syn seq 9 mss 9000 => isp: tcp [2001:db8:ff::100]:$q > [2001:db8:77::5]:80 syn seq 9 mss 1390",
	)
}

// An uplink that carries less than the segments lowers the MSS both ways, translated or not, unless a
// segment says that it does not clamp.
func TestMSSClampOfUplink(t *testing.T) {
	for _, c := range []struct {
		clamp     bool
		four, six int
	}{{true, 1360, 1340}, {false, 9000, 9000}} {
		for _, translated := range []bool{true, false} {
			w := natWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) {
				for i := range tables.Segments {
					if s := &tables.Segments[i]; s.Name != "up" {
						s.ClampMSS = c.clamp
					}
				}
				if !translated {
					tables.Egress, tables.EgressRules = nil, nil
				}
			})
			w.tables.Ports[len(w.tables.Ports)-1].MTU = 1400 // the uplink
			w.apply(t)
			inside4, inside6 := "10.0.1.10:80", "[2001:db8:1::a]:80"
			outside4, outside6 := inside4, inside6
			if translated {
				outside4, outside6 = "198.51.100.1:$p", "[2001:db8:ff::1]:$q"
			}
			w.talk(t).follow(
				fmt.Sprintf("alice: tcp %s > 203.0.113.5:80 syn seq 9 mss 9000 => isp: tcp %s > 203.0.113.5:80 syn seq 9 mss %d", inside4, outside4, c.four),
				fmt.Sprintf("isp: tcp 203.0.113.5:80 > %s syn+ack seq 50 acks 10 mss 9000 => alice: tcp 203.0.113.5:80 > %s syn+ack seq 50 acks 10 mss %d", outside4, inside4, c.four),
				fmt.Sprintf("alice: tcp %s > [2001:db8:77::5]:80 syn seq 9 mss 9000 => isp: tcp %s > [2001:db8:77::5]:80 syn seq 9 mss %d", inside6, outside6, c.six),
			)
		}
	}
}

// Hosts of a segment behind a tunnel are forwarded to, and a host that nobody knows is
// asked for by its own address.
func TestNATPortForwardsToOthers(t *testing.T) {
	natWays(t, func(t *testing.T, w *world) {
		n := w.talk(t)
		n.follow("isp: udp 203.0.113.5:4000 > 198.51.100.1:7000 30 => erin: udp 203.0.113.5:4000 > 10.0.2.14:7000 30",
			"erin: udp 10.0.2.14:7000 > 203.0.113.5:4000 30 => isp: udp 198.51.100.1:7000 > 203.0.113.5:4000 30",
			"isp: udp 203.0.113.5:4000 > 198.51.100.1:7002 30 => far: udp 203.0.113.5:4000 > 10.0.3.7:7000 30",
			"far: udp 10.0.3.7:7000 > 203.0.113.5:4000 30 => isp: udp 198.51.100.1:7002 > 203.0.113.5:4000 30",
			"isp: udp 203.0.113.5:4000 > 198.51.100.1:7003 30 => drop blackhole")
		taps := w.taps(t)
		drops, events := w.counted(t, func() {
			w.fromPort(t, "s0", natFrame(ispMAC, uplinkMAC, "udp 203.0.113.5:4000 > 198.51.100.1:7001 30"))
		})
		if drops["no-neighbour"] != 1 || sum(drops) != 1 || events["neigh-requested"] != 1 {
			t.Errorf("drops %v, events %v", drops, events)
		}
		w.isRequest(t, taps["p2"].receive(t, 1)[0].bytes, greenGateway4, gatewayMAC, "10.0.2.77")
	}, func(_ *Config, tables *fib.Tables) {
		for i, to := range []string{"10.0.2.14", "10.0.2.77", "10.0.3.7", "10.9.1.7"} {
			tables.PortForwards = append(tables.PortForwards, fib.Forward{Router: "main", Egress: "uplink/up", Proto: 17, Addr: addr(uplink4), Port: uint16(7000 + i), To: addr(to), ToPort: 7000})
		}
	})
}

// What comes from outside to an open mapping does not lock out the source that has it.
func TestNATOpenMappingAndLimit(t *testing.T) {
	w := natWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) {
		web := natEgress(tables, "web")
		web.Independent, web.Open, web.Limit = true, true, 4
	})
	n := w.talk(t)
	n.follow(natAsk)
	for i := range 20 {
		peer := netip.AddrFrom4([4]byte{203, 0, 113, byte(100 + i)})
		frame := natFrame(ispMAC, uplinkMAC, "udp "+netip.AddrPortFrom(peer, 5000).String()+" > "+webFirst4+":4100 30")
		why, _ := w.natOffer(t, natHostOf("isp"), frame)
		if why != "" && why != "nat-limit" {
			t.Errorf("peer %d: %s", i, why)
		}
	}
	n.follow("bob: udp 10.0.1.11:4101 > 203.0.113.5:53 30 => isp: udp 198.51.100.100:4101 > 203.0.113.5:53 30")
	w.checkNATSessions(t)
}

// A policy that is gone takes its sessions along, and cached flows end with it.
func TestNATPolicyGoes(t *testing.T) {
	for _, cached := range []bool{true, false} {
		w := natWorld(t, ways()[0], func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled = cached })
		n := w.talk(t)
		n.follow(natAsk, natAnswer, natAsk, natAnswer)
		w.tables.Egress = w.tables.Egress[1:]
		w.tables.Segments = append(w.tables.Segments[:4:4], w.tables.Segments[5])
		w.tables.EgressRules = natRules(&w.tables, overlay.Egress{Policies: []overlay.EgressPolicy{
			{Name: "two", Router: "main", From: []overlay.Member{{Prefix: netip.MustParsePrefix("10.0.3.0/24")}}},
		}})
		w.apply(t)
		for name, frame := range map[string][]byte{
			"bob": natFrame(egressMAC, egressMAC, "udp 10.0.1.11:4100 > 203.0.113.5:53 30"), "isp": natFrame(ispMAC, uplinkMAC, "udp 203.0.113.5:53 > 198.51.100.100:4100 40"),
		} {
			from := natHostOf(name)
			b, dev := frame, from.port
			if dev == "" {
				o := w.outer(w.family.remotes[0])
				o.VNI = webVNI
				b, dev = o.Wrap(frame), "u0"
			}
			if why, r := w.verdictOf(t, dev, b); why == "" && name == "bob" {
				t.Errorf("%s: %s", name, w.natWent(t, why, r))
			} else if out := r.out; why == "" && leaves(out) == "" && len(out) > 0 && string(out[:6]) != string(hardware(ispMAC)) {
				t.Errorf("%s: %s", name, w.natWent(t, why, r))
			}
		}
		if c, err := w.dp.NATSessions.NATSweep(); err != nil || c.Sessions != 0 {
			t.Errorf("after the sweep: %+v, %v", c, err)
		}
		n.follow("dave: udp 10.0.2.13:4100 > 203.0.113.5:53 30 => isp: udp 198.51.100.1:4100 > 203.0.113.5:53 30")
	}
}

// An independent mapping is there while one of its sessions is (RFC 4787 REQ-1, RFC 5382
// REQ-5): neither does the source get another one, nor another source the same.
func TestNATMappingLives(t *testing.T) {
	for _, cached := range []bool{true, false} {
		w := natWorld(t, ways()[0], func(c *Config, tables *fib.Tables) {
			c.FlowCache.Enabled = cached
			natEgress(tables, "web").Independent = true
		})
		for name, alive := range map[string][]string{
			"TCP": {
				natSYN, "isp: tcp 203.0.113.5:80 > 198.51.100.100:4100 syn+ack seq 99 acks 10 => bob: tcp 203.0.113.5:80 > 10.0.1.11:4100 syn+ack seq 99 acks 10",
				"bob: tcp 10.0.1.11:4100 > 203.0.113.5:80 ack seq 10 acks 100 => isp: tcp 198.51.100.100:4100 > 203.0.113.5:80 ack seq 10 acks 100",
				"wait 10m",
			},
			"UDP": {natAsk, natAnswer, "wait 110s", natAsk, "wait 110s", natAsk, natAnswer, "wait 290s"},
		} {
			t.Run(name, func(t *testing.T) {
				n := w.talk(t)
				n.follow(alive...)
				if _, err := w.dp.NATSessions.NATSweep(); err != nil {
					t.Fatal(err)
				}
				reported := map[string]string{"TCP": "tcp 10.0.1.%s:4100 > 203.0.113.6:80 syn", "UDP": "udp 10.0.1.%s:4100 > 203.0.113.6:80 30"}[name]
				mapped := netip.MustParseAddrPort("198.51.100.100:4100")
				if other, why := w.opened(t, natFrame(egressMAC, egressMAC, fmt.Sprintf(reported, "21"))); other == mapped || why != "" {
					t.Errorf("another source has %s %s", other, why)
				}
				if own, why := w.opened(t, natFrame(egressMAC, egressMAC, fmt.Sprintf(reported, "11"))); own != mapped || why != "" {
					t.Errorf("for another destination the source has %s %s, want %s", own, why, mapped)
				}
			})
		}
	}
}

// Independent mappings of echo identifiers are apart from each other too (RFC 5508 REQ-1).
func TestNATIndependentEchoes(t *testing.T) {
	w := natWorld(t, ways()[0], func(_ *Config, tables *fib.Tables) {
		web := natEgress(tables, "web")
		web.Independent, web.Ports = true, overlay.PortRange{First: 4100, Last: 4101}
		web.Pool[0], web.Pool[1] = web.Pool[0][:1], web.Pool[1][:1]
	})
	for _, v6 := range []bool{false, true} {
		n := w.talk(t)
		n.follow(natFamily(v6,
			"bob: icmp 10.0.1.11 > 203.0.113.5 8/0 id 4100 30 => isp: icmp 198.51.100.100 > 203.0.113.5 8/0 id 4100 30",
			"bob: icmp 10.0.1.11 > 203.0.113.5 8/0 id 99 30 => isp: icmp 198.51.100.100 > 203.0.113.5 8/0 id 4101 30",
			"bob: icmp 10.0.1.11 > 203.0.113.6 8/0 id 99 30 => isp: icmp 198.51.100.100 > 203.0.113.6 8/0 id 4101 30",
			"bob: icmp 10.0.1.11 > 203.0.113.6 8/0 id 4101 30 => drop nat-exhausted",
			"isp: icmp 203.0.113.6 > 198.51.100.100 0/0 id 4101 30 => bob: icmp 203.0.113.6 > 10.0.1.11 0/0 id 99 30",
		)...)
	}
}
