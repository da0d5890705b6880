package datapath

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// innerFrames are what crosses the overlay in the tests, in words.
var innerFrames = []string{
	tcp4, tcp6, udp4, udp6, icmp4, icmp6, arp, "lldp",
	"udp 10.0.0.1:53 > 10.0.0.2:53", // shorter than Ethernet's minimum
	"ip 10.0.0.1 > 10.0.0.2 132 20",
	"ip 2001:db8:1::1 > 2001:db8:1::2 132 20",
	"fragment 10.0.0.1 > 10.0.0.2 0 64",
	"fragment 10.0.0.1 > 10.0.0.2 1480 64",
	"fragment 2001:db8:1::1 > 2001:db8:1::2 0 64",
	"fragment 2001:db8:1::1 > 2001:db8:1::2 1448 64",
	"raw 0x88b5 46",
	"raw 0x88b5 1400",
	"raw 0x88b5 20",
}

// static puts alice at p0 and bob behind the first remote, so that nothing has
// to be learned.
func static(f family) func(*Config, *fib.Tables) { return staticAt(f, alice, bob) }

func staticAt(f family, here, there string) func(*Config, *fib.Tables) {
	return func(_ *Config, tables *fib.Tables) {
		tables.Segments[0].Static = []overlay.StaticMAC{
			{MAC: macOf(here), Port: "p0"}, {MAC: macOf(there), Remote: f.remotes[0]},
		}
	}
}

// padded is a frame as it crosses the tunnel: what is not IP has Ethernet's minimum.
func padded(frame []byte) []byte {
	kind := binary.BigEndian.Uint16(frame[12:])
	if len(frame) >= 60 || kind == etherTypeIPv4 || kind == etherTypeIPv6 {
		return frame
	}
	return append(append([]byte(nil), frame...), make([]byte, 60-len(frame))...)
}

// The whole tunnel packet, byte for byte, of a new and of a cached flow.
func TestEncapsulation(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := to.world(t)
		for _, words := range innerFrames {
			in := pkttest.Frame(alice, bob, words)
			for _, pass := range []string{"miss", "hit"} {
				if !w.wantTunnel(t, in, padded(in), w.fromPort(t, "p0", in)) {
					t.Fatalf("%s, %s", words, pass)
				}
			}
		}
	})
}

// A segment with UDP checksums goes through the kernel's tunnel device, which gets the frame as it is.
func TestUDPChecksumOnIPv6(t *testing.T) {
	for _, device := range []bool{false, true} {
		w := newWorld(t, underIPv6, static(underIPv6), func(_ *Config, tables *fib.Tables) {
			tables.Segments[0].Tunnel.UDPChecksum = true
			if device {
				tables.ChecksumDevices = map[uint16]int{4789: tables.Underlays[0]} // any device: TEST_RUN sends nothing
			}
		})
		if !device {
			w.wantDrop(t, dropCase{reason: "no-csum", from: "p0", packet: packet{bytes: pkttest.Frame(alice, bob, udp4)}})
			continue
		}
		for _, words := range innerFrames {
			in := pkttest.Frame(alice, bob, words)
			r := w.fromPort(t, "p0", in)
			r.want(t, in, forwarded)
			check.Equal(t, words, in, r.out)
		}
		w.wantDrop(t, dropCase{reason: "too-big", from: "p0", packet: packet{bytes: bigger(w, bob, 1)}, reported: true})
	}
}

// NVGRE tells flows apart by 8 bits, and IPv6 by the flow label as well.
func TestFlowIDDistribution(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := to.world(t)
		seen := map[uint16]bool{}
		for i := range 1000 {
			in := pkttest.Frame(alice, bob, fmt.Sprintf("tcp 10.0.0.1:%d > 10.0.0.2:80", 32768+i))
			r := w.fromPort(t, "p0", in)
			if !w.wantTunnel(t, in, in, r) {
				return
			}
			seen[to.entropyOf(w, r.out)] = true
		}
		// 1000 random draws meet some 251 of 256, and 970 of 16384.
		if least := map[bool]int{true: 235, false: 900}[to.tunnel.Encapsulation == overlay.NVGRE]; len(seen) < least {
			t.Errorf("1000 flows have %d values, want %d", len(seen), least)
		}
	})
}

// What a remote may send beyond what we send ourselves (RFC 7348 sections 4.1 and 5, RFC 8926 section 3.4).
func TestDecapsulationIsTolerant(t *testing.T) {
	changes := map[string]func(*pkttest.Outer){
		"plain":                 func(*pkttest.Outer) {},
		"UDP checksum":          func(o *pkttest.Outer) { o.Checksum = !o.NVGRE() },
		"any source port":       func(o *pkttest.Outer) { o.SrcPort = 1 },
		"any FlowID":            func(o *pkttest.Outer) { o.Reserved = 0xff }, // reserved in VXLAN and Geneve
		"last hop":              func(o *pkttest.Outer) { o.TTL = 1 },
		"DSCP":                  func(o *pkttest.Outer) { o.TOS = 0xb8 },
		"may be fragmented":     func(o *pkttest.Outer) { o.MayFragment, o.ID = true, 7 },
		"flow label":            func(o *pkttest.Outer) { o.FlowLabel = 0xfffff },
		"another station's MAC": func(o *pkttest.Outer) { o.SrcMAC = carol },
		"IPv4 options":          func(o *pkttest.Outer) { o.Options = 8 },
		"largest IPv4 header":   func(o *pkttest.Outer) { o.Options = 40 },
		"reserved bits": func(o *pkttest.Outer) {
			switch o.Encapsulation {
			case overlay.VXLAN:
				o.Flags = 0xffffffff
			case overlay.Geneve:
				o.Flags = 0x3f
			}
		},
		"options nobody knows":  func(o *pkttest.Outer) { o.GeneveOptions = plainOptions },
		"all options there are": func(o *pkttest.Outer) { o.GeneveOptions = longestOptions },
		"C flag alone": func(o *pkttest.Outer) {
			o.Flags |= map[bool]uint32{true: pkttest.GeneveCritical}[o.Encapsulation == overlay.Geneve]
		},
	}
	eachWay(t, func(t *testing.T, to way) {
		w := to.world(t)
		for name, change := range changes {
			for _, words := range innerFrames {
				o := w.outer(to.family.remotes[0])
				change(&o)
				if o.Encapsulation != overlay.Geneve {
					o.GeneveOptions = nil
				}
				inner := padded(pkttest.Frame(bob, alice, words))
				in := o.Wrap(inner)
				r := w.fromUnderlay(t, in)
				r.want(t, in, forwarded)
				if !check.Equal(t, name+", "+words, inner, r.out) {
					return
				}
			}
		}
	})
}

// A sender need not pad what it puts into the tunnel; the kernel's vxlan device does not. What comes out may be padded, as on any Ethernet.
func TestShortFramesLeaveTheTunnel(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := to.world(t)
		for n := range 46 {
			inner := pkttest.Frame(bob, alice, fmt.Sprintf("raw 0x88b5 %d", n))
			in := w.fromRemote(inner)
			r := w.fromUnderlay(t, in)
			r.want(t, in, forwarded)
			if t.Failed() {
				t.Fatalf("%d bytes behind the Ethernet header", n)
			}
			check.Equal(t, "short frame", inner, r.out[:min(len(inner), len(r.out))])
		}
	})
}

// What stands behind the outer packet, a trailer or padding of the link, is not part of the inner frame: the outer lengths say where that ends.
func TestTrailerIsNotDelivered(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := to.world(t)
		inner := pkttest.Frame(bob, alice, udp4)
		r := w.fromUnderlay(t, append(w.fromRemote(inner), 0xde, 0xad, 0xbe, 0xef))
		check.Equal(t, "frame", inner, r.out)
	})
}

// The ifindex of a port and the address of a remote share a field of the flow key: no tunnel packet may pass for a port's frame.
func TestTunnelPacketIsNoPortsFrame(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			w := newWorld(t, f, func(_ *Config, tables *fib.Tables) {
				tables.Segments[0].Static = []overlay.StaticMAC{{MAC: macOf(alice), Port: "p1"}}
			})
			w.fromPort(t, "p0", pkttest.Frame(bob, alice, udp4)) // cached, as the port's
			var ifindex [16]byte
			binary.NativeEndian.PutUint32(ifindex[12:], uint32(w.dev["p0"].Index))
			o := w.outer(netip.AddrFrom16(ifindex))
			if f.tep.Is4() {
				o = w.outer(netip.AddrFrom4([4]byte(ifindex[12:])))
			}
			o.VNI = 0
			for _, words := range []string{udp4, udp6} { // a hit and a miss
				in := o.Wrap(pkttest.Frame(bob, alice, words))
				var r result
				drops, _ := w.counted(t, func() { r = w.fromUnderlay(t, in) })
				r.want(t, in, dropped)
				if drops["unknown-vni"] != 1 {
					t.Errorf("drops %v, want one for unknown-vni", drops)
				}
			}
		})
	}
}

func TestUnresolvedNextHop(t *testing.T) {
	w := newWorld(t, underIPv4, static(underIPv4), func(_ *Config, tables *fib.Tables) {
		for i := range tables.TEPs {
			tables.TEPs[i].NextMAC = overlay.MAC{}
		}
	})
	in := pkttest.Frame(alice, bob, udp4)
	drops, events := w.counted(t, func() { w.fromPort(t, "p0", in).want(t, in, forwarded) })
	if events["neigh-fallback"] != 1 || sum(drops) != 0 {
		t.Errorf("events %v and drops %v, want the kernel's neighbour table asked", events, drops)
	}
}
