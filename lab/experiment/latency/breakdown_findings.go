package latency

import (
	"fmt"
	"math"

	"github.com/selvage/selvage/lab/breakdown"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// unexplainedLimit is the share of a round trip that its steps may leave or exceed: more,
// and rounds with stamps and without were not alike.
const unexplainedLimit = 0.1

// brokenDown says where the time of round trips goes, of those between two hosts with a
// firewall when they were measured.
func (e evidence) brokenDown() []result.Finding {
	var out []result.Finding
	for _, name := range stats.Names(e.Result) {
		all := Breakdowns(e.Result, name)
		for _, kind := range []string{RequestKind, ConnectKind} {
			b, ok := telling(all, kind)
			switch {
			case !ok:
			case math.Abs(b.Unexplained()) > unexplainedLimit*b.RTT.Median:
				out = append(out, result.Finding{Topic: "Breakdown", Text: fmt.Sprintf("the steps of %s add up to %s µs of %s, so their shares are noise. Quiet the machine, or raise --rounds.",
					brokenTitle(b), stats.Figure(b.Sum()), stats.Figure(b.RTT.Median))})
			case kind == RequestKind:
				out = append(out, requestFinding(b))
			default:
				out = append(out, connectFinding(b))
			}
		}
	}
	return out
}

// telling is the breakdown of a kind that says most: with the most rules, rather between
// two hosts.
func telling(all []Breakdown, kind string) (best Breakdown, ok bool) {
	for _, b := range all {
		better := b.Rules > best.Rules || b.Rules == best.Rules && b.Scenario == TwoHosts
		if b.Kind == kind && (!ok || better) {
			best, ok = b, true
		}
	}
	return best, ok
}

func brokenTitle(b Breakdown) string {
	title := map[string]string{RequestKind: "a request and its answer", ConnectKind: "opening a connection"}[b.Kind]
	title += map[string]string{SameHost: " on one host", TwoHosts: " between two hosts"}[b.Scenario]
	if b.Rules == 0 {
		return title + " without a firewall"
	}
	return fmt.Sprintf("%s with %s rules", title, stats.In(float64(b.Rules), "count"))
}

// programs is the time of the edges' programs.
func programs(b Breakdown) float64 {
	return b.Of(breakdown.ParsePart, breakdown.CachePart, breakdown.DecidePart, breakdown.FirewallPart, breakdown.KeepPart,
		breakdown.EncapPart, breakdown.DecapPart, breakdown.DeliverPart)
}

func requestFinding(b Breakdown) result.Finding {
	share := func(us float64) string { return fmt.Sprintf("%.0f %%", 100*us/b.RTT.Median) }
	words := fmt.Sprintf("of the %s µs of %s, %s are the guests' (their stacks, the path to their ports, the server's program", stats.Figure(b.RTT.Median), brokenTitle(b),
		share(b.Of(breakdown.StackPart, breakdown.WakePart, breakdown.PortPart, breakdown.ProgramPart)))
	if wake := b.Of(breakdown.WakePart); wake > 0 {
		words += fmt.Sprintf(", and %s wake-ups", share(wake))
	}
	words += fmt.Sprintf("), %s the edges' programs (%s µs)", share(programs(b)), stats.Figure(programs(b)))
	if underlay := b.Of(breakdown.UnderlayPart); underlay > 0 {
		words += fmt.Sprintf(", %s the underlay", share(underlay))
	}
	words += ". "
	if b.Rules > 0 && b.Of(breakdown.FirewallPart) == 0 {
		words += "No rule is evaluated: the flow cache has the decision. "
	}
	return result.Finding{Topic: "Breakdown", Text: words + "The potential gain is in the guests: keep them awake (busy polling), or send fewer and larger requests."}
}

func connectFinding(b Breakdown) result.Finding {
	words := fmt.Sprintf("%s takes %s µs, of which deciding where its packets go and storing that takes %s", brokenTitle(b), stats.Figure(b.RTT.Median),
		stats.Figure(b.Of(breakdown.DecidePart, breakdown.KeepPart)))
	if wall := b.Of(breakdown.FirewallPart); wall > 0 {
		words += fmt.Sprintf(" and the firewall %s (%.0f %%)", stats.Figure(wall), 100*wall/b.RTT.Median)
	}
	return result.Finding{Topic: "Breakdown", Text: words + ". Connections that stay open pay this once."}
}
