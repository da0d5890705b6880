package underlay

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

// rules is a file of a firewall's rules.
func rules(path string, count int) error {
	var b strings.Builder
	b.WriteString(`{"sections": [{"name": "many", "priority": 10, "rules": [`)
	for i := range count {
		if i > 0 {
			b.WriteString(",\n")
		}
		fmt.Fprintf(&b, `{"name": "r%d", "action": "drop", "from": ["10.%d.%d.%d"], "services": ["tcp/%d"]}`, i, 100+i>>16, i>>8&255, i&255, 1+i%60000)
	}
	b.WriteString("]}]}\n")
	return os.WriteFile(path, []byte(b.String()), 0o600)
}

// A path that dies is left as soon by an edge that is busy with its tables: with 100,000 rules, or with other programs and tables
// of other sizes. The gap of a flow includes the 300 ms that BFD needs here.
func TestTEPsFailoverWhileBusy(t *testing.T) {
	tier.Long(t, "internal/edge TestFailoverDuringApply and TestFailoverDuringReopen")
	const many = 100_000
	for _, c := range []struct {
		name   string
		change func(b *busyEdge)
	}{
		{"idle", func(*busyEdge) {}},
		{"reload", func(b *busyEdge) { b.rules = 2*many - 1 - b.rules }},
		{"resize", func(b *busyEdge) { b.connections = 131072 + 262144 - b.connections }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBusyEdge(t, many)
			var worst []time.Duration
			for round := range busyRounds {
				worst = append(worst, b.failover(round, func() { c.change(b) }))
			}
			slices.Sort(worst)
			t.Logf("worst gap of a round: p50 %s, max %s, n = %d", worst[len(worst)/2].Round(time.Millisecond),
				worst[len(worst)-1].Round(time.Millisecond), len(worst))
			b.Once("flows moved within a second", func() error {
				if worst[0] == 0 || worst[len(worst)-1] > time.Second {
					return fmt.Errorf("gaps %s", worst)
				}
				return nil
			})
		})
	}
}

// busyRounds is how many failovers there are of each kind: a path that failed is held back, twice as long each time.
const busyRounds = 6

// busyEdge is a pair of edges, of which the first has much to do.
type busyEdge struct {
	*pairOfEdges
	bundle             *harness.Bundle
	file               string
	rules, connections int
}

func newBusyEdge(t *testing.T, many int) *busyEdge {
	b := &busyEdge{pairOfEdges: newPairOfEdges(t, 4), file: filepath.Join(t.TempDir(), "rules.json"), rules: 1, connections: 131072}
	b.Must(rules(b.file, b.rules))
	b.Start(b.hosts[0], dut.EdgeName(b.hosts[0]), b.text())
	b.Start(b.hosts[1], dut.EdgeName(b.hosts[1]), b.yaml(1, "teaming: flow", ""))
	b.allUp()
	b.change(func() { b.rules = many })
	b.inForce()
	b.Pings(harness.Ways(b.red[0], b.red[1])...)
	b.bundle = b.NewBundle(harness.Way(b.red[0], b.red[1], 4), 20000, 30000, 8, 8)
	b.bundle.Start(10 * time.Millisecond)
	return b
}

func (b *busyEdge) text() string {
	return b.yaml(0, "teaming: flow", "") + fmt.Sprintf("  firewall: {default: allow, connections: %d, include: [\"%s\"]}\n", b.connections, b.file)
}

func (b *busyEdge) allUp() {
	for i, h := range b.hosts {
		b.Fact("all paths are up at "+h.Name, func() error { return b.states(i, map[string]int{"up": 4}) })
	}
}

// failover has the paths by one of the first edge's interfaces die after a change, at another moment in each round. It is the
// longest gap of a flow.
func (b *busyEdge) failover(round int, change func()) time.Duration {
	b.GoesOn(b.bundle, 20)
	b.bundle.Mu.Lock()
	for _, f := range b.bundle.Flows {
		f.Gap, f.Lost = 0, 0
	}
	b.bundle.Mu.Unlock()
	b.change(change)
	<-time.After(time.Duration(round) * 250 * time.Millisecond)
	mend := b.hole(fmt.Sprintf("a%d", round%2))
	for i, h := range b.hosts {
		b.Fact("paths are down at "+h.Name, func() error { return b.states(i, map[string]int{"up": 2, "down": 2}) })
	}
	b.GoesOn(b.bundle, 50)
	gaps, _ := b.bundle.Gaps(func(harness.FlowPorts) bool { return true })
	mend()
	b.allUp()
	b.inForce()
	return slices.Max(append(gaps, 0))
}

// change has the first edge reload, if something changed.
func (b *busyEdge) change(do func()) {
	before, text := b.rules, b.text()
	if do(); b.rules != before {
		b.Must(rules(b.file, b.rules))
	}
	if b.text() != text || b.rules != before {
		b.Must(b.Reload(b.hosts[0].Name, b.text()))
	}
}

// inForce waits until the first edge has its configuration in force.
func (b *busyEdge) inForce() {
	b.Must(await.Within(b.Ctx, 2*time.Minute, "the configuration is in force", func() error {
		s, err := b.Ask(b.hosts[0].Name).Status(b.Ctx)
		if err == nil && (s.Firewall.Rules < b.rules || s.Firewall.Rules > b.rules+10 || int(s.Firewall.Connections.Size) != b.connections) {
			err = fmt.Errorf("%+v, want %d rules and %d connections", *s.Firewall, b.rules, b.connections)
		}
		return err
	}))
}
