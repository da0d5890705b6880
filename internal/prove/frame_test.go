package prove

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

var (
	near, far   = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	near6, far6 = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	own, theirs = MAC(near), MAC(far)
	host4       = netip.MustParseAddr("10.0.0.2")
	host6       = netip.MustParseAddr("fd00::2")
	hostMAC     = overlay.MAC{2, 0, 0, 0, 0, 2}
	headers     = map[uint16]overlay.Encapsulation{4789: overlay.VXLAN, 6081: overlay.Geneve, 0: overlay.NVGRE}
)

// tunnels are one of each encapsulation on IPv4 and IPv6, with the same targets.
func tunnels() (list []Tunnel) {
	for port, how := range headers {
		for _, pair := range []overlay.Pair{{Local: near, Remote: far}, {Local: near6, Remote: far6}} {
			t := Tunnel{
				VNI: 0x123456, Header: overlay.Tunnel{Encapsulation: how, UDPPort: port, DF: overlay.DFSet, UDPChecksum: true},
				Remotes: []netip.Addr{pair.Remote}, Paths: []Path{{Pair: pair}}, Targets: targets(),
			}
			if how == overlay.Geneve {
				t.Header.Options = []byte{1, 4, 0x81, 1, 1, 2, 3, 4}
			}
			list = append(list, t)
		}
	}
	return list
}

func targets() []Target {
	return []Target{
		{Ask: Resolve, MAC: hostMAC, Addr: host4},
		{Ask: Resolve, MAC: hostMAC, Addr: host6},
		{Ask: Echo, MAC: theirs, Addr: LinkLocal(theirs), From: LinkLocal(own), TTL: 64, Near: true},
		{Ask: Echo, MAC: hostMAC, Addr: host4, From: netip.MustParseAddr("10.255.0.1"), TTL: 1},
	}
}

// Every probe is a packet whose lengths and checksums are right, of the size that was asked for.
func TestProbesAreWellFormed(t *testing.T) {
	for _, tunnel := range tunnels() {
		for _, target := range tunnel.Targets {
			for _, size := range []int{0, least, 1000, 1450} {
				inner := target.frame(own, size, newToken())
				if want := etherLen + max(size, least); len(inner) != want {
					t.Fatalf("%+v with size %d has %d bytes, want %d", target, size, len(inner), want)
				}
				frame := tunnel.Packet(tunnel.Paths[0], 0xc123, inner)
				if d := pkttest.Dissect(frame); len(d.Faults) > 0 {
					t.Errorf("%s, %+v, size %d: %v", tunnel.Header.Encapsulation, target, size, d.Faults)
				}
				p, ok := readIP(frame[etherLen:], false)
				if !ok || p.to != tunnel.Paths[0].Remote {
					t.Fatalf("%+v is no packet to the remote", target)
				}
				var r reply
				if got, ok := r.unwrap(p, headers); !ok || !bytes.Equal(got, inner) || r.vni != tunnel.VNI {
					t.Errorf("%s: unwrapped is another frame, of VNI %d", tunnel.Header.Encapsulation, r.vni)
				}
			}
		}
	}
}

// answerTo is what a host or router makes of a probe's inner frame.
func answerTo(t Target, frame []byte) []byte {
	b := bytes.Clone(frame)
	copy(b, frame[6:12])
	copy(b[6:], t.MAC[:])
	ip := b[etherLen:]
	switch {
	case t.Ask == Resolve && t.Addr.Is4():
		ip[7] = arpReply
		copy(ip[8:], t.MAC[:])
		copy(ip[14:], t.Addr.AsSlice())
		copy(ip[18:], frame[6:12])
		copy(ip[24:], make([]byte, 4))
	case t.Ask == Resolve:
		ip[ipv6Len] = advertisement
		putIPv6(ip[:least], ipv6Header{from: t.Addr, to: LinkLocal(own), proto: 58, ttl: ndTTL})
	case t.Addr.Is6():
		ip[ipv6Len] = echoReply6
		putIPv6(ip, ipv6Header{from: t.Addr, to: t.From, proto: 58, ttl: 64})
	default:
		ip[ipv4Len] = echoReply4
		copy(ip[12:], t.Addr.AsSlice())
		copy(ip[16:], t.From.AsSlice())
	}
	return b
}

// back is the tunnel packet with which the remote sends a frame.
func back(t Tunnel, frame []byte) []byte {
	p := t.Paths[0]
	return t.Packet(Path{Pair: overlay.Pair{Local: p.Remote, Remote: p.Local}}, 0xd000, frame)
}

// proverOf has one shot at each target of a tunnel under way.
func proverOf(t Tunnel) (*Prober, []*shot) {
	p := &Prober{mac: own, tunnels: []Tunnel{t}, edges: map[netip.Addr][]netip.Addr{t.Remotes[0]: t.Remotes}}
	var shots []*shot
	for i := range t.Targets {
		shots = append(shots, &shot{target: i, way: uint16(0xc000 + i), k: newToken(), tries: 1})
	}
	p.expect(shots)
	return p, shots
}

func TestAnswersAreTaken(t *testing.T) {
	for _, tunnel := range tunnels() {
		p, shots := proverOf(tunnel)
		for i, target := range tunnel.Targets {
			s := shots[i]
			p.take(read(back(tunnel, answerTo(target, target.frame(own, 0, s.k))), headers), s.sent)
			if s.rtt == 0 {
				t.Errorf("%s over %s: the answer of %+v is not taken", tunnel.Header.Encapsulation, tunnel.Remotes[0], target)
			}
		}
		if p.open.left != 0 {
			t.Errorf("%d probes still wait", p.open.left)
		}
	}
}

// An answer counts only from where it was asked, in the tunnel that was asked, with what only
// the asked one knows.
func TestForgedAnswersAreNotTaken(t *testing.T) {
	for _, tunnel := range tunnels() {
		p, shots := proverOf(tunnel)
		for i, target := range tunnel.Targets {
			s := shots[i]
			frame := target.frame(own, 0, s.k)
			good := answerTo(target, frame)
			other := tunnel
			other.VNI++
			stranger := tunnel
			stranger.Paths = []Path{{Pair: overlay.Pair{Local: tunnel.Paths[0].Local, Remote: netip.MustParseAddr("192.0.2.9")}}}
			if !far.Is4() || tunnel.Remotes[0].Is6() {
				stranger.Paths[0].Remote = netip.MustParseAddr("2001:db8::9")
			}
			moved := target
			moved.MAC[5]++
			elsewhere := target
			elsewhere.Addr = elsewhere.Addr.Next()
			wrong := s.k
			wrong.nonce[3] ^= 1
			guess := s.k
			guess.id++
			forged := map[string][]byte{
				"another VNI": back(other, good), "another edge": back(stranger, good), "our own probe": back(tunnel, frame),
				"another address": back(tunnel, answerTo(elsewhere, elsewhere.frame(own, 0, s.k))),
			}
			if target.Ask == Resolve {
				forged["another MAC"] = back(tunnel, answerTo(moved, frame))
				toOther := bytes.Clone(good)
				toOther[5]++
				forged["to another"] = back(tunnel, toOther)
			} else {
				forged["another nonce"] = back(tunnel, answerTo(target, target.frame(own, 0, wrong)))
				forged["another identifier"] = back(tunnel, answerTo(target, target.frame(own, 0, guess)))
				short := answerTo(target, target.frame(own, 0, s.k))
				if target.Addr.Is4() {
					binary.BigEndian.PutUint16(short[etherLen+2:], ipv4Len+icmpLen)
				} else {
					binary.BigEndian.PutUint16(short[etherLen+4:], icmpLen)
				}
				forged["no nonce"] = back(tunnel, short)
			}
			if target.Ask == Echo && !target.Near { // a host behind a router may answer by another segment
				delete(forged, "another VNI")
			}
			for what, frame := range forged {
				if p.take(read(frame, headers), s.sent); s.rtt != 0 {
					t.Fatalf("%s, %+v: an answer with %s is taken", tunnel.Header.Encapsulation, target, what)
				}
			}
		}
	}
}

// Used-up hops and routers without a way are told by what they quote.
func TestQuotedProbes(t *testing.T) {
	tunnel := tunnels()[0]
	for _, tt := range []struct {
		kind, code byte
		want       replyKind
		words      string
	}{
		{exceeded4, 0, exceeded, "time exceeded from 10.9.9.9"},
		{unreachable4, 0, unreached, "no route says 10.9.9.9"},
		{unreachable4, 13, unreached, "prohibited says 10.9.9.9"},
	} {
		p, shots := proverOf(tunnel)
		s := shots[3]
		probe := tunnel.Targets[3].frame(own, 0, s.k)
		for _, quoted := range []int{ipv4Len + icmpLen, ipv4Len + icmpLen + nonceLen} {
			frame := make([]byte, etherLen+ipv4Len+icmpLen+quoted)
			copy(frame, own[:])
			binary.BigEndian.PutUint16(frame[12:], 0x0800)
			message := frame[etherLen+ipv4Len:]
			message[0], message[1] = tt.kind, tt.code
			copy(message[icmpLen:], probe[etherLen:])
			putIPv4(frame[etherLen:], ipv4Header{from: netip.MustParseAddr("10.9.9.9"), to: tunnel.Targets[3].From, proto: 1, ttl: 64})
			r := read(back(tunnel, frame), headers)
			if r.kind != tt.want || r.words() != tt.words {
				t.Errorf("read as %+v: %q, want %q", r, r.words(), tt.words)
			}
			s.rtt = 0
			if p.take(r, s.sent); s.rtt == 0 {
				t.Errorf("%s is not taken", tt.words)
			}
		}
	}
}

// Whatever comes, in whole or cut short, is read without a panic.
func FuzzRead(f *testing.F) {
	for _, tunnel := range tunnels() {
		for _, target := range tunnel.Targets {
			f.Add(back(tunnel, answerTo(target, target.frame(own, 0, newToken()))))
		}
	}
	f.Fuzz(func(_ *testing.T, frame []byte) {
		p, shots := proverOf(tunnels()[0])
		p.take(read(frame, headers), shots[0].sent)
	})
}

func TestTruncatedIsNoAnswer(t *testing.T) {
	for _, tunnel := range tunnels() {
		for i, target := range tunnel.Targets {
			p, shots := proverOf(tunnel)
			whole := back(tunnel, answerTo(target, target.frame(own, 0, shots[i].k)))
			for n := range whole {
				cut := bytes.Clone(whole[:n])
				if p.take(read(cut, headers), shots[i].sent); shots[i].rtt != 0 {
					t.Fatalf("%d of %d bytes are taken as an answer of %+v", n, len(whole), target)
				}
				if n > 0 {
					cut[rand.N(n)] ^= byte(1 + rand.N(255))
					read(cut, headers)
				}
			}
		}
	}
}

func TestAddresses(t *testing.T) {
	seen := make(map[overlay.MAC]netip.Addr)
	for _, text := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.129", "10.0.0.1", "10.0.1.0", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"} {
		addr := netip.MustParseAddr(text)
		mac := MAC(addr)
		if mac.Multicast() || mac[0]&2 == 0 || mac != MAC(addr) || seen[mac].IsValid() {
			t.Errorf("%s has %s, as %s", addr, mac, seen[mac])
		}
		seen[mac] = addr
	}
	// RFC 4291 appendix A, with our own universal bit.
	if got := LinkLocal(overlay.MAC{0x02, 0, 0x5e, 0x10, 0x20, 0x30}); got != netip.MustParseAddr("fe80::5eff:fe10:2030") {
		t.Errorf("link-local address %s", got)
	}
}

func TestWaysDiffer(t *testing.T) {
	for range 1000 {
		ways := someWays()
		if len(ways) != Ways {
			t.Fatalf("%d ways: %x", len(ways), ways)
		}
		residues := make(map[uint16]bool)
		for _, w := range ways {
			residues[w%Ways] = true
			if w < firstWay {
				t.Fatalf("way %d is no dynamic port", w)
			}
		}
		if len(residues) != Ways {
			t.Fatalf("%x: hashes by low bits tell less of them apart than they could", ways)
		}
	}
}
