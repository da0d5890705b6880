package datapath

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/selvage/selvage/internal/ethtool"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// join makes two edges whose underlays are the two ends of one veth pair, with
// alice at p0 of the first and bob at p0 of the second.
//
//	p0x ─ p0 ─ edge a ─ j0 ══ j0 ─ edge b ─ p0 ─ p0x
func join(t *testing.T, to way, mtu int, change ...func(*world)) (a, b *world) {
	t.Helper()
	f := to.family
	back := f
	back.tep, back.remotes[0] = f.remotes[0], f.tep
	a, b = newWorld(t, f), newWorld(t, back)
	a.addVeth(t, "j0", 9)
	t.Cleanup(func() { // the worlds are as they were
		for _, w := range []*world{a, b} {
			w.configure()
			w.apply(t)
			delete(w.dev, "j0")
			delete(w.dev, "j0x")
		}
		near, err := a.nl.LinkByName("j0")
		must(t, err)
		must(t, a.nl.LinkDel(near))
	})
	far, err := a.nl.LinkByName("j0x")
	must(t, err)
	must(t, a.nl.LinkSetNsFd(far, int(b.ns)))
	if far, err = b.nl.LinkByName("j0x"); err != nil {
		t.Fatal(err)
	}
	must(t, b.nl.LinkSetUp(far))
	b.dev["j0"] = a.dev["j0x"]
	b.dev["j0"].Index = far.Attrs().Index
	for w, macs := range map[*world][4]string{
		a: {a.dev["j0"].HardwareAddr.String(), b.dev["j0"].HardwareAddr.String(), alice, bob},
		b: {b.dev["j0"].HardwareAddr.String(), a.dev["j0"].HardwareAddr.String(), bob, alice},
	} {
		w.tables.Underlays = []int{w.dev["j0"].Index}
		for i := range w.tables.TEPs {
			tep := &w.tables.TEPs[i]
			tep.Ifindex, tep.MTU, tep.SrcMAC, tep.NextMAC = w.dev["j0"].Index, mtu, macOf(macs[0]), macOf(macs[1])
		}
		w.tables.Ports[0].MTU = mtu - to.tunnel.Overhead(f.tep)
		staticAt(w.family, macs[2], macs[3])(&w.cfg, &w.tables)
		tunnelled(to.tunnel)(&w.cfg, &w.tables)
		for _, c := range change {
			c(w)
		}
		w.apply(t)
		w.forgetAll(t)
	}
	return a, b
}

// large is a TCP segment to be cut into packets of mss bytes, as a sender with
// offloads hands it over: its checksum holds the pseudo header's sum alone.
func large(ip6 bool, payload, mss int) (virtioHeader, []byte) {
	ip, size, kind := pkttest.Layer(pkttest.IPv4("10.0.0.1", "10.0.0.2")), ipv4Len, uint8(virtioTCPv4)
	addresses := etherLen + 12
	if ip6 {
		ip, size, kind, addresses = pkttest.IPv6("2001:db8:1::1", "2001:db8:1::2"), ipv6Len, virtioTCPv6, etherLen+8
	}
	b := pkttest.Packet(pkttest.Ether(alice, bob), ip, pkttest.TCP(1000, 80, "ack"), pkttest.Payload(payload))
	tcpAt := etherLen + size
	pseudo := pkttest.Sum(b[addresses:tcpAt], uint32(pkttest.ProtoTCP+len(b)-tcpAt))
	binary.BigEndian.PutUint16(b[tcpAt+16:], pseudo)
	return virtioHeader{
		Flags: virtioNeedsCsum, GSOType: kind, HdrLen: uint16(tcpAt + 20), GSOSize: uint16(mss),
		CsumStart: uint16(tcpAt), CsumOffset: 16,
	}, b
}

// Large segments cross the overlay whole while all devices can, and are cut right, every checksum in and out, where one cannot.
func TestLargeSegments(t *testing.T) {
	t.Parallel()
	const mss, payload = 1000, 40_000
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			a, b := join(t, way{f.name, f, tunnels[0].tunnel}, 1500)
			in, out := a.tap(t, "p0x", "p0"), b.tap(t, "p0x", "p0")
			for _, c := range []struct {
				name     string
				w        *world
				dev      string
				features []string
				frames   int
			}{
				{"every offload", a, "j0", nil, 1},
				{"no tunnel segmentation on the underlay", a, "j0", []string{"tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation"}, payload / mss},
				{"no TCP segmentation at the port", b, "p0", []string{"tx-tcp-segmentation", "tx-tcp6-segmentation"}, payload / mss},
				{"no checksum at the port", b, "p0", []string{"tx-checksum-ip-generic"}, payload / mss},
				{"no checksum on the underlay", a, "j0", []string{"tx-checksum-ip-generic"}, payload / mss},
				{"no scatter-gather at the port", b, "p0", []string{"tx-scatter-gather"}, payload / mss},
			} {
				t.Run(c.name, func(t *testing.T) {
					c.w.features(t, c.dev, false, c.features)
					defer c.w.features(t, c.dev, true, c.features)
					for _, ip6 := range []bool{false, true} {
						h, segment := large(ip6, payload, mss)
						in.sendWith(t, in.self, h, segment)
						checkSegments(t, segment, payload, out.receive(t, c.frames))
					}
				})
			}
			var drops [2]map[string]uint64
			drops[0], _ = a.counted(t, func() {
				drops[1], _ = b.counted(t, func() {
					h, segment := large(false, 4000, portMTU)
					in.sendWith(t, in.self, h, segment)
					out.receive(t, 0)
				})
			})
			if drops[0]["too-big"] != 1 || sum(drops[0]) != 1 || sum(drops[1]) != 0 {
				t.Errorf("drops %v, want one too-big for a segment whose pieces do not fit", drops)
			}
		})
	}
}

// checkSegments wants the payload of the segment, whole or in packets.
func checkSegments(t *testing.T, segment []byte, payload int, got []tapped) {
	t.Helper()
	if len(got) == 1 {
		check.Equal(t, "whole segment", segment, got[0].bytes)
		return
	}
	var all []byte
	for i, g := range got {
		if g.gsoSize != 0 {
			t.Fatalf("packet %d is to be cut further, into %d bytes", i, g.gsoSize)
		}
		if !check.Packet(t, segment, g.bytes) {
			return
		}
		headers := pkttest.Dissect(g.bytes).Headers
		all = append(all, headers[len(headers)-1].Body...)
	}
	if !bytes.Equal(all, segment[len(segment)-payload:]) {
		t.Errorf("the payload of %d packets together is another one", len(got))
	}
}

// features turns offloads of a device on or off.
func (w *world) features(t *testing.T, dev string, on bool, names []string) {
	t.Helper()
	if len(names) == 0 {
		return
	}
	w.do(t, func() {
		e, err := ethtool.Open()
		must(t, err)
		defer e.Close()
		want := map[string]bool{}
		for _, name := range names {
			want[name] = on
		}
		if err := e.Change(dev, want); err != nil {
			t.Fatalf("set %v of %s: %v", want, dev, err)
		}
	})
}

// Network cards put the first bytes of a packet into the linear part and the rest into pages: all headers that we read must be fetched from there.
func TestHeadersInPages(t *testing.T) {
	t.Parallel()
	const payload = 4200 // AF_PACKET makes pages from 4096 bytes on
	for _, to := range mtuWays() {
		t.Run(to.name, func(t *testing.T) {
			w := wideWorld(t, to, func(_ *Config, tables *fib.Tables) {
				for i := range tables.TEPs {
					tables.TEPs[i].MTU = deviceMTU
				}
			})
			taps := w.taps(t)
			ether := func() *pkttest.Ethernet { return pkttest.Ether(bob, alice) }
			ip6 := func() pkttest.Layer { return pkttest.IPv6("2001:db8:1::1", "2001:db8:1::2") }
			ext := func(size int) *pkttest.Extension {
				return &pkttest.Extension{Kind: pkttest.ProtoHopByHop, Size: size}
			}
			for name, inner := range map[string][]byte{
				"IPv4":                 pkttest.Frame(bob, alice, fmt.Sprintf("tcp 10.0.0.1:1 > 10.0.0.2:2 %d", payload)),
				"IPv6":                 pkttest.Frame(bob, alice, fmt.Sprintf("tcp [2001:db8:1::1]:1 > [2001:db8:1::2]:2 %d", payload)),
				"raw":                  pkttest.Frame(bob, alice, fmt.Sprintf("raw 0x88b5 %d", payload)),
				"8 bytes of options":   pkttest.Packet(ether(), ip6(), ext(8), pkttest.TCP(1, 2, "ack"), pkttest.Payload(payload)),
				"64 bytes of options":  pkttest.Packet(ether(), ip6(), ext(64), pkttest.TCP(1, 2, "ack"), pkttest.Payload(payload)),
				"two tags":             pkttest.Frame(bob, alice, fmt.Sprintf("svlan 9 vlan 7 tcp [2001:db8:1::1]:1 > [2001:db8:1::2]:2 syn nop mss 1200 %d", payload)),
				"128 bytes of options": pkttest.Packet(ether(), ip6(), ext(128), pkttest.TCP(1, 2, "ack"), pkttest.Payload(payload)),
			} {
				for _, options := range []int{0, 40} { // of the outer IPv4 header
					o := w.outer(to.family.remotes[0])
					o.Options = options
					in := o.Wrap(inner)
					drops, _ := w.counted(t, func() {
						taps["u0"].sendWith(t, taps["u0"].self, virtioHeader{HdrLen: etherLen}, in)
						if got := taps["p0"].drain(t); len(got) != 1 || !bytes.Equal(got[0].bytes, inner) {
							t.Errorf("%s, %d bytes of outer options: %d frames have come, want the one that was sent", name, options, len(got))
						}
					})
					if sum(drops) != 0 {
						t.Errorf("%s, %d bytes of outer options: drops %v", name, options, drops)
					}
				}
				back := exchanged(inner)
				taps["p0"].sendWith(t, taps["p0"].self, virtioHeader{HdrLen: etherLen}, back)
				w.wantTaps(t, taps, back, map[string][]byte{"u0": back})
			}
		})
	}
}
