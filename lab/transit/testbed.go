// Package transit has the testbeds and instruments of experiments on transit: a device between a tester's
// interfaces, generator and sink around it, and an account of every frame.
//
// Its invariant: sent = received + the drops that counters name, or a passage is void. It knows no
// experiment by name. Do not use it for guests; their hosts are in lab/topo.
package transit

import (
	"context"
	"errors"
	"fmt"

	"github.com/selvage/selvage/lab/dut/router"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/losses"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
)

// pins are cores of the instruments: the generator's, and that of a device which does not share it.
func pins() (generator, device int) {
	apart := measure.Apart()
	return apart.Server, apart.Client
}

// Testbed is a target between a tester's interfaces, with hosts and links of its own.
type Testbed struct {
	Target    string
	Net       *router.Transit
	Device    *router.Forwarding
	Forwarder router.Forwarder
	split     bool
	watch     *losses.Watch
	netns     map[string]uint32 // inode by host
}

// Testbeds are all that a run has built. They stay up from the first sample to the last.
type Testbeds struct {
	Labs   []*topo.Lab
	ByName map[string]*Testbed
	watch  *losses.Watch
}

// Options are what the experiments on transit tell a bed.
type Options struct {
	Experiment string
	Transit    router.Options
	Split      bool
	Forwarder  router.Forwarder
}

// Open is no testbed yet, with a watch on lost packets.
func Open() (*Testbeds, error) {
	watch, err := losses.Open()
	if err != nil {
		return nil, err
	}
	return &Testbeds{ByName: map[string]*Testbed{}, watch: watch}, nil
}

// Close removes everything.
func (all *Testbeds) Close() error {
	errs := []error{all.watch.Close()}
	for _, lab := range all.Labs {
		errs = append(errs, lab.Close())
	}
	return errors.Join(errs...)
}

// Build makes the hosts of a target and starts it between them. name tells beds of one
// target apart.
func (all *Testbeds) Build(ctx context.Context, name, target string, o Options) (*Testbed, error) {
	lab, err := topo.New(ctx, o.Experiment+" "+name)
	if err != nil {
		return nil, err
	}
	all.Labs = append(all.Labs, lab)
	b := &Testbed{Target: target, Forwarder: o.Forwarder, split: o.Split, watch: all.watch, netns: map[string]uint32{}}
	if b.Net, err = router.NewTransit(ctx, lab, o.Transit); err != nil {
		return nil, fmt.Errorf("target %s: %w", name, err)
	}
	_, core := pins()
	if o.Split {
		if err := b.Net.Thread(ctx, core); err != nil {
			return nil, fmt.Errorf("target %s: %w", name, err)
		}
	}
	if err := b.start(ctx); err != nil {
		return nil, fmt.Errorf("target %s: %w", name, err)
	}
	for h, what := range map[*topo.Host]bool{b.Net.Tester: losses.Redirects, b.Net.Device: losses.All} {
		inode, err := losses.Inode(h.Path())
		if err == nil {
			err = all.watch.Follow(inode, what)
		}
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", name, err)
		}
		b.netns[h.Name] = inode
	}
	all.ByName[name] = b
	return b, nil
}

// start brings the device up.
func (b *Testbed) start(ctx context.Context) (err error) {
	if b.Device, err = b.Net.Start(ctx, b.Forwarder); err != nil {
		return err
	}
	if b.Device.Process != 0 {
		_, core := pins()
		return errors.Join(topo.Pin(b.Device.Process, core), topo.Prefer(b.Device.Process))
	}
	return nil
}

// CacheSize holds so many flows both ways with room to spare; 0 is the edge's default, which
// holds 262144.
func CacheSize(flows int) int {
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
func (b *Testbed) tunnel(i int) *gen.Tunnel {
	around := b.Device.Tunnel
	if around == nil {
		around = b.Net.DefaultTunnel()
	}
	return &gen.Tunnel{
		Encapsulation: around.Encapsulation, VNI: around.VNI,
		Local: b.Net.Underlays[i].TesterAddr.Addr(), Remote: around.Endpoints[i],
		SrcMAC: around.TesterMAC, DstMAC: around.DeviceMAC,
	}
}

// ports are where a direction's frames start.
func (b *Testbed) ports(direction string) ([]gen.Port, error) {
	links := b.Net.Uplinks
	if direction == Decap {
		links = b.Net.Underlays
	}
	var ports []gen.Port
	for i, k := range links {
		index, err := b.Net.Tester.Index(k.Tester)
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
func (b *Testbed) wrapped(direction string) bool {
	switch b.Target {
	case RouteName:
		return false
	case LimitName:
		return direction != Encap
	}
	return direction == Decap
}

// indexes are the tester's interfaces of links.
func (b *Testbed) indexes(links []router.Link) ([]int, error) {
	var list []int
	for _, k := range links {
		index, err := b.Net.Tester.Index(k.Tester)
		if err != nil {
			return nil, err
		}
		list = append(list, index)
	}
	return list, nil
}

// Topology is the picture of a bed.
func Topology(n *router.Transit) result.Topology {
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

// Environment records the machine, with the interfaces of a bed.
func Environment(ctx context.Context, n *router.Transit, version string) (env result.Environment, err error) {
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

// Restart stops the device's data path and starts it again.
func (b *Testbed) Restart(ctx context.Context) error {
	if err := b.Net.Stop(); err != nil {
		return err
	}
	return b.start(ctx)
}
