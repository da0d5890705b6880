package datapath

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// How the figures come about. BPF_PROG_TEST_RUN with a repeat count would run a
// program again on the packet that it has just encapsulated, and measures its own
// loop besides. So every packet is a run of its own, and the time is what the
// kernel's BPF statistics say that the program took (kernel.bpf_stats_enabled),
// less the same figure of an empty program: no system call, no buffer and no clock
// is in it. The system call between two packets costs cache lines, so a figure is
// rather too high than too low; what the redirect costs afterwards is not in it.
// TEST_RUN leaves 66 bytes of headroom, real devices more: to an IPv6 remote (70
// bytes) every packet is copied into a larger buffer here, some 150 ns.
// One op is a block of packets, and ns/packet is the median of the blocks.
const blockPackets = 64

// meter reads what the kernel counts of a program.
type meter struct {
	prog   kernel.Program
	blocks []float64
}

// block runs packets and notes their mean time in ns.
func (m *meter) block(b *testing.B, packets int, run func()) {
	before, err := kernel.HostProgram(m.prog).Stats()
	if err != nil {
		b.Fatal(err)
	}
	for range packets {
		run()
	}
	after, err := kernel.HostProgram(m.prog).Stats()
	if err != nil {
		b.Fatal(err)
	}
	n := after.RunCount - before.RunCount
	if n != uint64(packets) {
		b.Fatalf("%d packets were %d runs", packets, n)
	}
	m.blocks = append(m.blocks, float64(after.Runtime-before.Runtime)/float64(n))
}

func (m *meter) median() float64 {
	slices.Sort(m.blocks)
	return m.blocks[len(m.blocks)/2]
}

// bench is a world whose programs the kernel measures.
type bench struct {
	*world
	empty float64 // ns that the measuring costs, of an empty program
}

func newBench(b *testing.B, f family, change ...func(*Config, *fib.Tables)) *bench {
	b.Helper()
	sizes := func(c *Config, _ *fib.Tables) { c.FlowCache.Size, c.FDB.Size = 0, 0 } // the defaults
	w := &bench{world: ownWorld(b, f, slices.Concat([]func(*Config, *fib.Tables){sizes}, change, []func(*Config, *fib.Tables){defaultLimits(b)})...)}
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { stats.Close() })
	w.do(b, func() { w.empty = w.measureEmpty(b) })
	return w
}

// defaultLimits gives ports and segments the limits that edges have by default, but for rates: all
// are counted, and none is exceeded.
func defaultLimits(b *testing.B) func(*Config, *fib.Tables) {
	b.Helper()
	spec, err := loadBpf()
	if err != nil {
		b.Fatal(err)
	}
	return func(c *Config, tables *fib.Tables) {
		const most = 1 << 30 // packets a second
		e := overlay.Edge{
			FDB: overlay.FDB{Size: spec.Maps[bpfMapFdb].MaxEntries}, FlowCache: overlay.FlowCache{Size: spec.Maps[bpfMapFlows].MaxEntries},
			Firewall: c.Firewall, Egress: c.Egress,
		}
		quick := func(l overlay.Limits) overlay.Limits {
			l.Broadcast, l.Multicast, l.UnknownUnicast, l.NewFlows = most, most, most, most
			l.ICMPErrors, l.Resets, l.NeighbourRequests, l.HostEvents = most, most, most, most
			return l
		}
		for i := range tables.Ports {
			all := quick(e.DefaultPortLimits())
			all.Connections = max(all.Connections, tables.Ports[i].Limits.Connections)
			tables.Ports[i].Limits = all
		}
		for i := range tables.Segments {
			tables.Segments[i].Limits = quick(e.DefaultSegmentLimits())
		}
	}
}

func (w *bench) measureEmpty(b *testing.B) float64 {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "empty", Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer prog.Close()
	m := meter{prog: prog}
	frame := say(alice, bob)
	for range 200 {
		m.block(b, blockPackets, func() { w.mustRun(b, prog, "p0", frame) })
	}
	return m.median()
}

// mustRun must be called in the namespace.
func (w *bench) mustRun(b *testing.B, prog kernel.Program, dev string, frame []byte) verdict {
	r, err := runProgram(prog, w.dev[dev].Index, packet{bytes: frame})
	if err != nil {
		b.Fatal(err)
	}
	return r.verdict
}

func (w *bench) program(from string) kernel.Program {
	if from == "u0" {
		return w.dp.prog.objs.FromUnderlay
	}
	return w.dp.prog.objs.FromPort
}

// scenario is a packet that ends at a known place. vary makes the i-th packet of it.
type scenario struct {
	name    string
	from    string
	frame   []byte
	verdict verdict
	vary    func(frame []byte, i int)
}

// measure runs blocks of the scenarios in turn, as long as the benchmark goes,
// and returns ns per packet of each.
func (w *bench) measure(b *testing.B, list ...scenario) []float64 {
	b.Helper()
	meters, counts := make([]meter, len(list)), make([]int, len(list))
	w.do(b, func() {
		for i, s := range list {
			meters[i].prog = w.program(s.from)
			if s.vary == nil { // learned and cached before
				w.mustRun(b, meters[i].prog, s.from, s.frame)
			}
		}
		for b.Loop() {
			for i, s := range list {
				meters[i].block(b, blockPackets, func() {
					if s.vary != nil {
						s.vary(s.frame, counts[i])
						counts[i]++
					}
					if v := w.mustRun(b, meters[i].prog, s.from, s.frame); v != s.verdict {
						b.Fatalf("%s: %v, want %v", s.name, v, s.verdict)
					}
				})
			}
		}
	})
	b.ReportMetric(0, "ns/op") // of the block, system calls included: nobody's question
	result := make([]float64, len(list))
	for i := range meters {
		result[i] = meters[i].median() - w.empty
	}
	return result
}

// newFlow makes a frame that of another flow: the inner IPv4 source address.
func newFlow(inner int) func([]byte, int) {
	return func(b []byte, i int) { binary.BigEndian.PutUint32(b[inner+etherLen+12:], 0x0a000000|uint32(i)) }
}

// benchWorld has alice at p0, carol at p1 and bob behind the first remote.
func benchWorld(f family) func(*Config, *fib.Tables) {
	return func(_ *Config, tables *fib.Tables) {
		tables.Segments[0].Static = []overlay.StaticMAC{
			{MAC: macOf(alice), Port: "p0"}, {MAC: macOf(carol), Port: "p1"}, {MAC: macOf(bob), Remote: f.remotes[0]},
		}
	}
}

func cacheOff(c *Config, _ *fib.Tables) { c.FlowCache.Enabled = false }

// BenchmarkPort: a packet from a port, by where it goes.
func BenchmarkPort(b *testing.B) {
	benchModes(b, func(*bench) []scenario {
		frame := func(dst, words string) []byte { return pkttest.Frame(alice, dst, words) }
		return []scenario{
			{name: "tunnel", from: "p0", frame: frame(bob, tcp4), verdict: forwarded, vary: newFlow(0)},
			{name: "tunnel,IPv6 inside", from: "p0", frame: frame(bob, tcp6), verdict: forwarded},
			{name: "tunnel,not IP", from: "p0", frame: frame(bob, "raw 0x88b5 100"), verdict: forwarded},
			{name: "port", from: "p0", frame: frame(carol, tcp4), verdict: forwarded, vary: newFlow(0)},
		}
	})
}

// BenchmarkUnderlay: a packet from the underlay, by where it goes.
func BenchmarkUnderlay(b *testing.B) {
	benchModes(b, func(w *bench) []scenario {
		tunnel := func(words string) []byte { return w.fromRemote(pkttest.Frame(bob, alice, words)) }
		return []scenario{
			{name: "port", from: "u0", frame: tunnel(tcp4), verdict: forwarded, vary: newFlow(w.outer(w.family.remotes[0]).Len())},
			{name: "port,IPv6 inside", from: "u0", frame: tunnel(tcp6), verdict: forwarded},
			{name: "port,not IP", from: "u0", frame: tunnel("raw 0x88b5 100"), verdict: forwarded},
			{name: "host", from: "u0", frame: pkttest.Frame(nextHop, w.dev["u0"].HardwareAddr.String(), tcp4), verdict: next},
		}
	})
}

// BenchmarkRouted: a packet of a flow that is cached, from one segment to another.
func BenchmarkRouted(b *testing.B) {
	w := newBench(b, underIPv4, func(_ *Config, tables *fib.Tables) { routed(ways()[0], tables) })
	for name, words := range map[string]string{
		"port": "tcp 10.0.1.10:7 > 10.0.2.13:7 ack", "tunnel": "tcp 10.0.1.10:7 > 10.0.3.9:7 ack", "port,IPv6 inside": "tcp [2001:db8:1::a]:7 > [2001:db8:2::d]:7 ack",
	} {
		s := scenario{name: name, from: "p0", frame: pkttest.Frame(alice, gatewayMAC, words), verdict: forwarded}
		b.Run(name, func(b *testing.B) { b.ReportMetric(w.measure(b, s)[0], "ns/packet") })
	}
}

// benchModes measures scenarios on both underlays: one flow that is cached, a new
// flow with every packet where the scenario can vary, and without the cache.
func benchModes(b *testing.B, scenarios func(*bench) []scenario) {
	for _, f := range families {
		b.Run(f.name, func(b *testing.B) {
			w := newBench(b, f, benchWorld(f))
			for _, s := range scenarios(w) {
				vary := s.vary
				s.vary = nil
				b.Run("hit/"+s.name, func(b *testing.B) { b.ReportMetric(w.measure(b, s)[0], "ns/packet") })
				if s.vary = vary; vary != nil {
					w.forget(b)
					b.Run("miss/"+s.name, func(b *testing.B) { b.ReportMetric(w.measure(b, s)[0], "ns/packet") })
				}
			}
			w = newBench(b, f, benchWorld(f), cacheOff)
			for _, s := range scenarios(w) {
				s.vary = nil
				b.Run("off/"+s.name, func(b *testing.B) { b.ReportMetric(w.measure(b, s)[0], "ns/packet") })
			}
		})
	}
}

// BenchmarkStages: what each stage adds, as the difference of packets that end one stage apart, measured in turn.
func BenchmarkStages(b *testing.B) {
	for _, f := range families {
		b.Run(f.name+"/port", func(b *testing.B) {
			w := newBench(b, f, benchWorld(f))
			w.silence(b)
			good := pkttest.Frame(alice, bob, tcp4)
			w.reportStages(b, []scenario{
				{name: "malformed", from: "p0", frame: changed(good, etherAt+32, 0x40), verdict: dropped},
				{name: "hit, too big", from: "p0", frame: bigger(w.world, bob, 1), verdict: dropped},
				{name: "hit", from: "p0", frame: good, verdict: forwarded},
				{name: "unknown port", from: "s0", frame: good, verdict: dropped},
				{name: "own port", from: "p0", frame: pkttest.Frame(alice, alice, tcp4), verdict: dropped},
				{name: "miss", from: "p0", frame: slices.Clone(good), verdict: forwarded, vary: newFlow(0)},
			})
		})
		b.Run(f.name+"/underlay", func(b *testing.B) {
			w := newBench(b, f, benchWorld(f))
			w.silence(b)
			good := w.fromRemote(pkttest.Frame(bob, alice, tcp4))
			stranger := w.outer(f.unknown)
			tooBig := pkttest.Frame(bob, alice, fmt.Sprintf("udp 10.0.0.1:1 > 10.0.0.2:2 %d", portMTU-28+1))
			w.reportStages(b, []scenario{
				{name: "malformed", from: "u0", frame: w.fromRemote(changed(pkttest.Frame(bob, alice, tcp4), etherAt+32, 0x40)), verdict: dropped},
				{name: "hit, too big", from: "u0", frame: w.fromRemote(tooBig), verdict: dropped},
				{name: "hit", from: "u0", frame: good, verdict: forwarded},
				{name: "unknown remote", from: "u0", frame: stranger.Wrap(pkttest.Frame(bob, alice, tcp4)), verdict: dropped},
				{name: "own remote", from: "u0", frame: w.fromRemote(pkttest.Frame(bob, bob, tcp4)), verdict: dropped},
				{name: "miss", from: "u0", frame: slices.Clone(good), verdict: forwarded, vary: newFlow(w.outer(f.remotes[0]).Len())},
			})
		})
	}
}

// silence keeps the data path from telling senders: a drop is then all there is.
func (w *bench) silence(b *testing.B) {
	for i := range w.tables.Ports {
		w.tables.Ports[i].Limits = overlay.Limits{ICMPErrors: 1}
	}
	for i := range w.tables.Segments {
		w.tables.Segments[i].Limits = overlay.Limits{ICMPErrors: 1}
	}
	w.apply(b)
}

// reportStages wants the scenarios in the order above. At a port the packet is
// found to be too big before it is encapsulated, in the tunnel after it was decapsulated.
func (w *bench) reportStages(b *testing.B, list []scenario) {
	ns := w.measure(b, list...)
	malformed, tooBig, hit, unknown, own, miss := ns[0], ns[1], ns[2], ns[3], ns[4], ns[5]
	b.ReportMetric(malformed, "ns/parse+drop")
	if list[0].from == "u0" {
		b.ReportMetric(tooBig-malformed, "ns/flow-hit+decap")
	} else {
		b.ReportMetric(tooBig-malformed, "ns/flow-hit")
	}
	b.ReportMetric(hit-tooBig, "ns/out")
	b.ReportMetric(hit, "ns/hit")
	b.ReportMetric(unknown-malformed, "ns/flow-miss+guard")
	b.ReportMetric(own-unknown, "ns/switch")
	b.ReportMetric(miss-hit, "ns/miss-more-than-hit")
	b.ReportMetric(miss, "ns/miss")
}
