package datapath

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/datapath/kernel"
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

// reported is what is kept of the messages about the path to remote.
func (w *world) reported(t testing.TB, remote netip.Addr) (mtu, vniMTU int) {
	t.Helper()
	r := w.reports(t)[overlay.Pair{Local: w.family.tep, Remote: remote}]
	return r.MTU, r.VNIMTU
}

func (w *world) reports(t testing.TB) map[overlay.Pair]PathReport {
	t.Helper()
	all, err := w.dp.Paths.PathReports()
	must(t, err)
	return all
}

// forgetReports has the next message be the first.
func (w *world) forgetReports(t testing.TB) {
	t.Helper()
	var all []bpfPathKey
	err := walk(w.dp.Paths.maps.PathReports, func(k bpfPathKey, _ bpfPathReport) { all = append(all, k) })
	for _, k := range all {
		err = errors.Join(err, w.dp.Paths.maps.PathReports.Delete(k))
	}
	must(t, err)
}

// least is the smallest MTU that a message can name.
func (f family) least() int {
	if f.tep.Is4() {
		return 576
	}
	return 1280
}

// One forged message, from anybody, that embeds a tunnel packet of ours: it is kept for a probe to confirm, and no packet of any tenant is refused for it.
func TestForgedReportStopsNothing(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := wideWorld(t, to)
		first := to.family.remotes[0]
		overhead := to.tunnel.Overhead(to.family.tep)
		large := pkttest.Frame(alice, bob, sized("10.0.1.10", "10.0.1.11", underlayMTU-overhead))
		for range 2 { // decided, and cached
			w.wantTunnel(t, large, large, w.fromPort(t, "p0", large))
			_, events := w.counted(t, func() { w.report(t, w.tunnelTooBig(t, to.family.least())) })
			if events["not-tunnel"] != 1 || events["path-mtu"]+events["path-mtu-limited"] != 1 {
				t.Errorf("events %v", events)
			}
			w.wantTunnel(t, large, large, w.fromPort(t, "p0", large))
		}
		if mtu, _ := w.reported(t, first); mtu != to.family.least() {
			t.Errorf("%d is kept for a probe", mtu)
		}
	})
}

// What a router of the underlay says is kept until it is decided about, and the least of it; of messages that embed a VNI apart.
func TestPathReports(t *testing.T) {
	eachWay(t, func(t *testing.T, to way) {
		w := wideWorld(t, to)
		first := to.family.remotes[0]
		short := w.tunnelTooBig(t, 0).length // what RFC 792 demands, or all
		has8 := to.family.tep.Is4() && to.tunnel.Encapsulation != overlay.NVGRE
		for _, c := range []struct{ mtu, length, want, wantVNI int }{
			{1450, short, 1450, 1450}, {1460, 1000, 1450, 1450}, {1400, 1000, 1400, 1400}, {1390, short, 1390, 1390}, {1499, 1000, 1390, 1390},
		} {
			e := w.tunnelTooBig(t, c.mtu)
			e.length = c.length
			w.report(t, e)
			if has8 { // 8 bytes of UDP are its header
				c.wantVNI = map[int]int{1450: 0, 1460: 1460, 1400: 1400, 1390: 1400, 1499: 1400}[c.mtu]
			}
			if mtu, vniMTU := w.reported(t, first); mtu != c.want || vniMTU != c.wantVNI {
				t.Errorf("told %d in %d bytes: %d and %d are kept, want %d and %d", c.mtu, c.length, mtu, vniMTU, c.want, c.wantVNI)
			}
		}
		if mtu, _ := w.reported(t, to.family.remotes[1]); mtu != 0 {
			t.Errorf("of the other remote %d is kept", mtu)
		}
		w.apply(t)
		if mtu, _ := w.reported(t, first); mtu != 1390 {
			t.Errorf("%d is kept after another Apply", mtu)
		}
	})
}

// Anybody can send ICMP: what is no message about a packet of ours is not even looked into, and
// one whose VNI is none of the path is not believed without a probe.
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
		for name, change := range map[string]func(*underlayError){
			"quote of another's packet":    func(e *underlayError) { e.quote = quoteOf(func(o *pkttest.Outer) { o.Src = to.family.unknown }) },
			"quote to an unknown remote":   func(e *underlayError) { e.quote = quoteOf(func(o *pkttest.Outer) { o.Dst = to.family.unknown }) },
			"quote of a packet to us":      func(e *underlayError) { e.quote = quoteOf(func(o *pkttest.Outer) { o.Src, o.Dst = o.Dst, o.Src }) },
			"quote of another UDP port":    func(e *underlayError) { e.quote = quoteOf(func(o *pkttest.Outer) { o.DstPort = 53; notGRE(o) }) },
			"quote of another protocol":    func(e *underlayError) { e.quote = otherProtocol(e.quote) },
			"quote of a later fragment":    func(e *underlayError) { e.quote = laterFragment(e.quote) },
			"quote cut in the IP header":   func(e *underlayError) { e.length = 19 },
			"quote cut before the ports":   func(e *underlayError) { e.length = map[bool]int{true: 20, false: 40}[to.family.tep.Is4()] - 1 },
			"no quote":                     func(e *underlayError) { e.length = 0 },
			"below the minimum":            func(e *underlayError) { e.mtu = to.family.least() - 1 },
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
			if events["path-mtu"] != 0 || len(w.reports(t)) != 0 {
				t.Errorf("%s: events %v, reports %v", name, events, w.reports(t))
			}
			refused := uint64(0)
			if name == "quote to an unknown remote" || name == "below the minimum" || name == "zero (RFC 1191 section 5)" {
				refused = 1
			}
			if events["path-mtu-refused"] != refused {
				t.Errorf("%s: %d refused, want %d", name, events["path-mtu-refused"], refused)
			}
		}
		for name, change := range map[string]func(*pkttest.Outer){
			"another VNI":                  func(o *pkttest.Outer) { o.VNI = 0xabcdef },
			"the VNI of other remotes":     func(o *pkttest.Outer) { o.Dst = to.family.remotes[1]; o.VNI = 200 },
			"no VNI, as the flag is unset": func(o *pkttest.Outer) { o.VNI = 0 },
		} {
			w.forgetReports(t)
			e := good
			e.quote, e.length = quoteOf(change), 1000
			w.report(t, e)
			for pair, r := range w.reports(t) {
				if r.VNIMTU != 0 && (name != "the VNI of other remotes" || !w.sendsTo(200, pair.Remote)) {
					t.Errorf("%s: %+v of %s", name, r, pair)
				}
			}
		}
	})
}

// sendsTo reports whether a segment with the VNI sends to remote.
func (w *world) sendsTo(vni uint32, remote netip.Addr) bool {
	return slices.ContainsFunc(w.tables.Segments, func(s overlay.Segment) bool {
		return uint32(s.VNI) == vni && slices.Contains(s.Remotes, remote)
	})
}

// laterFragment makes a quoted IPv4 packet a fragment without ports; an IPv6 one says so in a
// header that stands where the ports were.
func laterFragment(packet []byte) []byte {
	b := append([]byte(nil), packet...)
	if b[0]>>4 == 4 {
		b[6], b[7] = 0, 100
	} else {
		b[6] = 44
	}
	return b
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

// A flood of messages is looked into once a second and path, and each second anew.
func TestPathReportsAreLimited(t *testing.T) {
	for _, f := range families {
		w := wideWorld(t, way{"", f, tunnels[0].tunnel})
		pair := overlay.Pair{Local: f.tep, Remote: f.remotes[0]}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		flood := func(limited uint64) {
			t.Helper()
			_, events := w.counted(t, func() {
				for i := range 50 {
					w.report(t, w.tunnelTooBig(t, 1400-i%2))
				}
			})
			if events["path-mtu"] != 50-limited || events["path-mtu-limited"] != limited {
				t.Errorf("events %v, want %d of 50 limited", events, limited)
			}
		}
		flood(49)
		must(w.dp.Paths.DecidePath(pair))
		flood(50)
		if all := w.reports(t); len(all) != 0 {
			t.Errorf("reports %v so soon after one was decided about", all)
		}
		key := bpfPathKey{Local: bpfAddr{W: wireAddr(pair.Local)}, Remote: bpfAddr{W: wireAddr(pair.Remote)}}
		now, err := kernel.Host().Clock.Monotonic()
		must(err)
		must(w.dp.Paths.maps.PathReports.Put(key, bpfPathReport{AtNs: now - uint64(reportInterval)}))
		flood(49)
		if mtu, vniMTU := w.reported(t, f.remotes[0]); mtu != 1399 || vniMTU != map[bool]int{true: 0, false: 1399}[f.tep.Is4()] {
			t.Errorf("%d and %d are kept a second later", mtu, vniMTU)
		}
		// What was decided about long ago takes no room.
		must(w.dp.Paths.maps.PathReports.Put(key, bpfPathReport{AtNs: now - uint64(2*reportInterval)}))
		w.reports(t)
		if err := w.dp.Paths.maps.PathReports.Lookup(key, new(bpfPathReport)); !errors.Is(err, ebpf.ErrKeyNotExist) {
			t.Errorf("an old report is still there: %v", err)
		}
	}
}
