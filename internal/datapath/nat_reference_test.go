package datapath

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// natReference is the translation of a natWorld as plainly as the RFCs have it (4787, 5382,
// 5508). Which port a session gets is not written anywhere: the reference says whether what
// came out is right, and remembers it. It shares no code with the data path.
type natReference struct {
	policies    map[string]*natRefPolicy
	timeouts    overlay.Timeouts
	natSessions map[natRefKey]*natRefNATSession
	back        map[natRefBack]natRefKey
	firsts      map[natRefDatagram]natRefFirst
	now         time.Duration
}

type natRefPolicy struct {
	pool  [2][]netip.Addr
	ports overlay.PortRange
	limit int
	// independent mapping (RFC 4787 REQ-1): a source and port have one egress for all.
	independent bool
}

// natRevalidate is how old a cached decision may be: so long a port is not given away.
const natRevalidate = 10 * time.Second

// natRefKey is a session from inside; of an echo both ports are the identifier, and it is
// the source that asks.
type natRefKey struct {
	proto           uint8
	inside, outside netip.AddrPort
}

func (k natRefKey) String() string {
	return fmt.Sprintf("protocol %d %s > %s", k.proto, k.inside, k.outside)
}

// natRefBack is the same from outside. Of an echo outside has no port.
type natRefBack struct {
	proto           uint8
	egress, outside netip.AddrPort
}

type natRefNATSession struct {
	ct     refCT
	egress netip.AddrPort
	source string // station behind which the source is
}

type natRefDatagram struct {
	from     string
	src, dst netip.Addr
	proto    uint8
	id       uint32
}

type natRefFirst struct {
	at   time.Duration
	talk pkttest.Talk
	to   string
}

func newNATReference(tables *fib.Tables, timeouts overlay.Timeouts) *natReference {
	n := &natReference{
		policies: map[string]*natRefPolicy{}, timeouts: timeouts, natSessions: map[natRefKey]*natRefNATSession{},
		back: map[natRefBack]natRefKey{}, firsts: map[natRefDatagram]natRefFirst{},
	}
	for _, e := range tables.Egress {
		n.policies[e.Name] = &natRefPolicy{e.Pool, e.Ports, int(e.Limit), e.Independent}
	}
	return n
}

// natResult is what became of a packet.
type natResult struct {
	why, at string
	out     []byte
}

func (r natResult) String() string {
	if r.why != "" {
		return "dropped, " + r.why
	}
	return fmt.Sprintf("at %q: %s", r.at, inWords(r.out))
}

// evaluate says what is wrong with what became of a packet, or "".
func (n *natReference) evaluate(from string, frame []byte, got natResult) string {
	p := readPacket(frame)
	if from == "isp" {
		return n.evaluateIn(p, frame, got)
	}
	return n.evaluateOut(from, p, frame, got)
}

// policyOf is by which policy a source's packets leave.
func policyOf(from string, p refPacket) string {
	switch from {
	case "bob", "ben":
		return "web"
	case "tom", "far":
		return "two"
	case "dave", "erin":
		if !slices.Contains(natAddrs("203.0.113.66", "2001:db8:77::42"), p.dst) {
			return "web"
		}
	}
	return "uplink/up"
}

func wantDrop(got natResult, reasons ...string) string {
	if slices.Contains(reasons, got.why) {
		return ""
	}
	return fmt.Sprintf("%v, want it dropped: %v", got, reasons)
}

// wantOut compares what left with what had to.
func wantOut(got natResult, at string, want []byte) string {
	to := natHostOf(at)
	want = natLowered(slices.Concat(hardware(to.dmac), hardware(to.smac), want[12:]))
	if got.why != "" || got.at != at || !bytes.Equal(got.out, want) {
		return fmt.Sprintf("%v\n%x\nwant it at %s: %s\n%x", got, got.out, at, inWords(want), want)
	}
	return ""
}

func (n *natReference) evaluateOut(from string, p refPacket, frame []byte, got natResult) string {
	switch {
	case p.kind == fragmentLater:
		return n.evaluateLater(from, p, frame, got)
	case p.kind == icmpError && p.why != "":
		return wantDrop(got, "unrelated", "no-nat-session", "nat-unsupported")
	case p.kind == icmpError:
		b := n.find(natRefKey{p.about.proto, netip.AddrPortFrom(p.about.dst, p.about.dport), netip.AddrPortFrom(p.about.src, p.about.sport)})
		if b == nil {
			return wantDrop(got, "unrelated", "no-nat-session", "nat-unsupported")
		}
		quoted := pkttest.Talk{Src: netip.AddrPortFrom(p.about.src, p.about.sport), Dst: b.egress}
		return wantOut(got, "isp", pkttest.Requoted(frame, b.egress.Addr(), p.dst, quoted))
	case p.echo == "reply":
		return wantDrop(got, "nat-unsupported", "no-nat-session", "out-of-state")
	}
	k := natRefKey{p.proto, netip.AddrPortFrom(p.src, p.sport), netip.AddrPortFrom(p.dst, p.dport)}
	b := n.find(k)
	if b == nil {
		return n.evaluateFresh(from, k, p, frame, got)
	}
	if n.refused(b, k, p, got) {
		return ""
	}
	n.follow(b, p, overlay.Out)
	b.source = from
	return n.passed(from, p, frame, got, "isp", leaving(k, b.egress))
}

// passed is a packet that is translated; its later fragments will be.
func (n *natReference) passed(from string, p refPacket, frame []byte, got natResult, to string, talk pkttest.Talk) string {
	if p.kind == fragmentFirst {
		n.firsts[datagram(from, p)] = natRefFirst{n.now, talk, to}
	}
	return wantOut(got, to, pkttest.Readdressed(frame, talk))
}

func datagram(from string, p refPacket) natRefDatagram {
	d := natRefDatagram{src: p.src, dst: p.dst, proto: p.proto, id: p.id}
	if from == "isp" {
		d.from = from
	}
	if p.src.Is6() {
		d.proto = 0
	}
	return d
}

func (n *natReference) evaluateLater(from string, p refPacket, frame []byte, got natResult) string {
	f, ok := n.firsts[datagram(from, p)]
	if !ok || n.now-f.at >= 30*time.Second {
		return wantDrop(got, "nat-fragment")
	}
	return wantOut(got, f.to, pkttest.Readdressed(frame, f.talk))
}

// evaluateFresh is a packet that begins a session, or is refused one.
func (n *natReference) evaluateFresh(from string, k natRefKey, p refPacket, frame []byte, got natResult) string {
	answers := p.tcp.Flags&(pkttest.SYN|pkttest.ACK) == pkttest.SYN|pkttest.ACK // what NAT has not let in
	if p.proto == pkttest.ProtoTCP && (p.tcp.Flags&pkttest.RST != 0 || answers) {
		return wantDrop(got, "out-of-state", "no-nat-session") // the latter where its flow is cached
	}
	if n.natSessions[k] != nil { // it is over
		n.forget(k)
	}
	policy := n.policies[policyOf(from, p)]
	live, kept := n.countOf(k.inside.Addr())
	switch {
	case policy.limit > 0 && live >= policy.limit:
		return wantDrop(got, "nat-limit")
	case got.why == "nat-limit" && policy.limit > 0 && live+kept >= policy.limit:
		return ""
	case got.why == "nat-exhausted":
		return n.exhausted(policy, k)
	case got.why != "":
		return fmt.Sprintf("%v, want it to get a session", got)
	}
	egress := pkttest.TalkOf(got.out).Src
	if wrong := n.allocated(policy, k, egress); wrong != "" {
		return wrong
	}
	b := &natRefNATSession{egress: egress, source: from}
	n.start(b, p, overlay.Out)
	n.natSessions[k], n.back[backOf(k, egress)] = b, k
	return n.passed(from, p, frame, got, "isp", leaving(k, egress))
}

// refused reports whether the source has too many others for one to open again.
func (n *natReference) refused(b *natRefNATSession, k natRefKey, p refPacket, got natResult) bool {
	limit := n.policies[policyOf(b.source, p)].limit
	live, kept := n.countOf(k.inside.Addr())
	return got.why == "nat-limit" && limit > 0 && live+kept-1 >= limit && b.over() &&
		p.tcp.Flags&(pkttest.SYN|pkttest.ACK) == pkttest.SYN
}

// allocated says what is wrong with the address and port of a new session.
func (n *natReference) allocated(policy *natRefPolicy, k natRefKey, egress netip.AddrPort) string {
	pool := policy.pool[familyOf(k.inside.Addr())]
	if !slices.Contains(pool, egress.Addr()) {
		return fmt.Sprintf("it got %s, which is not of the pool %v", egress, pool)
	}
	if port := egress.Port(); port < policy.ports.First || port > policy.ports.Last {
		return fmt.Sprintf("it got port %d of %v", port, policy.ports)
	}
	if policy.independent {
		return n.independent(pool, k, egress)
	}
	other, taken := n.back[backOf(k, egress)]
	if taken {
		if b := n.find(other); b != nil && (!b.over() || n.now-b.ct.seen < natRevalidate) {
			return fmt.Sprintf("it got %s, which %s > %s has", egress, other.inside, other.outside)
		}
		n.forget(other)
	}
	// Its own port, where that is free at the first address.
	own := netip.AddrPortFrom(pool[0], k.inside.Port())
	_, taken = n.back[backOf(k, own)]
	if egress != own && !taken && own.Port() >= policy.ports.First && own.Port() <= policy.ports.Last {
		return fmt.Sprintf("it got %s, and %s was free", egress, own)
	}
	return ""
}

// independent says what is wrong with the egress of an independent mapping: another session
// of the source has another one, or another source has it, for whatever destination.
func (n *natReference) independent(pool []netip.Addr, k natRefKey, egress netip.AddrPort) string {
	for other, b := range n.natSessions {
		if other.proto != k.proto || n.expired(other, b) || !slices.Contains(pool, b.egress.Addr()) {
			continue
		}
		if same := other.inside == k.inside; same != (b.egress == egress) {
			return fmt.Sprintf("%v got %s, and %v has %s", k, egress, other, b.egress)
		}
	}
	return ""
}

// exhausted says what was free, or "".
func (n *natReference) exhausted(policy *natRefPolicy, k natRefKey) string {
	if policy.independent {
		return "" // mappings may be there without a session
	}
	for _, a := range policy.pool[familyOf(k.inside.Addr())] {
		for port := int(policy.ports.First); port <= int(policy.ports.Last); port++ {
			egress := netip.AddrPortFrom(a, uint16(port))
			if _, taken := n.back[backOf(k, egress)]; !taken {
				return fmt.Sprintf("dropped, nat-exhausted, and %s was free", egress)
			}
		}
	}
	return ""
}

func (n *natReference) evaluateIn(p refPacket, frame []byte, got natResult) string {
	switch {
	case p.kind == fragmentLater:
		return n.evaluateLater("isp", p, frame, got)
	case p.kind == icmpError && p.why != "":
		return wantDrop(got, "unrelated", "no-nat-session", "nat-unsupported", "no-local-service")
	case p.kind == icmpError:
		k, b := n.findBack(p.about.proto, netip.AddrPortFrom(p.about.src, p.about.sport), netip.AddrPortFrom(p.about.dst, p.about.dport))
		if b == nil {
			return wantDrop(got, "unrelated", "no-nat-session", "nat-unsupported", "no-local-service")
		}
		quoted := pkttest.Talk{Src: k.inside, Dst: k.outside}
		return wantOut(got, b.source, pkttest.Requoted(frame, p.src, k.inside.Addr(), quoted))
	case p.echo == "request":
		if got.why == "" && got.at == "isp" && pkttest.TalkOf(got.out).Src.Addr() == p.dst || p.kind == fragmentFirst {
			return ""
		}
		return fmt.Sprintf("%v, want it answered", got)
	}
	k, b := n.findBack(p.proto, netip.AddrPortFrom(p.dst, p.dport), netip.AddrPortFrom(p.src, p.sport))
	if b == nil {
		return wantDrop(got, "no-nat-session", "no-local-service", "out-of-state")
	}
	if n.refused(b, k, p, got) {
		return ""
	}
	n.follow(b, p, overlay.In)
	return n.passed("isp", p, frame, got, b.source, pkttest.Talk{Src: k.outside, Dst: k.inside})
}

// leaving is the talk of what leaves: of an echo with one identifier.
func leaving(k natRefKey, egress netip.AddrPort) pkttest.Talk {
	if k.proto == pkttest.ProtoICMP || k.proto == pkttest.ProtoICMPv6 {
		return pkttest.Talk{Src: egress, Dst: netip.AddrPortFrom(k.outside.Addr(), egress.Port())}
	}
	return pkttest.Talk{Src: egress, Dst: k.outside}
}

func familyOf(a netip.Addr) int {
	if a.Is6() {
		return 1
	}
	return 0
}

func backOf(k natRefKey, egress netip.AddrPort) natRefBack {
	b := natRefBack{k.proto, egress, k.outside}
	if k.proto == pkttest.ProtoICMP || k.proto == pkttest.ProtoICMPv6 {
		b.outside = netip.AddrPortFrom(k.outside.Addr(), 0)
	}
	return b
}

// find is the session, unless it has been silent for too long.
func (n *natReference) find(k natRefKey) *natRefNATSession {
	b := n.natSessions[k]
	if b == nil || n.expired(k, b) {
		return nil
	}
	return b
}

func (n *natReference) expired(k natRefKey, b *natRefNATSession) bool {
	return n.now-b.ct.seen > b.ct.timeout(k.proto, n.timeouts)
}

func (n *natReference) findBack(proto uint8, egress, outside netip.AddrPort) (natRefKey, *natRefNATSession) {
	k, ok := n.back[backOf(natRefKey{proto: proto, outside: outside}, egress)]
	if !ok {
		return k, nil
	}
	return k, n.find(k)
}

func (n *natReference) forget(k natRefKey) {
	delete(n.back, backOf(k, n.natSessions[k].egress))
	delete(n.natSessions, k)
}

// countOf is how many sessions a source has, and how many more that are over or have expired are still
// in the table: whether a reset is exact, and its session over, the flow cache does not always know.
func (n *natReference) countOf(inside netip.Addr) (live, kept int) {
	for k, b := range n.natSessions {
		switch {
		case k.inside.Addr() != inside:
		case n.expired(k, b) || b.over():
			kept++
		default:
			live++
		}
	}
	return live, kept
}

func (b *natRefNATSession) over() bool {
	return slices.Contains([]string{"time-wait", "closed"}, b.ct.tcpState())
}

func (n *natReference) start(b *natRefNATSession, p refPacket, way overlay.Direction) {
	b.ct = refCT{seen: n.now, query: refQuery{Direction: way}}
	if p.proto == pkttest.ProtoTCP {
		b.ct.begin(p.tcp)
	}
}

// follow is what a packet does to its session.
func (n *natReference) follow(b *natRefNATSession, p refPacket, way overlay.Direction) {
	index := 0
	if way != b.ct.query.Direction {
		index = 1
	}
	if p.proto != pkttest.ProtoTCP {
		b.ct.replied = b.ct.replied || index == 1
	} else if _, anew := b.ct.follow(p.tcp, index, false); anew {
		n.start(b, p, way)
	}
	b.ct.seen = n.now
}

// sweep forgets what has expired.
func (n *natReference) sweep() {
	for k, b := range n.natSessions {
		if n.expired(k, b) {
			n.forget(k)
		}
	}
}

// state is the name of a session's state.
func (n *natReference) state(k natRefKey) string {
	switch c := n.natSessions[k].ct; {
	case k.proto == pkttest.ProtoTCP:
		return c.tcpState()
	case k.proto == pkttest.ProtoICMP || k.proto == pkttest.ProtoICMPv6:
		return "icmp"
	case c.replied:
		return "udp-replied"
	}
	return "udp"
}
