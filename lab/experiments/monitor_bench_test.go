package experiments_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/dut/router"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/lab/transit"
	"github.com/selvage/selvage/test/tier"
)

// BenchmarkMonitor has what selvage monitor costs forwarding while 1 Mpps or so is dropped. The generator sends tunnel packets
// of 64 bytes as fast as it goes, by turns one from a remote, which is forwarded, and three from strangers, which are dropped.
// A round is four slices without a monitor around four with one (A A B B B B A A):
//
//	sudo make bench T=./lab/experiments B=BenchmarkMonitor
//	sudo go test ./lab/experiments -run '^$' -bench BenchmarkMonitor -benchtime 20x     # 20 rounds, a minute for each line
//
// "cost-%" is what forwarding loses, by the Hodges–Lehmann estimate over rounds; "cost-low-%" and "cost-high-%" are its
// interval at 99 % (8 rounds and more). "spare-core": the edge's daemon and the monitor have another core than the packets.
// "one-core": all share one, and what they take is taken from forwarding too. Each monitor is also asked for its counts:
// shown and not shown are exactly the packets of the drop counter, and those that the sink misses.
func BenchmarkMonitor(b *testing.B) {
	tier.Root(b)
	for _, c := range []struct {
		name string
		one  bool
		args []string
	}{
		{"spare-core/lines", false, nil}, {"spare-core/summary", false, []string{"--summary"}},
		{"one-core/lines", true, nil}, {"one-core/summary", true, []string{"--summary"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			if !c.one && runtime.NumCPU() < 2 {
				b.Skip("there is one core")
			}
			m := newMonitored(b, c.one)
			m.args = c.args
			for b.Loop() {
				m.round(b)
			}
			b.ReportMetric(0, "ns/op") // of a round: nobody's question
			m.report(b)
		})
	}
}

// Lengths of a slice and how many there are of a kind in a round.
const (
	monitorSlice  = 200 * time.Millisecond
	monitorSlices = 4
)

// monitorReason is why the stranger's packets are dropped.
const monitorReason = "unknown-remote"

// monitored is an edge between a tester's interfaces, and what was measured of it.
type monitored struct {
	network *transit.Testbed
	sender  transit.Sender
	sink    transit.Sink
	inline  bool // by the generator's own time
	core    int  // of daemon and monitor
	args    []string
	missing uint64 // at the sink

	costs            []float64 // log of forwarded without over with, by round
	forwarded, drops []float64 // a second, with a monitor
	shown, matched   uint64
	processes, took  time.Duration // of daemon and monitor on a core, in slices of a monitor
}

func newMonitored(b *testing.B, one bool) *monitored {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	all, err := transit.Open()
	must(err)
	b.Cleanup(func() {
		if err := all.Close(); err != nil {
			b.Error(err)
		}
	})
	m := &monitored{}
	m.network, err = all.Build(b.Context(), "monitor", "selvage", transit.Options{Experiment: "monitor", Forwarder: router.Selvage{}})
	must(err)
	generator := min(1, runtime.NumCPU()-1)
	if one {
		m.core = generator
	}
	must(topo.Pin(m.network.Device.Edge.Command.PID(), m.core))
	r, err := all.Instruments(m.network, transit.InstrumentOptions{
		Direction: transit.Decap, Stream: gen.Stream{Frame: 64}, Drain: 500 * time.Millisecond, Rest: time.Millisecond,
	})
	must(err)
	must(r.Warm(b.Context()))
	must(r.Sender.Close()) // its place is taken by one of two sources
	namespace, ports, cores := m.network.Net.Tester.Namespace, m.ports(b), []int{generator}
	stream := gen.Stream{Frame: 64, From: m.network.Net.Inside, To: m.network.Net.Outside}
	if one { // a task like any other
		r.Sender, err = gen.NewCores(namespace, ports, stream, cores)
	} else {
		r.Sender, err = transit.NewSender(namespace, ports, stream, cores)
	}
	must(err)
	b.Cleanup(func() {
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	})
	m.sender, m.sink, m.inline = r.Sender, r.Sink, !one
	m.slice(b, nil) // warms up
	return m
}

// strangers send three of four packets: with all of a core, 1 Mpps or so.
const strangers = 3

// ports send by turns as a remote and as strangers.
func (m *monitored) ports(b *testing.B) (ports []gen.Port) {
	b.Helper()
	n := m.network.Net
	under, around := n.Underlays[0], m.network.Device.Tunnel
	index, err := n.Tester.Index(under.Tester)
	if err != nil {
		b.Fatal(err)
	}
	sources := []netip.Addr{under.TesterAddr.Addr()}
	for i := range strangers {
		sources = append(sources, netip.AddrFrom4([4]byte{198, 51, 100, byte(77 + i)}))
	}
	for _, source := range sources {
		ports = append(ports, gen.Port{Ifindex: index, SrcMAC: under.TesterMAC, DstMAC: under.DeviceMAC, Tunnel: &gen.Tunnel{
			Encapsulation: around.Encapsulation, VNI: around.VNI, Local: source, Remote: around.Endpoints[0],
			SrcMAC: around.TesterMAC, DstMAC: around.DeviceMAC,
		}})
	}
	return ports
}

// slice returns how many packets were forwarded and dropped a second. w is nil where nobody watches.
func (m *monitored) slice(b *testing.B, w *observer) (forwarded, dropped float64) {
	b.Helper()
	before := m.dropped(b)
	if err := m.sink.Reset(m.sender.Next()); err != nil {
		b.Fatal(err)
	}
	busy := m.busy(b, w)
	sent, err := m.sender.Run(b.Context(), gen.Load{Duration: monitorSlice, Batch: transit.PeakBatch, Untimed: true})
	if err != nil {
		b.Fatal(err)
	}
	if w != nil {
		m.processes, m.took = m.processes+m.busy(b, w)-busy, m.took+sent.Duration
	}
	var got gen.Report
	var lost uint64
	err = await.That(b.Context(), "all packets to be counted", func() error {
		if got, err = m.sink.Read(); err != nil {
			return err
		}
		if lost = m.dropped(b) - before; got.Frames+lost < sent.Frames {
			return fmt.Errorf("%d were sent, %d forwarded and %d dropped", sent.Frames, got.Frames, lost)
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	m.missing += sent.Frames - got.Frames
	took := sent.Duration
	if m.inline && sent.Busy > 0 { // what others take of the core counts for nothing
		took = min(took, sent.Busy)
	}
	return float64(got.Frames) / took.Seconds(), float64(lost) / sent.Duration.Seconds()
}

func (m *monitored) dropped(b *testing.B) uint64 {
	b.Helper()
	counts, err := m.network.Device.Drops(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return counts[monitorReason]
}

// round measures without, with and without a monitor.
func (m *monitored) round(b *testing.B) {
	b.Helper()
	var without, with []float64
	quiet := func() {
		for range monitorSlices / 2 {
			rate, _ := m.slice(b, nil)
			without = append(without, math.Log(rate))
		}
	}
	quiet()
	before := m.dropped(b)
	w := m.watch(b)
	m.missing = 0
	for range monitorSlices {
		rate, dropped := m.slice(b, w)
		m.forwarded, m.drops, with = append(m.forwarded, rate), append(m.drops, dropped), append(with, math.Log(rate))
	}
	m.counted(b, w, m.dropped(b)-before)
	quiet()
	m.costs = append(m.costs, stats.Center(without).Median-stats.Center(with).Median)
}

// observer is a monitor that runs.
type observer struct {
	command *topo.Command
	out     *os.File
}

// watch starts a monitor, and waits until it watches.
func (m *monitored) watch(b *testing.B) *observer {
	b.Helper()
	out, err := os.Create(filepath.Join(b.TempDir(), "monitor"))
	if err != nil {
		b.Fatal(err)
	}
	argv := append([]string{"selvage", "monitor", "-o", "json", "--edge", m.network.Device.Edge.Name}, m.args...)
	w := &observer{m.network.Net.Device.Command(b.Context(), argv...), out}
	w.command.CPUs, w.command.Stdout = []int{m.core}, out
	if err := w.command.Start(); err != nil {
		b.Fatal(err)
	}
	running, cancel := w.command.WhileRunning(b.Context())
	defer cancel()
	err = await.That(running, "the monitor's first counts", func() error {
		lines, _, _, err := w.read()
		if err == nil && lines == 0 {
			err = errors.New("there are none")
		}
		return err
	})
	if err != nil {
		b.Fatalf("%v: %s", err, w.command.Tail())
	}
	return w
}

// read returns how many lines there are, how many of them are packets, and the last counts.
func (w *observer) read() (lines, packets int, counts api.MonitorCounts, err error) {
	text, err := os.ReadFile(w.out.Name())
	if err != nil {
		return 0, 0, counts, err
	}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var l api.MonitorLine // of a summary: counts and what is not of interest
		if err := json.Unmarshal(line, &l); err != nil {
			return 0, 0, counts, fmt.Errorf("%w in %s", err, line)
		}
		lines++
		if l.Packet != nil {
			packets++
		}
		if l.Counts != nil {
			counts = *l.Counts
		}
	}
	return lines, packets, counts, nil
}

// busy is the time that daemon and monitor were on a core.
func (m *monitored) busy(b *testing.B, w *observer) (sum time.Duration) {
	b.Helper()
	if w == nil {
		return 0
	}
	for _, pid := range []int{m.network.Device.Edge.Command.PID(), w.command.PID()} {
		const processes = 2 // CPUCLOCK_SCHED of a process: clock_getcpuclockid(3)
		var used unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|processes), &used); err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(used.Nano())
	}
	return sum
}

// counted ends a monitor and compares its counts with those of the data path and the sink.
func (m *monitored) counted(b *testing.B, w *observer, dropped uint64) {
	b.Helper()
	if err := errors.Join(w.command.Stop(b.Context()), w.command.Wait()); err != nil {
		b.Fatal(err)
	}
	_, packets, counts, err := w.read()
	if err != nil {
		b.Fatal(err)
	}
	switch {
	case !counts.Final || counts.Reasons[monitorReason] != dropped || dropped != m.missing:
		b.Errorf("the monitor counted %d packets (final: %t), the data path dropped %d, and %d did not arrive",
			counts.Reasons[monitorReason], counts.Final, dropped, m.missing)
	case counts.Shown+counts.NotShown != counts.Matched:
		b.Errorf("%d packets shown and %d not shown are not %d", counts.Shown, counts.NotShown, counts.Matched)
	case len(m.args) == 0 && uint64(packets) != counts.Shown:
		b.Errorf("%d packets are shown, and %d are said to be", packets, counts.Shown)
	}
	m.shown, m.matched = m.shown+counts.Shown, m.matched+counts.Matched
	if err := errors.Join(w.out.Close(), os.Remove(w.out.Name())); err != nil {
		b.Fatal(err)
	}
}

func (m *monitored) report(b *testing.B) {
	b.Helper()
	percent := func(log float64) float64 { return 100 * (1 - math.Exp(-log)) }
	cost := stats.Center(m.costs)
	b.ReportMetric(percent(cost.Median), "cost-%")
	b.ReportMetric(percent(cost.Lo), "cost-low-%")
	b.ReportMetric(percent(cost.Hi), "cost-high-%")
	b.ReportMetric(stats.Median(m.drops).Median/1e6, "Mdrops/s")
	b.ReportMetric(stats.Median(m.forwarded).Median/1e6, "Mforwarded/s")
	b.ReportMetric(100*m.processes.Seconds()/m.took.Seconds(), "core-%") // of daemon and monitor
	b.ReportMetric(100*float64(m.shown)/float64(max(m.matched, 1)), "shown-%")
}
