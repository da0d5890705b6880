package measure_test

import (
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// A path of 1450 bytes between guests that believe in 1500, which swallows silently:
//
//	client (1500) ── bridge ── vxlan (1450) ══ vxlan (1450) ── bridge ── server (1500)
func newHole(t *testing.T, o dut.KernelOptions) *topo.TwoHosts {
	t.Helper()
	n := newTwoHostsOf(t, topo.TwoHostsOptions{InnerMTU: 1500})
	if _, err := dut.Kernel(t.Context(), n, o); err != nil {
		t.Fatalf("%v\n%s", err, n.Picture())
	}
	for _, end := range []*topo.Host{n.Client, n.Server} {
		if _, err := end.SetFeatures(topo.EndName, map[string]bool{"tx-tcp-segmentation": false, "tx-tcp6-segmentation": false, "tx-generic-segmentation": false}); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// A transfer into the hole ends in time, with a burst and then nothing.
func TestBulkIntoTheHole(t *testing.T) {
	n := newHole(t, dut.KernelOptions{TunnelMTU: 1450})
	for _, family := range []int{4, 6} {
		began := time.Now()
		run, err := measure.RunBulk(t.Context(), measure.EndsOf(n, family), measure.BulkOptions{Duration: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("IPv%d: a transfer of 1 s took %s", family, took)
		}
		s := run.Sample()
		written := s.Series[measure.WrittenSeries]
		if at, stalled := stats.Stalled(s); !stalled || at != 0 || s.Metrics[measure.TCPThroughput] != 0 {
			t.Errorf("IPv%d: silent from %v s: %v; received %v", family, at, stalled, s.Series)
		}
		if len(written) != 10 || written[0] == 0 || slices.Max(written[5:]) != 0 {
			t.Errorf("IPv%d: the sender wrote %v, want a burst and then zero", family, written)
		}
		if mss, want := s.Metrics[measure.MSS], float64(map[int]int{4: 1448, 6: 1428}[family]); mss != want {
			t.Errorf("IPv%d: MSS %v, want %v", family, mss, want)
		}
	}
}

// Without a hole all arrives, in as many streams and in segments as asked.
func TestBulk(t *testing.T) {
	n := newTwoHosts(t)
	if _, err := dut.Plain(t.Context(), n, dut.EndOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, o := range []measure.BulkOptions{{Duration: 500 * time.Millisecond}, {Duration: 500 * time.Millisecond, Streams: 3, MSS: 548}} {
		run, err := measure.RunBulk(t.Context(), measure.EndsOf(n, 4), o)
		if err != nil {
			t.Fatal(err)
		}
		s := run.Sample()
		positive(t, s, measure.TCPThroughput, measure.TCPSent, measure.CPUPerGB, measure.RTT, measure.Cwnd)
		want := 1448.0
		if o.MSS > 0 {
			want = 536
		}
		if s.Metrics[measure.MSS] != want || len(run.Sockets) != max(1, o.Streams) || len(s.Series[measure.TCPSeries]) != 5 {
			t.Errorf("%+v: MSS %v, want %v; %d sockets, series %v", o, s.Metrics[measure.MSS], want, len(run.Sockets), s.Series)
		}
		if _, stalled := stats.Stalled(s); stalled || s.Metrics[measure.TCPThroughput] > 1.1*s.Metrics[measure.TCPSent] {
			t.Errorf("%+v: %v", o, s.Metrics)
		}
	}
}

// The largest size is found from every port, and so is whether anybody is told.
func TestSize(t *testing.T) {
	for name, c := range map[string]struct {
		tunnel, reported int
	}{"silent": {1450, 0}, "told": {1500, 1450}} {
		t.Run(name, func(t *testing.T) {
			n := newHole(t, dut.KernelOptions{TunnelMTU: c.tunnel})
			for _, ends := range []measure.Ends{
				measure.EndsOf(n, 4), measure.EndsOf(n, 6),
				{Client: n.Server, Server: n.Client, Addr: topo.ClientV4}, {Client: n.Server, Server: n.Client, Addr: topo.ClientV6},
			} {
				size, err := measure.RunSize(t.Context(), ends, measure.SizeOptions{Flows: 5})
				if err != nil {
					t.Fatal(err)
				}
				s := size.Sample()
				if s.Metrics[measure.LargestSize] != 1450 || s.Metrics[measure.LargestBest] != 1450 || len(s.Series[measure.LargestSeries]) != 5 {
					t.Errorf("to %s: %v, %v, want 1450", ends.Addr, s.Metrics, s.Series)
				}
				if reported := s.Metrics[measure.ReportedMTU]; reported != float64(c.reported) || (s.Metrics[measure.ReportedFlows] > 0) != (c.reported > 0) {
					t.Errorf("to %s: told %v by %v flows, want %d", ends.Addr, reported, s.Metrics[measure.ReportedFlows], c.reported)
				}
			}
		})
	}
}

// A clamp on the bridges fixes guests that hear no messages.
func TestClamp(t *testing.T) {
	n := newHole(t, dut.KernelOptions{TunnelMTU: 1450})
	for _, h := range []*topo.Host{n.A, n.B} {
		if err := dut.ClampMSS(t.Context(), h, 1450); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range []*topo.Host{n.Client, n.Server} {
		if err := dut.DropTooBig(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	for family, mss := range map[int]float64{4: 1398, 6: 1378} {
		run, err := measure.RunBulk(t.Context(), measure.EndsOf(n, family), measure.BulkOptions{Duration: 500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		s := run.Sample()
		if _, stalled := stats.Stalled(s); stalled || s.Metrics[measure.MSS] != mss {
			t.Errorf("IPv%d: stalled %v, MSS %v, want %v", family, stalled, s.Metrics[measure.MSS], mss)
		}
	}
}
