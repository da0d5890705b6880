package measure_test

import (
	"testing"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/measure"
)

// Times of both sides are of one clock: each transaction's are in order, and after the
// ones before.
func TestTimed(t *testing.T) {
	n := newTwoHosts(t)
	path, err := dut.Plain(t.Context(), n, dut.EndOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer path.Close()
	for _, o := range []measure.TimedOptions{
		{Transactions: 500, Warmup: 50, Request: 100, Response: 1000},
		{Transactions: 100, Warmup: 5, Connect: true, FirstPort: 3000},
	} {
		run, err := measure.RunTimed(t.Context(), measure.EndsOf(n, 4), o)
		if err != nil {
			t.Fatal(err)
		}
		if len(run.Transactions) != o.Transactions {
			t.Fatalf("%d transactions, want %d", len(run.Transactions), o.Transactions)
		}
		last := run.Transactions[0].Sent
		for i, one := range run.Transactions {
			served := o.Connect && one.ServerReceived == 0 ||
				!o.Connect && one.Sent < one.ServerReceived && one.ServerReceived <= one.ServerSent && one.ServerSent < one.Received
			if one.Sent < last || one.RTT() <= 0 || !served {
				t.Fatalf("transaction %d after %s: %+v", i, last, one)
			}
			last = one.Received
		}
	}
}
