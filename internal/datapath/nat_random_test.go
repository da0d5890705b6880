package datapath

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// Packets at random, both ways: all that leaves and comes in is what the reference says,
// with the flow cache and without it, when ports run out and when sessions are over.
func TestNATIsTheReference(t *testing.T) {
	t.Parallel()
	all := ways()
	for _, c := range []struct {
		to                  way
		cached, independent bool
	}{{all[0], true, false}, {all[0], false, false}, {all[6], true, false}, {all[0], true, true}} {
		t.Run(fmt.Sprintf("%s, flow cache %t, independent %t", c.to.name, c.cached, c.independent), func(t *testing.T) {
			w := natWorld(t, c.to, func(cfg *Config, tables *fib.Tables) {
				cfg.FlowCache.Enabled, cfg.Egress.Timeouts = c.cached, randomBase.Timeouts
				web, two := natEgress(tables, "web"), natEgress(tables, "two")
				web.Ports, web.Limit = overlay.PortRange{First: 4100, Last: 4102}, 5
				two.Ports = overlay.PortRange{First: 4100, Last: 4101}
				web.Independent, two.Independent = c.independent, c.independent
			})
			r := newRandom(t)
			acts, met := 0, map[string]int{}
			repeat(20, func(n int) {
				list := make([]uint64, 60+r.IntN(60))
				for i := range list {
					list[i] = r.Uint64()
				}
				acts += len(list)
				h := &natHolding{w: w, met: met, sources: r.Perm(len(natSources))[:1+r.IntN(4)], outsides: 1 + r.IntN(len(natOutsides))}
				if wrong := h.run(t, list); wrong != "" {
					// Ports are at random: what is left out may have been needed.
					t.Fatalf("sequence %d: %s\n%s\nshrunk: %s", n, wrong, strings.Join(h.log, "\n"), h.shrink(t, list))
				}
			})
			t.Logf("%d acts: %v", acts, met)
			for _, what := range []string{
				"nat-exhausted", "nat-limit", "no-nat-session", "unrelated", "nat-fragment", "out-of-state", "another port", "another address", "later fragment", "error",
			} {
				if met[what] == 0 && !c.independent {
					t.Errorf("never met: %s", what)
				}
			}
		})
	}
}

// natHolding holds a world against the reference.
type natHolding struct {
	w     *world
	ref   *natReference
	log   []string // what was offered
	wrong string
	met   map[string]int
	// Few talk to few, so that they get into each other's way.
	sources  []int
	outsides int
}

// run does acts, each of which is made of a number and of the sessions that there are, and
// says what is wrong first.
func (h *natHolding) run(t *testing.T, list []uint64) string {
	t.Helper()
	h.wrong, h.log = "", nil
	h.w.forgetNATSessions(t)
	h.ref = newNATReference(&h.w.tables, randomBase.Timeouts)
	for i, seed := range list {
		h.act(t, random{rand.New(rand.NewPCG(seed, 1))})
		if h.wrong == "" {
			h.wrong = h.compare(t)
		}
		if h.wrong != "" {
			return fmt.Sprintf("act %d: %s", i, h.wrong)
		}
	}
	return ""
}

// compare holds the table of sessions against the reference's.
func (h *natHolding) compare(t *testing.T) string {
	t.Helper()
	natSessions, returns := h.w.allNATSessions(t)
	if len(natSessions) != len(returns) {
		return fmt.Sprintf("%d sessions, %d returns", len(natSessions), len(returns))
	}
	found := 0
	for k, b := range natSessions {
		if b.Flags&uint32(bpfNatSessionFlagsNAT_SESSION_MAPPING) != 0 {
			continue
		}
		key := natRefKey{k.Proto, netip.AddrPortFrom(addrOf(k.Inside.W), wire16(k.InsidePort)), netip.AddrPortFrom(addrOf(k.Outside.W), wire16(k.OutsidePort))}
		want := h.ref.natSessions[key]
		if want == nil {
			return fmt.Sprintf("session %v, of which the reference knows nothing", key)
		}
		found++
		if egress := netip.AddrPortFrom(addrOf(b.Addr.W), wire16(b.Port)); egress != want.egress {
			return fmt.Sprintf("session %v has %s, want %s", key, egress, want.egress)
		}
		got, state := stateOf(k.Proto, b.Ct), h.ref.state(key)
		// With the flow cache a reset is not always known to be exact: then the session stays
		// until its timeout, and the ends judge the reset.
		if unsure := h.w.dp.prog.cfg.FlowCache.Enabled && state == "closed"; got != state && !unsure {
			return fmt.Sprintf("session %v is %s, want %s", key, got, state)
		}
	}
	live := 0
	for k, b := range h.ref.natSessions {
		if !h.ref.expired(k, b) {
			live++
		}
	}
	if found < live {
		return fmt.Sprintf("%d sessions, want %d", found, live)
	}
	return ""
}

// shrink leaves out acts that are not needed, and prints what the rest does.
func (h *natHolding) shrink(t *testing.T, list []uint64) string {
	t.Helper()
	for size := len(list) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(list); {
			if rest := slices.Concat(list[:at], list[at+size:]); h.run(t, rest) != "" {
				list = rest
				continue
			}
			at += size
		}
	}
	wrong := h.run(t, list)
	return wrong + "\n" + strings.Join(h.log, "\n")
}

// natSources are who talks: the station, and addresses that are not translated by
// another policy.
var natSources = []struct {
	bgpMAC string
	addrs  [2]netip.Addr
}{
	{"bob", pair("10.0.1.11", "2001:db8:1::b")}, {"bob", pair("10.0.1.21", "2001:db8:1::15")}, {"ben", pair("10.0.1.11", "2001:db8:1::b")},
	{"ben", pair("10.0.9.9", "2001:db8:9::9")}, {"tom", pair("10.0.9.10", "2001:db8:9::a")}, {"far", pair("10.0.3.7", "2001:db8:3::7")},
	{"dave", pair("10.0.2.13", "2001:db8:2::d")}, {"erin", pair("10.0.2.14", "2001:db8:2::e")}, {"alice", pair("10.0.1.10", "2001:db8:1::a")},
}

var natOutsides = [][2]netip.Addr{
	pair("203.0.113.5", "2001:db8:77::5"), pair("203.0.113.5", "2001:db8:77::5"), pair("203.0.113.6", "2001:db8:77::6"), pair("203.0.113.66", "2001:db8:77::42"),
}

// act is one, or several packets.
func (h *natHolding) act(t *testing.T, r random) {
	t.Helper()
	switch n := r.IntN(40); {
	case n < 16:
		h.outward(t, r)
	case n < 30:
		h.answer(t, r)
	case n < 32:
		h.uninvited(t, r)
	case n < 35:
		h.error(t, r, r.IntN(2) == 0)
	case n < 37:
		d := time.Duration(1+r.IntN(4))*10*time.Second + 3*time.Second // sums are no timeouts, at which a tick of the clock would decide
		h.log = append(h.log, "wait "+d.String())
		h.ref.now += d
		h.w.ageNATSessions(t, d)
	case n < 38:
		h.log = append(h.log, "sweep")
		if _, err := h.w.dp.NATSessions.NATSweep(); err != nil {
			t.Fatal(err)
		}
		h.ref.sweep()
	default:
		h.outward(t, r)
	}
}

// offer is a packet of a station, perhaps in pieces or behind extension headers.
func (h *natHolding) offer(t *testing.T, r random, from natHost, frame []byte) {
	t.Helper()
	pieces := [][]byte{frame}
	switch n := r.IntN(20); {
	case n == 0 && len(frame) > 100:
		pieces = pkttest.Fragments(frame, r.Uint32()%3, []int{24, 48, 64}[r.IntN(3)])
		if r.IntN(2) == 0 {
			r.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		}
		pieces = pieces[:1+r.IntN(len(pieces))]
	case n == 1 && frame[12] == 0x86:
		pieces[0] = r.extendedOnce(frame)
	}
	for _, b := range pieces {
		if h.wrong != "" {
			return
		}
		why, res := h.w.natOffer(t, from, b)
		got := natResult{why: why}
		if why == "" {
			got.at, got.out = h.w.natArrived(t, res)
		}
		h.log = append(h.log, fmt.Sprintf("%s: %s\n    %v", from.name, inWords(b), got))
		h.wrong = h.ref.evaluate(from.name, b, got)
		h.note(b, got)
	}
}

// note counts what was met, so that the test knows what it has seen.
func (h *natHolding) note(in []byte, got natResult) {
	if got.why != "" {
		h.met[got.why]++
		return
	}
	p, was, is := readPacket(in), pkttest.TalkOf(in), pkttest.TalkOf(got.out)
	pool := append(natAddrs(webSecond4), natAddrs(webSecond6)...)
	h.met["passed"]++
	switch {
	case p.kind == fragmentLater:
		h.met["later fragment"]++
	case p.kind == icmpError:
		h.met["error"]++
	case got.at == "isp" && was.Src.Port() != is.Src.Port():
		h.met["another port"]++
	}
	if slices.Contains(pool, is.Src.Addr()) {
		h.met["another address"]++
	}
}

func (r random) extendedOnce(frame []byte) []byte {
	if r.IntN(3) == 0 {
		return pkttest.Atomic(frame, r.Uint32())
	}
	return pkttest.WithExtensions(frame, []uint8{60, 60, 60, 60}[:1+r.IntN(4)]...)
}

// outward is a packet of a source, of a session or a new one.
func (h *natHolding) outward(t *testing.T, r random) {
	t.Helper()
	source, family := natSources[h.sources[r.IntN(len(h.sources))]], r.IntN(2)
	k := natRefKey{
		proto:   []uint8{6, 6, 6, 17, 17, 1}[r.IntN(6)],
		inside:  netip.AddrPortFrom(source.addrs[family], uint16(4098+r.IntN(5))),
		outside: netip.AddrPortFrom(natOutsides[r.IntN(h.outsides)][family], uint16(53+r.IntN(2))),
	}
	if k.proto == 1 {
		k.outside = netip.AddrPortFrom(k.outside.Addr(), k.inside.Port())
		if family == 1 {
			k.proto = 58
		}
	}
	from := natHostOf(source.bgpMAC)
	h.offer(t, r, from, h.reported(r, from, k, h.ref.natSessions[k], pkttest.Talk{Src: k.inside, Dst: k.outside}, overlay.Out))
}

// answer is a packet of a session's other end; it may be over.
func (h *natHolding) answer(t *testing.T, r random) {
	t.Helper()
	k, b, ok := h.some(r)
	if !ok {
		return
	}
	from := natHostOf("isp")
	h.offer(t, r, from, h.reported(r, from, k, b, pkttest.Talk{Src: k.outside, Dst: b.egress}, overlay.In))
}

// some is any session.
func (h *natHolding) some(r random) (natRefKey, *natRefNATSession, bool) {
	keys := slices.SortedFunc(maps.Keys(h.ref.natSessions), func(a, b natRefKey) int {
		return cmp.Or(cmp.Compare(a.proto, b.proto), a.inside.Compare(b.inside), a.outside.Compare(b.outside))
	})
	if len(keys) == 0 {
		return natRefKey{}, nil, false
	}
	k := keys[r.IntN(len(keys))]
	return k, h.ref.natSessions[k], true
}

// uninvited is a packet from outside for any port of an egress address.
func (h *natHolding) uninvited(t *testing.T, r random) {
	t.Helper()
	family := r.IntN(2)
	pools := [][2]netip.Addr{pair(webFirst4, webFirst6), pair(webSecond4, webSecond6), pair(two4, two6), pair(uplink4, uplink6)}
	k := natRefKey{proto: []uint8{6, 17}[r.IntN(2)], outside: netip.AddrPortFrom(natOutsides[r.IntN(len(natOutsides))][family], uint16(53+r.IntN(3)))}
	egress := netip.AddrPortFrom(pools[r.IntN(len(pools))][family], uint16(4098+r.IntN(5)))
	back, b := h.ref.findBack(k.proto, egress, k.outside)
	if b != nil {
		k = back
	}
	from := natHostOf("isp")
	h.offer(t, r, from, h.reported(r, from, k, b, pkttest.Talk{Src: k.outside, Dst: egress}, overlay.In))
}

// error is an ICMP error about a packet of a session: from outside, or from its source.
func (h *natHolding) error(t *testing.T, r random, outside bool) {
	t.Helper()
	k, b, ok := h.some(r)
	if !ok {
		return
	}
	from, way := natHostOf("isp"), overlay.Out
	about, talk := pkttest.Talk{Src: b.egress, Dst: k.outside}, pkttest.Talk{Src: k.outside, Dst: b.egress}
	if !outside {
		from, way = natHostOf(b.source), overlay.In
		about, talk = pkttest.Talk{Src: k.outside, Dst: k.inside}, pkttest.Talk{Src: k.inside, Dst: k.outside}
	}
	if r.IntN(5) == 0 { // about nothing that was
		about.Dst = netip.AddrPortFrom(about.Dst.Addr(), about.Dst.Port()+1)
	}
	quoted := h.reported(r, from, k, b, about, way)
	kind, code, least := uint8(3), uint8(3), 28
	if talk.Src.Addr().Is6() {
		kind, code, least = 1, 4, 48
	}
	teller := talk.Src.Addr()
	if r.IntN(3) == 0 && (outside || from.segment == "egress-web") { // a router on the way
		teller = map[bool][2]netip.Addr{true: pair("203.0.113.99", "2001:db8:77::63"), false: pair("10.0.1.99", "2001:db8:1::63")}[outside][familyOf(teller)]
	}
	frame := pkttest.ErrorAbout(from.src, from.dst, teller, talk.Dst.Addr(), kind, code, quoted, least+r.IntN(60))
	h.offer(t, r, from, frame)
}

// reported is what a talk's first end says to the other, about a session or a new one.
func (h *natHolding) reported(r random, from natHost, k natRefKey, b *natRefNATSession, talk pkttest.Talk, way overlay.Direction) []byte {
	v6 := talk.Src.Addr().Is6()
	size := []int{0, 1, 30, 31, 120}[r.IntN(5)]
	switch k.proto {
	case pkttest.ProtoUDP:
		return natFrame(from.src, from.dst, fmt.Sprintf("udp %s > %s %d", talk.Src, talk.Dst, size))
	case pkttest.ProtoTCP:
		return natFrame(from.src, from.dst, fmt.Sprintf("tcp %s > %s %s", talk.Src, talk.Dst, r.natTCP(b, way, size)))
	}
	id := talk.Src.Port() // of an answer from outside: that of the egress
	if way == overlay.In {
		id = talk.Dst.Port()
	}
	kind := map[bool]map[overlay.Direction]string{
		false: {overlay.Out: "8/0", overlay.In: "0/0"}, true: {overlay.Out: "128/0", overlay.In: "129/0"},
	}[v6][way]
	return natFrame(from.src, from.dst, fmt.Sprintf("icmp %s > %s %s id %d %d", talk.Src.Addr(), talk.Dst.Addr(), kind, id, size))
}

// natTCP is what TCP says next in a direction: mostly.
func (r random) natTCP(b *natRefNATSession, way overlay.Direction, size int) string {
	if b == nil {
		return []string{"syn seq 100", "syn seq 100", "syn seq 100", "syn seq 7777", "ack seq 9 acks 9", "rst seq 4", "fin+ack seq 8 acks 8"}[r.IntN(7)]
	}
	c, mine := &b.ct, 0
	if way != c.query.Direction {
		mine = 1
	}
	next, acks := c.next[mine], c.next[1-mine]
	switch {
	case c.fin[mine] && r.IntN(2) == 0:
		return "fin+ack" + numbersOf(next-1, acks)
	case c.tcpState() == "time-wait" || c.tcpState() == "closed":
		if r.IntN(2) == 0 {
			return fmt.Sprintf("syn seq %d", next+100_000)
		}
	case !c.syn[mine] && !c.pickedUp:
		if r.IntN(4) == 0 {
			return "rst+ack" + numbersOf(0, acks)
		}
		return "syn+ack" + numbersOf(r.Uint32(), acks)
	case !c.ack[mine] && !c.pickedUp && !c.syn[1-mine]:
		return fmt.Sprintf("syn seq %d", next-1)
	}
	switch r.IntN(12) {
	case 0:
		return fmt.Sprintf("rst seq %d", next)
	case 1, 2:
		return "fin+ack" + numbersOf(next, acks)
	}
	return "ack" + numbersOf(next, acks) + fmt.Sprintf(" %d", size)
}
