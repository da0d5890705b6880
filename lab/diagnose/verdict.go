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

// Names of targets with a part of their own in the words below.
const (
	wire    = "wire"
	limit   = stats.Limit
	plain   = stats.Baseline
	kernel  = "kernel"
	selvage = "selvage"
)

// evidence is a result with what all findings need of it worked out once.
type evidence struct {
	result.Result
	rows     []result.Row
	baseline string // the target that ratios are against, "" where rows have others each
	dut      string // the target that the verdict is about, "" for none
}

// summed is the evidence without a subject.
func summed(r result.Result, summarise func(result.Result) []result.Row, baseline string) evidence {
	e := evidence{Result: r, rows: r.Summary, baseline: baseline}
	if len(e.rows) == 0 {
		e.rows = summarise(r)
	}
	return e
}

// gather is the evidence about `selvage`, else the first target that is neither the baseline
// nor the wire, nothing when there is none.
func gather(r result.Result, summarise func(result.Result) []result.Row, baseline string) evidence {
	e := summed(r, summarise, baseline)
	tunnels := e.tunnels()
	ours := slices.IndexFunc(tunnels, func(name string) bool { return path(name) == selvage })
	switch {
	case slices.Contains(tunnels, selvage):
		e.dut = selvage
	case ours >= 0:
		e.dut = tunnels[ours]
	case len(tunnels) > 0:
		e.dut = tunnels[0]
	}
	return e
}

// tunnels are the targets that are neither the baseline nor its limit.
func (e evidence) tunnels() []string {
	return slices.DeleteFunc(stats.Names(e.Result), func(name string) bool {
		return name == e.baseline || name == wire || name == limit
	})
}

func (e evidence) target(name string) (result.Target, bool) {
	i := slices.IndexFunc(e.Targets, func(c result.Target) bool { return c.Name == name })
	if i < 0 {
		return result.Target{}, false
	}
	return e.Targets[i], true
}

// path is the data path of a target: "selvage" of "selvage-geneve".
func path(name string) string {
	path, _, _ := strings.Cut(name, "-")
	return path
}

// inWords is an encapsulation as its standard writes it.
func inWords(encap string) string {
	switch encap {
	case "":
		return "VXLAN"
	case "geneve":
		return "Geneve"
	}
	return strings.ToUpper(encap)
}

// routed says whether client and server were in different subnets.
func (e evidence) routed() bool { return e.Parameters["routed"] == "true" }

// title is how a sentence speaks of a target.
func (e evidence) title(name string) string {
	_, encap, ok := strings.Cut(name, "-")
	switch path(name) {
	case wire:
		return "the bare wire"
	case limit:
		return "a bare redirect"
	case plain:
		if e.routed() {
			return "plain routing"
		}
		return "the plain bridge"
	case kernel:
		return "the kernel's vxlan"
	case selvage:
		if ok {
			return "Selvage's " + inWords(encap)
		}
		return "Selvage"
	case "ovs":
		if ok {
			return "Open vSwitch (userspace, " + inWords(encap) + ")"
		}
		return "Open vSwitch (userspace)"
	}
	return name
}

// bounds is the interval of a ratio.
func bounds(row result.Row) string {
	return fmt.Sprintf("[%.2f, %.2f]", row.RatioLo, row.RatioHi)
}

// upperFirst starts a sentence with a name of title; those are ASCII.
func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
