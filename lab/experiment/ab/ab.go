// Package ab is the A/B experiment: what an overlay costs, by several data paths that take turns.
//
// Its invariant: all targets of a round stand at once, and nothing but their data path differs.
// Do not use it for rates that have to be searched for; that is package rfc2544.
package ab

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/ab/paths"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/topo"
)

// Experiment is this one.
func Experiment() experiment.Experiment {
	return experiment.Experiment{
		Name: Name, Command: func() any { return new(commands) },
		Summarise: summarise, Metrics: Metrics, Verdict: verdict, Page: page, Table: table,
	}
}

// Command is the command line of the A/B experiment.
type Command struct {
	Targets []string `group:"Network" placeholder:"NAME" default:"wire,plain,kernel,selvage" help:"Data paths to compare: ${default} by default; also limit, limit-vxlan, ovs, selvage-geneve, selvage-nvgre, ovs-geneve. NAME=PROGRAM is an edge of another build. Ratios are against plain, or the first one without it."`
	Cases   []string `placeholder:"CASE" help:"What to measure: tcp, rr, udp, transit, of which the first three are by default; between places tcp, rr, rr-load (round trips while transfers run), crr, udp, all by default."`
	Rounds  int      `default:"10" help:"How often all networks are built, or all paths between places take a turn; intervals and ratios are over rounds, and a difference needs at least 8."`

	experiment.Destination

	UnderlayMTU int                   `group:"Network" placeholder:"BYTES" default:"1500" help:"MTU between the hosts; ${default}."`
	InnerMTU    int                   `group:"Network" placeholder:"BYTES" help:"MTU of the end systems behind a tunnel; by default what the underlay leaves to the largest header (50 bytes less on IPv4, 70 on IPv6)."`
	PlainMTU    int                   `group:"Network" placeholder:"BYTES" help:"MTU of the end systems of wire and plain; by default the inner MTU, so that the data path is all that differs."`
	Family      int                   `group:"Network" enum:"4,6" default:"4" help:"IP version of the underlay: ${enum}."`
	InnerFamily int                   `group:"Network" enum:"4,6" default:"4" help:"IP version of what client and server exchange: ${enum}."`
	Encap       overlay.Encapsulation `group:"Network" enum:"vxlan,geneve,nvgre" default:"vxlan" help:"Encapsulation of selvage and ovs: ${enum}. The kernel's devices are vxlan in every run."`
	Routed      bool                  `group:"Network" help:"Put client and server into different subnets, and have every target route between them."`
	Control     string                `group:"Network" enum:"static,evpn" default:"static" help:"Control plane of the tunnels: ${enum}. With evpn, an FRR route reflector distributes the routes. It implies --routed, and every host is the gateway of both subnets."`
	Load        []string              `group:"Network" placeholder:"NAME" help:"Targets whose edges carry a load besides what is measured: 100,000 flows, 10,000 static FDB entries, and metrics that are read each 5 s."`
	Offload     []experiment.Toggle   `group:"Network" placeholder:"ROLE:FEATURE=off" help:"Set ethtool features of client, access, underlay or server, for all targets alike."`

	BridgeNetfilter topo.BridgeNetfilter `group:"Network" enum:"default,on,off" default:"off" help:"Whether the bridges of the hosts pass frames to netfilter (sysctls bridge-nf-call-*): ${enum}. default is the kernel's own choice: on where br_netfilter is loaded."`

	Cycles        int           `group:"Network" default:"20" help:"Turns of the targets in a round. In a cycle TCP has five slices of each target, UDP four, the others two."`
	Slice         time.Duration `group:"Samples" placeholder:"TIME" help:"Duration of a slice; 10ms, between places 1s."`
	Streams       int           `group:"Samples" default:"1" help:"TCP connections at a time."`
	Flows         int           `group:"Samples" default:"1280" placeholder:"FLOWS" help:"UDP flows of transit; ${default}."`
	Pin           bool          `group:"Network" default:"true" negatable:"" help:"Pin instruments to cores: client and server apart, request/response both on the first."`
	SelvageBinary string        `placeholder:"FILE" type:"existingfile" help:"Program that runs the edges of targets without one of their own; selvage of this build by default."`

	Gateway string `placeholder:"KIND" help:"Build the FortiGate study's network and measure it as one that exists: an overlay segment against an untagged leg of one gateway box, kernel or selvage, at 1 Gbit/s. Slices, rounds and cases are as between places."`

	Places paths.Flags `embed:""`

	programs experiment.Builds
	// harm is done to a target of each round, for proof that it is found.
	harm func(*stand) error
	// only are the cases of samples to measure, all without: proof takes none that it does not judge.
	only []string
}

// Validate checks what belongs together and fills in what follows from the rest.
func (c *Command) Validate() (err error) {
	if c.Places.Asked() {
		return atPlaces(c).Validate()
	}
	switch c.Gateway {
	case "":
	case "kernel", "selvage":
		return nil // the rest is looked at when the network stands
	default:
		return fmt.Errorf("--gateway: there is no %s; choose kernel or selvage", c.Gateway)
	}
	if len(c.Cases) == 0 {
		c.Cases = []string{"tcp", "rr", "udp"}
	}
	if c.Slice == 0 {
		c.Slice = defaultSlice
	}
	if c.Targets, c.programs, err = experiment.ReadBuilds(c.Targets, targetNames()); err != nil {
		return err
	}
	if c.InnerMTU == 0 {
		c.InnerMTU = c.UnderlayMTU - c.paths().MostOverhead()
	}
	if c.PlainMTU == 0 {
		c.PlainMTU = c.InnerMTU
	}
	c.Routed = c.Routed || c.Control == evpn
	return errors.Join(c.checkTargets(), checkControl(c), checkLoad(c), checkInnerFamily(c), c.checkMTUs(), c.checkSamples(), experiment.CheckToggles(c.Offload))
}

func checkInnerFamily(c *Command) error {
	if c.InnerFamily == 6 && slices.Contains(c.Cases, transitCase) {
		return errors.New("--inner-family: frames of the case transit are IPv4; leave it out, or run lab rfc2544 --family 6")
	}
	return nil
}

func (c *Command) checkMTUs() error {
	for _, mtu := range []struct {
		flag        string
		bytes, most int
	}{
		{"--underlay-mtu", c.UnderlayMTU, experiment.MostMTU},
		{"--inner-mtu", c.InnerMTU, c.UnderlayMTU - c.paths().MostOverhead()},
		{"--plain-mtu", c.PlainMTU, c.UnderlayMTU},
	} {
		if mtu.bytes < experiment.LeastMTU || mtu.bytes > mtu.most {
			return fmt.Errorf("%s: %d is not within %d … %d bytes (a tunnel over IPv%d needs %d bytes of the underlay's MTU %d)",
				mtu.flag, mtu.bytes, experiment.LeastMTU, mtu.most, c.Family, c.paths().MostOverhead(), c.UnderlayMTU)
		}
	}
	return nil
}

// evpn is the control plane that is one, and controlPlane the parameter that says which there was.
const (
	evpn         = "evpn"
	controlPlane = "control"
)

// checkControl says what BGP cannot feed.
func checkControl(c *Command) error {
	if c.Control == evpn && c.Family == 6 && slices.Contains(c.Targets, "kernel") {
		return errors.New("--control evpn: FRR before version 10.6 has tunnel endpoints of IPv4 alone; leave out kernel, or --family 6")
	}
	return nil
}

// defaultSlice is the duration of a slice.
const defaultSlice = 10 * time.Millisecond

// mostFlows is as many as a flow cache may be made for.
const mostFlows = 4_000_000

// leastSlice is so long that what each slice begins with stays the smaller part.
const leastSlice = 5 * time.Millisecond

func (c *Command) checkSamples() error {
	switch {
	case c.Rounds < 1:
		return fmt.Errorf("--rounds: %d is not 1 or more", c.Rounds)
	case c.Streams < 1 || c.Streams > 128:
		return fmt.Errorf("--streams: %d is not within 1 … 128", c.Streams)
	case c.Flows < 1 || c.Flows > mostFlows:
		return fmt.Errorf("--flows: %d is not within 1 … %d", c.Flows, mostFlows)
	case c.Cycles < 1:
		return fmt.Errorf("--cycles: %d is not 1 or more", c.Cycles)
	case c.Slice < leastSlice || c.Slice > 10*time.Second:
		return fmt.Errorf("--slice: %s is not within %s … 10s", c.Slice, leastSlice)
	}
	for i, name := range c.Cases {
		if known := []string{"tcp", "rr", "udp", transitCase}; !slices.Contains(known, name) {
			return fmt.Errorf("--cases: there is no %s without --client, --server and --path; choose from %s", name, strings.Join(known, ", "))
		}
		if slices.Contains(c.Cases[:i], name) {
			return fmt.Errorf("--cases: %s is named twice", name)
		}
	}
	return nil
}

// endMTU is the MTU of the end systems of a target.
func (c *Command) endMTU(target string) int {
	if c.paths().Tunnelled(target) {
		return c.InnerMTU
	}
	return c.PlainMTU
}

// pins are the cores of bulk and of request/response instruments.
func (c *Command) pins() (bulk, rr measure.Pin) {
	if !c.Pin {
		free := measure.Pin{Client: measure.Unpinned, Server: measure.Unpinned}
		return free, free
	}
	return measure.Apart(), measure.Spread(0)
}

// commands is the command as kong reads it.
type commands struct {
	Ab Command `cmd:"" help:"Measure what an overlay costs: several data paths, interleaved, in one run; with --client, --server and --path, those of a network that exists."`
}
