// Package rfc2544 is the experiment on transit between uplinks and tunnels by RFC 2544: rates without loss
// and with little, latency, loss.
//
// Its invariant: a trial counts only when every frame is accounted for.
// Do not use it to compare builds of one data path; package ab does so in a fraction of the time.
package rfc2544

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/rfc2544/ports"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/transit"
)

// Experiment is this one.
func Experiment() experiment.Experiment {
	return experiment.Experiment{
		Name: Name, Command: func() any { return new(commands) },
		Summarise: summarise, Metrics: figures, Verdict: verdict, Page: page, Table: table,
	}
}

// Command is the command line of the experiment on transit between uplinks and
// tunnels, by the tests of RFC 2544 section 26.
type Command struct {
	Targets    []string `placeholder:"NAME" default:"limit,kernel,ovs,selvage" help:"Data paths to compare: ${default} by default; also kernel-route, selvage-geneve, selvage-nvgre and selvage-tc. NAME=PROGRAM is an edge of another build. Ratios are against limit."`
	Directions []string `placeholder:"NAME" enum:"encap,decap,both" help:"From uplink to tunnel, back, and both, by frames that the far side loops back: ${enum}; all by default, with --quick the first two."`
	Quick      bool     `help:"In minutes: encap and decap of 64, 512 and 1518 bytes, 3 rounds of short trials."`
	Rounds     int      `default:"3" help:"Samples of each target and case."`

	experiment.Destination

	Sizes     []int `group:"Traffic" placeholder:"BYTES" help:"Frame sizes with FCS, in a tunnel of the inner frame; 64,128,256,512,1024,1280,1518 by default, with --quick 64,512,1518. 1500 is read as the packet of a frame of 1518."`
	Imix      bool  `group:"Traffic" help:"Add a mix of 64, 594 and 1518 bytes, 7:4:1."`
	Flows     int   `group:"Traffic" default:"1280" help:"UDP flows, ${default} by default."`
	FlowSweep []int `group:"Traffic" placeholder:"FLOWS" help:"More cases of encap at the first size, with these numbers of flows, such as 1,1280,100000,1000000."`
	Scenario  int   `group:"Traffic" enum:"1,2" default:"1" help:"Uplinks, and as many links of the underlay: ${enum}."`
	Family    int   `group:"Traffic" enum:"4,6" default:"4" help:"IP version of the frames: ${enum}."`
	Underlay  int   `group:"Traffic" enum:"4,6" default:"4" help:"IP version of the underlay: ${enum}."`

	Search    string  `group:"Search" enum:"mlr,binary" default:"mlr" help:"Search for the rates: MLRsearch (RFC 9971) or binary search: ${enum}."`
	Tolerance float64 `group:"Search" placeholder:"PERCENT" default:"0.01" help:"Loss that the partial-drop rate (PDR) tolerates; ${default} %."`
	LineRate  float64 `group:"Search" placeholder:"GBPS" default:"100" help:"Rate of a link, for shares of it; ${default} Gbit/s."`
	MinRate   float64 `group:"Search" placeholder:"PERCENT" default:"1" help:"Lowest rate, of the line or of what the generator can do, whichever is less; ${default} %."`
	MaxRate   float64 `group:"Search" placeholder:"PERCENT" default:"100" help:"Highest rate, of the same; ${default} %."`
	Retries   int     `group:"Search" default:"3" help:"Repetitions of a void trial, and in a binary search of one that fails."`

	Duration        time.Duration `group:"Trials" placeholder:"TIME" help:"Duration of a trial that decides; 90s by default, with --quick 200ms."`
	InitialDuration time.Duration `group:"Trials" placeholder:"TIME" help:"Duration of a trial that finds where to search; 1s by default, with --quick 60ms."`
	Drain           time.Duration `group:"Trials" placeholder:"TIME" help:"Longest wait after a trial for frames in flight (RFC 2544 section 23); 2s by default, with --quick 500ms."`
	Settle          time.Duration `group:"Trials" placeholder:"TIME" help:"Wait for the device to settle before the next trial; 5s by default, with --quick 1ms."`
	LatencyTrials   int           `group:"Trials" default:"20" help:"Latency trials at each of 10, 50, 90 and 100 % of the no-drop rate (RFC 2544 section 26.2: 20); 0 is none."`
	LossCurve       bool          `group:"Trials" help:"Measure the frame loss rate (RFC 2544 section 26.3)."`
	BackToBack      bool          `group:"Trials" help:"Find the longest burst without loss (section 26.4, RFC 9004)."`
	Recovery        bool          `group:"Trials" help:"Time the recovery from overload (section 26.5)."`
	Reset           bool          `group:"Trials" help:"Time the recovery from a restart of the data path (section 26.6)."`

	Cores          string `group:"Device" enum:"inline,split" default:"inline" help:"Run generator, device and sink on one core, which is exact, or give device and sink the other core: ${enum}. A device in user space always has the other core."`
	SelvageTransit string `group:"Device" placeholder:"MODE" enum:"auto,native,generic,tc" default:"native" help:"Transit mode of targets selvage, selvage-geneve and selvage-nvgre: auto, native, generic or tc; ${default}. The links are veths, on which auto is tc."`
	SelvageBinary  string `group:"Device" placeholder:"FILE" type:"existingfile" help:"Program that runs the edges of targets without one of their own; selvage of this build by default."`

	Ports ports.Command `embed:""`

	programs experiment.Builds
}

func transitTargets() []string {
	return []string{transit.LimitName, transit.KernelName, transit.RouteName, transit.OVSName, "selvage", "selvage-geneve", "selvage-nvgre", transit.TCName}
}

// isSplit says whether the device has a core of its own.
func isSplit(c *Command) bool { return c.Cores == "split" }

// Validate checks what belongs together and fills in what --quick means.
func (c *Command) Validate() (err error) {
	if c.Ports.Given {
		return validatePorts(c)
	}
	if c.Targets, c.programs, err = experiment.ReadBuilds(c.Targets, transitTargets()); err != nil {
		return err
	}
	c.fill()
	if err := experiment.CheckNames(c.Targets, c.programs.And(transitTargets())); err != nil {
		return err
	}
	return errors.Join(c.checkTraffic(transit.MTUFrame), c.checkDirections(), c.checkSweep(), c.checkSearch(), c.checkTrials())
}

// validatePorts is Validate for a device between ports that exist.
func validatePorts(c *Command) error {
	if family := c.Ports.Family(); family != 0 {
		c.Family = family
	}
	c.fill()
	return errors.Join(c.checkTraffic(gen.MaxFrame), c.checkSearch(), c.checkTrials(), c.Ports.Check(trials(c)))
}

// trials are the flags that a device between ports has too.
func trials(c *Command) ports.Trials {
	t := ports.Trials{
		Sizes: c.Sizes, Flows: c.Flows, Family: c.Family, Binary: c.Search == "binary", Quick: c.Quick,
		Tolerance: c.Tolerance, MinRate: c.MinRate, MaxRate: c.MaxRate, LineRate: c.LineRate,
		Retries: c.Retries, Rounds: c.Rounds, LatencyTrials: c.LatencyTrials,
		Duration: c.Duration, InitialDuration: c.InitialDuration, Drain: c.Drain, Settle: c.Settle, LatencyDuration: c.latencyDuration(),
		LossCurve: c.LossCurve, BackToBack: c.BackToBack,
	}
	if c.Imix {
		t.Mixes = c.Ports.Mixes(imix())
	} else {
		t.Mixes = c.Ports.Mixes(nil)
	}
	return t
}

// fill gives what was not asked for its default: the study's, or what fits into minutes.
func (c *Command) fill() {
	full := Command{
		Sizes: []int{64, 128, 256, 512, 1024, 1280, transit.MTUFrame}, Directions: []string{transit.Encap, transit.Decap, transit.Both},
		Duration: 90 * time.Second, InitialDuration: time.Second, Drain: 2 * time.Second, Settle: 5 * time.Second,
	}
	if c.Quick {
		full = Command{
			Sizes: []int{64, 512, transit.MTUFrame}, Directions: []string{transit.Encap, transit.Decap},
			Duration: 200 * time.Millisecond, InitialDuration: 60 * time.Millisecond, Drain: 500 * time.Millisecond, Settle: time.Millisecond,
		}
		c.LatencyTrials = min(c.LatencyTrials, 1)
	}
	if c.Family == 6 {
		full.Sizes[0] = transit.LeastIPv6
	}
	if len(c.Sizes) == 0 {
		c.Sizes = full.Sizes
	}
	if len(c.Directions) == 0 {
		c.Directions = full.Directions
	}
	for _, t := range []struct {
		asked *time.Duration
		or    time.Duration
	}{{&c.Duration, full.Duration}, {&c.InitialDuration, full.InitialDuration}, {&c.Drain, full.Drain}, {&c.Settle, full.Settle}} {
		if *t.asked == 0 {
			*t.asked = t.or
		}
	}
	c.InitialDuration = min(c.InitialDuration, c.Duration)
	for i, size := range c.Sizes {
		if size == transit.MTUPacket {
			c.Sizes[i] = transit.MTUFrame
		}
	}
}

func (c *Command) checkTraffic(largest int) error {
	if c.Flows < 1 {
		return fmt.Errorf("--flows: %d is not 1 or more", c.Flows)
	}
	for i, size := range c.Sizes {
		if slices.Contains(c.Sizes[:i], size) {
			return fmt.Errorf("--sizes: %d is named twice (1500 is the packet in a frame of 1518)", size)
		}
		if size > largest {
			return fmt.Errorf("--sizes: %d is more than %d bytes, the largest frame %s", size, largest, largestWords(largest))
		}
		if err := (gen.Stream{Frame: size, Flows: c.Flows, Family: c.Family}).Check(); err != nil {
			return fmt.Errorf("--sizes, --flows, --family: %w", err)
		}
	}
	if c.Imix {
		if err := (gen.Stream{IMIX: imix(), Flows: c.Flows, Family: c.Family}).Check(); err != nil {
			return fmt.Errorf("--imix: %w", err)
		}
	}
	return nil
}

// largestWords says what the largest frame is.
func largestWords(largest int) string {
	if largest == transit.MTUFrame {
		return "of Ethernet"
	}
	return "that the generator makes"
}

func (c *Command) checkDirections() error {
	for i, name := range c.Directions {
		if slices.Contains(c.Directions[:i], name) {
			return fmt.Errorf("--directions: %s is named twice", name)
		}
	}
	if slices.Contains(c.Targets, transit.RouteName) && slices.Equal(c.Directions, []string{transit.Both}) && len(c.FlowSweep) == 0 {
		return fmt.Errorf("--directions: %s has no tunnel for the far side to loop back, so it has nothing to measure; add encap or decap", transit.RouteName)
	}
	return nil
}

func (c *Command) checkSweep() error {
	for i, flows := range c.FlowSweep {
		if err := (gen.Stream{Frame: c.Sizes[0], Flows: flows, Family: c.Family}).Check(); err != nil || flows < 1 {
			return errors.Join(fmt.Errorf("--flow-sweep: %d flows", flows), err)
		}
		if slices.Contains(c.FlowSweep[:i], flows) {
			return fmt.Errorf("--flow-sweep: %d is named twice", flows)
		}
	}
	return nil
}

func (c *Command) checkSearch() error {
	switch {
	case !(c.Tolerance > 0 && c.Tolerance < 100):
		return fmt.Errorf("--tolerance: %g %% is not between 0 and 100", c.Tolerance)
	case !(c.LineRate > 0 && c.LineRate <= 10000):
		return fmt.Errorf("--line-rate: %g Gbit/s is not above 0, 10000 at most", c.LineRate)
	case !(c.MinRate > 0) || c.MinRate > c.MaxRate || c.MaxRate > 100:
		return fmt.Errorf("--min-rate, --max-rate: %g … %g %% is not a range within 0 … 100 %%", c.MinRate, c.MaxRate)
	case c.Retries < 0 || c.Retries > 100:
		return fmt.Errorf("--retries: %d is not within 0 … 100", c.Retries)
	case c.Rounds < 1:
		return fmt.Errorf("--rounds: %d is not 1 or more", c.Rounds)
	}
	return nil
}

func (c *Command) checkTrials() error {
	switch {
	case c.Duration < 20*time.Millisecond || c.InitialDuration < 20*time.Millisecond:
		return fmt.Errorf("--duration, --initial-duration: %s and %s have to be 20ms or more", c.Duration, c.InitialDuration)
	case c.Drain < time.Millisecond:
		return fmt.Errorf("--drain: %s is less than 1ms, in which no queue runs empty", c.Drain)
	case c.Settle < 0:
		return fmt.Errorf("--settle: %s is less than 0", c.Settle)
	case c.LatencyTrials < 0:
		return fmt.Errorf("--latency-trials: %d is less than 0", c.LatencyTrials)
	}
	return nil
}

// transitEncapsulation is a target's, "" where there is no tunnel.
func transitEncapsulation(target string) overlay.Encapsulation {
	switch target {
	case transit.LimitName, transit.RouteName:
		return ""
	case "selvage-geneve", "selvage-nvgre":
		return overlay.Encapsulation(strings.TrimPrefix(target, "selvage-"))
	}
	return overlay.VXLAN
}

// imix is the mix of small, middle and large frames that is usual: 7:4:1.
func imix() []gen.Share {
	return []gen.Share{{Frame: 64, Weight: 7}, {Frame: 594, Weight: 4}, {Frame: transit.MTUFrame, Weight: 1}}
}

// commands is the command as kong reads it.
type commands struct {
	Rfc2544 Command `cmd:"" name:"rfc2544" help:"Measure transit between uplinks and tunnels by RFC 2544: rates without loss and with little, latency, loss."`
}
