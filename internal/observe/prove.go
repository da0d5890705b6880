package observe

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/selvage/selvage/internal/api"
)

// Prove writes one line for each remote of each segment, and what there is to say of those that
// packets do not prove, or not whole.
func Prove(w Writer, p api.ProveInfo) error {
	err := table(w, "SEGMENT REMOTE NAME PREFIXES STATE WAYS RTT SIZE BY", p.Proofs, func(f api.ProofInfo) []any {
		return []any{f.Segment, f.Remote, f.Name, proofPrefixes(f), f.State, proofWays(f), proofTime(f), proofSize(f), proofBy(f)}
	})
	if err != nil {
		return err
	}
	for _, f := range p.Proofs {
		if f.State == api.ProofProven && f.Cause == "" {
			continue
		}
		if err := doubt(w, f); err != nil {
			return err
		}
	}
	t := p.Tally
	fmt.Fprintf(w, "\n%d proven, %d in part, %d broken, %d without anybody to ask; %d packets in %s\n", t.Proven, t.Partial, t.Broken, t.Unprovable, p.Sent, span(p.Took))
	for i, text := range p.Problems {
		if i == 0 {
			fmt.Fprintln(w)
		}
		if err := fill(w, "Problem: ", text); err != nil {
			return err
		}
	}
	return nil
}

// doubt writes why f is not proven and what to do.
func doubt(w Writer, f api.ProofInfo) error {
	fmt.Fprintln(w)
	if err := fill(w, "", fmt.Sprintf("%s in %s is %s: %s", f.Remote, f.Segment, f.State, f.Cause)); err != nil {
		return err
	}
	if f.Fix != "" {
		if err := fill(w, "  Do:    ", f.Fix); err != nil {
			return err
		}
	}
	for _, known := range f.Control {
		if err := fill(w, "  Known: ", known); err != nil {
			return err
		}
	}
	if len(f.Paths) < 2 && f.State == api.ProofUnprovable {
		return nil
	}
	for _, p := range f.Paths {
		ping := ""
		if p.Ping == "answers" || p.Ping == "silent" {
			ping = ", ping " + p.Ping
		}
		if err := fill(w, "  Path:  ", fmt.Sprintf("%s to %s by %s, %d of %d ways%s", p.Local, p.Remote, p.Interface, p.Answered, p.Ways, ping)); err != nil {
			return err
		}
	}
	return nil
}

// proofPrefixes are those that were tried, and how many more there are.
func proofPrefixes(f api.ProofInfo) string {
	text := list(f.Prefixes)
	if more := f.Count - len(f.Prefixes); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func proofWays(f api.ProofInfo) string {
	ways, answered := 0, 0
	for _, p := range f.Paths {
		ways, answered = ways+p.Ways, answered+p.Answered
	}
	if ways == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", answered, ways)
}

func proofTime(f api.ProofInfo) string {
	if f.RTT == 0 {
		return ""
	}
	return fmt.Sprintf("%.2fms", 1000*f.RTT)
}

// proofSize is the largest packet, and whether it came through.
func proofSize(f api.ProofInfo) string {
	switch {
	case f.Size == 0 || f.SizeState == api.SizeNotTried:
		return ""
	case f.SizeState == api.SizeLost && f.Passed > 0:
		return fmt.Sprintf("%d lost, %d passes", f.Size, f.Passed)
	}
	return fmt.Sprintf("%d %s", f.Size, f.SizeState)
}

// proofBy is who was asked and answered, else who was asked.
func proofBy(f api.ProofInfo) string {
	var answered, silent []string
	for _, t := range f.Targets {
		who := t.Kind
		if t.Address != (netip.Addr{}) {
			who += " " + t.Address.String()
		}
		switch {
		case t.Answered > 0:
			answered = append(answered, who)
		case t.Asked > 0:
			silent = append(silent, who+" silent")
		}
	}
	return strings.Join(append(answered, silent...), ", ")
}
