package datapath

import (
	"fmt"
	"testing"

	"github.com/selvage/selvage/test/pkttest"
)

// fromSender is a datagram to an uplink by a sender of a MAC address.
func fromSender(sender, port int) []byte {
	return pkttest.Frame(fmt.Sprintf("02:00:00:09:%02x:%02x", sender>>8, sender&0xff), uplinkMAC, fmt.Sprintf("udp 203.0.113.5:%d > 10.0.3.7:1 30", port))
}

// passed is a frame through the transit program, whose sender tc has learnt.
func (w *world) passed(t *testing.T, frame []byte) result {
	t.Helper()
	r := w.transit(t, "s0", frame)
	if r.verdict == xdpPass {
		w.fromPort(t, "s0", frame)
		r = w.transit(t, "s0", frame)
	}
	return r
}

// Flows that differ in nothing but what actions have are apart: each has an entry and counters of its own.
func TestTransitFlowsOfOneAddress(t *testing.T) {
	onOneCPU(t)
	w := transitWorld(t, ways()[0])
	for sender := range 3 {
		w.fromPort(t, "s0", fromSender(sender, 1))
		_, events := w.counted(t, func() {
			for range sender + 1 {
				if r := w.passed(t, fromSender(sender, 53)); r.verdict != xdpRedirect {
					t.Fatalf("sender %d: verdict %d", sender, r.verdict)
				}
			}
		})
		if events["miss"] != 1 || events["hit"] != uint64(sender) {
			t.Errorf("sender %d: events %v", sender, events)
		}
	}
	now, err := w.dp.prog.kernel.Clock.Monotonic()
	must(t, err)
	flows, err := w.dp.Flows.transitFlows(now)
	must(t, err)
	packets := map[byte]uint64{}
	for key, f := range flows {
		if key.Smac[3] == 9 {
			packets[key.Smac[5]] = f.Packets
			if f.Decision.Out == 0 || f.Decision.Generation == 0 && f.Decision.Segment == 0 {
				t.Errorf("flow %+v: decision %+v", key, f.Decision)
			}
		}
	}
	if want := (map[byte]uint64{0: 1, 1: 2, 2: 3}); fmt.Sprint(packets) != fmt.Sprint(want) {
		t.Errorf("packets by sender: %v, want %v", packets, want)
	}
}
