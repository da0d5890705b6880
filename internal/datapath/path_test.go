package datapath

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// underlayError is what a router of the underlay says about a tunnel packet of ours:
// fields that are zero are those of a good message.
type underlayError struct {
	to         netip.Addr // the edge
	mtu        int
	kind, code uint8
	quote      []byte // the IP packet that was too big
	length     int    // of the quote
}

func (w *world) report(t testing.TB, e underlayError) []byte {
	t.Helper()
	in := w.message(e)
	r := w.fromUnderlay(t, in)
	r.want(t, in, next) // the host hears of it too
	check.Equal(t, "what the host gets", in, r.out)
	return in
}

func (w *world) message(e underlayError) []byte {
	to, router := e.to, w.family.unknown
	if !to.IsValid() {
		to = w.family.tep
	}
	quote := e.quote[:min(len(e.quote), e.length)]
	eth := pkttest.Ether(nextHop, w.dev["u0"].HardwareAddr.String())
	if to.Is4() {
		return pkttest.Packet(eth, pkttest.IPv4(router.String(), to.String()), pkttest.ICMP(e.kind, e.code, uint32(e.mtu)), pkttest.Bytes(quote))
	}
	rest := binary.BigEndian.AppendUint32(nil, uint32(e.mtu))
	return pkttest.Packet(eth, pkttest.IPv6(router.String(), to.String()), pkttest.ICMP6(e.kind, e.code), pkttest.Bytes(append(rest, quote...)))
}

// tunnelTooBig is the message about a packet that went to the first remote.
func (w *world) tunnelTooBig(t testing.TB, mtu int) underlayError {
	t.Helper()
	frame := pkttest.Frame(alice, bob, sized("10.0.1.10", "10.0.1.11", 1300))
	out := w.fromPort(t, "p0", frame).out
	e := underlayError{mtu: mtu, kind: 3, code: 4, quote: out[etherLen:], length: 28}
	if !w.family.tep.Is4() {
		e.kind, e.code, e.length = 2, 0, 1232
	}
	return e
}

func (w *world) pathMTU(t testing.TB, remote netip.Addr) int {
	t.Helper()
	all, err := w.dp.PathMTUs()
	if err != nil {
		t.Fatal(err)
	}
	return all[remote].MTU
}

// A router of the underlay tells of its MTU: the next inner packet that is too big
// for it is answered with what is left, until that is forgotten.
func TestPathMTU(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := wideWorld(t, to)
		const path = 1400
		first := to.family.remotes[0]
		overhead := to.tunnel.Overhead(to.family.tep)
		fits := pkttest.Frame(alice, bob, sized("10.0.1.10", "10.0.1.11", path-overhead))
		large := pkttest.Frame(alice, bob, sized("10.0.1.10", "10.0.1.11", path-overhead+1))
		w.fromPort(t, "p0", large).want(t, large, forwarded)
		_, events := w.counted(t, func() { w.report(t, w.tunnelTooBig(t, path)) })
		if events["path-mtu"] != 1 || events["not-tunnel"] != 1 || w.pathMTU(t, first) != path {
			t.Fatalf("events %v, path MTU %d", events, w.pathMTU(t, first))
		}
		for range 2 {
			w.wantTunnel(t, fits, fits, w.fromPort(t, "p0", fits))
			w.wantError(t, "blue", "p0", large, tooBig("10.0.1.11", path-overhead))
		}
		w.apply(t) // keeps it
		if got := w.pathMTU(t, first); got != path {
			t.Errorf("path MTU %d after another Apply", got)
		}
		if err := w.dp.ForgetPathMTU(first); err != nil {
			t.Fatal(err)
		}
		w.fromPort(t, "p0", large).want(t, large, forwarded)
		if len(pathMTUs(t, w)) != 0 {
			t.Errorf("path MTUs %v after they were forgotten", pathMTUs(t, w))
		}
	})
}

func pathMTUs(t testing.TB, w *world) map[netip.Addr]PathMTU {
	t.Helper()
	all, err := w.dp.PathMTUs()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The SYN's MSS follows the path.
func TestMSSFollowsThePath(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := wideWorld(t, to, func(_ *Config, tables *Tables) { tables.Segments[0].ClampMSS = true })
		w.report(t, w.tunnelTooBig(t, 1300))
		mss := uint16(1300 - to.tunnel.Overhead(to.family.tep) - 40)
		in := pkttest.Frame(alice, bob, "tcp 10.0.1.10:1 > 10.0.1.11:2 syn mss 1460")
		r := w.fromPort(t, "p0", in)
		inner := r.out[w.outer(to.family.remotes[0]).Len():]
		check.Packet(t, in, inner, check.Ether(alice, bob), check.IP(addr("10.0.1.10"), addr("10.0.1.11")), check.TCP(check.MSS(mss)))
	})
}

// It is only ever lowered by one message, and each remote has its own.
func TestPathMTUIsLoweredOnly(t *testing.T) {
	for _, f := range families {
		w := wideWorld(t, way{"", f, tunnels[0].tunnel})
		for _, c := range []struct{ reported, want int }{{1450, 1450}, {1460, 1450}, {1400, 1400}, {1400, 1400}, {1401, 1400}, {1499, 1400}} {
			w.report(t, w.tunnelTooBig(t, c.reported))
			if got := w.pathMTU(t, f.remotes[0]); got != c.want {
				t.Errorf("told %d: path MTU %d, want %d", c.reported, got, c.want)
			}
		}
		if got := w.pathMTU(t, f.remotes[1]); got != 0 {
			t.Errorf("the other remote's path MTU is %d", got)
		}
	}
}

// Anybody can send ICMP: what is no message about a packet of ours changes nothing.
func TestForgedPathMTU(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := wideWorld(t, to)
		good := w.tunnelTooBig(t, 1400)
		o := w.sent("blue", to.family.remotes[0], w.fromPort(t, "p0", pkttest.Frame(alice, bob, udp4)).out)
		quoteOf := func(change func(*pkttest.Outer)) []byte {
			c := o
			change(&c)
			return c.Wrap(pkttest.Frame(alice, bob, udp4))[etherLen:]
		}
		minimum := map[bool]int{true: 576, false: 1280}[to.family.tep.Is4()]
		for name, change := range map[string]func(*underlayError){
			"quote of another's packet":    func(e *underlayError) { e.quote = quoteOf(func(o *pkttest.Outer) { o.Src = to.family.unknown }) },
			"quote to an unknown remote":   func(e *underlayError) { e.quote = quoteOf(func(o *pkttest.Outer) { o.Dst = to.family.unknown }) },
			"quote of a packet to us":      func(e *underlayError) { e.quote = quoteOf(func(o *pkttest.Outer) { o.Src, o.Dst = o.Dst, o.Src }) },
			"quote of another UDP port":    func(e *underlayError) { e.quote = quoteOf(func(o *pkttest.Outer) { o.DstPort = 53; notGRE(o) }) },
			"quote of another protocol":    func(e *underlayError) { e.quote = otherProtocol(e.quote) },
			"quote cut in the IP header":   func(e *underlayError) { e.length = 19 },
			"quote cut before the ports":   func(e *underlayError) { e.length = map[bool]int{true: 20, false: 40}[to.family.tep.Is4()] - 1 },
			"no quote":                     func(e *underlayError) { e.length = 0 },
			"below the minimum":            func(e *underlayError) { e.mtu = minimum - 1 },
			"zero (RFC 1191 section 5)":    func(e *underlayError) { e.mtu = 0 },
			"that of the interface":        func(e *underlayError) { e.mtu = underlayMTU },
			"larger than the interface's":  func(e *underlayError) { e.mtu = 9000 },
			"another code":                 func(e *underlayError) { e.code++ },
			"another type":                 func(e *underlayError) { e.kind++ },
			"an echo":                      func(e *underlayError) { e.kind, e.code = map[bool]uint8{true: 8, false: 128}[to.family.tep.Is4()], 0 },
			"to an address not the edge's": func(e *underlayError) { e.to = to.family.unknown },
		} {
			e := good
			change(&e)
			_, events := w.counted(t, func() { w.report(t, e) })
			if events["path-mtu"] != 0 || len(pathMTUs(t, w)) != 0 {
				t.Errorf("%s: events %v, path MTUs %v", name, events, pathMTUs(t, w))
			}
		}
		good.mtu = minimum
		if w.report(t, good); w.pathMTU(t, to.family.remotes[0]) != minimum {
			t.Errorf("the minimum itself is not obeyed")
		}
	})
}

// notGRE makes the quote one of VXLAN: NVGRE has no ports.
func notGRE(o *pkttest.Outer) {
	if o.NVGRE() {
		o.Encapsulation = overlay.VXLAN
	}
}

// otherProtocol makes a quoted packet TCP.
func otherProtocol(packet []byte) []byte {
	b := append([]byte(nil), packet...)
	if b[0]>>4 == 4 {
		b[9] = pkttest.ProtoTCP
	} else {
		b[6] = pkttest.ProtoTCP
	}
	return b
}

// GRE is the host's where there is no NVGRE: so is what is said about it.
func TestPathMTUOfTheHostsGRE(t *testing.T) {
	w := newWorld(t, underIPv4, static(underIPv4), func(c *Config, _ *Tables) { c.NVGRE = false })
	o := w.outer(underIPv4.remotes[0])
	o.Src, o.Dst, o.Encapsulation = o.Dst, o.Src, overlay.NVGRE
	w.report(t, underlayError{mtu: 1400, kind: 3, code: 4, quote: o.Wrap(pkttest.Frame(alice, bob, udp4))[etherLen:], length: 1000})
	if got := pathMTUs(t, w); len(got) != 0 {
		t.Errorf("path MTUs %v", got)
	}
}

// A network card leaves little of a packet in its linear part.
func TestPathMTUInPages(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			w := wideWorld(t, way{"", f, tunnels[0].tunnel})
			taps := w.taps(t)
			e := w.tunnelTooBig(t, 1400)
			e.quote = append(e.quote, make([]byte, 4200)...) // AF_PACKET makes pages from 4096 bytes on
			e.length = len(e.quote)
			in := w.message(e)
			taps["u0"].sendWith(t, taps["u0"].self, virtioHeader{HdrLen: etherLen}, in)
			taps["u0"].drain(t)
			if got := w.pathMTU(t, f.remotes[0]); got != 1400 {
				pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: in[:200]}}, "path MTU %d, want 1400", got)
			}
		})
	}
}
