package datapath

import (
	"bytes"
	"errors"
	"maps"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/fuzz/frames"
	"github.com/selvage/selvage/test/pkttest"
)

const (
	sequenceFlows   = 10 // flows of a sequence
	sequencePackets = 40
)

// Packets of one flow differ in what the flow key does not have: ICMP types, TTL, fragments, flags.
func TestCacheChangesNoSequence(t *testing.T) {
	t.Parallel()
	fw := openFirewall(false)
	fw.Default, fw.Rules = overlay.Drop, []overlay.Rule{ruleOf(1, "allow out svc udp/53"), ruleOf(2, "allow in svc icmp")}
	all := ways()
	for name, make := range map[string]func(change ...func(*Config, *fib.Tables)) *world{
		"routed":   func(c ...func(*Config, *fib.Tables)) *world { return routedWorld(t, all[0], c...) },
		"routed6":  func(c ...func(*Config, *fib.Tables)) *world { return routedWorld(t, all[6], c...) },
		"firewall": func(c ...func(*Config, *fib.Tables)) *world { return firewallWorldBy(t, all[1], fw, c...) },
		"nat":      func(c ...func(*Config, *fib.Tables)) *world { return natWorld(t, all[3], c...) },
	} {
		t.Run(name, func(t *testing.T) {
			s := sequences{on: make(), off: make(func(c *Config, _ *fib.Tables) { c.FlowCache.Enabled = false })}
			s.before = [2]map[string]uint64{{}, {}}
			s.drops(t, s.on, s.before[0])
			s.drops(t, s.off, s.before[1])
			s.tracked = s.on.cfg.Firewall != nil || s.on.cfg.Egress != nil
			// Packets that wait for an earlier one are seen twice.
			for _, w := range []*world{s.on, s.off} {
				w.reload(t, map[string]any{bpfVarReorderTimeoutNs: uint64(0)})
			}
			r := newRandom(t)
			_, events := s.on.counted(t, func() {
				repeat(60, func(n int) {
					if !t.Failed() {
						s.run(t, r, n)
					}
				})
			})
			if events["hit"] < 100 {
				t.Errorf("events %v: too few hits to say anything", events)
			}
		})
	}
}

// sequences are offered to two data paths.
type sequences struct {
	on, off *world
	before  [2]map[string]uint64 // drops, by reason
	tracked bool
}

// run offers one sequence and stops at the first packet that makes a difference.
func (s *sequences) run(t *testing.T, r random, n int) {
	t.Helper()
	network := s.on.network()
	if r.IntN(2) == 0 {
		network.Homes = nil
	}
	maker := frames.New(network.Few(r.Rand), r.Uint64())
	type flow struct {
		device string
		frame  []byte
	}
	flows := make([]flow, sequenceFlows)
	for i := range flows {
		device := []string{"u0", "u0", "p0", "p1", "p2", "s0"}[r.IntN(6)]
		flows[i] = flow{device, bytes.Clone(maker.Frame(uint64(i), device, device == "u0"))}
	}
	before := make([][]pkttest.Named, len(flows))
	for i := range sequencePackets {
		of := r.IntN(len(flows))
		f := flows[of]
		frame := maker.Variant(uint64(sequenceFlows+i), f.frame, f.device == "u0")
		if s.tracked && frames.IsTCP(frame, f.device == "u0") {
			continue
		}
		s.on.refill(t)
		s.off.refill(t)
		on, off := s.offer(t, s.on, f.device, frame), s.offer(t, s.off, f.device, frame)
		var onDrops, offDrops map[string]uint64
		if on.verdict == dropped || off.verdict == dropped || i == sequencePackets-1 { // reading takes longer than a packet
			onDrops, offDrops = s.drops(t, s.on, s.before[0]), s.drops(t, s.off, s.before[1])
		}
		before[of] = append(before[of], pkttest.Named{Name: "in at " + f.device, Bytes: bytes.Clone(frame)})
		if on.verdict != off.verdict || !s.same(on.out, off.out) || !maps.Equal(onDrops, offDrops) {
			pkttest.Errorf(t, append(before[of], pkttest.Named{Name: "cache on", Bytes: on.out}, pkttest.Named{Name: "cache off", Bytes: off.out}),
				"sequence %d, packet %d at %s: %v %v with the cache, %v %v without", n, i, f.device, on.verdict, onDrops, off.verdict, offDrops)
			return
		}
	}
}

// same compares what left. NAT chooses some ports at random.
func (s *sequences) same(a, b []byte) bool {
	return bytes.Equal(a, b) || s.on.cfg.Egress != nil && len(a) == len(b)
}

// offer gives the same frame to either data path, each with its own underlay device.
func (s *sequences) offer(t *testing.T, w *world, device string, frame []byte) result {
	t.Helper()
	frame = bytes.Clone(frame)
	if device == "u0" {
		copy(frame, w.dev["u0"].HardwareAddr)
	}
	r, err := w.tryOffer(t, device, frame)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		t.Fatal(err)
	}
	return r
}

// drops are those of a data path since the last time, by reason.
func (s *sequences) drops(t *testing.T, w *world, before map[string]uint64) map[string]uint64 {
	t.Helper()
	list, err := w.dp.Traffic.Drops()
	must(t, err)
	since := map[string]uint64{}
	for _, d := range list {
		if n := d.Packets - before[d.Reason]; n > 0 {
			since[d.Reason] = n
		}
		before[d.Reason] = d.Packets
	}
	return since
}
