package measure_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

func TestMain(m *testing.M) {
	measure.RunInstrument(os.Args[1:])
	tier.SideBySide(6)
	os.Exit(m.Run())
}

func newTwoHosts(t *testing.T) *topo.TwoHosts {
	t.Helper()
	return newTwoHostsOf(t, topo.TwoHostsOptions{})
}

// newTwoHostsOf are for a test that runs beside others, so that times and rates say nothing.
func newTwoHostsOf(t *testing.T, o topo.TwoHostsOptions) *topo.TwoHosts {
	t.Helper()
	tier.Root(t)
	t.Parallel()
	lab, err := topo.New(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	n, err := topo.NewTwoHosts(t.Context(), lab, o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// All instruments over both paths; the figures are logged, and judged only for
// what cannot be.
func TestInstruments(t *testing.T) {
	n := newTwoHosts(t)
	for name, build := range map[string]func(context.Context) (*topo.Path, error){
		"plain":  func(ctx context.Context) (*topo.Path, error) { return dut.Plain(ctx, n, dut.EndOptions{}) },
		"kernel": func(ctx context.Context) (*topo.Path, error) { return dut.Kernel(ctx, n, dut.KernelOptions{}) },
	} {
		t.Run(name, func(t *testing.T) {
			path, err := build(t.Context())
			if err != nil {
				t.Fatalf("%v\n%s", err, n.Picture())
			}
			defer path.Close()
			checkTCP(t, n, path)
			checkRR(t, n)
			checkUDP(t, n)
		})
	}
}

func checkTCP(t *testing.T, n *topo.TwoHosts, path *topo.Path) {
	t.Helper()
	run, err := measure.RunTCP(t.Context(), measure.EndsOf(n, 4), measure.TCPOptions{Duration: time.Second, Streams: 2})
	if err != nil {
		t.Fatal(err)
	}
	s := run.Sample()
	positive(t, s, measure.TCPThroughput, measure.TCPSent, measure.CPUPerGB, measure.RTT, measure.Cwnd)
	// 20 bytes of IPv4 and 20 of TCP with 12 of timestamps (RFC 7323).
	if want := float64(path.InnerMTU - 52); s.Metrics[measure.MSS] != want {
		t.Errorf("MSS %v on MTU %d, want %v", s.Metrics[measure.MSS], path.InnerMTU, want)
	}
	if len(s.Series[measure.TCPSeries]) != 1 || len(s.Series[measure.RetransmitSeries]) != 1 {
		t.Errorf("series %v, want one value each", s.Series)
	}
	t.Logf("tcp %v", s.Metrics)
}

func checkRR(t *testing.T, n *topo.TwoHosts) {
	t.Helper()
	for _, size := range []int{1, 1024} {
		run, err := measure.RunRR(t.Context(), measure.EndsOf(n, 6), measure.RROptions{Request: size, Response: size, Duration: 300 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		s := run.Sample()
		positive(t, s, measure.RRP50, measure.RRP99, measure.RRMean, measure.RRRate)
		if run.Latency.TotalCount() != run.Transactions {
			t.Errorf("%d latencies of %d transactions", run.Latency.TotalCount(), run.Transactions)
		}
		// One transaction outstanding: rate and mean are two views of one time.
		if product := s.Metrics[measure.RRRate] * s.Metrics[measure.RRMean] / 1e6; product < 0.3 || product > 1.01 {
			t.Errorf("rate × mean = %v, want almost 1, on a busy machine less", product)
		}
		for i := 1; i < len(s.Latency); i++ {
			if s.Latency[i].US < s.Latency[i-1].US || s.Latency[i].Q <= s.Latency[i-1].Q {
				t.Errorf("quantiles do not rise: %v", s.Latency)
			}
		}
		t.Logf("%s %v", s.Case, s.Metrics)
	}
}

func checkUDP(t *testing.T, n *topo.TwoHosts) {
	t.Helper()
	run, err := measure.RunUDP(t.Context(), measure.EndsOf(n, 4), measure.UDPOptions{Duration: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s := run.Sample()
	positive(t, s, measure.UDPRate, measure.UDPSentRate)
	if loss := s.Metrics[measure.UDPLoss]; loss < 0 || loss >= 1 {
		t.Errorf("loss %v is not in [0, 1)", loss)
	}
	t.Logf("udp %v", s.Metrics)
}

// positive checks the metrics named and that every core's shares make a whole.
func positive(t *testing.T, s result.Sample, names ...string) {
	t.Helper()
	for _, name := range names {
		if s.Metrics[name] <= 0 {
			t.Errorf("%s: %s is %v, want more than 0", s.Case, name, s.Metrics[name])
		}
	}
	if len(s.CPU) == 0 {
		t.Errorf("%s: no core", s.Case)
	}
	for _, c := range s.CPU {
		if sum := c.User + c.System + c.SoftIRQ + c.Idle; sum > 1.0001 {
			t.Errorf("%s: shares of core %d sum to %v", s.Case, c.Core, sum)
		}
	}
}

// Without a path there is no figure but an error that says what is missing.
func TestNoPath(t *testing.T) {
	n := newTwoHosts(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	ends := measure.EndsOf(n, 4)
	if _, err := measure.RunUDP(ctx, ends, measure.UDPOptions{}); err == nil || !strings.Contains(err.Error(), "10.0.0.2") {
		t.Errorf("UDP: %v, want an error that names 10.0.0.2", err)
	}
	if _, err := measure.RunTCP(t.Context(), ends, measure.TCPOptions{Duration: time.Second}); err == nil {
		t.Error("TCP: no error")
	}
}

func TestEnvironment(t *testing.T) {
	n := newTwoHosts(t)
	env, err := measure.Environment(t.Context(), n, "test")
	if err != nil {
		t.Fatal(err)
	}
	if env.Kernel == "" || env.CPU == "" || env.Cores < 1 || env.MemoryBytes < 1<<20 {
		t.Errorf("environment lacks something: %+v", env)
	}
	for _, role := range []string{"client", "access", "underlay", "server"} {
		if _, known := env.Offloads[role]["tx-tcp-segmentation"]; !known {
			t.Errorf("offloads of %s: %v", role, env.Offloads[role])
		}
	}
	if env.MTU["underlay"] != 1500 || env.MTU["inner"] != 1450 || env.Versions["selvage"] != "test" {
		t.Errorf("MTU %v, versions %v", env.MTU, env.Versions)
	}
	t.Logf("%+v", env)
}
