package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/kube/internal/adopt"
	"github.com/selvage/selvage/kube/internal/agent"
	"github.com/selvage/selvage/kube/internal/commandline"
	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/internal/plan"
	"github.com/selvage/selvage/kube/internal/steer"
)

// listeners are off unless configured.
type listeners struct {
	Metrics string `placeholder:"ADDRESS" help:"Serve metrics at this address."`
	Health  string `placeholder:"ADDRESS" help:"Serve /healthz and /readyz at this address."`
}

type controllerCmd struct {
	LeaseNamespace string `placeholder:"NAMESPACE" help:"Namespace of the lease by which several controllers agree on who works; without it there is only this one."`
	listeners
	Adopt adoptFlags `embed:"" prefix:"adopt-"`
}

// adoptFlags are about objects of EgressGateway (spidernet).
type adoptFlags struct {
	Egressgateway bool `help:"Serve the objects of EgressGateway (spidernet) that the cluster has, and write their status. What they do not say is in the other flags."`
	unsaid
}

// check says what of the flags is wrong, without a cluster.
func (a *adoptFlags) check() error {
	if n := len(a.UplinkInterface) + len(a.VLAN) + len(a.NextHop) + len(a.Nodes) + len(a.Address) + len(a.Except); n > 0 && !a.Egressgateway {
		return errors.New("flags of --adopt are for --adopt-egressgateway: give it, too")
	}
	return adopt.CheckOptions(a.options())
}

// Run runs until ctx ends. It refuses to adopt objects beside their own controller.
func (c *controllerCmd) Run(ctx context.Context) error {
	if err := c.Adopt.check(); err != nil {
		return commandline.UsageError{Err: err}
	}
	by, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	if err := reach(ctx, by, c.Health); err != nil {
		return err
	}
	o := controller.Options{LeaseNamespace: c.LeaseNamespace, Metrics: c.Metrics, Health: c.Health}
	if c.Adopt.Egressgateway {
		add, err := adopt.Setup(ctx, by, c.Adopt.options())
		if err != nil {
			return refused(err)
		}
		o.Also = append(o.Also, add)
	}
	return refused(controller.Run(ctx, by, o))
}

// refused has the exit status say so.
func refused(err error) error {
	if errors.As(err, new(adopt.RefusedError)) {
		return commandline.RefusedError{Err: err}
	}
	return err
}

// steering is what agent and remove have in common.
type steering struct {
	Mark  uint32         `default:"0x1000" help:"Bit by which packets of pods are marked: of this bit and 0xf00 they have the bit alone. No other program of the node may use that."`
	Table int            `default:"7789" help:"Routing table of what is marked; the next one is of what is held."`
	Rule  int            `default:"90" help:"Priority of the rule for it; the one before is of what is held."`
	Link  []netip.Prefix `placeholder:"NETWORK" help:"Network of the pair of interfaces between the node and its edge, one of each family; 192.0.0.252/30 and fd53:656c:7661:ffff::/126 when left out."`
}

func (s steering) steerer(mtu int, cluster []netip.Prefix) (steer.Steerer, error) {
	if s.Mark == 0 || s.Mark&(s.Mark-1) != 0 {
		return steer.Steerer{}, fmt.Errorf("--mark: %#x is not one bit", s.Mark)
	}
	if s.Table < 1 || s.Rule < 2 {
		return steer.Steerer{}, fmt.Errorf("--table %d, --rule %d: they begin at 1 and at 2", s.Table, s.Rule)
	}
	link, err := plan.DefaultLinkPair.WithLink(s.Link)
	if err != nil {
		return steer.Steerer{}, fmt.Errorf("--link: %w", err)
	}
	return steer.Steerer{Config: steer.Config{Link: link, MTU: mtu, Mark: s.Mark, Table: s.Table, Rule: s.Rule, Cluster: cluster}}, nil
}

type agentCmd struct {
	Node        string         `required:"" env:"NODE_NAME" help:"Name of this node."`
	ClusterCIDR []netip.Prefix `name:"cluster-cidr" placeholder:"NETWORK" help:"Network of pods, services or nodes, which pods always reach as themselves. May be repeated. When left out, nodes, ServiceCIDRs and pools of Calico and Cilium tell. No pod is steered unless its own network is known."`
	File        string         `default:"/run/selvage-kube/edge.yaml" placeholder:"FILE" help:"File of this node's edge."`
	Namespace   string         `env:"POD_NAMESPACE" placeholder:"NAMESPACE" help:"Namespace of the Secrets with passwords of BGP."`
	KeyFile     string         `placeholder:"FILE" help:"File with the secret by which gateways know each other."`
	TunnelIP    string         `name:"tunnel-ip" default:"IPv4" enum:"IPv4,IPv6" help:"Family of tunnel endpoints: IPv4 or IPv6."`
	UDPPort     uint16         `placeholder:"PORT" help:"UDP port of tunnels; 4789 when left out."`
	Replication uint16         `name:"replication-port" default:"14600" placeholder:"PORT" help:"First of 256 TCP ports by which gateways tell each other of connections, the same on all nodes."`
	MTU         int            `placeholder:"BYTES" help:"MTU of tunnels: that of the nodes' network less 50 bytes, or 70 with IPv6; of a network of 1500 bytes when left out."`
	Socket      string         `default:"${socket}" placeholder:"FILE" help:"Socket where the CNI plugin asks."`
	State       string         `default:"${state}" placeholder:"DIR" help:"Folder, the same in the node's file system, of what the CNI plugin knows while there is no agent."`
	Cilium      string         `placeholder:"FILE" help:"Socket of the node's Cilium agent, which is asked how it forwards packets of pods: past the node's routing no policy holds. It is not asked without."`
	Sysctls     string         `default:"/proc/sys" placeholder:"DIR" help:"Where the node's /proc/sys may be written; that of a container may not."`
	chaining
	steering
	listeners
}

func (a *agentCmd) Run(ctx context.Context) error {
	s, err := a.steerer(cmp.Or(a.MTU, map[string]int{plan.IPv4: 1450, plan.IPv6: 1430}[a.TunnelIP]), a.ClusterCIDR)
	if err != nil {
		return err
	}
	s.Sysctls = a.Sysctls
	if a.Replication == 0 || a.Replication > 1<<16-256 {
		return fmt.Errorf("--replication-port: %d and the 255 after it are not ports", a.Replication)
	}
	place, err := a.place()
	if err != nil {
		return err
	}
	by, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	if err := reach(ctx, by, ""); err != nil { // it is not ready meanwhile
		return err
	}
	return agent.Run(ctx, by, agent.Options{
		Name: a.Node, Namespace: a.Namespace,
		Settings: plan.Settings{Cluster: a.ClusterCIDR, UDPPort: a.UDPPort, ReplicationPort: a.Replication, KeyFile: a.KeyFile, LinkUp: s.Link, TunnelIP: a.TunnelIP},
		Node:     &agent.Node{Edge: api.Dial("", plan.EdgeName(a.Node)), File: a.File, Steer: s, Within: func(f func() error) error { return f() }},
		Host:     agent.Host, Metrics: a.Metrics, Health: a.Health,
		Socket: a.Socket, State: a.State, Plugin: place, Cilium: a.Cilium,
	})
}
