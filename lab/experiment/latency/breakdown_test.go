package latency

import (
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/breakdown"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
)

// In each round every case is taken with stamps and without, one right after the other, and
// which is first changes.
func TestBreakdownOrder(t *testing.T) {
	o := breakdownOptions{rules: []int{0, 100}}
	all := []broken{{scenario: SameHost}, {scenario: TwoHosts}}
	for round := 1; round <= 2; round++ {
		cases := o.round(all, round)
		if len(cases) != 2*2*2*2 {
			t.Fatalf("%d cases", len(cases))
		}
		for i := 0; i < len(cases); i += 2 {
			first, second := cases[i], cases[i+1]
			if first.Timed != (round == 2) || second.Timed == first.Timed {
				t.Errorf("round %d: %s before %s", round, first.Case(), second.Case())
			}
			if first.Timed = second.Timed; first != second {
				t.Errorf("round %d: %s beside %s", round, first.Case(), second.Case())
			}
		}
	}
}

// No two rounds open connections from the same ports, as long as there are some.
func TestBreakdownPorts(t *testing.T) {
	o := breakdownOptions{}
	connect := Broken{Scenario: TwoHosts, Kind: ConnectKind}
	next := 0
	for round := 1; round <= 13; round++ {
		timing := o.timing(connect, round)
		if timing.FirstPort < next || timing.FirstPort < firstPort {
			t.Fatalf("round %d begins at port %d, the one before ended at %d", round, timing.FirstPort, next)
		}
		next = timing.FirstPort + timing.Warmup + timing.Transactions
	}
	if next > lastPort || o.timing(connect, 14).FirstPort != firstPort {
		t.Errorf("the last port is %d, and then %d", next, o.timing(connect, 14).FirstPort)
	}
	if timing := o.timing(Broken{Kind: RequestKind}, 1); timing.Connect || timing.FirstPort != 0 || timing.Transactions != mostTransactions {
		t.Errorf("%+v", timing)
	}
}

// A round that went another way than the first is an error, and no round of steps.
func TestBreakdownWay(t *testing.T) {
	sample := func(part string) result.Sample {
		return result.Sample{Case: "c", Metrics: map[string]float64{StepMetric(0, part, "host A"): 1}, Series: map[string][]float64{StampsSeries: {1}}}
	}
	ways := map[string][]string{}
	for _, c := range []struct{ part, want string }{{breakdown.CachePart, ""}, {breakdown.CachePart, ""}, {breakdown.DecidePart, "another path"}} {
		s := sample(c.part)
		checkWay(ways, &s)
		if (s.Error == "") != (c.want == "") || !strings.Contains(s.Error, c.want) {
			t.Errorf("%s: %q, want %q", c.part, s.Error, c.want)
		}
	}
}

func TestRoundTrips(t *testing.T) {
	var all []measure.Transaction
	for _, us := range []int{9, 1, 2} {
		all = append(all, measure.Transaction{Sent: time.Second, Received: time.Second + time.Duration(us)*time.Microsecond})
	}
	for q, want := range map[float64]float64{0: 1, 0.5: 2, 1: 9} {
		if got := quantile(roundTrips(all), q); got != want {
			t.Errorf("quantile %g is %g µs, want %g", q, got, want)
		}
	}
}
