package datapath

import (
	"maps"
	"net/netip"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

// firewallPlaces are the ports of a world as policies see them.
var firewallPlaces = []policy.Place{
	{Name: "p0", Port: "p0", Segment: "blue", Labels: map[string]string{"role": "web", "tier": "front"}},
	{Name: "p1", Port: "p1", Segment: "blue", Labels: map[string]string{"role": "db"}},
	{Name: "p2", Port: "p2", Segment: "green", Labels: map[string]string{"role": "web"}},
}

// firewallWorld is the routed world, an uplink included, with a firewall at its ports.
func firewallWorld(t testing.TB, fw overlay.Firewall, change ...func(*Config, *fib.Tables)) *world {
	t.Helper()
	return firewallWorldBy(t, ways()[0], fw, change...)
}

// firewallWorldBy has its tunnels another way.
func firewallWorldBy(t testing.TB, to way, fw overlay.Firewall, change ...func(*Config, *fib.Tables)) *world {
	t.Helper()
	base := func(c *Config, tables *fib.Tables) {
		routed(to, tables)
		c.Firewall = &fw
	}
	w := newWorld(t, to.family, append([]func(*Config, *fib.Tables){base}, change...)...)
	up := w.port("s0", "up")
	up.Uplink = true
	w.tables.Ports = append(w.tables.Ports, up)
	w.enforce(t, fw)
	return w
}

// enforce puts another policy into force.
func (w *world) enforce(t testing.TB, fw overlay.Firewall) {
	t.Helper()
	p, err := policy.Compile(fw, firewallPlaces)
	must(t, err)
	w.tables.Firewall = p
	w.apply(t)
}

// forgetConnections leaves the firewall as it was before the first packet.
func (w *world) forgetConnections(t testing.TB) {
	t.Helper()
	removeAll[bpfCtKey, bpfCtEntry](t, w.dp.Firewall.maps.CtEstablished)
	removeAll[bpfCtKey, bpfCtEntry](t, w.dp.Firewall.maps.CtHalfOpen)
	removeAll[bpfLimitSlot, bpfLimitEntry](t, w.dp.Limits.maps.LimitEntries)
	removeAll[bpfFragmentKey, bpfFragmentFirst](t, w.dp.Firewall.maps.Fragments)
	removeAll[uint64, bpfFlow](t, w.dp.Flows.maps.Flows)
	for _, id := range w.dp.numbers.names.portIDs {
		must(t, w.dp.Limits.maps.OwnerUsages.Put(ownerIndex(id), bpfLimitUsage{}))
	}
}

func removeAll[K, V any](t testing.TB, m kernel.Map) {
	t.Helper()
	var list []K
	each(t, m, func(k K, _ V) { list = append(list, k) })
	for _, k := range list {
		must(t, m.Delete(k))
	}
}

// age lets time pass for all that the firewall and the flow cache remember.
func (w *world) age(t testing.TB, by time.Duration) {
	t.Helper()
	ns := uint64(by)
	for _, table := range []kernel.Map{w.dp.Firewall.maps.CtEstablished, w.dp.Firewall.maps.CtHalfOpen} {
		changeEach[bpfCtKey](t, table, func(c *bpfCtEntry) { c.SeenNs, c.Born = c.SeenNs-ns, c.Born-uint32(ns>>bornShift) })
	}
	changeEach[bpfFragmentKey](t, w.dp.Firewall.maps.Fragments, func(f *bpfFragmentFirst) { f.PassedNs -= ns })
	w.ageFlows(t, by+time.Second) // to be safely older than revalidate_ns, whose clock has ticks
}

func (w *world) ageFlows(t testing.TB, by time.Duration) {
	t.Helper()
	changeEach[uint64](t, w.dp.Flows.maps.Flows, func(f *bpfFlow) { f.DecidedNs -= uint64(by) })
}

func changeEach[K comparable, V any](t testing.TB, m kernel.Map, change func(*V)) {
	t.Helper()
	list := map[K]V{}
	each(t, m, func(k K, v V) { list[k] = v })
	for k, v := range list {
		change(&v)
		must(t, m.Put(k, v))
	}
}

// verdictOf offers a packet and returns why it was dropped, "" when it was forwarded.
// One that is held back because another seems to be missing is offered again.
func (w *world) verdictOf(t testing.TB, from string, frame []byte) (why string, r result) {
	t.Helper()
	w.refill(t)
	for range 100 {
		var drops, events map[string]uint64
		drops, events = w.counted(t, func() { r = w.offer(t, from, frame) })
		if events["reorder-held"] > 0 {
			continue
		}
		if len(drops) > 1 || sum(drops) > 1 {
			t.Fatalf("one packet, drops %v", drops)
		}
		for why = range maps.Keys(drops) {
			return why, r
		}
		if r.verdict != forwarded {
			t.Fatalf("%v without a reason, events %v", r.verdict, events)
		}
		return "", r
	}
	t.Fatal("the packet is held for ever")
	return "", r
}

// verdictFrom is that of a station's packet.
func (w *world) verdictFrom(t testing.TB, from stand, frame []byte) (why string, r result) {
	t.Helper()
	switch {
	case from.port != "":
		return w.verdictOf(t, from.port, frame)
	case from.segment == "up":
		return w.verdictOf(t, "s0", frame)
	}
	return w.verdictOf(t, "u0", w.outerIn(from.segment, w.family.remotes[0]).Wrap(padded(frame)))
}

// each calls do for every entry of a table with few; walk reads thousands at a time.
func each[K, V any](t testing.TB, m kernel.Map, do func(K, V)) {
	t.Helper()
	var k K
	var v V
	entries := m.Iterate()
	for entries.Next(&k, &v) {
		do(k, v)
	}
	must(t, entries.Err())
}

// allConnections are those of both tables.
func (w *world) allConnections(t testing.TB) map[bpfCtKey]bpfCtEntry {
	t.Helper()
	list := map[bpfCtKey]bpfCtEntry{}
	for _, m := range []kernel.Map{w.dp.Firewall.maps.CtEstablished, w.dp.Firewall.maps.CtHalfOpen} {
		each(t, m, func(k bpfCtKey, c bpfCtEntry) { list[k] = c })
	}
	return list
}

// connectionsAt are those of a port.
func (w *world) connectionsAt(t testing.TB, port string) map[bpfCtKey]bpfCtEntry {
	t.Helper()
	list := w.allConnections(t)
	maps.DeleteFunc(list, func(k bpfCtKey, _ bpfCtEntry) bool { return k.Zone != w.dp.numbers.names.portIDs[port] })
	return list
}

// tcpStateOf is the state of a TCP connection in the words of users.
func tcpStateOf(c bpfCtEntry) string {
	return StateNames[tcpState(bpfCtBits(c.Bits))]
}

// connections are all of them by the reference's names: their states and how many packets
// each direction has had, the first from who opened it.
func (w *world) connections(t testing.TB) (states map[refKey]string, packets map[refKey][2]uint64) {
	t.Helper()
	states, packets = map[refKey]string{}, map[refKey][2]uint64{}
	for k, c := range w.allConnections(t) {
		key := refKey{
			place: w.dp.numbers.names.ports[k.Zone], proto: k.Proto, echoDir: [...]overlay.Direction{"", overlay.Out, overlay.In}[k.EchoDir],
			inside:  netip.AddrPortFrom(addrOf(k.Inside.W), wire16(k.InsidePort)),
			outside: netip.AddrPortFrom(addrOf(k.Outside.W), wire16(k.OutsidePort)),
		}
		states[key] = stateOf(k.Proto, c)
		packets[key] = [2]uint64{c.Counters[0].Packets, c.Counters[1].Packets}
	}
	return states, packets
}

func stateOf(proto uint8, c bpfCtEntry) string {
	const replied, stream = 256, 1024
	switch {
	case proto == 6:
		return tcpStateOf(c)
	case proto == 1 || proto == 58:
		return "icmp"
	case c.Bits&stream != 0:
		return "udp-stream"
	case c.Bits&replied != 0:
		return "udp-replied"
	}
	return "udp"
}
