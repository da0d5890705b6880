package experiments_test

import (
	"testing"

	"github.com/selvage/selvage/lab/breakdown"
	"github.com/selvage/selvage/lab/experiment/latency"
	"github.com/selvage/selvage/test/tier"
)

// Round trips on one host and between two, with a firewall and without, are followed from
// step to step, and the firewall is a step where a connection opens.
func TestBreakdownLive(t *testing.T) {
	tier.Long(t, "internal/datapath's TestStamps and lab/breakdown's TestWatchGuests; lab/experiment/latency has recorded breakdowns")
	r := measuredLatency(t, "--targets", "selvage", "--scenarios", "same-host,two-hosts", "--rules", "0,100", "--measure", "rr", "--pairs", "1", "--breakdown")
	all := latency.Breakdowns(r, "selvage")
	if len(all) != 8 {
		t.Fatalf("%d breakdowns, not 2 scenarios × 2 kinds × 2 numbers of rules", len(all))
	}
	for _, b := range all {
		parts := map[string]bool{}
		for _, s := range b.Steps {
			parts[s.Part] = true
		}
		tunnel, opens := b.Scenario == latency.TwoHosts, b.Kind == latency.ConnectKind
		for part, want := range map[string]bool{
			breakdown.StackPart: true, breakdown.PortPart: true, breakdown.ParsePart: true, breakdown.ProgramPart: !opens, breakdown.DecidePart: opens, breakdown.KeepPart: opens,
			breakdown.FirewallPart: opens && b.Rules > 0,
			breakdown.UnderlayPart: tunnel, breakdown.EncapPart: tunnel, breakdown.DecapPart: tunnel, breakdown.DeliverPart: !tunnel,
		} {
			if parts[part] != want {
				t.Errorf("%s has a step %q: %t, want %t", b.Case(), part, parts[part], want)
			}
		}
		// Four a program's run, one where a packet leaves a guest, one or two where a socket has it,
		// and between two hosts one where it is sent from one to the other.
		most := map[bool]int{true: 22, false: 12}[tunnel]
		if !opens && b.Stamps != most || opens && b.Stamps < most {
			t.Errorf("%s: %d stamps a round trip", b.Case(), b.Stamps)
		}
		if b.LeftOut > 0.5 || b.RTT.Median <= 0 || b.Timed.Median <= 0 {
			t.Errorf("%s: %+v", b.Case(), b)
		}
	}
}
