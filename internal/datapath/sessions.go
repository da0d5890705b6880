package datapath

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/overlay"
)

// Session is a connection that the firewall of one port tracks. One between two ports of
// the edge is there twice.
type Session struct {
	Connection
	Port, Segment string
	Direction     overlay.Direction // of the packet that opened it
	// Src and Dst are of that packet. The ports of an ICMP echo are both the identifier;
	// those of other ICMP both type << 8 | code.
	Src, Dst         netip.Addr
	SrcPort, DstPort uint16
	SrcMAC, DstMAC   overlay.MAC
	// PeerPort and PeerSegment are of the other end; the port is "" beyond a tunnel or uplink.
	PeerPort, PeerSegment string
	PickedUp              bool // it was open before it was seen
	// Rule allowed it; current says that the policy in force was asked.
	Rule    RuleName
	Current bool
}

// EachSession calls do for every connection until it returns false. do must not keep s.
func (fw *Firewall) EachSession(do func(s *Session) bool) error {
	var s Session
	return fw.connections.each(func(k *bpfCtKey, c *bpfCtEntry, now uint64) bool {
		fw.session(&s, k, c, now)
		return do(&s)
	})
}

func (fw *Firewall) session(s *Session, k *bpfCtKey, c *bpfCtEntry, now uint64) {
	bits := bpfCtBits(c.Bits)
	*s = Session{
		Connection: connection(k, c, now), Port: fw.numbers.names.ports[k.Zone], SrcMAC: c.Smac, DstMAC: c.Dmac,
		PeerPort: fw.numbers.names.ports[uint32(c.PeerVport)], PeerSegment: fw.numbers.names.segments[uint32(c.PeerSegment)],
		PickedUp: bits&bpfCtBitsCT_PICKED_UP != 0, Rule: fw.ruleName(c.Rule), Current: c.Policy == fw.inForce.Policy,
	}
	if int(k.Zone) < len(fw.numbers.vports) {
		s.Segment = fw.numbers.names.segments[fw.numbers.vports[k.Zone].Segment]
	}
	inside, outside := addrOf(k.Inside.W), addrOf(k.Outside.W)
	s.Direction, s.Src, s.SrcPort, s.Dst, s.DstPort = overlay.In, outside, wire16(k.OutsidePort), inside, wire16(k.InsidePort)
	if bits&bpfCtBitsCT_OUT != 0 {
		s.Direction, s.Src, s.SrcPort, s.Dst, s.DstPort = overlay.Out, s.Dst, s.DstPort, s.Src, s.SrcPort
	}
}

// cachedKey tells the flows of sessions apart, in one direction, as far as the flow cache
// does: it knows ports of TCP, UDP and SCTP alone.
type cachedKey struct {
	port             string
	proto            uint8
	src, dst         netip.Addr
	srcPort, dstPort uint16
}

func cachedKeys(s *Session) (orig, back cachedKey) {
	orig = cachedKey{port: s.Port, proto: s.Proto, src: s.Src, dst: s.Dst}
	if s.Proto == unix.IPPROTO_TCP || s.Proto == unix.IPPROTO_UDP || s.Proto == unix.IPPROTO_SCTP {
		orig.srcPort, orig.dstPort = s.SrcPort, s.DstPort
	}
	return orig, cachedKey{s.Port, s.Proto, s.Dst, s.Src, orig.dstPort, orig.srcPort}
}

// Cached says of a direction of a session whether its packets find a decision.
type Cached struct {
	Known  bool   // there was a packet lately
	Fast   bool   // they do
	Why    string // why they do not
	IdleNS uint64 // since the last one: earlier than the session knows
}

// add joins what is known with one more flow: a session may have several, such as by
// another MAC address. The last one counts.
func (c *Cached) add(f Flow) {
	if !c.Known || f.IdleNS < c.IdleNS {
		*c = Cached{Known: true, Fast: f.FastPath, Why: f.Why, IdleNS: f.IdleNS}
	}
}

// CachedSessions are the decisions about both directions of each session, from its
// opener and to it.
func (fl *Flows) CachedSessions(sessions []Session) ([][2]Cached, error) {
	all := make([][2]Cached, len(sessions))
	if len(sessions) == 0 {
		return all, nil
	}
	type place struct{ session, way int }
	places := make(map[cachedKey][]place, 2*len(sessions))
	for i := range sessions {
		s := &sessions[i]
		if s.Proto == unix.IPPROTO_ICMP || s.Proto == unix.IPPROTO_ICMPV6 { // never cached
			c := Cached{Known: true, Why: fl.prog.words.slows[bpfSlowSLOW_DEEP_PARSE].text, IdleNS: s.IdleNS}
			all[i] = [2]Cached{c, c}
			continue
		}
		orig, back := cachedKeys(s)
		places[orig] = append(places[orig], place{i, 0})
		places[back] = append(places[back], place{i, 1})
	}
	now, err := fl.prog.kernel.Clock.Monotonic()
	if err != nil {
		return nil, err
	}
	generations, err := fl.changes.generations()
	if err != nil {
		return nil, err
	}
	err = walk(fl.maps.Flows, func(_ uint64, f bpfFlow) {
		flow := fl.flow(&f, now, generations)
		for _, key := range flow.cachedAs() {
			for _, at := range places[key] {
				all[at.session][at.way].add(flow)
			}
		}
	})
	return all, err
}

// cachedAs are the keys of the sessions at both ends of a flow: its addresses as it comes
// in, and as it goes out.
func (f *Flow) cachedAs() (keys []cachedKey) {
	in := cachedKey{f.InPort, f.Proto, f.Src, f.Dst, f.SrcPort, f.DstPort}
	out := in
	out.port = f.OutPort
	if f.ToSrc.IsValid() {
		out.src, out.srcPort = f.ToSrc.Addr(), f.ToSrc.Port()
	}
	if f.ToDst.IsValid() {
		out.dst, out.dstPort = f.ToDst.Addr(), f.ToDst.Port()
	}
	for _, key := range []cachedKey{in, out} {
		if key.port != "" {
			keys = append(keys, key)
		}
	}
	return keys
}
