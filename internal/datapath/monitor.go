package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

const (
	// MostMonitors is how many sessions there are at a time.
	MostMonitors = 4
	// MostSnaplen is how many bytes of a packet are told, at most.
	MostSnaplen = 9216
	// monitorLease is how long programs tell a session that user space does not prolong.
	monitorLease = 10 * time.Second
	// monitorWindow is in what time a core has tokens: MONITOR_WINDOW.
	monitorWindow = 1 << 27 * time.Nanosecond
)

// MonitorOptions are what a session wants of packets.
type MonitorOptions struct {
	Drops     bool
	Forwarded bool
	Sample    int  // of forwarded packets one of so many
	Originals bool // packets as they came, before anything changes them
	Leaving   bool // forwarded packets as they leave
	Snaplen   int  // bytes of each, at most
	Rate      int  // packets a second
	RingBytes int  // of the ring buffer, a power of two and of whole pages
	Filter    MonitorFilter
}

// MonitorFilter chooses packets: all that is set must be so.
type MonitorFilter struct {
	Reasons []string
	Port    string // ingress or egress, or whose firewall refused
	Trunk   bool   // all VLANs of the port's interface are meant
	Segment string // ingress or egress
	Remote  netip.Addr
	Packet  PacketFilter
}

// PacketFilter chooses packets by their inner headers. The zero one chooses all.
type PacketFilter struct {
	EtherType        uint16
	Protocols        []uint8 // one or two
	Src, Dst         netip.Prefix
	SrcPort, DstPort uint16
	Either           bool // or with source and destination exchanged
}

// MonitorCounts are what a session's programs saw: Matched, less what follows, was sent.
type MonitorCounts struct {
	Matched    map[string]uint64 // packets by reason; FORWARDED is ""
	SampledOut uint64            // forwarded packets beside the samples
	Limited    uint64            // packets above the rate
	Lost       uint64            // packets for which the ring had no room
	Cut        uint64            // further records about packets for which it had none
}

// MatchedDrops is the sum over all reasons.
func (c MonitorCounts) MatchedDrops() (n uint64) {
	for reason, packets := range c.Matched {
		if reason != "" {
			n += packets
		}
	}
	return n
}

// ErrMonitors is the error of Start when there are as many sessions as may be.
var ErrMonitors = fmt.Errorf("%d sessions watch packets already, and more may not: end one", MostMonitors)

// errMonitorEnded is the error of a session whose place is another's.
var errMonitorEnded = errors.New("the data path was loaded anew: start again")

// clear ends the sessions of a former process.
func (mo *Monitors) clear() error {
	if err := mo.maps.Monitors.Put(uint32(0), bpfMonitorTable{}); err != nil {
		return fmt.Errorf("clear the monitors: %w", err)
	}
	for slot := range uint32(MostMonitors) {
		if err := mo.maps.MonitorRings.Delete(slot); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("clear the monitors: %w", err)
		}
	}
	return nil
}

// change reads the table of sessions, and writes what do makes of it.
func (mo *Monitors) change(do func(t *bpfMonitorTable, now uint64) error) error {
	mo.changing.Lock()
	defer mo.changing.Unlock()
	now, err := mo.prog.kernel.Clock.Monotonic()
	if err != nil {
		return err
	}
	var t bpfMonitorTable
	if err := mo.maps.Monitors.Lookup(uint32(0), &t); err != nil {
		return fmt.Errorf("read the table of monitors: %w", err)
	}
	if err := do(&t, now); err != nil {
		return err
	}
	if err := mo.maps.Monitors.Put(uint32(0), t); err != nil {
		return fmt.Errorf("write the table of monitors: %w", err)
	}
	return nil
}

// MonitorSession watches packets until Stop. Its methods are for one goroutine, beside all else.
type MonitorSession struct {
	monitors *Monitors
	options  MonitorOptions
	slot     uint32
	id       uint64
	rings    kernel.PinnedMap
	ring     kernel.Ring
	record   ringRecord
	before   MonitorCounts // of the place's former sessions
}

// Start has programs tell of packets. It reads names, so that nothing may change meanwhile.
func (mo *Monitors) Start(o MonitorOptions) (*MonitorSession, error) {
	session, err := mo.sessionOf(o)
	if err != nil {
		return nil, err
	}
	s := &MonitorSession{monitors: mo, options: o, id: mo.prog.kernel.Random()}
	session.Id = s.id
	if err := mo.change(func(t *bpfMonitorTable, now uint64) error { return s.take(t, session, now) }); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	if err := mo.change(s.want); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// take takes a free place. Programs do not look there yet.
func (s *MonitorSession) take(t *bpfMonitorTable, session bpfMonitor, now uint64) error {
	for slot := range t.Sessions {
		if at := t.Sessions[slot]; at.Id != 0 && at.UntilNs > now {
			continue
		}
		s.slot = uint32(slot)
		session.UntilNs = now + uint64(monitorLease)
		t.Sessions[slot] = session
		t.Wants = wantsOf(t.Wants, slot, MonitorOptions{})
		return nil
	}
	return ErrMonitors
}

func (s *MonitorSession) open() (err error) {
	if s.before, err = s.total(); err != nil {
		return err
	}
	loader := s.monitors.prog.kernel.Loader
	if s.rings, err = loader.NewMap(&ebpf.MapSpec{Name: "monitor_ring", Type: ebpf.RingBuf, MaxEntries: uint32(s.options.RingBytes)}); err != nil {
		return fmt.Errorf("make a ring buffer of %d bytes: %w", s.options.RingBytes, err)
	}
	if err = s.monitors.maps.MonitorRings.Put(s.slot, s.rings); err != nil {
		return fmt.Errorf("put the ring buffer into its place: %w", err)
	}
	if s.ring, err = loader.NewRing(s.rings); err != nil {
		return fmt.Errorf("read the ring buffer: %w", err)
	}
	s.ring.SetDeadline(time.Unix(1, 0)) // it has passed: nobody waits
	return nil
}

// want has programs look.
func (s *MonitorSession) want(t *bpfMonitorTable, _ uint64) error {
	if t.Sessions[s.slot].Id != s.id {
		return errMonitorEnded
	}
	t.Wants = wantsOf(t.Wants, int(s.slot), s.options)
	t.Wants.Snaplen = 0
	for slot, session := range t.Sessions {
		if t.Wants.Originals>>slot&1 != 0 {
			t.Wants.Snaplen = max(t.Wants.Snaplen, session.Snaplen)
		}
	}
	return nil
}

// wantsOf are the wants with those of one session.
func wantsOf(w bpfMonitorWants, slot int, o MonitorOptions) bpfMonitorWants {
	for _, bit := range []struct {
		word *uint32
		want bool
	}{{&w.Drops, o.Drops}, {&w.Forwarded, o.Forwarded}, {&w.Originals, o.Originals}} {
		*bit.word &^= 1 << slot
		if bit.want {
			*bit.word |= 1 << slot
		}
	}
	if w.Originals == 0 { // nobody's
		w.Snaplen = 0
	}
	return w
}

// Prolong has programs go on for another while. A session that nobody prolongs ends, also with this process.
func (s *MonitorSession) Prolong() error {
	return s.monitors.change(func(t *bpfMonitorTable, now uint64) error {
		if t.Sessions[s.slot].Id != s.id {
			return errMonitorEnded
		}
		t.Sessions[s.slot].UntilNs = now + uint64(monitorLease)
		return nil
	})
}

// Quiesce has programs tell no more of packets. What they told is still to be read, and Counts are final.
func (s *MonitorSession) Quiesce() error {
	err := s.monitors.change(func(t *bpfMonitorTable, _ uint64) error {
		if t.Sessions[s.slot].Id != s.id {
			return nil
		}
		t.Wants = wantsOf(t.Wants, int(s.slot), MonitorOptions{})
		return nil
	})
	if errors.Is(err, errMonitorEnded) {
		return nil
	}
	if s.rings == nil {
		return err
	}
	// The kernel waits for programs that still use it.
	if gone := s.monitors.maps.MonitorRings.Delete(s.slot); gone != nil && !errors.Is(gone, ebpf.ErrKeyNotExist) {
		err = errors.Join(err, fmt.Errorf("take the ring buffer away: %w", gone))
	}
	return err
}

// Stop ends the session and frees all that it has.
func (s *MonitorSession) Stop() error {
	errs := []error{s.Quiesce(), s.monitors.change(func(t *bpfMonitorTable, _ uint64) error {
		if t.Sessions[s.slot].Id == s.id {
			t.Sessions[s.slot] = bpfMonitor{}
		}
		return nil
	})}
	if s.ring != nil {
		errs = append(errs, s.ring.Close())
	}
	if s.rings != nil {
		errs = append(errs, s.rings.Close())
	}
	s.ring, s.rings = nil, nil
	return errors.Join(errs...)
}

// total sums what the cores counted at the session's place.
func (s *MonitorSession) total() (c MonitorCounts, err error) {
	var cores []bpfMonitorCore
	if err := s.monitors.maps.MonitorCores.Lookup(uint32(0), &cores); err != nil {
		return c, fmt.Errorf("read the counters of the monitor: %w", err)
	}
	words := s.monitors.prog.words.reasons
	c.Matched = make(map[string]uint64)
	for i := range cores {
		n := &cores[i].Counts[s.slot]
		for reason, packets := range n.Matched[:min(len(words), len(n.Matched))] {
			if packets != 0 {
				c.Matched[reasonOrForwarded(words, reason)] += packets
			}
		}
		c.SampledOut, c.Limited, c.Lost, c.Cut = c.SampledOut+n.SampledOut, c.Limited+n.Limited, c.Lost+n.Lost, c.Cut+n.Cut
	}
	return c, nil
}

func reasonOrForwarded(words []word, reason int) string {
	if reason == 0 {
		return ""
	}
	return words[reason].name
}

// Counts are those since Start.
func (s *MonitorSession) Counts() (MonitorCounts, error) {
	c, err := s.total()
	if err != nil {
		return c, err
	}
	for reason, packets := range s.before.Matched {
		c.Matched[reason] -= packets
		if c.Matched[reason] == 0 {
			delete(c.Matched, reason)
		}
	}
	c.SampledOut, c.Limited, c.Lost, c.Cut = c.SampledOut-s.before.SampledOut, c.Limited-s.before.Limited, c.Lost-s.before.Lost, c.Cut-s.before.Cut
	return c, nil
}

// sessionOf is what programs read of the options.
func (mo *Monitors) sessionOf(o MonitorOptions) (m bpfMonitor, err error) {
	m.Snaplen, m.Sample = uint32(min(max(o.Snaplen, 1), MostSnaplen)), uint32(max(o.Sample, 1))
	m.Tokens = uint32(max(uint64(max(o.Rate, 0))*uint64(monitorWindow)/uint64(time.Second), 1))
	m.Points = uint32(bpfMonitorPointMONITOR_DROP)
	if o.Originals {
		m.Points |= uint32(bpfMonitorPointMONITOR_INGRESS)
	}
	if o.Leaving {
		m.Points |= uint32(bpfMonitorPointMONITOR_EGRESS)
	}
	m.Filter, err = mo.filterOf(o.Filter)
	return m, err
}

func (mo *Monitors) filterOf(f MonitorFilter) (b bpfMonitorFilter, err error) {
	for _, name := range f.Reasons {
		reason := slices.IndexFunc(mo.prog.words.reasons, func(w word) bool { return w.name == name })
		if reason < 1 {
			return b, fmt.Errorf("there is no drop reason %q: selvage drops --all lists them", name)
		}
		b.Tests |= bpfMonitorTestsMONITOR_REASONS
		b.Reasons[reason/64] |= 1 << (reason % 64)
	}
	if b.Tests != 0 {
		b.Reasons[0] |= 1 // forwarded packets, where those are wanted
	}
	if f.Port != "" {
		id, ok := mo.numbers.names.portIDs[f.Port]
		if !ok {
			return b, fmt.Errorf("there is no port %q with an interface", f.Port)
		}
		b.Tests |= bpfMonitorTestsMONITOR_PORT
		b.Ifindex, b.Vport = mo.numbers.vports[id].Ifindex, id
		if f.Trunk {
			b.Vport = 0
		}
	}
	if f.Segment != "" {
		id, ok := mo.numbers.names.segIDs[f.Segment]
		if !ok {
			return b, fmt.Errorf("there is no segment %q", f.Segment)
		}
		b.Tests |= bpfMonitorTestsMONITOR_SEGMENT
		b.Segment = uint16(id)
	}
	mo.filterRemote(&b, f.Remote)
	f.Packet.put(&b)
	return b, nil
}

// filterRemote chooses by a remote with all its addresses, or by an address that is no remote's.
func (mo *Monitors) filterRemote(b *bpfMonitorFilter, remote netip.Addr) {
	if !remote.IsValid() {
		return
	}
	b.Tests |= bpfMonitorTestsMONITOR_REMOTE
	addrs := []netip.Addr{remote}
	for addr, first := range mo.numbers.edges {
		if first == remote && addr != remote && len(addrs) < len(b.Remotes) {
			addrs = append(addrs, addr)
		}
	}
	for i, addr := range addrs {
		b.Remotes[i].W = wireAddr(addr)
	}
}

// put writes the filter as programs read it.
func (f PacketFilter) put(b *bpfMonitorFilter) {
	if f.EtherType == 0 && len(f.Protocols) == 0 && !f.Src.IsValid() && !f.Dst.IsValid() && f.SrcPort == 0 && f.DstPort == 0 {
		return
	}
	b.Tests |= bpfMonitorTestsMONITOR_PACKET
	if f.Either {
		b.Tests |= bpfMonitorTestsMONITOR_EITHER
	}
	b.Ethertype, b.Sport, b.Dport = wire16(f.EtherType), wire16(f.SrcPort), wire16(f.DstPort)
	b.AnyProto = 1
	if len(f.Protocols) > 0 {
		b.AnyProto, b.Proto, b.Proto2 = 0, f.Protocols[0], f.Protocols[len(f.Protocols)-1]
	}
	b.Src.W, b.SrcMask.W = network(f.Src)
	b.Dst.W, b.DstMask.W = network(f.Dst)
}

// network is a prefix as an address, which may be IPv4-mapped, and its mask.
func network(p netip.Prefix) (addr, mask [4]uint32) {
	if !p.IsValid() {
		return addr, mask
	}
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	var b [16]byte
	for i := range bits {
		b[i/8] |= 0x80 >> (i % 8)
	}
	mask = wireAddr(netip.AddrFrom16(b))
	addr = wireAddr(p.Masked().Addr())
	return addr, mask
}
