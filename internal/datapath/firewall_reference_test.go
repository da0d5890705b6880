package datapath

import (
	"maps"
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/test/pkttest"
)

// reference is the firewall of an edge, as plainly as can be said: what it does to each
// packet, by the description in docs/guide/firewall.md. It shares no code with the data path.
type reference struct {
	fw     overlay.Firewall
	places []policy.Place
	conns  map[refKey]*refCT
	firsts map[refDatagram]time.Duration // when a datagram's first fragment passed
	now    time.Duration
	policy int // how many there have been
	// refused is set when the ports of a connection that is over are used again and the
	// rules do not allow it: packets the other way, whose flow is cached, pass until their
	// decision is taken again (revalidate_ns).
	refused bool
}

// refQuery is what the rules are asked, and who is asked.
type refQuery = policy.Query

// refKey names a connection at a place: from its workload's side.
type refKey struct {
	place           string
	proto           uint8
	echoDir         overlay.Direction // of an echo: whether the request goes In or Out
	inside, outside netip.AddrPort
}

type refDatagram struct {
	place    string
	way      overlay.Direction
	src, dst netip.Addr
	proto    uint8
	id       uint32
}

// itinerary is a packet's way through the edge: the ports by which it comes and goes, ""
// where that is none with a firewall, and the segments.
type itinerary struct {
	from, to               string
	fromSegment, toSegment string
}

func newReference(fw overlay.Firewall, places []policy.Place) *reference {
	return &reference{fw: fw, places: places, conns: map[refKey]*refCT{}, firsts: map[refDatagram]time.Duration{}}
}

// change is another policy.
func (r *reference) change(fw overlay.Firewall) {
	r.fw = fw
	r.policy++
}

// offer returns why the packet is dropped, "" when it passes. A packet that the second firewall
// drops leaves no connection at the first.
func (r *reference) offer(frame []byte, by itinerary) string {
	before := maps.Clone(r.conns)
	why := r.pass(frame, by)
	for k := range r.conns {
		if _, known := before[k]; why != "" && !known {
			delete(r.conns, k)
		}
	}
	return why
}

func (r *reference) pass(frame []byte, by itinerary) string {
	p := readPacket(frame)
	if p.isNeighbourTalk() {
		return ""
	}
	for _, at := range []struct {
		place string
		way   overlay.Direction
	}{{by.from, overlay.Out}, {by.to, overlay.In}} {
		if at.place == "" {
			continue
		}
		why := p.why
		if !p.ip && r.fw.NonIP == overlay.Drop {
			why = "non-ip"
		} else if p.ip && why == "" {
			why = r.at(p, by, at.place, at.way)
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// at is one place's firewall.
func (r *reference) at(p refPacket, by itinerary, place string, way overlay.Direction) string {
	d := refDatagram{place, way, p.src, p.dst, p.proto, p.id}
	if p.src.Is6() {
		d.proto = 0 // RFC 8200: the addresses and the identification alone
	}
	if p.kind == fragmentLater {
		if first, passed := r.firsts[d]; !passed || r.now-first >= 30*time.Second {
			return "fragment-no-first"
		}
		return ""
	}
	if p.isND() { // of routers: rules decide about each packet, the default does not
		q := r.query(p, by, place, way)
		if m := policy.Evaluate(r.fw, r.places, q); m.Rule >= len(r.fw.Rules) {
			return ""
		}
		return r.evaluate(q)
	}
	why := r.connection(p, by, place, way)
	if why == "" && p.kind == fragmentFirst {
		r.firsts[d] = r.now
	}
	return why
}

func keyOf(p refPacket, place string, way overlay.Direction) refKey {
	src, dst := netip.AddrPortFrom(p.src, p.sport), netip.AddrPortFrom(p.dst, p.dport)
	k := refKey{place: place, proto: p.proto, inside: dst, outside: src}
	if way == overlay.Out {
		k.inside, k.outside = src, dst
	}
	if p.echo != "" {
		if k.echoDir = way; p.echo == "reply" {
			k.echoDir = opposite(way)
		}
	}
	return k
}

func opposite(d overlay.Direction) overlay.Direction {
	if d == overlay.In {
		return overlay.Out
	}
	return overlay.In
}

// find is the connection, unless it has been silent for too long.
func (r *reference) find(k refKey) *refCT {
	c := r.conns[k]
	if c != nil && r.now-c.seen > c.timeout(k.proto, r.fw.Timeouts) {
		delete(r.conns, k)
		return nil
	}
	return c
}

func (r *reference) connection(p refPacket, by itinerary, place string, way overlay.Direction) string {
	if p.kind == icmpError { // the quoted packet went the other way
		if r.find(keyOf(*p.about, place, opposite(way))) == nil {
			return "unrelated"
		}
		return ""
	}
	k := keyOf(p, place, way)
	c := r.find(k)
	if why := flagsWhy(p); why != "" {
		return why
	}
	if c != nil {
		why, anew := r.follow(c, k, p, way)
		if !anew {
			return why
		}
		delete(r.conns, k)
		why = r.open(p, by, k, way)
		r.refused = r.refused || why != ""
		return why
	}
	return r.open(p, by, k, way)
}

// flagsWhy refuses TCP flags that no connection has.
func flagsWhy(p refPacket) string {
	if p.proto != pkttest.ProtoTCP {
		return ""
	}
	has := func(f uint8) bool { return p.tcp.Flags&f == f }
	switch {
	case p.tcp.Flags&(pkttest.SYN|pkttest.FIN|pkttest.RST|pkttest.ACK) == 0,
		has(pkttest.SYN | pkttest.FIN), has(pkttest.SYN | pkttest.RST), has(pkttest.FIN) && !has(pkttest.ACK):
		return "tcp-flags"
	}
	return ""
}

func (r *reference) follow(c *refCT, k refKey, p refPacket, way overlay.Direction) (why string, anew bool) {
	if c.policy != r.policy {
		if why := r.evaluate(c.query); why != "" {
			delete(r.conns, k)
			return why, false
		}
		c.policy = r.policy
	}
	index := 0
	if way != c.query.Direction {
		index = 1
	}
	if p.proto == pkttest.ProtoTCP {
		why, anew = c.follow(p.tcp, index, r.fw.Strict)
	} else if index == 1 && !c.replied {
		c.replied = true
	} else if c.replied && r.now-c.born > 2*time.Second {
		c.stream = true
	}
	if why != "" || anew {
		return why, anew
	}
	c.seen = r.now
	c.packets[index]++
	return "", false
}

func (r *reference) evaluate(o refQuery) string {
	switch policy.Evaluate(r.fw, r.places, o).Verdict {
	case overlay.Allow:
		return ""
	case overlay.Reject:
		return "rejected"
	}
	return "denied"
}

// query is what rules are asked about a packet of no connection.
func (r *reference) query(p refPacket, by itinerary, place string, way overlay.Direction) refQuery {
	q := refQuery{
		Src: p.src, Dst: p.dst, SrcMAC: p.smac, DstMAC: p.dmac, SrcPlace: by.from, DstPlace: by.to,
		SrcSegment: by.fromSegment, DstSegment: by.toSegment, Place: place, Direction: way,
		Protocol: p.proto, SrcPort: p.sport, DstPort: p.dport, Ported: p.ported,
	}
	if p.icmp {
		q.SrcPort, q.DstPort = 0, p.icmpType
	}
	return q
}

// open is a packet of no connection.
func (r *reference) open(p refPacket, by itinerary, k refKey, way overlay.Direction) string {
	pure := p.tcp.Flags&(pkttest.SYN|pkttest.ACK) == pkttest.SYN
	if p.echo == "reply" || p.proto == pkttest.ProtoTCP && !pure && r.fw.Strict {
		return "out-of-state"
	}
	c := &refCT{policy: r.policy, seen: r.now, born: r.now, packets: [2]uint64{1, 0}, query: r.query(p, by, k.place, way)}
	if why := r.evaluate(c.query); why != "" {
		return why
	}
	if p.proto == pkttest.ProtoTCP {
		if p.tcp.Flags&pkttest.RST != 0 {
			return "" // nothing begins with it
		}
		c.begin(p.tcp)
	}
	r.conns[k] = c
	return ""
}

// state is the name of a connection's state, "" when there is none.
func (r *reference) state(k refKey) string {
	switch c := r.conns[k]; {
	case c == nil:
		return ""
	case k.proto == pkttest.ProtoTCP:
		return c.tcpState()
	case k.proto == pkttest.ProtoICMP || k.proto == pkttest.ProtoICMPv6:
		return "icmp"
	case c.stream:
		return "udp-stream"
	case c.replied:
		return "udp-replied"
	}
	return "udp"
}

// connections are all of them, as world.connections has them.
func (r *reference) connections() (states map[refKey]string, packets map[refKey][2]uint64) {
	states, packets = map[refKey]string{}, map[refKey][2]uint64{}
	for k, c := range r.conns {
		states[k], packets[k] = r.state(k), c.packets
	}
	return states, packets
}
