package measure_test

import (
	"testing"
	"time"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/topo"
)

// Connections, datagrams and due times over the plain path, between two pairs of guests.
func TestConnections(t *testing.T) {
	n := newTwoHostsOf(t, topo.TwoHostsOptions{Pairs: 2})
	path, err := dut.Plain(t.Context(), n, dut.EndOptions{})
	if err != nil {
		t.Fatalf("%v\n%s", err, n.Picture())
	}
	defer path.Close()
	ends := measure.EndsOf(n, 4)
	t.Run("crr", func(t *testing.T) { checkCRR(t, ends) })
	t.Run("udp", func(t *testing.T) { checkUDPRR(t, ends) })
	t.Run("due", func(t *testing.T) { checkDue(t, ends) })
	t.Run("pairs", func(t *testing.T) { checkPairs(t, n) })
}

func checkCRR(t *testing.T, ends measure.Ends) {
	for atOnce, metrics := range map[int][]string{
		1: {measure.CRRRate, measure.CRRP50, measure.CRRP99}, 16: {measure.ConnRate},
	} {
		run, err := measure.RunCRR(t.Context(), ends, measure.CRROptions{AtOnce: atOnce, Duration: 300 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		s := run.Sample()
		positive(t, s, metrics...)
		if run.Failed > 0 || run.Latency.TotalCount() != run.Transactions {
			t.Errorf("%d at once: %d failed, %d latencies of %d transactions", atOnce, run.Failed, run.Latency.TotalCount(), run.Transactions)
		}
		// Little's law: what is under way is rate × time. (On a busy machine some take long that
		// began in time and end after it.)
		if inside := float64(run.Transactions) / run.Elapsed.Seconds() * run.Latency.Mean() / 1e9; inside < 0.2*float64(atOnce) || inside > 5*float64(atOnce) {
			t.Errorf("%d at once, but rate × mean time is %.2f", atOnce, inside)
		}
		t.Logf("%s %v", s.Case, s.Metrics)
	}
}

func checkUDPRR(t *testing.T, ends measure.Ends) {
	run, err := measure.RunRR(t.Context(), ends, measure.RROptions{Network: "udp", Request: 100, Response: 1, Duration: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	positive(t, run.Sample(), measure.RRP50, measure.RRRate)
	t.Logf("udp %v", run.Sample().Metrics)
}

// Transactions are due at a rate that the path can do, and at one that it cannot, where
// their wait has to be in the latency.
func checkDue(t *testing.T, ends measure.Ends) {
	const slow, fast, duration = 500, 2_000_000, 400 * time.Millisecond
	run, err := measure.RunRR(t.Context(), ends, measure.RROptions{Rate: slow, Duration: duration})
	if err != nil {
		t.Fatal(err)
	}
	want := int64(slow * duration.Seconds())
	if run.Transactions < want/2 || run.Transactions > want*11/10 {
		t.Errorf("%d transactions at %d a second in %s, want about %d", run.Transactions, slow, duration, want)
	}
	run, err = measure.RunRR(t.Context(), ends, measure.RROptions{Rate: fast, Duration: duration})
	if err != nil {
		t.Fatal(err)
	}
	if p99 := run.Quantile(0.99); p99 < 10_000 {
		t.Errorf("p99 is %.0f µs at a rate that no path has: the wait is left out", p99)
	}
}

func checkPairs(t *testing.T, n *topo.TwoHosts) {
	var pairs []measure.Ends
	for _, p := range n.Pairs {
		pairs = append(pairs, measure.EndsOfPair(p, 4))
	}
	runs, err := measure.RunRRs(t.Context(), pairs, func(int) measure.RROptions {
		return measure.RROptions{Duration: 300 * time.Millisecond}
	})
	if err != nil {
		t.Fatal(err)
	}
	all := measure.Together(runs)
	if sum := runs[0].Transactions + runs[1].Transactions; all.Transactions != sum || all.Latency.TotalCount() != sum {
		t.Errorf("%d transactions and %d latencies of %d", all.Transactions, all.Latency.TotalCount(), sum)
	}
}
