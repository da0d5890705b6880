package datapath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// natEgressAddrs are those that packets may have which leave by the uplink.
var natEgressAddrs = natAddrs(webFirst4, webSecond4, webFirst6, webSecond6, two4, two6, uplink4, uplink6)

// leaves says what is wrong with a frame that leaves by the uplink, "" when nothing is, or
// when it goes elsewhere. Neither its source nor what an ICMP error quotes may be the inside's.
func leaves(frame []byte) string {
	if len(frame) < etherLen+ipv4Len || !bytes.Equal(frame[:12], slices.Concat(hardware(ispMAC), hardware(uplinkMAC))) {
		return ""
	}
	if kind := binary.BigEndian.Uint16(frame[12:]); kind != etherTypeIPv4 && (kind != etherTypeIPv6 || len(frame) < etherLen+ipv6Len) {
		return "" // ARP
	}
	src := pkttest.TalkOf(frame).Src.Addr()
	if !slices.Contains(natEgressAddrs, src) && src != addr("fe80::5e00:401") {
		return fmt.Sprintf("it leaves with the source %s", src)
	}
	if quoted, ok := pkttest.QuotedTalkOf(frame); ok && natInside(quoted.Dst.Addr()) {
		return fmt.Sprintf("it leaves and tells of %s", quoted.Dst.Addr())
	}
	return ""
}

func natInside(a netip.Addr) bool {
	return slices.ContainsFunc(natPrefixes("10.0.0.0/16", "2001:db8:1::/48", "2001:db8:2::/48", "2001:db8:3::/48", "2001:db8:9::/48"),
		func(p netip.Prefix) bool { return p.Contains(a) })
}

// natConditions are worlds in which translation fails in different ways.
var natConditions = []struct {
	name   string
	change func(*Config, *fib.Tables)
	spent  bool // ports, or the table, are used up first
}{
	{"as ever", func(*Config, *fib.Tables) {}, false},
	{"no ports", func(_ *Config, tables *fib.Tables) {
		for i := range tables.Egress {
			tables.Egress[i].Ports = overlay.PortRange{First: 4100, Last: 4101}
		}
	}, true},
	{"a full table", func(c *Config, _ *fib.Tables) { c.Egress.NATSessions = 16 }, true},
	{"limits", func(_ *Config, tables *fib.Tables) {
		for i := range tables.Egress {
			tables.Egress[i].Limit = 1
		}
	}, true},
	{"no gateway", func(_ *Config, tables *fib.Tables) {
		for i := range tables.Egress[:2] {
			bySource(&tables.Egress[i])
			tables.Egress[i].Ways = [2][fib.EgressBuckets]fib.EgressNexthop{}
		}
	}, false},
	{"another gateway", func(_ *Config, tables *fib.Tables) {
		for i := range tables.Egress[:2] {
			bySource(&tables.Egress[i])
		}
	}, false},
	{"no masquerade, and all must be translated", func(_ *Config, tables *fib.Tables) {
		tables.Egress, tables.Translated = tables.Egress[:2], []string{"up"}
	}, false},
	{"independent and open", func(_ *Config, tables *fib.Tables) {
		for i := range tables.Egress {
			tables.Egress[i].Independent, tables.Egress[i].Open = true, true
		}
	}, false},
}

// Whatever sources say, in whatever condition: nothing leaves by the uplink with an address
// of the inside, neither the packet nor a copy nor a message in its place.
func TestNATNothingLeavesUntranslated(t *testing.T) {
	t.Parallel()
	if leaves(natFrame(uplinkMAC, ispMAC, "udp 10.0.1.11:4100 > 203.0.113.5:53 30")) == "" {
		t.Fatal("what leaves as it is is not noticed")
	}
	for _, c := range natConditions {
		for _, cached := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, flow cache %t", c.name, cached), func(t *testing.T) {
				w := natWorld(t, ways()[0], c.change, func(cfg *Config, _ *fib.Tables) { cfg.FlowCache.Enabled = cached })
				far := w.tap(t, "s0x", "s0")
				r := newRandom(t)
				w.forgetNATSessions(t)
				if c.spent {
					w.spend(t)
				}
				passed, offered := 0, often(1000)
				for i := range offered {
					from, frame := r.hostile()
					out := w.hostileOut(t, from, frame)
					if wrong := leaves(out); wrong != "" {
						pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: frame}, {Name: "out", Bytes: out}}, "packet %d of %s: %s", i, from.name, wrong)
						return
					}
					if out != nil {
						passed++
					}
				}
				for _, f := range far.drain(t) {
					if wrong := leaves(f.bytes); wrong != "" {
						pkttest.Errorf(t, []pkttest.Named{{Name: "copy", Bytes: f.bytes}}, "%s", wrong)
					}
				}
				w.checkPairs(t)
				if passed < offered/25 && !c.spent {
					t.Errorf("%d packets have passed: too few to say anything", passed)
				}
			})
		}
	}
}

// spend has sources take what there is.
func (w *world) spend(t *testing.T) {
	t.Helper()
	for i := range 60 {
		for _, v6 := range []bool{false, true} {
			for _, name := range []string{"bob", "tom"} {
				w.natOffer(t, natHostOf(name), natUDP(hosts(v6, i), 4100, natTargets[v6][0]))
			}
		}
	}
}

// checkPairs holds that sessions and returns are pairs.
func (w *world) checkPairs(t *testing.T) {
	t.Helper()
	natSessions, returns := w.allNATSessions(t)
	for k, b := range natSessions {
		back := k
		back.Inside, back.InsidePort = b.Addr, b.Port
		if k.EchoDir != 0 && b.Flags&uint32(bpfNatSessionFlagsNAT_SESSION_MAPPING) == 0 {
			back.OutsidePort = b.Port
		}
		if o, ok := returns[back]; !ok || o.Addr != k.Inside || o.Port != k.InsidePort {
			t.Errorf("session %s has the return %+v, %t", natKeyWords(k), o, ok)
		}
	}
	if len(returns) != len(natSessions) {
		t.Errorf("%d sessions and %d returns", len(natSessions), len(returns))
	}
}

// hostileOut offers a frame and returns what is sent in its stead, or nil.
func (w *world) hostileOut(t *testing.T, from natHost, frame []byte) []byte {
	t.Helper()
	dev, b := from.port, frame
	if dev == "" {
		dev, b = "u0", w.outerIn(from.segment, w.family.remotes[from.remote]).Wrap(frame)
	}
	prog := w.dp.prog.objs.FromPort
	if dev == "u0" {
		prog = w.dp.prog.objs.FromUnderlay
	}
	var r result
	w.do(t, func() {
		var err error
		if r, err = runProgram(prog, w.dev[dev].Index, packet{bytes: b}); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Fatal(err)
		}
	})
	if r.verdict != forwarded {
		return nil
	}
	return r.out
}

// hostile is a packet of a source for the outside: of any protocol and shape, whole, in
// pieces, cut short or damaged.
func (r random) hostile() (natHost, []byte) {
	source, family := natSources[r.IntN(len(natSources))], r.IntN(2)
	from := natHostOf(source.bgpMAC)
	src, dst := source.addrs[family], natOutsides[r.IntN(len(natOutsides))][family]
	frame := natFrame(from.src, from.dst, r.hostileWords(src, dst))
	if r.IntN(6) == 0 { // an error about what came, or never came
		about := natFrame(from.src, from.dst, r.hostileWords(dst, src))
		kind := []uint8{3, 4, 5, 11, 12, 1, 2, 130}[r.IntN(8)]
		frame = pkttest.ErrorAbout(from.src, from.dst, src, dst, kind, uint8(r.IntN(5)), about, r.IntN(120))
	}
	if r.IntN(4) == 0 && frame[12] == 0x86 {
		kinds := make([]uint8, 1+r.IntN(7))
		for i := range kinds {
			kinds[i] = []uint8{0, 43, 60, 60, 51, 44}[r.IntN(6)]
		}
		frame = pkttest.WithExtensions(frame, kinds...)
	} else if len(frame) > etherLen+ipv6Len+8 && r.IntN(4) == 0 {
		pieces := pkttest.Fragments(frame, r.Uint32()%4, 8*(1+r.IntN(6)))
		frame = pieces[r.IntN(len(pieces))]
	}
	return from, r.spoilt(frame)
}

func (r random) hostileWords(src, dst netip.Addr) string {
	talk := fmt.Sprintf("%s > %s", netip.AddrPortFrom(src, uint16(4099+r.IntN(4))), netip.AddrPortFrom(dst, uint16(52+r.IntN(3))))
	switch r.IntN(6) {
	case 0, 1:
		flags := []string{"syn", "syn", "ack", "syn+ack", "fin+ack", "rst", "none", "syn+fin", "psh+urg", "rst+ack"}[r.IntN(10)]
		return fmt.Sprintf("tcp %s %s %d", talk, flags, r.IntN(60))
	case 2:
		return fmt.Sprintf("udp %s %d", talk, r.IntN(60))
	case 3:
		return fmt.Sprintf("icmp %s > %s %d/%d id %d %d", src, dst, r.IntN(256), r.IntN(2), 4099+r.IntN(4), r.IntN(60))
	case 4:
		return fmt.Sprintf("ip %s > %s %d %d", src, dst, []int{132, 47, 50, 51, 4, 41, 33, 136, 1, 58, 2, 89}[r.IntN(12)], r.IntN(60))
	}
	return fmt.Sprintf("ip %s > %s %d %d", src, dst, r.IntN(256), r.IntN(60))
}

// spoilt is a frame as it is, cut with and without telling, or with changed bytes behind
// the MACs.
func (r random) spoilt(frame []byte) []byte {
	frame = slices.Clone(frame)
	switch r.IntN(6) {
	case 0: // cut, and the length says so
		at := etherLen + ipv4Len
		if frame[12] == 0x86 {
			at = etherLen + ipv6Len
		}
		frame = frame[:at+r.IntN(len(frame)-at+1)]
		if frame[12] == 0x86 {
			binary.BigEndian.PutUint16(frame[etherLen+4:], uint16(len(frame)-at))
			break
		}
		binary.BigEndian.PutUint16(frame[etherLen+2:], uint16(len(frame)-etherLen))
		binary.BigEndian.PutUint16(frame[etherLen+10:], 0)
		binary.BigEndian.PutUint16(frame[etherLen+10:], ^pkttest.Sum(frame[etherLen:at], 0))
	case 1:
		frame = frame[:etherLen+r.IntN(len(frame)-etherLen+1)]
	case 2:
		for range 1 + r.IntN(3) {
			at := 12 + r.IntN(min(len(frame)-12, 80))
			frame[at] ^= byte(1 << r.IntN(8))
		}
	}
	return frame
}

// Nothing from outside gets in by an egress address without a session or a forward.
func TestNATNothingComesIn(t *testing.T) {
	w := natWorld(t, ways()[0])
	r := newRandom(t)
	w.forgetNATSessions(t)
	isp := natHostOf("isp")
	for i := range often(2000) {
		family := r.IntN(2)
		src := natOutsides[r.IntN(len(natOutsides))][family]
		dst := [][2]netip.Addr{pair(webFirst4, webFirst6), pair(webSecond4, webSecond6), pair(two4, two6), pair(uplink4, uplink6)}[r.IntN(4)][family]
		frame := natFrame(isp.src, isp.dst, r.hostileWords(src, dst))
		if r.IntN(3) == 0 {
			about := natFrame(isp.src, isp.dst, r.hostileWords(dst, src))
			frame = pkttest.ErrorAbout(isp.src, isp.dst, src, dst, []uint8{3, 11, 1, 2}[r.IntN(4)], 0, about, r.IntN(120))
		}
		if len(frame) > etherLen+ipv6Len+8 && r.IntN(4) == 0 {
			pieces := pkttest.Fragments(frame, r.Uint32()%4, 8*(1+r.IntN(6)))
			frame = pieces[r.IntN(len(pieces))]
		}
		frame = r.spoilt(frame)
		out := w.hostileOut(t, isp, frame)
		if out == nil || bytes.HasPrefix(out, hardware(ispMAC)) {
			continue
		}
		if d, _ := netip.AddrFromSlice(dst.AsSlice()); !bytes.Contains(frame, d.AsSlice()) {
			continue // its destination is damaged
		}
		pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: frame}, {Name: "out", Bytes: out}}, "packet %d gets in", i)
		return
	}
	w.checkPairs(t)
}

// Cut short anywhere, a packet neither leaves nor comes in, nor makes a session.
func TestNATCutAnywhere(t *testing.T) {
	w := natWorld(t, ways()[0])
	for _, words := range []string{
		"udp 10.0.1.11:4100 > 203.0.113.5:53 30", "tcp 10.0.1.11:4100 > 203.0.113.5:53 syn mss 1460", "icmp 10.0.1.11 > 203.0.113.5 id 4100 30",
		"tcp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 syn", "icmp 2001:db8:1::b > 2001:db8:77::5 id 4100 30", "behind 60,60 udp [2001:db8:1::b]:4100 > [2001:db8:77::5]:53 30",
	} {
		w.forgetNATSessions(t)
		frame := natFrame(egressMAC, egressMAC, words)
		for n := etherLen; n < len(frame); n++ {
			if out := w.hostileOut(t, natHostOf("bob"), frame[:n]); out != nil {
				pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: frame[:n]}, {Name: "out", Bytes: out}}, "%s: cut at %d it passes", words, n)
			}
		}
		if natSessions, returns := w.allNATSessions(t); len(natSessions)+len(returns) > 0 {
			t.Errorf("%s: %d sessions and %d returns of packets that are cut", words, len(natSessions), len(returns))
		}
	}
}
