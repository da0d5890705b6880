package datapath

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/pkttest/check"
)

// segmentAt is a TCP packet of 100 bytes with a sequence number, for alice from bob.
func segmentAt(seq uint32, flags string, ipPadding int) []byte {
	h := pkttest.TCP(1000, 80, flags)
	h.Seq = seq
	b := pkttest.Packet(pkttest.Ether(bob, alice), pkttest.IPv4("10.0.0.2", "10.0.0.1"), h, pkttest.Payload(100))
	return append(b, make([]byte, ipPadding)...)
}

// ordered sends TCP packets through the tunnel and wants each held or delivered.
type ordered struct {
	w    *world
	base uint32
}

func (o ordered) packet(t *testing.T, at uint32, flags string, held bool) {
	t.Helper()
	in := o.w.fromRemote(segmentAt(o.base+at, flags, 0))
	var r result
	_, events := o.w.counted(t, func() { r = o.w.fromUnderlay(t, in) })
	r.want(t, in, forwarded)
	if got := events["reorder-held"] > 0; got != held {
		t.Errorf("packet at %d with %s: held is %t, want %t", at, flags, got, held)
	}
	if held {
		check.Equal(t, "a held packet", in, r.out)
	}
}

// orderWorld holds for longer than a test takes.
func orderWorld(t *testing.T) *world {
	w := newWorld(t, underIPv4, static(underIPv4))
	w.reload(t, map[string]any{bpfVarReorderTimeoutNs: uint64(time.Second)})
	return w
}

// A TCP packet that overtook another one waits for it; nothing else does.
func TestOrder(t *testing.T) {
	t.Parallel()
	w := orderWorld(t)
	for name, base := range map[string]uint32{"plain": 1, "around zero": 0xffffff80, "around the sign": 0x7fffff80} {
		t.Run(name, func(t *testing.T) {
			w.forget(t)
			o := ordered{w, base}
			o.packet(t, 0, "ack", false)
			o.packet(t, 100, "ack", false)
			o.packet(t, 300, "ack", true) // 200 is missing
			o.packet(t, 400, "ack", true)
			o.packet(t, 300, "ack", true) // its next turn
			o.packet(t, 200, "ack", false)
			o.packet(t, 300, "ack", false)
			o.packet(t, 400, "ack", false)
			o.packet(t, 100, "ack", false)   // retransmitted
			o.packet(t, 9000, "rst", false)  // ends the flow
			o.packet(t, 50000, "syn", false) // begins it anew
			o.packet(t, 50101, "ack", false)
			o.packet(t, 50201, "fin", false)
			o.packet(t, 50302, "ack", false) // FIN counts as one
		})
	}
}

// After hold_ns the missing packet is taken for lost, however long ago that was: only the low 32 bits of the time are kept.
func TestOrderGivesUp(t *testing.T) {
	w := newWorld(t, underIPv4, static(underIPv4))
	for _, ago := range []time.Duration{51 * time.Microsecond, time.Millisecond, time.Second, 3 * time.Second, 4 * time.Second, 6 * time.Second} {
		w.forget(t)
		w.fromUnderlay(t, w.fromRemote(segmentAt(1, "ack", 0)))
		digest, flow := w.onlyFlow(t)
		now, err := kernel.Host().Clock.Monotonic()
		must(t, err)
		flow.GapSince = uint32(now-uint64(ago)) | 1
		must(t, w.dp.Flows.maps.Flows.Put(digest, flow))
		_, events := w.counted(t, func() { w.fromUnderlay(t, w.fromRemote(segmentAt(1001, "ack", 0))) })
		if events["reorder-timeout"] != 1 || events["reorder-held"] != 0 {
			t.Errorf("a packet missing for %v: events %v, want one gap and none held", ago, events)
		}
	}
}

func (w *world) onlyFlow(t *testing.T) (digest uint64, flow bpfFlow) {
	t.Helper()
	n := 0
	err := walk(w.dp.Flows.maps.Flows, func(of uint64, f bpfFlow) {
		digest, flow = of, f
		n++
	})
	if err != nil || n != 1 {
		t.Fatalf("%d flows (%v), want one", n, err)
	}
	if flow.Decision.Slow != bpfSlowSLOW_FAST || binary.NativeEndian.Uint16(flow.Key.Smac[4:]) == 0 {
		t.Fatalf("flow %+v is not on the fast path", flow)
	}
	return digest, flow
}
