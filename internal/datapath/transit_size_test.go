package datapath

import (
	"testing"

	"github.com/selvage/selvage/internal/fib"
)

// slotsInUse is how many slots the table of the core has that the test runs on.
func slotsInUse(t *testing.T, w *world) (most uint32) {
	t.Helper()
	tables, err := w.dp.Traffic.transitTables()
	must(t, err)
	for _, table := range tables {
		most = max(most, table.Mask+1)
	}
	return most
}

// A table that has grown for many flows is small again when few are left, which go on as they did; then it grows again. Flows that are idle are still listed.
func TestTransitTableShrinks(t *testing.T) {
	t.Parallel()
	onOneCPU(t)
	w := transitWorld(t, ways()[0], func(c *Config, _ *fib.Tables) { c.Transit, c.FlowCache.Size = true, 1<<16 })
	const few, many, epochsAfter = 200, 12000, 3 * epochs
	want := map[int]string{}
	send := func(flows int) {
		t.Helper()
		for port := range flows {
			r := w.passed(t, fromSender(1, 1000+port))
			if r.verdict != xdpRedirect {
				t.Fatalf("flow %d: verdict %d", port, r.verdict)
			}
			if before, known := want[port]; known && before != string(r.out) {
				t.Fatalf("flow %d: other bytes than before", port)
			}
			want[port] = string(r.out)
		}
	}
	for round := range 2 {
		send(many)
		grown := slotsInUse(t, w)
		if grown < many {
			t.Fatalf("round %d: %d slots for %d flows", round, grown, many)
		}
		for range epochsAfter {
			must(t, w.dp.Changes.addGlobal(bpfGlobalCounterGLOBAL_CLOCK, 1))
			send(few)
		}
		if now := slotsInUse(t, w); now > grown/8 || now < few {
			t.Errorf("round %d: of %d slots there are %d for %d flows", round, grown, now, few)
		}
		_, events := w.counted(t, func() { send(few) })
		if events["hit"] < few*9/10 {
			t.Errorf("round %d: of %d flows %d hit; events %v", round, few, events["hit"], events)
		}
	}
	now, err := w.dp.prog.kernel.Clock.Monotonic()
	must(t, err)
	flows, err := w.dp.Flows.transitFlows(now)
	must(t, err)
	if len(flows) < many/2 {
		t.Errorf("%d flows are listed", len(flows))
	}
}
