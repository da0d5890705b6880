package datapath

import (
	"testing"

	"github.com/selvage/selvage/internal/overlay"
)

// The kernel gives the memory of an entry that another core replaces or evicts to another flow at once.
func TestReusedFlowEntryIsNotUsed(t *testing.T) {
	w := firewallWorld(t, openFirewall(false))
	deliver := func(words string) map[string]uint64 {
		t.Helper()
		_, events := w.counted(t, func() { w.passes(t, words) })
		return events
	}
	toBob, toCarol := "alice > bob udp 53 from 999", "alice > carol udp 53 from 999"
	deliver(toBob)
	deliver(toCarol)
	if events := deliver(toBob); events["hit"] != 1 {
		t.Fatalf("events %v, want a hit", events)
	}
	bob, carol := w.flowOf(t, toBob), w.flowOf(t, toCarol)
	var theirs bpfFlow
	must(t, w.dp.Flows.maps.Flows.Lookup(carol, &theirs))
	for what, digest := range map[string]uint64{"another flow": theirs.Digest, "another flow of the same digest": bob} {
		theirs.Digest = digest
		must(t, w.dp.Flows.maps.Flows.Put(bob, theirs))
		from, frame := queryOf(t, toBob)
		_, r := w.verdictFrom(t, from, frame)
		if len(r.out) <= len(frame) {
			t.Errorf("%s: a packet to bob left by carol's decision, without encapsulation", what)
		}
		if events := deliver(toBob); events["hit"] != 1 {
			t.Errorf("%s: events %v, want a decision of its own", what, events)
		}
	}
}

// flowOf is the digest of the flow in words.
func (w *world) flowOf(t testing.TB, words string) (digest uint64) {
	t.Helper()
	_, frame := queryOf(t, words)
	found := false
	each(t, w.dp.Flows.maps.Flows, func(of uint64, f bpfFlow) {
		if f.Key.Dmac == [6]byte(frame[:6]) && f.Key.Smac == [6]byte(frame[6:12]) {
			digest, found = of, true
		}
	})
	if !found {
		t.Fatalf("%s: no flow", words)
	}
	return digest
}

// So it is with connections. What is moved from one table to the other is not another's.
func TestReusedConnectionEntryIsNotMoved(t *testing.T) {
	t.Parallel()
	w := limitedWorld(t, overlay.Limits{})
	w.passes(t, "alice > bob udp 53 from 999")
	w.passes(t, "bob > alice udp 80 from 999")
	list := w.connectionsAt(t, "p0")
	for k := range list {
		for other, c := range list {
			if other != k {
				must(t, w.dp.Firewall.maps.CtHalfOpen.Put(k, c))
			}
		}
	}
	w.passes(t, "bob > alice udp 999 from 53")
	w.passes(t, "alice > bob udp 999 from 80")
	if n := entriesOf[bpfCtKey, bpfCtEntry](t, w.dp.Firewall.maps.CtEstablished); n != 0 {
		t.Errorf("%d connections were moved with another's state", n)
	}
}
