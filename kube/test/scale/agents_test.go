package scale

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/agent"
	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/internal/plan"
)

// agents write what the agents of all nodes would, whose edges have what their plans say.
func (w *world) agents() {
	w.t.Helper()
	o := &controller.Objects{}
	nodes, namespaces := &corev1.NodeList{}, &corev1.NamespaceList{}
	gateways, policies, cluster, reports := &v1alpha1.EgressGatewayList{}, &v1alpha1.EgressPolicyList{}, &v1alpha1.ClusterEgressPolicyList{}, &v1alpha1.EgressNodeList{}
	w.list(nodes, namespaces, gateways, policies, cluster, reports)
	o.Nodes, o.Namespaces, o.Gateways, o.Policies, o.ClusterPolicies = nodes.Items, namespaces.Items, gateways.Items, policies.Items, cluster.Items
	known := map[string]*v1alpha1.EgressNode{}
	for i := range reports.Items {
		known[reports.Items[i].Name] = &reports.Items[i]
	}
	w.each(len(o.Nodes), func(ctx context.Context, i int) error {
		node := o.Nodes[i].Name
		in := agent.Input(node, slices.Collect(maps.Values(w.pods[node])), o)
		in.Settings = plan.Settings{Cluster: clusterNetworks, LinkUp: plan.DefaultLinkPair}
		in.Host = plan.Host{Underlay: "eth0", Uplinks: map[string][]netip.Prefix{"eth1": w.uplink(i)}}
		p, err := plan.Make(in)
		if err != nil {
			return err
		}
		n, made := known[node], true
		if n == nil {
			n, made = &v1alpha1.EgressNode{ObjectMeta: metav1.ObjectMeta{Name: node}}, false
		}
		status := agent.Report(node, n.Status, p, found(node, p, o))
		if equality.Semantic.DeepEqual(status, n.Status) {
			return nil
		}
		if !made {
			if err := w.c.Create(ctx, n); err != nil {
				return err
			}
		}
		n.Status = status
		return w.c.Status().Update(ctx, n)
	})
}

// uplink are the addresses of a node's interface for its gateway.
func (w *world) uplink(node int) []netip.Prefix {
	of := node / gatewayNs
	if of >= w.gateways {
		return nil
	}
	return []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, byte(of), byte(250 + node%gatewayNs)}), 24)}
}

// found is what an edge has that has its plan: the first node of a gateway serves with the addresses.
func found(node string, p plan.Plan, o *controller.Objects) agent.Found {
	f := agent.Found{Status: api.Status{Version: "v1.2.3"}, Members: p.Groups, Steered: true}
	for edge, name := range p.Gateways {
		g := o.Gateways[slices.IndexFunc(o.Gateways, func(g v1alpha1.EgressGateway) bool { return g.Name == name })]
		group := api.GatewayGroupInfo{Name: edge}
		for _, member := range g.Status.Nodes {
			for a, name := range p.Remotes {
				if name == member.Name {
					group.Members = append(group.Members, api.GatewayInfo{Address: a, Name: name, Self: name == node, State: "serving"})
				}
			}
		}
		f.Egress.Groups = append(f.Egress.Groups, group)
		for _, of := range p.Policies {
			if of.Gateway == name && of.Member && g.Status.Nodes[0].Name == node {
				f.Egress.Policies = append(f.Egress.Policies, api.EgressPolicyInfo{Name: of.EdgeName, Gateways: edge, Addresses: has(o, of)})
			}
		}
	}
	return f
}

// has are the addresses of a policy, which are here.
func has(o *controller.Objects, of plan.Policy) (list []api.EgressAddressInfo) {
	status := func() []string {
		for i := range o.Policies {
			if string(o.Policies[i].UID) == of.UID {
				return o.Policies[i].Status.Addresses
			}
		}
		for i := range o.ClusterPolicies {
			if string(o.ClusterPolicies[i].UID) == of.UID {
				return o.ClusterPolicies[i].Status.Addresses
			}
		}
		return nil
	}
	for _, text := range status() {
		list = append(list, api.EgressAddressInfo{Address: netip.MustParseAddr(text), Here: true})
	}
	return list
}
