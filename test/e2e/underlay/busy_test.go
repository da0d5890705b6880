package underlay

import (
	"fmt"
	"net/netip"
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

// A path that dies is left as soon by an edge that is busy with its tables: with 100,000 rules, with other programs and tables
// of other sizes, or with a thousand moves of hosts a second that BGP tells of. The gap of a flow includes the 150 ms that BFD needs here.
func TestTEPsFailoverWhileBusy(t *testing.T) {
	tier.Long(t, "internal/edge TestFailoverDuringApply and TestFailoverDuringReopen")
	for _, c := range []struct {
		name    string
		updates bool
		change  func(b *busyEdge)
	}{
		{name: "idle", change: func(*busyEdge) {}},
		{name: "reload", change: func(b *busyEdge) { b.rules = 2*harness.ManyRules - 1 - b.rules }},
		{name: "resize", change: func(b *busyEdge) { b.connections = 131072 + 262144 - b.connections }},
		{name: "updates", updates: true, change: func(b *busyEdge) { b.load.Ask("churn") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var worst []time.Duration
			for range busyPairs {
				t.Run("pair", func(t *testing.T) {
					b := newBusyEdge(t, c.updates)
					for round := range busyRounds {
						worst = append(worst, b.failover(round, func() { c.change(b) }))
					}
				})
			}
			slices.Sort(worst)
			if len(worst) != busyPairs*busyRounds {
				t.Fatalf("%d failovers, want %d", len(worst), busyPairs*busyRounds)
			}
			t.Logf("worst gap of a round: p50 %s, max %s, n = %d", worst[len(worst)/2].Round(time.Millisecond),
				worst[len(worst)-1].Round(time.Millisecond), len(worst))
			// On a busy machine a path that lives may fail too, and flows may have left one before it dies.
			if worst[len(worst)/2] == 0 || worst[len(worst)-1] > time.Second {
				t.Errorf("gaps %s, want most to be some, and none longer than a second", worst)
			}
		})
	}
}

const (
	// busyRounds is how many failovers there are of each pair: a path that failed is held back, twice as long each time.
	busyRounds = 5
	// busyPairs is how many pairs of edges there are of each kind, one after the other.
	busyPairs = 4
)

// busyEdge is a pair of edges, of which the first has much to do.
type busyEdge struct {
	*pairOfEdges
	bundle             *harness.Bundle
	file               string
	rules, connections int
	load               *harness.BGPLoad // nil without BGP
}

func newBusyEdge(t *testing.T, updates bool) *busyEdge {
	b := &busyEdge{pairOfEdges: newPairOfEdges(t, 4), file: filepath.Join(t.TempDir(), "rules.json"), rules: 1, connections: 131072}
	b.Must(harness.WriteRules(b.file, b.rules))
	text := b.text()
	if updates {
		text = b.hears(text)
	}
	b.Start(b.hosts[0], dut.EdgeName(b.hosts[0]), text)
	b.Start(b.hosts[1], dut.EdgeName(b.hosts[1]), b.pair(1))
	b.allUp()
	if updates {
		b.tell()
	} else {
		b.change(func() { b.rules = harness.ManyRules })
		b.inForce()
	}
	b.Pings(harness.Ways(b.red[0], b.red[1])...)
	b.bundle = b.NewBundle(harness.Way(b.red[0], b.red[1], 4), 20000, 30000, 8, 8)
	b.bundle.Start(10 * time.Millisecond)
	return b
}

// busySpeaker and busyLoad are the ends of the first edge's BGP session: bgploadgen is on its host.
var busySpeaker, busyLoad = netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("198.18.0.99")

// hears is the configuration of the first edge with that session, and with a segment of which it is told hosts.
func (b *busyEdge) hears(text string) string {
	for _, addr := range []netip.Addr{busySpeaker, busyLoad} {
		_, err := b.hosts[0].Output(b.Ctx, "ip", "address", "add", addr.String(), "dev", "lo")
		b.Must(err)
	}
	return strings.Replace(text, "  ports:\n", "  - {name: crowded, vni: 300, evpn: {}}\n  ports:\n", 1) + fmt.Sprintf(`  bgp:
    as: 65000
    listen: ["%s"]
    neighbours:
    - {name: bgploadgen, address: "%s", passive: true}
`, busySpeaker, busyLoad)
}

// tell has bgploadgen tell of 10,000 hosts.
func (b *busyEdge) tell() {
	const peers, hosts = 10, 1000
	b.load = harness.StartBGPLoad(b.Network, b.hosts[0], harness.BGPLoadOptions{Local: busyLoad, Neighbour: busySpeaker, Peer: netip.MustParseAddr("203.0.113.1"),
		Peers: peers, Hosts: hosts, Routers: 1, VNI: 300})
	b.load.Do("announce")
	b.Fact("the first edge has the hosts in its maps", func() error {
		s, err := b.Ask(b.hosts[0].Name).Status(b.Ctx)
		if err == nil && s.FDB.Used < peers*hosts {
			err = fmt.Errorf("%+v", s.FDB)
		}
		return err
	})
}

// pair is the configuration of an edge that finds a dead path within 150 ms.
func (b *busyEdge) pair(i int) string {
	return strings.Replace(b.yaml(i, "teaming: flow", ""), "interval: 100ms", "interval: 50ms", 1)
}

func (b *busyEdge) text() string {
	return b.pair(0) + fmt.Sprintf("  firewall: {default: allow, connections: %d, include: [\"%s\"]}\n", b.connections, b.file)
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
	if b.load != nil {
		b.load.Await("churn")
	} else {
		b.inForce()
	}
	return slices.Max(append(gaps, 0))
}

// change has the first edge reload, if something changed.
func (b *busyEdge) change(do func()) {
	before, text := b.rules, b.text()
	if do(); b.rules != before {
		b.Must(harness.WriteRules(b.file, b.rules))
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
