package nodes

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/plan"
	"github.com/selvage/selvage/kube/internal/steer"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

const picture = `
   web1 db1      web2                            outside  203.0.113.1, 2001:db8:cafe::1
     |   |        |                                | lan0 198.51.100.1    | u0 192.0.2.9: the nodes' own way out
    cni0        cni0                               wan (bridge)           |
    edge1       edge2      edge3      edge4   uplinks eth1 of edge3, edge4  |
      |           |          |          |      of gateway "out"            |
      +-----------+----------+----------+------- switch -------------------+
   A policy gives pods with app=web the addresses 198.51.100.20 and 2001:db8:51::20. Unselected pods leave as 192.0.2.N.`

const outsideNumber = 9

var (
	egress4, egress6 = netip.MustParseAddr("198.51.100.20"), netip.MustParseAddr("2001:db8:51::20")
	services         = netip.MustParsePrefix("10.96.0.0/16")
)

// egressOf is the address that pods of the policy get.
func egressOf(family int) netip.Addr {
	if family == 4 {
		return egress4
	}
	return egress6
}

// cluster is four nodes; the last two are of the gateway.
type cluster struct {
	*harness.Hub
	out, wan        *topo.Host
	web1, db1, web2 harness.Guest
	input           plan.Input // what the API server has; node, pods and host are each node's
	pods            map[string][]plan.Pod
	uplinks         map[string][]netip.Prefix
	plans           map[string]plan.Plan
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	return newClusterOn(t, 4)
}

// newClusterOn has nodes with addresses of one family.
func newClusterOn(t *testing.T, family int) *cluster {
	t.Helper()
	tier.Root(t)
	b := &cluster{Hub: harness.NewUnderlay(t, picture, 4, family), pods: map[string][]plan.Pod{}, uplinks: map[string][]netip.Prefix{}, plans: map[string]plan.Plan{}}
	b.outside()
	for _, h := range b.Hosts {
		_, err := h.Forward()
		b.Must(err)
		b.Must(h.AddRoute(topo.UnderlayName, netip.MustParsePrefix(map[int]string{4: "0.0.0.0/0", 6: "::/0"}[family]), b.Tep(outsideNumber)))
	}
	b.web1 = b.pod("web1", 1, 1, "app=web")
	b.db1 = b.pod("db1", 1, 2, "app=db")
	b.web2 = b.pod("web2", 2, 1, "app=web")
	for node := range 2 {
		b.bridge(node + 1)
	}
	b.objects()
	return b
}

// outside is a host behind the uplinks, which is the nodes' router too.
func (b *cluster) outside() {
	b.T.Helper()
	b.out = b.Host("outside")
	b.wan = b.Host("wan")
	ports := []string{"out"}
	b.Must(b.Topo.Link(b.Ctx, topo.LinkEnd{Host: b.out, Name: "lan0", Addrs: []netip.Prefix{
		netip.MustParsePrefix("198.51.100.1/24"), netip.MustParsePrefix("2001:db8:51::1/64")}}, topo.LinkEnd{Host: b.wan, Name: "out"}, 1500))
	for number := 3; number <= 4; number++ {
		h, port := b.Hosts[number-1], fmt.Sprintf("g%d", number)
		b.Must(b.Topo.Link(b.Ctx, topo.LinkEnd{Host: h, Name: "eth1"}, topo.LinkEnd{Host: b.wan, Name: port}, 1500))
		b.uplinks[h.Name] = []netip.Prefix{netip.PrefixFrom(harness.WanAddr(number, 4), 24), netip.PrefixFrom(harness.WanAddr(number, 6), 64)}
		ports = append(ports, port)
	}
	b.Must(b.wan.Bridge(b.Ctx, "br0", 1500, ports...))
	b.Join(b.out, outsideNumber)
	b.Must(b.Sw.Enslave(fmt.Sprintf("e%d", outsideNumber), "br0"))
	b.Must(b.out.AddAddrs("lo", netip.PrefixFrom(harness.Outside4, 32), netip.PrefixFrom(harness.Outside6, 128)))
	b.Mirror(b.out)
}

// pod is a host with a veth pair to its node.
func (b *cluster) pod(name string, node, number int, label string) harness.Guest {
	b.T.Helper()
	h := b.Hosts[node-1]
	g := harness.Guest{Host: b.Host(name), Subnet: node, Number: number}
	b.Must(b.Topo.Link(b.Ctx, g.End(true), topo.LinkEnd{Host: h, Name: "v" + name}, 1500))
	b.pods[h.Name] = append(b.pods[h.Name], plan.Pod{
		Namespace: "shop", Name: name, ServiceAccount: "default", Labels: labels.Set{"app": label[len("app="):]},
		Addresses: []netip.Addr{g.Addr(4), g.Addr(6)}, Phase: corev1.PodRunning,
	})
	return g
}

// bridge is what the CNI's bridge plugin makes of a node, with its masquerade.
func (b *cluster) bridge(node int) {
	b.T.Helper()
	h := b.Hosts[node-1]
	var ports []string
	for _, p := range b.pods[h.Name] {
		ports = append(ports, "v"+p.Name)
	}
	b.Must(h.Bridge(b.Ctx, "cni0", 1500, ports...))
	b.Must(h.AddAddrs("cni0", netip.PrefixFrom(harness.GatewayAddr(node, 4), 24), netip.PrefixFrom(harness.GatewayAddr(node, 6), 64)))
	own := netip.PrefixFrom(harness.SubnetAddr(node, 0, 4), 24)
	for _, argv := range [][]string{
		{"iptables", "-t", "nat", "-A", "POSTROUTING", "-s", own.String(), "!", "-d", "10.0.0.0/13", "-j", "MASQUERADE"},
		{"iptables-legacy", "-t", "nat", "-A", "POSTROUTING", "-s", own.String(), "!", "-d", "10.0.0.0/13", "-j", "MASQUERADE"},
	} {
		_, err := h.Output(b.Ctx, argv...)
		b.Must(err)
	}
	for other := 1; other <= 2; other++ {
		if other != node {
			b.Must(h.AddRoute(topo.UnderlayName, netip.PrefixFrom(harness.SubnetAddr(other, 0, b.Family), map[int]int{4: 24, 6: 64}[b.Family]), b.Tep(other)))
		}
	}
}

// objects are those of the API server.
func (b *cluster) objects() {
	b.input = plan.Input{
		Gateways: []v1alpha1.EgressGateway{{
			ObjectMeta: metav1.ObjectMeta{Name: "out"},
			Spec: v1alpha1.EgressGatewaySpec{
				Uplink: v1alpha1.Uplink{Interface: "eth1", NextHops: []string{"198.51.100.1", "2001:db8:51::1"}},
				// So that a busy machine is no loss.
				Liveness: v1alpha1.Liveness{Interval: metav1.Duration{Duration: 100 * time.Millisecond}, Multiplier: 20},
			},
		}},
		Policies: []v1alpha1.EgressPolicy{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1", Generation: 1},
			Spec:       v1alpha1.EgressPolicySpec{Gateway: "out", Pods: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
			Status:     v1alpha1.EgressPolicyStatus{VNI: 6160385, Addresses: []string{egress4.String(), egress6.String()}},
		}},
		Namespaces: map[string]labels.Set{"shop": {}},
		Settings: plan.Settings{
			Cluster: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/13"), services, netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("fd00::/16")},
			LinkUp:  plan.DefaultLinkPair,
		},
	}
	for i, h := range b.Hosts {
		b.input.Nodes = append(b.input.Nodes, plan.Node{Name: dut.EdgeName(h), Addresses: []netip.Addr{b.Tep(i + 1)}})
	}
	for _, h := range b.Hosts[2:] {
		b.input.Gateways[0].Status.Nodes = append(b.input.Gateways[0].Status.Nodes, v1alpha1.GatewayNode{Name: dut.EdgeName(h)})
	}
}

// steerer is a node's, to be used within it.
func (b *cluster) steerer() steer.Steerer {
	return steer.Steerer{Config: steer.Default(b.input.Settings.LinkUp, 1450, b.input.Settings.Cluster)}
}

// plan is what a node has to have now.
func (b *cluster) plan(h *topo.Host) plan.Plan {
	b.T.Helper()
	in := b.input
	in.Node, in.Pods = dut.EdgeName(h), b.pods[h.Name]
	in.Host = plan.Host{Underlay: topo.UnderlayName}
	if own := b.uplinks[h.Name]; own != nil {
		in.Host.Uplinks = map[string][]netip.Prefix{"eth1": own}
	}
	p, err := plan.Make(in)
	b.Must(err)
	b.plans[h.Name] = p
	return p
}

// up starts all edges, as agents do: the pair, the edge, members of groups, and what is steered at last.
func (b *cluster) up() {
	b.T.Helper()
	b.edges()
	b.serving(3, 4)
}

// edges starts them, whether gateways serve or not.
func (b *cluster) edges() {
	b.T.Helper()
	for _, h := range b.Hosts {
		b.Must(h.Do(b.steerer().Setup))
		p := b.plan(h)
		b.Start(h, dut.EdgeName(h), string(p.Edge))
		b.members(h, p)
	}
	for _, h := range b.Hosts {
		b.Resolved(h.Name)
		b.steer(h, nil)
	}
}

// members puts pods into the groups of a node's edge.
func (b *cluster) members(h *topo.Host, p plan.Plan) {
	b.T.Helper()
	var q api.LiveQuery
	for _, name := range slices.Sorted(maps.Keys(p.Groups)) {
		if len(p.Groups[name]) == 0 {
			continue
		}
		op := api.LiveOperation{Op: api.LiveAddMembers, Kind: "group", Key: name}
		for _, a := range p.Groups[name] {
			text, err := json.Marshal(a.String())
			b.Must(err)
			op.Members = append(op.Members, text)
		}
		q.Operations = append(q.Operations, op)
	}
	if len(q.Operations) > 0 {
		_, err := b.Ask(h.Name).Live().Change(b.Ctx, q)
		b.Must(err)
	}
}

// steer replaces what a node steers.
func (b *cluster) steer(h *topo.Host, gone map[string]bool) {
	b.T.Helper()
	b.Must(h.Do(func() error { return b.steerer().Apply(b.Ctx, b.plans[h.Name].Steering, gone) }))
}

// serving is a fact: to the first two edges these gateways serve, and no others.
func (b *cluster) serving(numbers ...int) {
	b.T.Helper()
	for _, h := range b.Hosts[:2] {
		b.Fact(fmt.Sprintf("to %s gateways %v serve", h.Name, numbers), func() error {
			info, err := b.Ask(h.Name).Egress().Info(b.Ctx)
			if err != nil {
				return err
			}
			var serve []netip.Addr
			for _, g := range info.Groups {
				for _, m := range g.Members {
					if m.State == "serving" {
						serve = append(serve, m.Address)
					}
				}
			}
			var want []netip.Addr
			for _, number := range numbers {
				want = append(want, b.Tep(number))
			}
			if !slices.Equal(serve, want) {
				return fmt.Errorf("%v serve", serve)
			}
			return nil
		})
	}
}

// outsideOf is the host outside, in a family.
func outsideOf(family int) netip.Addr {
	if family == 4 {
		return harness.Outside4
	}
	return harness.Outside6
}

// leaves is a fact: a pod is seen outside with this address.
func (b *cluster) leaves(g harness.Guest, network string, to, as netip.Addr) {
	b.T.Helper()
	b.Fact(fmt.Sprintf("%s leaves as %s, %s", g.Name, as, network), func() error {
		got, err := harness.Mirrored(g.Host, network, 0, netip.AddrPortFrom(to, harness.MirrorPort))
		if err == nil && got.Addr().Unmap() != as {
			err = fmt.Errorf("as %s", got)
		}
		return err
	})
}

// stays is a fact: a pod does not reach the outside at all.
func (b *cluster) stays(g harness.Guest, to netip.Addr) {
	b.T.Helper()
	b.Once(g.Name+" does not leave", func() error {
		if got, err := harness.Mirrored(g.Host, "udp", 0, netip.AddrPortFrom(to, harness.MirrorPort)); err == nil {
			return fmt.Errorf("it leaves as %s", got)
		}
		return nil
	})
}

// nothing is left of a node's steering.
func (b *cluster) nothing(h *topo.Host) error {
	var errs []error
	for _, argv := range [][]string{{"nft", "list", "tables"}, {"ip", "rule"}, {"ip", "-6", "rule"}, {"ip", "link"}, {"ip", "route", "show", "table", "all"}} {
		out, err := h.Output(b.Ctx, argv...)
		errs = append(errs, err)
		for _, word := range []string{"selvage", "7789", "7790", "0x1000"} {
			if slices.Contains(fields(string(out)), word) {
				errs = append(errs, fmt.Errorf("%v says %s", argv, out))
			}
		}
	}
	return errors.Join(errs...)
}

// dump shows, of a test that failed, what the nodes have.
func (b *cluster) dump() {
	if !b.T.Failed() {
		return
	}
	for i, h := range b.Hosts {
		for _, argv := range [][]string{{"nft", "list", "table", "inet", "selvage_egress"}, {"ip", "rule"}, {"ip", "route", "show", "table", "7789"}, {"ip", "-s", "link", "show", "selvage0"}} {
			out, err := h.Output(b.Ctx, argv...)
			b.T.Logf("%s: %v: %v\n%s", h.Name, argv, err, out)
		}
		if b.Edges[h.Name] == nil {
			continue
		}
		for _, argv := range [][]string{{"egress"}, {"teps"}, {"ports"}, {"trace", "--port", "pods", "--src-mac", "02:00:00:00:00:01", "tcp 10.1.0.1:1000 > 203.0.113.1:443 syn"}, {"flows"}, {"routes"}, {"group", "show"}, {"nat"}, {"drops"}} {
			text, err := b.Command(i+1, argv...)
			b.T.Logf("%s: selvage %v: %v\n%s", h.Name, argv, err, text)
		}
	}
}
