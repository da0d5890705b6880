package datapath

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// NATSession is a connection whose addresses this edge translates.
type NATSession struct {
	Connection
	Policy string // Egress.Name: a policy's, or an uplink's own; "" when it is gone
	Router string
	// Inside is the workload, Outside its peer, and Egress what the workload is to the
	// peer. The ports of an ICMP echo are its identifiers, the peer's that of the workload.
	Inside, Outside, Egress netip.AddrPort
	// Via is the first address of the edge that the workload is behind; unset: the router
	// of this edge knows the way.
	Via         netip.Addr
	Forwarded   bool   // opened from outside
	Independent bool   // its port is that of a mapping
	Mapping     bool   // no connection: holds a port for all peers, and Outside is zero
	Replica     bool   // another gateway's, of which this one has seen no packet
	LeftNS      uint64 // after which it goes without another packet
}

// EachNATSession calls do for every session until it returns false. do must not keep b.
func (se *NATSessions) EachNATSession(do func(b *NATSession) bool) error {
	var b NATSession
	return se.table.each(func(k *bpfCtKey, e *bpfNatSession, now uint64) bool {
		se.natSession(&b, k, e, now)
		return do(&b)
	})
}

func (se *NATSessions) natSession(b *NATSession, k *bpfCtKey, e *bpfNatSession, now uint64) {
	flags := bpfNatSessionFlags(e.Flags)
	*b = NATSession{
		Connection: connection(k, &e.Ct, now), Policy: se.numbers.names.egresses[uint32(e.Egress)], Router: se.numbers.names.routers[k.Zone],
		Inside:    netip.AddrPortFrom(addrOf(k.Inside.W), wire16(k.InsidePort)),
		Outside:   netip.AddrPortFrom(addrOf(k.Outside.W), wire16(k.OutsidePort)),
		Egress:    netip.AddrPortFrom(addrOf(e.Addr.W), wire16(e.Port)),
		Forwarded: flags&bpfNatSessionFlagsNAT_SESSION_FORWARDED != 0, Independent: flags&bpfNatSessionFlagsNAT_SESSION_INDEPENDENT != 0,
		Mapping: flags&bpfNatSessionFlagsNAT_SESSION_MAPPING != 0, Replica: flags&bpfNatSessionFlagsNAT_SESSION_REPLICA != 0,
	}
	if e.Via != (bpfAddr{}) {
		b.Via = addrOf(e.Via.W)
	}
	timeout := stateTimeouts(se.prog.cfg.Egress.Timeouts)[ctState(k.Proto, bpfCtBits(e.Ct.Bits))]
	if dns := se.prog.cfg.Egress.DNSTimeout; dns > 0 && isDNS(k, e) {
		timeout = min(timeout, dns)
	}
	b.LeftNS = since(uint64(timeout), b.IdleNS)
}

// isDNS is is_dns of bpf/nat/nat_table.h.
func isDNS(k *bpfCtKey, e *bpfNatSession) bool {
	return k.Proto == unix.IPPROTO_UDP && wire16(k.OutsidePort) == 53 && bpfCtBits(e.Ct.Bits)&bpfCtBitsCT_OUT != 0
}

// NATEventKind is what happened to a session.
type NATEventKind string

// The values of NATEventKind.
const (
	NATCreated     NATEventKind = "began"
	NATEstablished NATEventKind = "open" // answered: worth telling other gateways
	NATDeleted     NATEventKind = "ended"
)

var natEventKinds = map[bpfNatEventKind]NATEventKind{
	bpfNatEventKindNAT_EVENT_CREATED: NATCreated, bpfNatEventKindNAT_EVENT_ESTABLISHED: NATEstablished,
	bpfNatEventKindNAT_EVENT_DELETED: NATDeleted,
}

// NATEvent is what happened to a session, as users see it and as other gateways are told.
type NATEvent struct {
	Event   NATEventKind
	AgeNS   uint64 // since it happened
	Session NATSession
	Record  NATRecord
}

// ReadNATEvents calls do for what happened since the last call, most at a time at most, and does
// not wait for more. do must not keep n. It must not be called twice at once. What came
// while the ring was full is counted as the event nat-event-lost.
func (se *NATSessions) ReadNATEvents(most int, do func(n *NATEvent)) error {
	if se.prog.cfg.Egress == nil {
		return nil
	}
	var n NATEvent
	return se.natEvents.take(&se.prog.kernel, "the events of NAT", se.maps.NatEvents, most, func(raw *bpfNatEvent, now uint64) {
		n.Event, n.AgeNS = natEventKinds[raw.Event], since(now, raw.Ns)
		se.natSession(&n.Session, &raw.Key, &raw.Session, now)
		n.Record = se.record(&raw.Key, &raw.Session, now)
		do(&n)
	})
}

// PortUsage is how many ports of an egress address are in use for one peer.
type PortUsage struct {
	Policy, Router string
	Proto          uint8
	Egress         netip.Addr
	Outside        netip.AddrPort // without a port of ICMP echo
	Used, Size     int            // sessions, and ports that there are
}

// PortUsages are those that the last sweep counted of addresses which this edge gives or
// answers for, the fullest first, most of them at most, and those of fewer ports than least left out. Those of replicas are others'.
func (eg *Egress) PortUsages(most, least int) ([]PortUsage, error) {
	t := &eg.sessions.table
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	if t.gc == nil {
		return nil, nil
	}
	eg.changing.Lock()
	owners := eg.owners
	eg.changing.Unlock()
	var list []PortUsage
	err := walk(t.gc.portUsages, func(k bpfPortUsageKey, p bpfPortUsage) {
		if p.Run != t.stats.Run {
			return
		}
		owner, ok := owners[bpfLocalKey{Router: k.Router, Addr: bpfAddr{W: k.Egress.W}}]
		if !ok || natPorts(k.Proto, owner.ports) < least {
			return
		}
		list = append(list, PortUsage{
			Policy: owner.name, Router: eg.numbers.names.routers[k.Router], Proto: k.Proto, Egress: addrOf(k.Egress.W),
			Outside: netip.AddrPortFrom(addrOf(k.Outside.W), wire16(k.OutsidePort)), Used: int(p.Count), Size: natPorts(k.Proto, owner.ports),
		})
	})
	slices.SortFunc(list, func(a, b PortUsage) int {
		return cmp.Or(cmp.Compare(b.Used*a.Size, a.Used*b.Size), b.Used-a.Used, a.Egress.Compare(b.Egress), a.Outside.Compare(b.Outside))
	})
	return list[:min(most, len(list))], err
}

// natPorts is how many sessions an address with so many ports can have for one peer.
func natPorts(proto uint8, ports int) int {
	switch proto {
	case unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6:
		return 1 << 16 // identifiers
	case unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP:
		return ports
	}
	return min(ports, 1)
}

func (se *NATSessions) closeSessions() error {
	return errors.Join(se.natEvents.close(), se.table.close())
}
