package experiments

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/losses"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// Cores of the instruments: the generator's, and that of a device which does not share
// it.
func transitCores() (generator, device int) {
	if runtime.NumCPU() == 1 {
		return 0, 0
	}
	return 1, 0
}

// testbed is a target between a tester's interfaces, with hosts and links of its own.
type testbed struct {
	target    string
	net       *topo.Transit
	device    *topo.Forwarding
	forwarder topo.Forwarder
	split     bool
	netns     map[string]uint32 // inode by host
}

// testbeds are all that a run has built. They stay up from the first sample to the last.
type testbeds struct {
	labs   []*topo.Lab
	byName map[string]*testbed
	watch  *losses.Watch
}

// testbedOptions are what the experiments on transit tell a bed.
type testbedOptions struct {
	experiment string
	transit    topo.TransitOptions
	split      bool
	forwarder  topo.Forwarder
}

func openTestbeds() (*testbeds, error) {
	watch, err := losses.Open()
	if err != nil {
		return nil, err
	}
	return &testbeds{byName: map[string]*testbed{}, watch: watch}, nil
}

// close removes everything.
func (all *testbeds) close() error {
	errs := []error{all.watch.Close()}
	for _, lab := range all.labs {
		errs = append(errs, lab.Close())
	}
	return errors.Join(errs...)
}

// build makes the hosts of a target and starts it between them. name tells beds of one
// target apart.
func (all *testbeds) build(ctx context.Context, name, target string, o testbedOptions) (*testbed, error) {
	lab, err := topo.New(ctx, o.experiment+" "+name)
	if err != nil {
		return nil, err
	}
	all.labs = append(all.labs, lab)
	b := &testbed{target: target, forwarder: o.forwarder, split: o.split, netns: map[string]uint32{}}
	if b.net, err = topo.NewTransit(ctx, lab, o.transit); err != nil {
		return nil, fmt.Errorf("target %s: %w", name, err)
	}
	_, core := transitCores()
	if o.split {
		if err := b.net.Thread(ctx, core); err != nil {
			return nil, fmt.Errorf("target %s: %w", name, err)
		}
	}
	if err := b.start(ctx); err != nil {
		return nil, fmt.Errorf("target %s: %w", name, err)
	}
	for h, what := range map[*topo.Host]bool{b.net.Tester: losses.Redirects, b.net.Device: losses.All} {
		inode, err := losses.Inode(h.Path())
		if err == nil {
			err = all.watch.Follow(inode, what)
		}
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", name, err)
		}
		b.netns[h.Name] = inode
	}
	all.byName[name] = b
	return b, nil
}

// start brings the device up.
func (b *testbed) start(ctx context.Context) (err error) {
	if b.device, err = b.net.Start(ctx, b.forwarder); err != nil {
		return err
	}
	if b.device.Process != 0 {
		_, core := transitCores()
		return errors.Join(topo.Pin(b.device.Process, core), topo.Prefer(b.device.Process))
	}
	return nil
}

// options are a target's bed.
func (c *Rfc2544) options(target string) testbedOptions {
	return testbedOptions{
		experiment: stats.RFC2544,
		transit:    topo.TransitOptions{Pairs: c.Scenario, Family: c.Family, UnderlayFamily: c.Underlay},
		split:      c.Cores == "split",
		forwarder:  c.forwarder(target),
	}
}

func (c *Rfc2544) forwarder(target string) topo.Forwarder {
	switch target {
	case limitName:
		return topo.TransitLimit{}
	case kernelName:
		return topo.TransitKernel{}
	case routeName:
		return topo.TransitKernel{Plain: true}
	case ovsName:
		return topo.TransitOVS{}
	}
	mode := c.SelvageTransit
	if target == tcName {
		mode = "tc"
	}
	flows := slices.Max(append(c.FlowSweep, c.Flows))
	return topo.TransitSelvage{
		Binary: c.programs.of(target, c.SelvageBinary), Encapsulation: transitEncapsulation(target), Mode: mode, FlowCacheSize: cacheSize(flows),
	}
}

// cacheSize holds so many flows both ways with room to spare; 0 is the edge's default, which
// holds 262144.
func cacheSize(flows int) int {
	if flows <= 100000 {
		return 0
	}
	size := 1
	for size < 2*flows {
		size *= 2
	}
	return size
}

// tunnel is what the tester's packets have around them at the underlay. A device without
// a tunnel hands these on as they are: the load is the same for all.
func (b *testbed) tunnel(i int) *gen.Tunnel {
	around := b.device.Tunnel
	if around == nil {
		around = b.net.DefaultTunnel()
	}
	return &gen.Tunnel{
		Encapsulation: around.Encapsulation, VNI: around.VNI,
		Local: b.net.Underlays[i].TesterAddr.Addr(), Remote: around.Endpoints[i],
		SrcMAC: around.TesterMAC, DstMAC: around.DeviceMAC,
	}
}

// ports are where a direction's frames start.
func (b *testbed) ports(direction string) ([]gen.Port, error) {
	links := b.net.Uplinks
	if direction == stats.Decap {
		links = b.net.Underlays
	}
	var ports []gen.Port
	for i, k := range links {
		index, err := b.net.Tester.Index(k.Tester)
		if err != nil {
			return nil, err
		}
		p := gen.Port{Ifindex: index, SrcMAC: k.TesterMAC, DstMAC: k.DeviceMAC}
		if b.wrapped(direction) {
			p.Tunnel = b.tunnel(i)
		}
		ports = append(ports, p)
	}
	return ports, nil
}

// wrapped says whether frames of a direction start in a tunnel. Of the limit, which puts
// nothing around frames, those that are looped back have to.
func (b *testbed) wrapped(direction string) bool {
	switch b.target {
	case routeName:
		return false
	case limitName:
		return direction != stats.Encap
	}
	return direction == stats.Decap
}

// indexes are the tester's interfaces of links.
func (b *testbed) indexes(links []topo.TransitLink) ([]int, error) {
	var list []int
	for _, k := range links {
		index, err := b.net.Tester.Index(k.Tester)
		if err != nil {
			return nil, err
		}
		list = append(list, index)
	}
	return list, nil
}

// transitTopology is the picture of a bed.
func transitTopology(n *topo.Transit) result.Topology {
	var outside, inside []string
	picture := result.Topology{}
	for _, k := range n.Uplinks {
		outside = append(outside, k.TesterAddr.Addr().String())
		picture.Links = append(picture.Links, result.Link{A: "tester", B: "device", Role: "access", MTU: n.Options.MTU})
	}
	for _, k := range n.Underlays {
		inside = append(inside, k.TesterAddr.Addr().String())
		picture.Links = append(picture.Links, result.Link{A: "device", B: "tester's TEP", Role: "underlay", MTU: n.Options.MTU})
	}
	picture.Nodes = []result.Node{
		{Name: "tester", Role: "client", Addrs: append(outside, n.Outside.String())},
		{Name: "device", Role: "host", Addrs: []string{n.TEP.String()}},
		{Name: "tester's TEP", Role: "server", Addrs: append(inside, n.Inside.String())},
	}
	return picture
}

// transitEnvironment records the machine, with the interfaces of a bed.
func transitEnvironment(ctx context.Context, n *topo.Transit, version string) (env result.Environment, err error) {
	lab, err := topo.New(ctx, "environment")
	if err != nil {
		return env, err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	hosts, err := topo.NewTwoHosts(ctx, lab, topo.TwoHostsOptions{})
	if err != nil {
		return env, err
	}
	if env, err = measure.Environment(ctx, hosts, version); err != nil {
		return env, err
	}
	env.MTU = map[string]int{"uplink": n.Options.MTU, "underlay": n.Options.MTU}
	known := env.Offloads["underlay"]
	env.Offloads = map[string]map[string]bool{}
	for role, name := range map[string]string{"uplink": n.Uplinks[0].Device, "underlay": n.Underlays[0].Device} {
		features, err := n.Device.Features(name)
		if err != nil {
			return env, err
		}
		env.Offloads[role] = map[string]bool{}
		for feature := range known {
			env.Offloads[role][feature] = features[feature]
		}
	}
	return env, nil
}

// overhead is what a target's tunnel adds to a frame, in bytes.
func (c *Rfc2544) overhead(target string) int {
	e := transitEncapsulation(target)
	if e == "" {
		return 0
	}
	tep := topo.ClientV4
	if c.Underlay == 6 {
		tep = topo.ClientV6
	}
	return e.Overhead(tep)
}
