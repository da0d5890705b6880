package datapath

import (
	"bytes"
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/test/pkttest"
)

// watch starts a session that ends with the test.
func (w *world) watch(t testing.TB, o MonitorOptions) *MonitorSession {
	t.Helper()
	if o.RingBytes == 0 {
		o.RingBytes = 1 << 18
	}
	if o.Rate == 0 {
		o.Rate = 1 << 20
	}
	if o.Snaplen == 0 {
		o.Snaplen = MostSnaplen
	}
	s, err := w.dp.Monitors.Start(o)
	must(t, err)
	t.Cleanup(func() { must(t, s.Stop()) })
	return s
}

func eventsOf(t testing.TB, s *MonitorSession) (list []PacketEvent) {
	t.Helper()
	for {
		more, err := s.Events(100, func(e PacketEvent) { list = append(list, e) })
		must(t, err)
		if !more {
			return list
		}
	}
}

// Each kind of drop is told with its reason, where the packet came from, and the packet itself.
func TestMonitorTellsDrops(t *testing.T) {
	w := newWorld(t, underIPv4, static(underIPv4))
	s := w.watch(t, MonitorOptions{Drops: true})
	same := say(alice, alice)
	strange := w.outer(w.family.unknown).Wrap(say(bob, alice))
	short := bytes.Clone(same)
	short[16] = 0xff // the length of the IP packet
	w.fromPort(t, "p0", same)
	w.fromUnderlay(t, strange)
	w.fromPort(t, "p1", short)
	w.fromUnderlay(t, w.fromRemote(say(bob, bob)))
	w.fromPort(t, "p0", say(alice, bob)) // forwarded: not told
	list := eventsOf(t, s)
	want := []PacketEvent{
		{Reason: "same-port", Port: "p0", Segment: "blue", Bytes: same},
		{Reason: "unknown-remote", Segment: "blue", Origin: w.family.unknown, VNI: blueVNI, Inner: 50, Bytes: strange},
		{Reason: "malformed-ipv4", Port: "p1", Segment: "blue", Bytes: short},
		{Reason: "same-port", Remote: w.family.remotes[0], Segment: "blue", Origin: w.family.remotes[0], VNI: blueVNI, Inner: 50, Bytes: w.fromRemote(say(bob, bob))},
	}
	if len(list) != len(want) {
		t.Fatalf("%d events, want %d: %+v", len(list), len(want), list)
	}
	for i, e := range list {
		x := want[i]
		if e.Reason != x.Reason || e.Port != x.Port || e.Remote != x.Remote || e.Segment != x.Segment || e.Origin != x.Origin || e.VNI != x.VNI ||
			e.Inner != x.Inner || !bytes.Equal(e.Bytes, x.Bytes) || e.Len != len(x.Bytes) || !e.First || e.Point != PointDrop || e.XDP || e.AgeNS > 60e9 {
			t.Errorf("event %d is %+v, want %+v", i, e, x)
		}
	}
	c, err := s.Counts()
	must(t, err)
	if c.MatchedDrops() != 4 || c.Limited+c.Lost+c.Cut != 0 {
		t.Errorf("counted %+v", c)
	}
}

// Filters choose by reason, port, segment, remote and what is in the packet. What they leave out is not counted.
func TestMonitorFilters(t *testing.T) {
	t.Parallel()
	w := newWorld(t, underIPv4, static(underIPv4))
	tcp := func(src, dst string) []byte { return pkttest.Frame(alice, alice, "tcp "+src+" > "+dst+" syn 10") }
	offer := func() {
		w.fromPort(t, "p0", tcp("10.0.0.1:1000", "10.0.0.2:443"))
		w.fromPort(t, "p0", pkttest.Frame(alice, alice, "udp [2001:db8::1]:53 > [2001:db8::2]:443 18"))
		short := tcp("10.0.0.2:443", "10.0.0.1:1000")
		short[16] = 0xff
		w.fromPort(t, "p1", short)
		w.fromUnderlay(t, w.fromRemote(say(bob, bob)))
		w.fromUnderlay(t, w.outer(w.family.unknown).Wrap(say(bob, bob)))
		w.fromPort(t, "p2", say(carol, carol))
	}
	prefix := netip.MustParsePrefix
	for _, c := range []struct {
		name   string
		filter MonitorFilter
		want   uint64
	}{
		{"all", MonitorFilter{}, 6},
		{"reason", MonitorFilter{Reasons: []string{"same-port"}}, 4},
		{"two reasons", MonitorFilter{Reasons: []string{"malformed-ipv4", "unknown-remote"}}, 2},
		{"port", MonitorFilter{Port: "p0"}, 2},
		{"trunk", MonitorFilter{Port: "p1", Trunk: true}, 1},
		{"segment", MonitorFilter{Segment: "green"}, 1},
		{"remote", MonitorFilter{Remote: w.family.remotes[0]}, 1},
		{"an address that is no remote", MonitorFilter{Remote: w.family.unknown}, 1},
		{"port and reason", MonitorFilter{Port: "p0", Reasons: []string{"malformed-ipv4"}}, 0},
		{"source", MonitorFilter{Port: "p0", Packet: PacketFilter{Src: prefix("10.0.0.1/32")}}, 1},
		{"all of IPv4", MonitorFilter{Port: "p0", Packet: PacketFilter{Dst: prefix("0.0.0.0/0")}}, 1},
		{"network of IPv6", MonitorFilter{Packet: PacketFilter{Dst: prefix("2001:db8::/32")}}, 1},
		{"destination port", MonitorFilter{Packet: PacketFilter{DstPort: 443}}, 2},
		{"port of TCP", MonitorFilter{Packet: PacketFilter{Protocols: []uint8{6}, DstPort: 443}}, 1},
		{"either direction", MonitorFilter{Packet: PacketFilter{Src: prefix("10.0.0.2/32"), SrcPort: 443, Either: true}}, 1},
		{"ethertype", MonitorFilter{Port: "p0", Packet: PacketFilter{EtherType: 0x86dd}}, 1},
	} {
		s := w.watch(t, MonitorOptions{Drops: true, Filter: c.filter})
		offer()
		counts, err := s.Counts()
		must(t, err)
		if list := eventsOf(t, s); uint64(len(list)) != c.want || counts.MatchedDrops() != c.want {
			t.Errorf("%s: %d told, %d counted, want %d: %+v", c.name, len(list), counts.MatchedDrops(), c.want, list)
		}
		must(t, s.Stop())
	}
}

// Shown and not shown are what was dropped, whatever the rate and the ring.
func TestMonitorCountsAll(t *testing.T) {
	w := newWorld(t, underIPv4, static(underIPv4))
	drops := func() map[string]uint64 {
		list, err := w.dp.Traffic.Drops()
		must(t, err)
		m := map[string]uint64{}
		for _, d := range list {
			if d.Packets > 0 {
				m[d.Reason] = d.Packets
			}
		}
		return m
	}
	before := drops()
	few := w.watch(t, MonitorOptions{Drops: true, Rate: 10})
	small := w.watch(t, MonitorOptions{Drops: true, RingBytes: 4096, Snaplen: 64})
	const packets = 500
	for range packets {
		w.fromPort(t, "p0", say(alice, alice))
	}
	w.fromUnderlay(t, w.outer(w.family.unknown).Wrap(say(bob, alice)))
	lost := map[string]uint64{}
	for reason, n := range drops() {
		if n != before[reason] {
			lost[reason] = n - before[reason]
		}
	}
	for name, s := range map[string]*MonitorSession{"rate": few, "ring": small} {
		must(t, s.Quiesce())
		c, err := s.Counts()
		must(t, err)
		shown := uint64(len(eventsOf(t, s)))
		if !maps.Equal(c.Matched, lost) {
			t.Errorf("%s: counted %v, dropped were %v", name, c.Matched, lost)
		}
		if shown+c.Limited+c.Lost != packets+1 || shown == 0 || shown > packets/2 {
			t.Errorf("%s: %d shown, %d limited and %d lost are not %d", name, shown, c.Limited, c.Lost, packets+1)
		}
	}
}

// Forwarded packets are told as they came and as they leave, one of so many, and are the same as without a monitor.
func TestMonitorForwarded(t *testing.T) {
	w := newWorld(t, underIPv4, static(underIPv4))
	frame := pkttest.Frame(alice, bob, "udp 10.0.0.1:1000 > 10.0.0.9:2000 300")
	w.fromPort(t, "p0", frame)
	without := w.fromPort(t, "p0", frame)
	s := w.watch(t, MonitorOptions{Forwarded: true, Drops: true, Originals: true, Leaving: true, Snaplen: 100})
	third := w.watch(t, MonitorOptions{Forwarded: true, Sample: 3, Leaving: true})
	for range 6 {
		if r := w.fromPort(t, "p0", frame); r.verdict != without.verdict || !bytes.Equal(r.out, without.out) {
			t.Fatalf("%s with a monitor, %s without\n%x\n%x", r.verdict, without.verdict, r.out, without.out)
		}
	}
	list := eventsOf(t, s)
	if len(list) != 12 {
		c, err := s.Counts()
		t.Fatalf("%d events, want 12; counted %+v, %v", len(list), c, err)
	}
	in, out := list[0], list[1]
	if in.Point != PointIngress || !bytes.Equal(in.Bytes, frame[:100]) || in.Len != len(frame) || !in.First || in.Decision.Action != "encapsulate to" ||
		in.Decision.Remote != w.family.remotes[0] || !in.Decision.Cached || in.Port != "p0" {
		t.Errorf("ingress is %+v", in)
	}
	if out.Point != PointEgress || !bytes.Equal(out.Bytes, without.out[:100]) || out.Len != len(without.out) || out.First || out.Packet != in.Packet {
		t.Errorf("egress is %+v, want %x", out, without.out[:100])
	}
	if n := len(eventsOf(t, third)); n != 2 {
		t.Errorf("%d of 6 packets told, want every third", n)
	}
	if c, err := third.Counts(); err != nil || c.Matched[""] != 6 || c.SampledOut != 4 {
		t.Errorf("counted %+v, %v", c, err)
	}
}

// Transit programs tell of drops and of forwarded packets, also of those of the fast path.
func TestMonitorTransit(t *testing.T) {
	onOneCPU(t)
	w := transitWorld(t, ways()[0])
	c := passing()[0]
	from, b := c.in(w, strings.Replace(c.words, ":1 ", ":5353 ", 1)) // a flow of its own
	w.transit(t, from, b)
	without := w.transit(t, from, b)
	s := w.watch(t, MonitorOptions{Drops: true, Forwarded: true, Originals: true, Leaving: true})
	if r := w.transit(t, from, b); r.verdict != without.verdict || !bytes.Equal(r.out, without.out) {
		t.Errorf("with a monitor %v %x, without %v %x", r.verdict, r.out, without.verdict, without.out)
	}
	list := eventsOf(t, s)
	if len(list) != 2 || !list[0].XDP || !bytes.Equal(list[0].Bytes, b) || !bytes.Equal(list[1].Bytes, without.out) || !list[0].Decision.Cached {
		t.Errorf("told %+v", list)
	}
}

// The map of sessions is as it was when programs looked it up, so that each build adopts that of the other.
func TestMonitorMapIsPlain(t *testing.T) {
	spec, err := loadBpf()
	must(t, err)
	nameSections(spec)
	m := spec.Maps[mapMonitors]
	got := ebpf.MapSpec{Name: m.Name, Type: m.Type, KeySize: m.KeySize, ValueSize: m.ValueSize, MaxEntries: m.MaxEntries, Flags: m.Flags}
	want := ebpf.MapSpec{Name: "monitors", Type: ebpf.Array, KeySize: 4, ValueSize: 1136, MaxEntries: 1}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// There are so many sessions, and a place is free again when nobody prolongs its session.
func TestMonitorsAreBounded(t *testing.T) {
	w := newWorld(t, underIPv4, static(underIPv4))
	o := MonitorOptions{Drops: true, RingBytes: 4096, Rate: 10, Snaplen: 64}
	var all []*MonitorSession
	for range MostMonitors {
		all = append(all, w.watch(t, o))
	}
	if _, err := w.dp.Monitors.Start(o); !errors.Is(err, ErrMonitors) {
		t.Fatalf("one more: %v", err)
	}
	must(t, w.dp.Monitors.change(func(table *bpfMonitorTable, now uint64) error { // as after 11 s
		table.Sessions[all[1].slot].UntilNs = now - 1e9
		return nil
	}))
	w.fromPort(t, "p0", say(alice, alice))
	if list := eventsOf(t, all[1]); len(list) != 0 {
		t.Errorf("a session that nobody prolongs was told %+v", list)
	}
	heir := w.watch(t, o)
	if heir.slot != all[1].slot {
		t.Errorf("the place is %d, want %d", heir.slot, all[1].slot)
	}
	if err := all[1].Prolong(); !errors.Is(err, errMonitorEnded) {
		t.Errorf("prolong another's place: %v", err)
	}
	must(t, w.dp.Monitors.clear())
	var table bpfMonitorTable
	must(t, w.dp.Monitors.maps.Monitors.Lookup(uint32(0), &table))
	if table.Wants.Drops != 0 {
		t.Error("programs look for sessions of a former process")
	}
}

// Who takes over adopts the map of sessions, and ends those of the former process. Programs of that one, which packets see
// until tables are applied, tell of packets in sessions of the new one, and so do its own later.
func TestMonitorAfterTakeover(t *testing.T) {
	onOneCPU(t)
	w := transitWorld(t, ways()[0])
	c := passing()[0]
	from, through := c.in(w, strings.Replace(c.words, ":1 ", ":5454 ", 1))
	without := w.transit(t, from, through)
	left, err := w.dp.Monitors.Start(MonitorOptions{Forwarded: true, RingBytes: 4096})
	must(t, err)
	tap := w.taps(t)["p0"]
	w.reopen(t)
	must(t, errors.Join(left.ring.Close(), left.rings.Close()))
	var table bpfMonitorTable
	must(t, w.dp.Monitors.maps.Monitors.Lookup(uint32(0), &table))
	if table != (bpfMonitorTable{}) {
		t.Errorf("of the former process are left %+v", table)
	}
	s := w.watch(t, MonitorOptions{Drops: true, Forwarded: true, Leaving: true})
	tap.send(t, say(alice, alice)) // to a program of the former process
	var list []PacketEvent
	must(t, await.That(t.Context(), "the event of the former program", func() error {
		if list = append(list, eventsOf(t, s)...); len(list) == 0 {
			return errors.New("there is none")
		}
		return nil
	}))
	if len(list) != 1 || list[0].XDP || list[0].Reason != "same-port" {
		t.Errorf("programs of the former process told %+v", list)
	}
	w.apply(t)
	w.fromPort(t, "p0", say(alice, alice))
	if r := w.transit(t, from, through); r.verdict != without.verdict {
		t.Errorf("the verdict was %v, and is %v", without.verdict, r.verdict)
	}
	if list := eventsOf(t, s); len(list) != 2 || list[0].XDP || !list[1].XDP {
		t.Errorf("programs of the new one told %+v", list)
	}
}
