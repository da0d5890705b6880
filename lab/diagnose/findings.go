package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Limits of what findings call remarkable.
const (
	BusyCore   = 0.95 // a core (or all of them) counts as full
	stealLimit = 0.05 // share of all cores' time that others may take in any sample
	busyBefore = 0.15 // of all cores' time, before samples
)

// Quieter is what to do when noise may forbid a verdict.
const Quieter = "Quiet the machine, or raise --rounds or --duration: "

// Failed says which samples did.
func (e Evidence) Failed() []result.Finding {
	lines := stats.Errors(e.Result)
	if len(lines) == 0 {
		return nil
	}
	shown := lines
	more := ""
	if len(shown) > 3 {
		shown, more = lines[:3], fmt.Sprintf("; and %d more", len(lines)-3)
	}
	return []result.Finding{{Topic: "Errors", Text: fmt.Sprintf("%d of %d samples failed and are left out of every figure (%s%s). Fix the cause and run again: failures do not strike rounds at random.",
		len(lines), len(e.Samples), strings.Join(shown, "; "), more)}}
}

// Stolen says when the hypervisor gave a good part of the machine to others.
func (e Evidence) Stolen() []result.Finding {
	worst, at := 0.0, ""
	for _, s := range e.Samples {
		if v := s.Metrics[result.CPUSteal]; s.Error == "" && v > worst {
			worst, at = v, fmt.Sprintf("%s of %s in round %d", s.Case, s.Target, s.Round)
		}
	}
	if worst <= stealLimit {
		return nil
	}
	return []result.Finding{{Topic: "Noise", Text: fmt.Sprintf("the hypervisor stole up to %.0f %% of the cores' time (%s), which no tuning of this machine can fix. Choose a quieter time or a dedicated machine.", 100*worst, at)}}
}

// FewRounds says what so few rounds are worth.
func (e Evidence) FewRounds() []result.Finding {
	rounds := stats.Rounds(e.Result)
	switch {
	case rounds > 0 && rounds < stats.LeastPairs && stats.Sliced(e.Result):
		return []result.Finding{{Topic: "Confidence", Text: fmt.Sprintf("%s cannot show a difference of any size, since so few agree by chance too often. Use --rounds %d or more.",
			result.Counted(rounds, "round"), stats.LeastPairs)}}
	case rounds == 0 || rounds >= 5:
		return nil
	}
	return []result.Finding{{Topic: "Confidence", Text: fmt.Sprintf("with %s the intervals contain the median with only %.0f %% confidence. Use --rounds 5 (94 %%) or 6 (97 %%) before you quote a figure.",
		result.Counted(rounds, "round"), 100*stats.Confidence(rounds))}}
}

// Busy says when others were at work on the cores before samples were taken.
func (e Evidence) Busy() []result.Finding {
	var shares []float64
	for _, s := range e.Samples {
		if v, ok := s.Metrics[result.IdleBusy]; ok && s.Error == "" {
			shares = append(shares, v)
		}
	}
	iv := stats.Median(shares)
	if iv.Median <= busyBefore {
		return nil
	}
	return []result.Finding{{Topic: "Noise", Text: fmt.Sprintf("the cores were %s busy before samples began (median of %d), so other processes took part of each. Rates are too low by that part; stop those processes and run again.", stats.Share(iv.Median), iv.N)}}
}

// BridgeNetfilter says when the baseline pays for netfilter in its bridge. What
// the experiments send is IPv4, so iptables' sysctl decides.
func (e Evidence) BridgeNetfilter() []result.Finding {
	const key = "bridge-nf-call-iptables"
	if e.Environment.Sysctls["net.bridge."+key] != "1" || e.routed() || !slices.Contains(stats.Names(e.Result), Plain) {
		return nil
	}
	return []result.Finding{{Topic: "Bridge netfilter", Text: "the baseline's bridge passes every frame through netfilter (" + key + "=1). Without it, the baseline does less work per packet, and data paths without a bridge compare less well. Run with --bridge-netfilter off to compare."}}
}

// LowerFirst begins s with a small letter unless it is an abbreviation.
func LowerFirst(s string) string {
	if len(s) > 1 && s[1] >= 'a' && s[1] <= 'z' { // not an abbreviation
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}

// Collect is what all of them find, in their order.
func Collect(all ...func() []result.Finding) []result.Finding {
	var out []result.Finding
	for _, one := range all {
		out = append(out, one()...)
	}
	return out
}
