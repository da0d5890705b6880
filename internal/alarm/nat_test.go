package alarm

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// Alarms are raised when something fills, stay until it is clearly better, and drops count
// from one sweep to the next.
func TestNATAlarms(t *testing.T) {
	config := overlay.Egress{NATSessions: 100}
	filled := func(natSessions, used int, drops map[string]uint64, lost uint64) NATReading {
		return NATReading{
			GCStats: datapath.NATGCStats{Sessions: natSessions},
			Fullest: []datapath.PortUsage{{Policy: "web", Proto: 6, Egress: netip.MustParseAddr("203.0.113.10"), Used: used, Size: 100}}, drops: drops, events: map[string]uint64{eventNATLost: lost}, known: true,
		}
	}
	var was NATReading
	for i, c := range []struct {
		now  NATReading
		want []string
	}{
		{filled(10, 10, map[string]uint64{reasonExhausted: 5}, 3), nil}, // the counts of before are no news
		{filled(80, 79, map[string]uint64{reasonExhausted: 5}, 3), []string{"80 of 100 sessions"}},
		{filled(76, 80, map[string]uint64{reasonExhausted: 5}, 3), []string{"76 of 100 sessions", "80 of 100 tcp ports of 203.0.113.10"}},
		{filled(74, 76, map[string]uint64{reasonExhausted: 5}, 3), []string{"76 of 100 tcp ports"}},
		{filled(1, 1, map[string]uint64{reasonExhausted: 7, reasonFull: 1, reasonNoGateway: 2}, 4),
			[]string{"1 of 100 sessions", "1 sessions began or ended", "2 packets were just dropped because no gateway", "2 packets were just dropped because no port"}},
		{filled(1, 1, map[string]uint64{reasonExhausted: 7, reasonFull: 1, reasonNoGateway: 2}, 4), nil},
	} {
		c.now.evaluate(was, config)
		if len(c.now.Problems) != len(c.want) {
			t.Errorf("sweep %d: %q, want %q", i, c.now.Problems, c.want)
		} else {
			for j, want := range c.want {
				if !strings.Contains(c.now.Problems[j].Text, want) {
					t.Errorf("sweep %d: %q, want %q", i, c.now.Problems[j].Text, want)
				}
			}
		}
		was = c.now
	}
}

// A share of few places is no alarm: one GRE client has all that its address offers, and a port that may have one half-open
// connection has one. What finds no room is another alarm.
func TestFewPlacesAreNoAlarm(t *testing.T) {
	egress := netip.MustParseAddr("203.0.113.10")
	nat := NATReading{known: true, Fullest: []datapath.PortUsage{
		{Policy: "uplink/wan", Proto: 47, Egress: egress, Used: 1, Size: 1}, {Policy: "web", Proto: 6, Egress: egress, Used: 4, Size: 4},
	}}
	if nat.evaluate(NATReading{known: true}, overlay.Egress{NATSessions: 1000}); len(nat.Problems) != 0 {
		t.Errorf("NAT: %q", nat.Problems)
	}
	fw := FirewallReading{GCStats: datapath.GCStats{HalfOpens: map[string]datapath.HalfOpen{"p0": {In: 1, Limit: 1}}}}
	if fw.evaluate(FirewallReading{}, overlay.Firewall{}); len(fw.Problems) != 0 {
		t.Errorf("firewall: %q", fw.Problems)
	}
}

// Usages of few places do not stand before those that are watched.
func TestFullestAreWatched(t *testing.T) {
	from := &translator{}
	n := NewNAT(Options{Log: slog.New(slog.DiscardHandler), Report: func(string, error) {}}, from)
	n.sweep()
	if from.asked != fewPlaces {
		t.Errorf("asked for usages of %d places at least, want %d", from.asked, fewPlaces)
	}
}

// A table that makes room, and connections that a flood pushes out, are an alarm that says how many, while that lasts.
func TestNATEventAlarms(t *testing.T) {
	for event, text := range map[string]string{
		eventEarlyDropped: "just now 3 that were over or unanswered made room",
		eventEvicted:      "3 connections from outside were just forgotten",
	} {
		was := NATReading{known: true, events: map[string]uint64{event: 4}}
		next := NATReading{known: true, events: map[string]uint64{event: 7}}
		next.evaluate(was, overlay.Egress{NATSessions: 1000})
		if len(next.Problems) != 1 || !strings.Contains(next.Problems[0].Text, text) {
			t.Errorf("%s: problems %v", event, next.Problems)
		}
		later := NATReading{known: true, events: map[string]uint64{event: 7}}
		if later.evaluate(next, overlay.Egress{NATSessions: 1000}); len(later.Problems) != 0 {
			t.Errorf("%s: problems %v when it is over", event, later.Problems)
		}
	}
}

// translator is NAT that a test changes; nil: there is none.
type translator struct {
	sessions int
	failing  error
	none     bool
	swept    int
	asked    int // least size of the usages that were asked for
}

func (n *translator) WithNAT(do func(overlay.Egress, NATTables) error) (bool, error) {
	if n.none {
		return false, nil
	}
	return true, do(overlay.Egress{NATSessions: 100}, n)
}

func (n *translator) ReplicationProblems(time.Time) []problem.Problem {
	return []problem.Problem{problem.Note("replication")}
}
func (n *translator) Swept() { n.swept++ }
func (n *translator) NATSweep() (datapath.NATGCStats, error) {
	return datapath.NATGCStats{Sessions: n.sessions}, n.failing
}
func (n *translator) PortUsages(_, least int) ([]datapath.PortUsage, error) {
	n.asked = least
	return nil, nil
}
func (n *translator) Drops() ([]datapath.Drop, error)    { return nil, nil }
func (n *translator) Events() (map[string]uint64, error) { return nil, nil }

// A sweep that fails leaves what the one before saw, and is a fault; when NAT is taken away nothing is left of it.
func TestNATSweep(t *testing.T) {
	from, faults := &translator{none: true}, map[string]error{}
	n := NewNAT(Options{Log: slog.New(slog.DiscardHandler), Report: func(what string, err error) { faults[what] = err }}, from)
	n.sweep()
	if len(faults) != 0 || !n.Last().SweptAt.IsZero() {
		t.Errorf("without NAT: faults %v, %+v", faults, n.Last())
	}
	from.none, from.sessions = false, 90
	n.sweep()
	if r := n.Last(); len(r.Problems) != 2 || r.GCStats.Sessions != 90 {
		t.Errorf("%+v, want a problem of the table and one of replication", r)
	}
	from.failing = errors.New("so the test wants it")
	n.sweep()
	if len(n.Last().Problems) != 2 || faults["sweep the sessions"] == nil {
		t.Errorf("after an error: %+v, faults %v", n.Last(), faults)
	}
	from.none = true
	n.sweep()
	if r := n.Last(); len(r.Problems) != 0 || !r.SweptAt.IsZero() || faults["sweep the sessions"] != nil {
		t.Errorf("without NAT again: %+v, faults %v", r, faults)
	}
}
