package datapath

import (
	"testing"
	"time"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/test/pkttest"
)

// A burst goes on within a tick of the coarse clock, and then for as long as packets follow each other.
func TestBurst(t *testing.T) {
	w := ownWorld(t, underIPv4, static(underIPv4))
	// The port is no device that takes whole segments: what is polled is noted, and delivered as it is.
	must(t, w.dp.Ports.putVport(0, bpfVport{Ifindex: uint32(w.dev["s0"].Index)}))
	const size = 1000
	seq := uint32(1)
	send := func() bpfFlow {
		t.Helper()
		h := pkttest.TCP(1000, 80, "ack")
		h.Seq = seq
		seq += size
		frame := pkttest.Packet(pkttest.Ether(bob, alice), pkttest.IPv4("10.0.0.2", "10.0.0.1"), h, pkttest.Payload(size))
		w.fromUnderlay(t, w.fromRemote(frame))
		_, flow := w.onlyFlow(t)
		return flow
	}
	send()
	send() // of a flow that is cached
	clock := kernel.Host().Clock
	precise, coarse := clock.Monotonic, clock.Coarse
	for _, c := range []struct {
		name  string
		state bpfBurst
		clock func() (uint64, error)
		ago   time.Duration
		want  bpfBurst
	}{
		{"after a packet long ago", bpfBurstBURST_FIRST, precise, time.Second, bpfBurstBURST_FIRST},
		{"soon after a polled packet", bpfBurstBURST_POLLED, precise, 0, bpfBurstBURST_TICK},
		{"long after a polled packet", bpfBurstBURST_POLLED, precise, 20 * time.Millisecond, bpfBurstBURST_FIRST},
		{"in the same tick", bpfBurstBURST_TICK, coarse, 0, bpfBurstBURST_TICK},
		{"in a later tick", bpfBurstBURST_TICK, coarse, 20 * time.Millisecond, bpfBurstBURST_POLLED},
	} {
		var got bpfBurst
		for range 100 { // a tick or a pause of the machine may come between
			digest, flow := w.onlyFlow(t)
			now, err := c.clock()
			must(t, err)
			flow.Burst, flow.BurstNs = c.state, uint32(now-uint64(c.ago))
			must(t, w.dp.Flows.maps.Flows.Put(digest, flow))
			if got = send().Burst; got == c.want {
				break
			}
		}
		if got != c.want {
			t.Errorf("%s: the burst is %d, want %d", c.name, got, c.want)
		}
	}
}
