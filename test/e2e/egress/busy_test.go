package egress

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

const (
	// busyRounds is how often the gateway of a network fails: it is held back, twice as long each time.
	busyRounds = 4
	// busyNets is how many networks there are of each kind, one after the other.
	busyNets = 5
)

// A gateway that dies is left as soon while all edges reload a firewall of 100,000 rules. The gap of a flow includes the 150 ms
// that BFD needs here.
func TestEgressFailoverWhileBusy(t *testing.T) {
	tier.Long(t, "internal/simulation TestFailoverDuringReload, and TestEgressGateways")
	for _, reloads := range []bool{false, true} {
		t.Run(map[bool]string{false: "idle", true: "reload"}[reloads], func(t *testing.T) {
			var worst []time.Duration
			for range busyNets {
				t.Run("net", func(t *testing.T) { worst = append(worst, busyGateways(t, reloads)...) })
			}
			slices.Sort(worst)
			if len(worst) != busyNets*busyRounds {
				t.Fatalf("%d failovers, want %d", len(worst), busyNets*busyRounds)
			}
			t.Logf("worst gap of a round: p50 %s, max %s, n = %d", worst[len(worst)/2].Round(time.Millisecond),
				worst[len(worst)-1].Round(time.Millisecond), len(worst))
			if worst[len(worst)/2] == 0 || worst[len(worst)-1] > worstGap {
				t.Errorf("gaps %s, want most to be some, and none longer than %s", worst, worstGap)
			}
		})
	}
}

// busyGateways are the longest gaps of flows, one for each failure of the gateway that serves.
func busyGateways(t *testing.T, reloads bool) (worst []time.Duration) {
	file, rules := filepath.Join(t.TempDir(), "rules.json"), harness.ManyRules
	n := harness.NewEgressNet(t, harness.EgressOptions{Replication: true, Fails: true, Interval: "50ms",
		Firewall: fmt.Sprintf("  firewall: {default: allow, include: [%q]}\n", file)})
	defer n.DumpOnFailure()
	n.Must(harness.WriteRules(file, rules))
	n.Up()
	n.Serving(2, 3)
	talks := talk(n)
	for round := range busyRounds {
		talks.goOn("before")
		for _, b := range talks.bundles {
			forget(b)
		}
		if reloads {
			rules = 2*harness.ManyRules - 1 - rules
			n.Must(harness.WriteRules(file, rules))
			for _, h := range n.Hosts {
				n.Must(syscall.Kill(n.Edges[h.Name].Command.PID(), syscall.SIGHUP))
			}
		}
		<-time.After(time.Duration(round) * 250 * time.Millisecond)
		mend := faults[1].strike(n, 2)
		talks.goOn("after the fault")
		longest := time.Duration(0)
		for _, b := range talks.bundles {
			gaps, _ := b.Gaps(func(harness.FlowPorts) bool { return true })
			longest = slices.Max(append(gaps, longest))
		}
		worst = append(worst, longest)
		mend()
		n.Must(await.Within(n.Ctx, 2*time.Minute, "all edges have the rules", func() error {
			for _, h := range n.Hosts {
				if s, err := n.Ask(h.Name).Status(n.Ctx); err != nil || s.Firewall.Rules < rules || s.Firewall.Rules > rules+10 {
					return fmt.Errorf("%s: %+v, %w, want %d rules", h.Name, s.Firewall, err, rules)
				}
			}
			return nil
		}))
		n.Serving(2, 3)
		translatedBy(n, 2, harness.Pool4...)
		translatedBy(n, 2, harness.Pool6...)
	}
	return worst
}
