package datapath

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/overlay"
)

// NATSession is a connection whose addresses this edge translates.
type NATSession struct {
	Policy string // Egress.Name: a policy's, or an uplink's own; "" when it is gone
	Router string
	Proto  uint8
	// Inside is the workload, Outside its peer, and Egress what the workload is to the
	// peer. The ports of an ICMP echo are its identifiers, the peer's that of the workload.
	Inside, Outside, Egress netip.AddrPort
	Echo                    bool
	// Via is the first address of the edge that the workload is behind; unset: the router
	// of this edge knows the way.
	Via         netip.Addr
	State       string // one of StateNames
	Answered    bool
	Forwarded   bool   // opened from outside
	Independent bool   // its port is that of a mapping
	Mapping     bool   // no connection: holds a port for all peers, and Outside is zero
	Replica     bool   // another gateway's, of which this one has seen no packet
	AgeNS       uint64 // since it began, IdleNS since its last packet
	IdleNS      uint64
	LeftNS      uint64   // after which it goes without another one
	Orig, Reply Counters // from who opened it, and to them; data packets come with delay
}

// EachNATSession calls do for every session until it returns false. do must not keep b.
func (d *Datapath) EachNATSession(do func(b *NATSession) bool) error {
	var b NATSession
	return d.eachNATSession(func(k *bpfCtKey, e *bpfNatSession, now uint64) bool {
		d.natSession(&b, k, e, now)
		return do(&b)
	})
}

func (d *Datapath) eachNATSession(do func(k *bpfCtKey, b *bpfNatSession, now uint64) bool) error {
	if d.cfg.Egress == nil {
		return nil
	}
	now, err := monotonicNS()
	if err != nil {
		return err
	}
	return walkWhile(d.objs.NatSessions, func(k *bpfCtKey, b *bpfNatSession) bool { return do(k, b, now) })
}

func (d *Datapath) natSession(b *NATSession, k *bpfCtKey, e *bpfNatSession, now uint64) {
	bits, flags := bpfCtBits(e.Ct.Bits), bpfNatSessionFlags(e.Flags)
	state := ctState(k.Proto, bits)
	*b = NATSession{
		Policy: d.names.egresses[uint32(e.Egress)], Router: d.names.routers[k.Zone], Proto: k.Proto, Echo: k.EchoDir != 0,
		Inside:  netip.AddrPortFrom(addrOf(k.Inside.W), wire16(k.InsidePort)),
		Outside: netip.AddrPortFrom(addrOf(k.Outside.W), wire16(k.OutsidePort)),
		Egress:  netip.AddrPortFrom(addrOf(e.Addr.W), wire16(e.Port)),
		State:   StateNames[state], Answered: isAnswered(k.Proto, bits),
		Forwarded: flags&bpfNatSessionFlagsNAT_SESSION_FORWARDED != 0, Independent: flags&bpfNatSessionFlagsNAT_SESSION_INDEPENDENT != 0,
		Mapping: flags&bpfNatSessionFlagsNAT_SESSION_MAPPING != 0, Replica: flags&bpfNatSessionFlagsNAT_SESSION_REPLICA != 0,
		AgeNS: since(now, e.Ct.BornNs), IdleNS: since(now, e.Ct.SeenNs),
		Orig: toCounters(e.Ct.Counters[0]), Reply: toCounters(e.Ct.Counters[1]),
	}
	if e.Via != (bpfAddr{}) {
		b.Via = addrOf(e.Via.W)
	}
	b.LeftNS = since(uint64(stateTimeout(d.cfg.Egress.Timeouts, state)), b.IdleNS)
}

// stateTimeout is that of t for one state.
func stateTimeout(t overlay.Timeouts, state bpfCtState) time.Duration {
	return [...]time.Duration{
		bpfCtStateCT_STATE_OPENING: t.Opening, bpfCtStateCT_STATE_ESTABLISHED: t.Established,
		bpfCtStateCT_STATE_HALF_CLOSED: t.HalfClosed, bpfCtStateCT_STATE_TIME_WAIT: t.TimeWait,
		bpfCtStateCT_STATE_CLOSED: t.Closed, bpfCtStateCT_STATE_UDP: t.UDP,
		bpfCtStateCT_STATE_UDP_REPLIED: t.UDPReplied, bpfCtStateCT_STATE_ICMP: t.ICMP,
	}[state]
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
func (d *Datapath) ReadNATEvents(most int, do func(n *NATEvent)) error {
	if d.cfg.Egress == nil {
		return nil
	}
	if d.nat.natEvents == nil {
		natEvents, err := ringbuf.NewReader(d.objs.NatEvents)
		if err != nil {
			return fmt.Errorf("read the news of sessions: %w", err)
		}
		natEvents.SetDeadline(time.Unix(1, 0)) // take what is there
		d.nat.natEvents = natEvents
	}
	now, err := monotonicNS()
	if err != nil {
		return err
	}
	var record ringbuf.Record
	var n NATEvent
	for range most {
		err := d.nat.natEvents.ReadInto(&record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the news of sessions: %w", err)
		}
		if err := d.readNATEvent(&n, record.RawSample, now); err != nil {
			return err
		}
		do(&n)
	}
	return nil
}

func (d *Datapath) readNATEvent(n *NATEvent, sample []byte, now uint64) error {
	var raw bpfNatEvent
	if len(sample) < int(unsafe.Sizeof(raw)) {
		return fmt.Errorf("read the news of sessions: an entry of %d bytes, not %d", len(sample), unsafe.Sizeof(raw))
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&raw)), unsafe.Sizeof(raw)), sample)
	// The generator makes the same types once more for each object.
	k, b := (*bpfCtKey)(unsafe.Pointer(&raw.Key)), (*bpfNatSession)(unsafe.Pointer(&raw.Session))
	n.Event, n.AgeNS = natEventKinds[raw.Event], since(now, raw.Ns)
	d.natSession(&n.Session, k, b, now)
	n.Record = d.record(k, b, now)
	return nil
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
// answers for, the fullest first, most of them at most. Those of replicas are others'.
func (d *Datapath) PortUsages(most int) ([]PortUsage, error) {
	d.nat.sweeping.Lock()
	defer d.nat.sweeping.Unlock()
	if d.cfg.Egress == nil || d.nat.sweeper == nil {
		return nil, nil
	}
	d.nat.changing.Lock()
	owners := d.nat.owners
	d.nat.changing.Unlock()
	var list []PortUsage
	err := walk(d.nat.sweeper.pressures, func(k bpfPortUsageKey, p bpfPortUsage) {
		if p.Run != d.nat.sweeper.last {
			return
		}
		owner, ok := owners[bpfLocalKey{Router: k.Router, Addr: bpfAddr{W: k.Egress.W}}]
		if !ok {
			return
		}
		list = append(list, PortUsage{
			Policy: owner.name, Router: d.names.routers[k.Router], Proto: k.Proto, Egress: addrOf(k.Egress.W),
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
