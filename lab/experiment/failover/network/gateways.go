package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/topo"
)

// gateways is an edge with a workload, two egress gateways, of which the first has
// the work while it lives, and a host outside. All links go by one switch, so that nobody
// but a gateway sees its link go down:
//
//	source --- edge ---(under0)=== gw1, gw2 ===(out0)--- target
type gateways struct {
	*Network
	options Options
	sw      *topo.Host
	all     []*edge // edge, gw1, gw2
}

// Addresses of that network. The pool is of the network outside, where the gateways answer
// for it.
var (
	gatewaysTEPs   = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("192.0.2.12")}
	gatewaysUplink = []netip.Addr{{}, netip.MustParseAddr("198.51.100.11"), netip.MustParseAddr("198.51.100.12")}
	gatewaysTarget = netip.MustParseAddr("198.51.100.1")
)

const (
	gatewaysPool  = "198.51.100.100-198.51.100.103"
	gatewaysWork  = "10.0.0.254/24" // the workload's gateway
	uplinkName    = "up0"
	gatewaysGroup = "gws"
)

// NewGateway builds gateways of which the one that has the work is killed.
func NewGateway(ctx context.Context, l *topo.Lab, o Options) (*Network, error) {
	o.fill()
	n := &gateways{Network: newNetwork(l), options: o}
	n.Network.ready, n.Network.steps = n.asBefore, n.repaired
	n.Addr = gatewaysTarget
	n.Description = fmt.Sprintf("Selvage edges, VXLAN: one with the workload, two egress gateways, active-standby, sessions replicated, BFD every %s × %d", o.Liveness, o.Multiplier)
	if err := n.build(ctx); err != nil {
		return nil, err
	}
	for i, name := range []string{"edge", "gw1", "gw2"} {
		h, err := l.Host(name)
		if err != nil {
			return nil, err
		}
		e, err := n.edge(h, o.Binary, n.config(i, dut.EdgeName(h)))
		if err != nil {
			return nil, err
		}
		if err := n.start(ctx, e); err != nil {
			return nil, err
		}
		n.all = append(n.all, e)
	}
	n.Faults = n.faults()
	return n.Network, n.Ready(ctx)
}

func (n *gateways) faults() []inject.Fault {
	active := n.all[1]
	links := inject.Ports{Host: n.sw, Names: []string{"u-gw1", "o-gw1"}}
	dig, fill := links.BlackHole("bridge")
	return []inject.Fault{
		inject.NewFault("link-down", "both links of the active gateway are cut", links.Down, links.Up),
		inject.NewFault("blackhole", "the switch drops all traffic of the active gateway; its links stay up", dig, fill),
		inject.NewFault(
			"death", "the host of the active gateway dies: its links are cut, its process gets SIGKILL, and its programs and maps are removed from the kernel; it comes back empty",
			func(ctx context.Context) error { return errors.Join(links.Down(ctx), active.die()) },
			func(ctx context.Context) error { return errors.Join(links.Up(ctx), n.again(active)(ctx)) },
		),
		inject.NewFault(
			"kill", "SIGKILL only to the process of the active gateway; its data path keeps forwarding",
			func(context.Context) error { return active.kill() }, n.again(active),
		),
	}
}

// build makes hosts and links.
func (n *gateways) build(ctx context.Context) (err error) {
	if n.sw, err = n.Lab.Host("switch"); err != nil {
		return err
	}
	if n.Source, err = n.Lab.Host("source"); err != nil {
		return err
	}
	if n.Target, err = n.Lab.Host("target"); err != nil {
		return err
	}
	for i, name := range []string{"edge", "gw1", "gw2"} {
		h, err := n.Lab.Host(name)
		if err != nil {
			return err
		}
		if err := n.plug(ctx, topo.LinkEnd{Host: h, Name: topo.UnderlayName, Addrs: []netip.Prefix{topo.PrefixOf(gatewaysTEPs[i])}}, "u-"+name); err != nil {
			return err
		}
		if i == 0 {
			err = n.workload(ctx, h)
		} else {
			err = n.plug(ctx, topo.LinkEnd{Host: h, Name: uplinkName}, "o-"+name)
		}
		if err != nil {
			return err
		}
	}
	if err := n.plug(ctx, topo.LinkEnd{Host: n.Target, Name: topo.EndName, Addrs: []netip.Prefix{topo.PrefixOf(gatewaysTarget)}}, "o-target"); err != nil {
		return err
	}
	return errors.Join(
		n.sw.Bridge(ctx, "under0", 1500, "u-edge", "u-gw1", "u-gw2"),
		n.sw.Bridge(ctx, "out0", 1500, "o-gw1", "o-gw2", "o-target"))
}

func (n *gateways) plug(ctx context.Context, end topo.LinkEnd, port string) error {
	return n.Lab.Link(ctx, end, topo.LinkEnd{Host: n.sw, Name: port}, 1500)
}

func (n *gateways) workload(ctx context.Context, edge *topo.Host) error {
	gateway := netip.MustParsePrefix(gatewaysWork).Addr()
	end := topo.LinkEnd{Host: n.Source, Name: topo.EndName, Addrs: []netip.Prefix{topo.PrefixOf(topo.ClientV4)}, Gateways: []netip.Addr{gateway}}
	return n.Lab.Link(ctx, end, topo.LinkEnd{Host: edge, Name: topo.AccessName}, pathsMTU)
}

// config is the configuration of the edge with the workload (0) or of a gateway.
func (n *gateways) config(i int, name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: %s}
spec:
  underlay:
    interfaces: [%s]
    tep: %q
    %s
  remotes:
`, name, topo.UnderlayName, gatewaysTEPs[i], n.options.liveness())
	for k, tep := range gatewaysTEPs {
		if k != i {
			fmt.Fprintf(&b, "  - {name: %s, addresses: [%q]}\n", []string{"edge", "gw1", "gw2"}[k], tep)
		}
	}
	uplink := ""
	if i == 0 {
		fmt.Fprintf(&b, `  segments:
  - name: work
    vni: 100
    gateway: {router: %s, addresses: [%s]}
  ports:
  - {name: access, interface: %s, segment: work}
  routers:
  - name: %s
`, dut.RouterName, gatewaysWork, topo.AccessName, dut.RouterName)
	} else {
		uplink = "      uplink: wan\n"
		fmt.Fprintf(&b, "  routers:\n  - name: %s\n    uplinks:\n    - {name: wan, interface: %s, addresses: [\"%s/24\"]}\n", dut.RouterName, uplinkName, gatewaysUplink[i])
	}
	fmt.Fprintf(&b, `  egress:
    gateways:
    - name: %s
      mode: active-standby
      members: [%q, %q]
      replication: {port: 49789}
    policies:
    - name: out
      router: %s
      vni: 9001
      gateways: %s
      pool: [%s]
%s`, gatewaysGroup, gatewaysTEPs[1], gatewaysTEPs[2], dut.RouterName, gatewaysGroup, gatewaysPool, uplink)
	return b.String()
}

// states are what an edge knows of gateways, and what it did when one of them changed.
type states struct {
	Groups []struct {
		Members []struct {
			Address netip.Addr `json:"address"`
			State   string     `json:"state"`
		} `json:"members"`
	} `json:"groups"`
	Policies []struct {
		Addresses []struct {
			Address netip.Addr `json:"address"`
			Owner   netip.Addr `json:"owner"`
		} `json:"addresses"`
	} `json:"policies"`
	Replication []struct {
		Gateway   netip.Addr `json:"gateway"`
		Connected bool       `json:"connected"`
		Synced    bool       `json:"synced"`
	} `json:"replication"`
	Failovers []struct {
		Gateway   netip.Addr `json:"gateway"`
		To        string     `json:"to"`
		Seen      time.Time  `json:"seen"`
		Written   time.Time  `json:"written"`
		Announced time.Time  `json:"announced"`
	} `json:"failovers"`
}

// serving is the state of a gateway that takes new connections.
const serving = "serving"

func statesOf(ctx context.Context, e *dut.Edge) (s states, err error) {
	return s, e.Document(ctx, "/v1/egress", &s)
}

// replicated says which gateway does not have the other's sessions.
func (s states) replicated() error {
	for _, r := range s.Replication {
		if !r.Connected || !r.Synced {
			return fmt.Errorf("sessions of gateway %s are not replicated: connected %t, synchronised %t", r.Gateway, r.Connected, r.Synced)
		}
	}
	return nil
}

// owned wants every address of the pool to be a gateway's.
func (s states) owned(by netip.Addr) error {
	if len(s.Policies) == 0 || len(s.Policies[0].Addresses) == 0 {
		return errors.New("there are no addresses")
	}
	for _, a := range s.Policies[0].Addresses {
		if a.Owner != by {
			return fmt.Errorf("address %s is %s's, not %s's", a.Address, a.Owner, by)
		}
	}
	return nil
}

// asBefore wants every path up, every gateway serving and the first one at work in the
// eyes of all, and both with the other's sessions.
func (n *gateways) asBefore(ctx context.Context) error {
	for _, e := range n.all {
		if err := e.PathsUp(ctx, len(gatewaysTEPs)-1); err != nil {
			return err
		}
		s, err := statesOf(ctx, e.Edge)
		if err != nil {
			return err
		}
		if len(s.Groups) != 1 || len(s.Groups[0].Members) != 2 {
			return fmt.Errorf("edge %s reports gateways %+v, want one group of two", e.Name, s.Groups)
		}
		for _, m := range s.Groups[0].Members {
			if m.State != serving {
				return fmt.Errorf("edge %[3]s sees gateway %[1]s as %[2]s", m.Address, m.State, e.Name)
			}
		}
		if err := errors.Join(s.owned(gatewaysTEPs[1]), s.replicated()); err != nil {
			return fmt.Errorf("edge %s: %w", e.Name, err)
		}
	}
	return nil
}

// repaired is what the edge with the workload and the gateway that stood by did since a
// time: the killed one has nothing to say of it.
func (n *gateways) repaired(ctx context.Context, since time.Time) (steps inject.Steps, err error) {
	for _, e := range []*edge{n.all[0], n.all[2]} {
		s, err := statesOf(ctx, e.Edge)
		if err != nil {
			return steps, err
		}
		for _, f := range s.Failovers {
			if f.Gateway != gatewaysTEPs[1] || f.To == serving || f.Seen.Before(since) {
				continue
			}
			steps.Noticed = later(steps.Noticed, f.Seen)
			steps.Written = later(steps.Written, f.Written)
			steps.Announced = later(steps.Announced, f.Announced)
			break // the first is the fault's
		}
	}
	return steps, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
