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

// Binding is a connection whose addresses this edge translates.
type Binding struct {
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
	Forth, Back Counters // from who opened it, and to them; data packets come with delay
}

// EachBinding calls do for every binding until it returns false. do must not keep b.
func (d *Datapath) EachBinding(do func(b *Binding) bool) error {
	var b Binding
	return d.eachBinding(func(k *edgeConnKey, e *edgeBinding, now uint64) bool {
		d.binding(&b, k, e, now)
		return do(&b)
	})
}

func (d *Datapath) eachBinding(do func(k *edgeConnKey, b *edgeBinding, now uint64) bool) error {
	if d.cfg.Egress == nil {
		return nil
	}
	now, err := monotonicNS()
	if err != nil {
		return err
	}
	return walkWhile(d.objs.Bindings, func(k *edgeConnKey, b *edgeBinding) bool { return do(k, b, now) })
}

func (d *Datapath) binding(b *Binding, k *edgeConnKey, e *edgeBinding, now uint64) {
	bits, flags := sweepConnBits(e.Conn.Bits), natsweepBindingFlags(e.Flags)
	state := connState(k.Proto, bits)
	*b = Binding{
		Policy: d.names.egresses[uint32(e.Egress)], Router: d.names.routers[k.End], Proto: k.Proto, Echo: k.Asker != 0,
		Inside:  netip.AddrPortFrom(addrOf(k.Inside.W), wire16(k.InsidePort)),
		Outside: netip.AddrPortFrom(addrOf(k.Outside.W), wire16(k.OutsidePort)),
		Egress:  netip.AddrPortFrom(addrOf(e.Addr.W), wire16(e.Port)),
		State:   StateNames[state], Answered: isAnswered(k.Proto, bits),
		Forwarded: flags&natsweepBindingFlagsBINDING_FORWARDED != 0, Independent: flags&natsweepBindingFlagsBINDING_INDEPENDENT != 0,
		Mapping: flags&natsweepBindingFlagsBINDING_MAPPING != 0, Replica: flags&natsweepBindingFlagsBINDING_REPLICA != 0,
		AgeNS: since(now, e.Conn.BornNs), IdleNS: since(now, e.Conn.SeenNs),
		Forth: toCounters(e.Conn.Counters[0]), Back: toCounters(e.Conn.Counters[1]),
	}
	if e.Via != (edgeAddr{}) {
		b.Via = addrOf(e.Via.W)
	}
	b.LeftNS = since(uint64(stateTimeout(d.cfg.Egress.Timeouts, state)), b.IdleNS)
}

// stateTimeout is that of t for one state.
func stateTimeout(t overlay.Timeouts, state sweepConnState) time.Duration {
	return [...]time.Duration{
		sweepConnStateSTATE_OPENING: t.Opening, sweepConnStateSTATE_ESTABLISHED: t.Established,
		sweepConnStateSTATE_HALF_CLOSED: t.HalfClosed, sweepConnStateSTATE_TIME_WAIT: t.TimeWait,
		sweepConnStateSTATE_CLOSED: t.Closed, sweepConnStateSTATE_UDP: t.UDP,
		sweepConnStateSTATE_UDP_REPLIED: t.UDPReplied, sweepConnStateSTATE_ICMP: t.ICMP,
	}[state]
}

// NewsEvent is what happened to a binding.
type NewsEvent string

// The values of NewsEvent.
const (
	BindingBegan NewsEvent = "began"
	BindingOpen  NewsEvent = "open" // answered: worth telling other gateways
	BindingEnded NewsEvent = "ended"
)

var newsEvents = map[natsweepBindingEvent]NewsEvent{
	natsweepBindingEventBINDING_BEGAN: BindingBegan, natsweepBindingEventBINDING_OPEN: BindingOpen,
	natsweepBindingEventBINDING_ENDED: BindingEnded,
}

// News is what happened to a binding, as users see it and as other gateways are told.
type News struct {
	Event   NewsEvent
	AgeNS   uint64 // since it happened
	Binding Binding
	Record  BindingRecord
}

// News calls do for what happened since the last call, most at a time at most, and does
// not wait for more. do must not keep n. It must not be called twice at once. What came
// while the ring was full is counted as the event news-lost.
func (d *Datapath) News(most int, do func(n *News)) error {
	if d.cfg.Egress == nil {
		return nil
	}
	if d.nat.news == nil {
		news, err := ringbuf.NewReader(d.objs.News)
		if err != nil {
			return fmt.Errorf("read the news of bindings: %w", err)
		}
		news.SetDeadline(time.Unix(1, 0)) // take what is there
		d.nat.news = news
	}
	now, err := monotonicNS()
	if err != nil {
		return err
	}
	var record ringbuf.Record
	var n News
	for range most {
		err := d.nat.news.ReadInto(&record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the news of bindings: %w", err)
		}
		if err := d.readNews(&n, record.RawSample, now); err != nil {
			return err
		}
		do(&n)
	}
	return nil
}

func (d *Datapath) readNews(n *News, sample []byte, now uint64) error {
	var raw natsweepBindingNews
	if len(sample) < int(unsafe.Sizeof(raw)) {
		return fmt.Errorf("read the news of bindings: an entry of %d bytes, not %d", len(sample), unsafe.Sizeof(raw))
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&raw)), unsafe.Sizeof(raw)), sample)
	// The generator makes the same types once more for each object.
	k, b := (*edgeConnKey)(unsafe.Pointer(&raw.Key)), (*edgeBinding)(unsafe.Pointer(&raw.Binding))
	n.Event, n.AgeNS = newsEvents[raw.Event], since(now, raw.Ns)
	d.binding(&n.Binding, k, b, now)
	n.Record = d.record(k, b, now)
	return nil
}

// Pressure is how many ports of an egress address are in use for one peer.
type Pressure struct {
	Policy, Router string
	Proto          uint8
	Egress         netip.Addr
	Outside        netip.AddrPort // without a port of ICMP echo
	Used, Size     int            // bindings, and ports that there are
}

// Pressures are those that the last sweep counted of addresses which this edge gives or
// answers for, the fullest first, most of them at most. Those of replicas are others'.
func (d *Datapath) Pressures(most int) ([]Pressure, error) {
	d.nat.sweeping.Lock()
	defer d.nat.sweeping.Unlock()
	if d.cfg.Egress == nil || d.nat.sweeper == nil {
		return nil, nil
	}
	d.nat.changing.Lock()
	owners := d.nat.owners
	d.nat.changing.Unlock()
	var list []Pressure
	err := walk(d.nat.sweeper.pressures, func(k natsweepPressureKey, p natsweepPressure) {
		if p.Sweep != d.nat.sweeper.last {
			return
		}
		owner, ok := owners[edgeLocalKey{Router: k.Router, Addr: edgeAddr{W: k.Egress.W}}]
		if !ok {
			return
		}
		list = append(list, Pressure{
			Policy: owner.name, Router: d.names.routers[k.Router], Proto: k.Proto, Egress: addrOf(k.Egress.W),
			Outside: netip.AddrPortFrom(addrOf(k.Outside.W), wire16(k.OutsidePort)), Used: int(p.Count), Size: natPorts(k.Proto, owner.ports),
		})
	})
	slices.SortFunc(list, func(a, b Pressure) int {
		return cmp.Or(cmp.Compare(b.Used*a.Size, a.Used*b.Size), b.Used-a.Used, a.Egress.Compare(b.Egress), a.Outside.Compare(b.Outside))
	})
	return list[:min(most, len(list))], err
}

// natPorts is how many bindings an address with so many ports can have for one peer.
func natPorts(proto uint8, ports int) int {
	switch proto {
	case unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6:
		return 1 << 16 // identifiers
	case unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP:
		return ports
	}
	return min(ports, 1)
}
