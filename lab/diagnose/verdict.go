// Package diagnose reads a result as an engineer would: one sentence that
// answers the experiment's question, and findings that name cause, evidence and
// advice.
//
// Its invariant: pure, and every measured figure in its words can be found in the result
// it was given. Where the result does not carry a conclusion it refuses one and
// says why. Do not use it to judge across two machines.
package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Flows counts flows in words.
func Flows(n int) string {
	if n == 1 {
		return "1 flow"
	}
	return stats.Figure(float64(n)) + " flows"
}

// Names of targets with a part of their own in the words below.
const (
	Wire    = "wire"
	limit   = stats.Limit
	Plain   = stats.Baseline
	Kernel  = "kernel"
	Selvage = "selvage"
)

// Evidence is a result with what all findings need of it worked out once.
type Evidence struct {
	result.Result
	Rows     []result.Row
	Baseline string // the target that ratios are against, "" where rows have others each
	DUT      string // the target that the verdict is about, "" for none
}

// Summed is the evidence without a subject.
func Summed(r result.Result, summarise func(result.Result) []result.Row, baseline string) Evidence {
	e := Evidence{Result: r, Rows: r.Summary, Baseline: baseline}
	if len(e.Rows) == 0 {
		e.Rows = summarise(r)
	}
	return e
}

// Gather is the evidence about `selvage`, else the first target that is neither the baseline
// nor the wire, nothing when there is none.
func Gather(r result.Result, summarise func(result.Result) []result.Row, baseline string) Evidence {
	e := Summed(r, summarise, baseline)
	tunnels := e.Tunnels()
	ours := slices.IndexFunc(tunnels, func(name string) bool { return Path(name) == Selvage })
	switch {
	case slices.Contains(tunnels, Selvage):
		e.DUT = Selvage
	case ours >= 0:
		e.DUT = tunnels[ours]
	case len(tunnels) > 0:
		e.DUT = tunnels[0]
	}
	return e
}

// Tunnels are the targets that are neither the baseline nor its limit.
func (e Evidence) Tunnels() []string {
	return slices.DeleteFunc(stats.Names(e.Result), func(name string) bool {
		return name == e.Baseline || name == Wire || name == limit
	})
}

// Target is the description of a target.
func (e Evidence) Target(name string) (result.Target, bool) {
	i := slices.IndexFunc(e.Targets, func(c result.Target) bool { return c.Name == name })
	if i < 0 {
		return result.Target{}, false
	}
	return e.Targets[i], true
}

// Path is the data path of a target: "selvage" of "selvage-geneve".
func Path(name string) string {
	path, _, _ := strings.Cut(name, "-")
	return path
}

// InWords is an encapsulation as its standard writes it.
func InWords(encap string) string {
	switch encap {
	case "":
		return "VXLAN"
	case "geneve":
		return "Geneve"
	}
	return strings.ToUpper(encap)
}

// routed says whether client and server were in different subnets.
func (e Evidence) routed() bool { return e.Parameters.Bool("routed") }

// Title is how a sentence speaks of a target.
func (e Evidence) Title(name string) string {
	_, encap, ok := strings.Cut(name, "-")
	switch Path(name) {
	case Wire:
		return "the bare wire"
	case limit:
		return "a bare redirect"
	case Plain:
		if e.routed() {
			return "plain routing"
		}
		return "the plain bridge"
	case Kernel:
		return "the kernel's vxlan"
	case Selvage:
		if ok {
			return "Selvage's " + InWords(encap)
		}
		return "Selvage"
	case "ovs":
		if ok {
			return "Open vSwitch (userspace, " + InWords(encap) + ")"
		}
		return "Open vSwitch (userspace)"
	}
	return name
}

// Bounds is the interval of a ratio.
func Bounds(row result.Row) string {
	return fmt.Sprintf("[%.2f, %.2f]", row.RatioLo, row.RatioHi)
}

// UpperFirst starts a sentence with a name of title; those are ASCII.
func UpperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
