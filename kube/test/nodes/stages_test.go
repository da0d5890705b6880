package nodes

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

// stage is a part of the way from a pod to the outside.
type stage struct {
	name string
	ends measure.Ends
}

// What a pod gets through its gateway, beside what the nodes' network carries, over wires of 1 Gbit/s and over what the cores can do. The
// figures are printed with their spread; that each stage carries traffic, and that what leaves has the policy's address, is asserted.
func TestStages(t *testing.T) {
	tier.Long(t, "TestPodsLeaveByGateway")
	b := newCluster(t)
	defer b.dump()
	b.up()
	b.leaves(b.web1, "tcp", harness.Outside4, egress4)
	stages := []stage{
		{"node", measure.Ends{Client: b.Hosts[0], Server: b.Hosts[2], Addr: b.Tep(3)}},
		{"egress", measure.Ends{Client: b.web1.Host, Server: b.out, Addr: harness.Outside4}},
	}
	for _, wire := range []uint64{1e9, 0} {
		b.wire(wire)
		b.climb(fmt.Sprintf("wires of %d bit/s (0: no limit)", wire), stages)
	}
	b.leaves(b.web1, "tcp", harness.Outside4, egress4)
}

// climb measures both stages, in turns, and prints medians and ratios.
func (b *cluster) climb(what string, stages []stage) {
	b.T.Helper()
	const rounds = 10
	rates := make([][]float64, len(stages))
	var ratios []float64
	for round := range rounds {
		order := []int{0, 1}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, i := range order {
			got, err := measure.RunBulk(b.Ctx, stages[i].ends, measure.BulkOptions{Duration: 2 * time.Second})
			b.Must(err)
			rate := got.Sample().Metrics[measure.TCPThroughput]
			if rate <= 0 {
				b.T.Errorf("%s: nothing arrives", stages[i].name)
			}
			rates[i] = append(rates[i], rate)
		}
		ratios = append(ratios, rates[1][round]/rates[0][round])
	}
	b.T.Logf("%s: Gbit/s in %d rounds: %s %s, %s %s; egress / node %s", what, rounds,
		stages[0].name, spread(rates[0]), stages[1].name, spread(rates[1]), spread(ratios))
}

// spread is the median with its interval.
func spread(list []float64) string {
	m := stats.Median(list)
	return fmt.Sprintf("%.3f (%.3f to %.3f, %.0f %% confidence)", m.Median, m.Lo, m.Hi, 100*m.Confidence)
}

// wire gives the links that both stages have, and that to the outside, a rate in bits a second; 0 is none.
func (b *cluster) wire(bits uint64) {
	b.T.Helper()
	for _, at := range []struct {
		host *topo.Host
		name string
	}{{b.Hosts[0], topo.UnderlayName}, {b.Hosts[2], topo.UnderlayName}, {b.Hosts[2], "eth1"}, {b.out, "lan0"}} {
		argv := []string{"tc", "qdisc", "replace", "dev", at.name, "root", "noqueue"}
		if bits > 0 {
			// The burst lets a segment of 64 kB pass at once; the queue is of 10 ms at 1 Gbit/s, as in the lab's egress experiment.
			argv = []string{"tc", "qdisc", "replace", "dev", at.name, "root", "tbf", "rate", strconv.FormatUint(bits, 10) + "bit", "burst", "131072", "limit", "1280000"}
		}
		_, err := at.host.Output(b.Ctx, argv...)
		b.Must(err)
	}
}
