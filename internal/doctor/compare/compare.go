// Package compare says what hosts differ by, and what matters of that for a network between them.
//
// Its one invariant: it is pure, and says nothing of what one of the hosts did not tell. Findings of a single host are
// internal/doctor's; who examines hosts is lab/preflight.
package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/doctor"
	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/internal/doctor/fix"
)

// Finding is what hosts differ by in one concern. Its Fixes are at the place of At.
type Finding struct {
	doctor.Finding
	At string `json:"at,omitempty"`
	// Differences are what was compared.
	Differences []facts.Difference `json:"differences,omitempty"`
}

// Result is what was compared.
type Result struct {
	// Findings are on what is known to matter, the worst first.
	Findings []Finding `json:"findings"`
	// Folded are differences that no figure is known to depend on.
	Folded []facts.Difference `json:"folded"`
}

// Peers compares hosts with the first one.
func Peers(hosts []facts.Host) Result {
	r := Result{Findings: []Finding{}, Folded: []facts.Difference{}}
	for i := 1; i < len(hosts); i++ {
		r.add(facts.Compare(&hosts[0], &hosts[i], facts.Peers(&hosts[0], &hosts[i])), peerFixes)
	}
	r.Sort()
	return r
}

// Drift compares a host with what it was. All that differs can be set back, where there is a command for it.
func Drift(before, now *facts.Host) Result {
	r := Result{Findings: []Finding{}, Folded: []facts.Difference{}}
	r.add(facts.Drift(before, now), func(d facts.Difference) (string, []fix.Fix) {
		return d.B.Place, fixesOf(d.B, d.A.Text)
	})
	r.Sort()
	return r
}

// peerFixes are of an offload that one side has off: it can be turned on there. Of other differences it is not known
// which side is right.
func peerFixes(d facts.Difference) (place string, fixes []fix.Fix) {
	if d.Check != offloads || d.Name == "rx-lro" { // which must not be on where packets are forwarded
		return "", nil
	}
	off := d.A
	if d.A.Text == "on" {
		off = d.B
	}
	return off.Place, fixesOf(off, "on")
}

func fixesOf(v facts.Value, want string) []fix.Fix {
	if f, can := v.To(want); can {
		return []fix.Fix{f}
	}
	return nil
}

// add makes one finding of all differences of a check between two interfaces or machines, that are fixed at one place.
func (r *Result) add(differences []facts.Difference, fixes func(facts.Difference) (string, []fix.Fix)) {
	type group struct{ check, a, b, at string }
	var order []group
	groups := map[group]*Finding{}
	for _, d := range differences {
		if !d.Matters {
			r.Folded = append(r.Folded, d)
			continue
		}
		at, some := fixes(d)
		g := group{d.Check, subject(d.A), subject(d.B), at}
		if groups[g] == nil {
			order = append(order, g)
			groups[g] = &Finding{At: at, Finding: doctor.Finding{Check: d.Check, Subject: g.a + ", " + g.b}}
			if g.a == g.b {
				groups[g].Subject = g.a
			}
		}
		groups[g].Differences = append(groups[g].Differences, d)
		groups[g].Fixes = append(groups[g].Fixes, some...)
	}
	for _, g := range order {
		f := groups[g]
		f.complete()
		r.Findings = append(r.Findings, *f)
	}
}

// subject is a place with an interface.
func subject(v facts.Value) string {
	place := v.Place
	if place == "" {
		place = "host"
	}
	return strings.TrimSpace(place + " " + v.Interface)
}

// complete writes what, evidence, why, change and measure of the differences.
func (f *Finding) complete() {
	c := concernOf(f.Check)
	f.Severity, f.Why, f.Measure = c.severity, c.why, c.measure
	var what, sources []string
	for _, d := range f.Differences {
		a, b := sides(d)
		text := fmt.Sprintf("%s: %s %s, %s %s", d.Name, d.A.Text, a, d.B.Text, b)
		if len(f.Differences) > 1 {
			text = fmt.Sprintf("%s: %s / %s", d.Name, d.A.Text, d.B.Text)
		}
		what = append(what, text)
		source := fmt.Sprintf("%s %s, %s %s", d.A.Source, a, d.B.Source, b)
		if d.A.Source == d.B.Source {
			source = fmt.Sprintf("%s, %s and %s", d.A.Source, a, b)
		}
		if !slices.Contains(sources, source) {
			sources = append(sources, source)
		}
		if len(f.Fixes) == 0 { // or the other way: it is not known which side is right
			if x, can := d.B.To(d.A.Text); can {
				f.Change = append(f.Change, fmt.Sprintf("%s  # %s, to be as %s", x.Do, b, a))
			}
		}
	}
	f.What, f.Evidence = few(what), few(sources)
	if len(f.Differences) > 1 {
		a, b := sides(f.Differences[0])
		f.What = fmt.Sprintf("%s / %s: %s", a, b, f.What)
	}
	for _, x := range f.Fixes {
		f.Change = append(f.Change, fmt.Sprintf("%s  # at %s", x.Do, f.At))
	}
}

// sides are where, or when, the values of a difference are.
func sides(d facts.Difference) (a, b string) {
	if subject(d.A) == subject(d.B) {
		return "in the profile", "now"
	}
	return "at " + d.A.Place, "at " + d.B.Place
}

// most is how many parts a sentence has.
const most = 8

func few(parts []string) string {
	if over := len(parts) - most; over > 0 {
		return strings.Join(parts[:most], "; ") + fmt.Sprintf("; and %d more", over)
	}
	return strings.Join(parts, "; ")
}

// Sort puts the worst first, and then what is likeliest to be the cause.
func (r *Result) Sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank(a.Severity), rank(b.Severity)), cmp.Compare(order(a.Check), order(b.Check)))
	})
}

func rank(s doctor.Severity) int {
	return slices.Index([]doctor.Severity{doctor.Fault, doctor.Warning, doctor.Note, doctor.OK}, s)
}
