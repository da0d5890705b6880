package ports

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/dut/router"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/lab/transit"
)

// What is compared: 64-byte frames as fast as they go, in slices of this length.
const benchSlice = 300 * time.Millisecond

// BenchmarkTestbed compares what goes through a router between ports with what goes through the same kind of router in a testbed that the lab
// builds, by turns on one core: the ratio should be 1.
//
//	sudo make bench T=./lab/experiment/rfc2544/ports B=BenchmarkTestbed TIME=40x
func BenchmarkTestbed(b *testing.B) {
	between := aroundBench(b, openBench(b, nil))
	all, err := transit.Open()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := all.Close(); err != nil {
			b.Error(err)
		}
	})
	own, err := all.Build(b.Context(), "own", transit.RouteName, transit.Options{Experiment: "ports-bench", Forwarder: router.Kernel{Plain: true}})
	if err != nil {
		b.Fatal(err)
	}
	built, err := all.Instruments(own, benchTraffic(transit.Encap))
	compare(b, between, warm(b, built, err))
}

// BenchmarkTwoCores compares two cores of a generator with one, each with the router on its own core: the links have two queues, and each core sends by one.
func BenchmarkTwoCores(b *testing.B) {
	if runtime.NumCPU() < 2 {
		b.Skip("there is one core")
	}
	one, two := openBench(b, []int{1}), openBench(b, []int{0, 1})
	compare(b, aroundBench(b, two), aroundBench(b, one))
}

func benchTraffic(direction string) transit.InstrumentOptions {
	return transit.InstrumentOptions{Direction: direction, Stream: gen.Stream{Frame: 64, Flows: gen.DefaultFlows}, Drain: time.Second}
}

func aroundBench(b *testing.B, s *site) *transit.Instruments {
	b.Helper()
	r, err := transit.Around(s, benchTraffic(forward))
	return warm(b, r, err)
}

func warm(b *testing.B, r *transit.Instruments, err error) *transit.Instruments {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := r.Warm(b.Context()); err != nil {
		b.Fatal(err)
	}
	return r
}

// openBench is a router between ports with a generator on these cores.
func openBench(b *testing.B, cores []int) *site {
	b.Helper()
	w := newWorld(b, false)
	s := w.open(b, w.command(false, 4), short(4))
	if cores == nil {
		return s
	}
	s.sides[0].cores = cores
	for host, names := range map[*topo.Host][]string{w.tester: {"tx", "rx"}, w.device: {"in", "out"}} {
		for _, name := range names {
			// As drivers of cards do: a core has a queue of its own to send by (XPS).
			const script = `ethtool -L $0 rx 2 tx 2 && mount -t sysfs none /sys && echo 1 > /sys/class/net/$0/queues/tx-0/xps_cpus && echo 2 > /sys/class/net/$0/queues/tx-1/xps_cpus`
			if out, err := host.Output(b.Context(), "unshare", "--mount", "sh", "-c", script, name); err != nil {
				b.Fatalf("%v: %s", err, out)
			}
		}
	}
	return s
}

// compare reports the ratio of what arrives, by rounds of a slice of each.
func compare(b *testing.B, a, against *transit.Instruments) {
	b.Helper()
	rate := func(r *transit.Instruments) float64 {
		p, err := r.Unchecked(b.Context(), gen.Load{Duration: benchSlice, Batch: transit.PeakBatch, Untimed: true}, time.Second)
		if err != nil {
			b.Fatal(err)
		}
		return float64(p.Got.Frames) / p.Sent.Duration.Seconds()
	}
	var logs, rates []float64
	for b.Loop() {
		first, second := rate(against), rate(a)
		logs, rates = append(logs, math.Log(second/first)), append(rates, second)
	}
	iv := stats.Median(logs)
	b.ReportMetric(0, "ns/op") // of a round: nobody's question
	b.ReportMetric(stats.Median(rates).Median/1e6, "Mpps")
	b.ReportMetric(math.Exp(iv.Median), "ratio")
	b.ReportMetric(math.Exp(iv.Lo), "ratio-low")
	b.ReportMetric(math.Exp(iv.Hi), "ratio-high")
}
