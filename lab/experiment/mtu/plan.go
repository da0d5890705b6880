package mtu

import (
	"fmt"
	"slices"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/stats"
)

// Settings of the MTU experiment: how guests and data paths are set up. Their names
// begin the names of their cases.
const (
	asItComes  = HoleCase    // guests believe in more than the tunnel carries
	lowerGuest = "guest-mtu" // guests believe in what was found to pass
	clampMSS   = "clamp"     // SYNs are changed on the way, and guests are deaf to messages
	tooBig     = "messages"  // whoever drops says so, and no SYN is changed
	jumbo      = "jumbo"     // underlay and guests are large
)

// mtuStep is one sample of the MTU experiment.
type mtuStep struct {
	experiment.Step
	setting string
	size    bool // looks for the largest size instead of transferring
	family  int  // of the inner packets
	reverse bool // server to client
	segment int  // bytes of payload to ask for, 0 for TCP's own choice
	flows   int
	offload bool // guests leave segmentation to others
}

// settings are the experiment's in the order in which they are built, each with its
// targets. What has no tunnel has nothing to say "too big" about.
func (c *Command) settings() []string {
	var settings []string
	for _, s := range []struct {
		names []string
		of    []string
	}{
		{[]string{asItComes}, []string{"hole"}},
		{[]string{lowerGuest, clampMSS, tooBig}, []string{"fixes"}},
		{[]string{jumbo}, []string{"jumbo", "sweep"}},
	} {
		if slices.ContainsFunc(s.of, c.has) {
			settings = append(settings, s.names...)
		}
	}
	return settings
}

// has says whether a case was asked for.
func (c *Command) has(caseName string) bool { return slices.Contains(c.Cases, caseName) }

func (c *Command) targetsOf(setting string) []string {
	var names []string
	for _, name := range c.Targets {
		if setting != tooBig || c.paths().Tunnelled(name) {
			names = append(names, name)
		}
	}
	return names
}

// plan lists the samples of a setting: one case after the other in each round, and
// for each case all targets in the round's balanced order. What is a matter of
// yes or no is asked in the first round alone.
func (c *Command) plan(setting string) []mtuStep {
	rounds := c.Rounds
	if setting == asItComes {
		rounds = 1
	}
	var steps []mtuStep
	for i, order := range stats.Balanced(c.targetsOf(setting), rounds) {
		for _, kind := range c.kinds(setting, i == 0) {
			for _, target := range order {
				kind.Round, kind.Target, kind.setting = i+1, target, setting
				steps = append(steps, kind)
			}
		}
	}
	return steps
}

// kinds are the samples of a setting without round and target.
func (c *Command) kinds(setting string, first bool) []mtuStep {
	switch setting {
	case asItComes:
		kinds := append(c.everyWay(setting, c.HoleDuration, false), c.offloaded())
		return append(kinds, c.everyWay(SizeCase, 0, true)...)
	case jumbo:
		var kinds []mtuStep
		if c.has("jumbo") {
			kinds = c.bothWays(setting, first)
		}
		if c.has("jumbo") && first {
			kinds = append(kinds, mtuStep{Step: experiment.Step{CaseName: SizeCase + "-" + jumbo, Planned: sizeTime}, size: true, family: 4})
		}
		if c.has("sweep") {
			kinds = append(kinds, c.sweep()...)
		}
		return kinds
	}
	return c.bothWays(setting, first)
}

// sizeTime is about how long a search takes on a path that swallows silently.
const sizeTime = 2 * time.Second

// everyWay is both directions over both families.
func (c *Command) everyWay(name string, planned time.Duration, size bool) []mtuStep {
	if size {
		planned = sizeTime
	}
	var kinds []mtuStep
	for _, family := range []int{4, 6} {
		for _, reverse := range []bool{false, true} {
			caseName := name
			if family == 6 {
				caseName += "-v6"
			}
			if reverse {
				caseName += Reverse
			}
			kinds = append(kinds, mtuStep{Step: experiment.Step{CaseName: caseName, Planned: planned}, size: size, family: family, reverse: reverse, flows: 1})
		}
	}
	return kinds
}

// offloaded is the transfer once more with the guests' segmentation offload on.
func (c *Command) offloaded() mtuStep {
	return mtuStep{Step: experiment.Step{CaseName: OffloadCase, Planned: c.HoleDuration}, family: 4, flows: 1, offload: true}
}

// bothWays is a transfer to the server and, in the first round, one back.
func (c *Command) bothWays(setting string, first bool) []mtuStep {
	kinds := []mtuStep{{Step: experiment.Step{CaseName: setting, Planned: c.Duration}, family: 4, flows: 1}}
	if first {
		kinds = append(kinds, mtuStep{Step: experiment.Step{CaseName: setting + Reverse, Planned: c.Duration}, family: 4, reverse: true, flows: 1})
	}
	return kinds
}

// timestamps are the bytes that TCP's timestamps take of a segment that was asked
// for (RFC 7323).
const timestamps = 12

// sweep is sizes × flows.
func (c *Command) sweep() []mtuStep {
	largest := c.JumboMTU - c.paths().MostOverhead() - 40 - timestamps
	sizes, flows := []int{536, c.UnderlayMTU - 40 - timestamps, largest}, []int{1, 2, 4}
	if c.Quick {
		sizes, flows = []int{536, largest}, []int{1, 4}
	}
	var kinds []mtuStep
	for _, n := range flows {
		for _, size := range sizes {
			kinds = append(kinds, mtuStep{
				Step: experiment.Step{CaseName: fmt.Sprintf("%s%dx%d", SweepPrefix, size, n), Planned: c.SweepDuration}, family: 4, segment: size, flows: n,
			})
		}
	}
	return kinds
}

// mtuExtra is about what a sample takes besides measuring: a short rest, two
// processes, counters.
const mtuExtra = 300 * time.Millisecond
