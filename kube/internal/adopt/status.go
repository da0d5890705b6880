package adopt

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/plan"
)

// phases are their words for how a node of a gateway stands.
var phases = map[v1alpha1.NodeState]string{
	v1alpha1.Serving: "Ready", v1alpha1.Draining: "NodeNotReady", v1alpha1.Gone: "HeartbeatTimeout", v1alpha1.Unknown: pending,
}

const pending = "Pending"

// served is a policy of Selvage's, and what of it their status says.
type served struct {
	origins []string
	ip      [2]string // IPv4 and IPv6, "" without one
	ofNode  bool      // pods get the address of the gateway's node, which their status does not name
	gateway *v1alpha1.EgressGateway
}

// servedBy is what a policy gives to those that it was made of. It gives nothing while it is not accepted.
func servedBy(o client.Object, gateways map[string]*v1alpha1.EgressGateway) (s served, ok bool) {
	spec, status := policySpec(o), policyStatus(o)
	if spec == nil || meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionAccepted) {
		return s, false
	}
	s = served{origins: originsOf(o), gateway: gateways[spec.Gateway], ofNode: spec.Address.Type == v1alpha1.AddressNode}
	if s.ofNode {
		return s, true
	}
	all := status.Addresses
	if len(all) == 0 {
		all = spec.Address.Fixed
	}
	for _, text := range all {
		if a, err := netip.ParseAddr(text); err == nil {
			s.ip[plan.Family(a)] = cmp.Or(s.ip[plan.Family(a)], text)
		}
	}
	return s, s.ip != [2]string{}
}

// node is the one that answers for an address of the policy, or gives its own, "" when none does.
func (s served) node() string {
	if s.gateway == nil {
		return ""
	}
	if s.ofNode {
		i := slices.IndexFunc(s.gateway.Status.Nodes, func(n v1alpha1.GatewayNode) bool { return len(n.OwnAddresses) > 0 })
		if i < 0 {
			return ""
		}
		return s.gateway.Status.Nodes[i].Name
	}
	for _, ip := range s.ip {
		for _, n := range s.gateway.Status.Nodes {
			if ip != "" && slices.Contains(n.Addresses, ip) {
				return n.Name
			}
		}
	}
	return ""
}

// policyStatusOf is what the status of one of their policies has to be. An address stays when nothing serves it: with it the policy comes back.
func policyStatusOf(was map[string]any, s *served) map[string]any {
	now := runtime.DeepCopyJSON(was)
	delete(now, "node")
	if s == nil {
		return now
	}
	eip := map[string]any{}
	for family, name := range []string{"ipv4", "ipv6"} {
		if s.ip[family] != "" {
			eip[name] = s.ip[family]
		}
	}
	now["eip"] = eip
	if node := s.node(); node != "" {
		now["node"] = node
	}
	return now
}

// gatewayStatusOf is what the status of one of their gateways has to be. Of one that is not served all nodes are pending.
func gatewayStatusOf(was map[string]any, g *v1alpha1.EgressGateway, all []served, total [2]int64) map[string]any {
	now := runtime.DeepCopyJSON(was)
	switch {
	case g == nil:
		nodes, _, _ := unstructured.NestedSlice(now, "nodeList")
		for _, n := range nodes {
			if n, is := n.(map[string]any); is {
				n["status"] = pending
			}
		}
		if len(nodes) > 0 {
			now["nodeList"] = nodes
		}
		return now
	case g.Status.ObservedGeneration == 0: // nobody has looked at it yet
		return now
	}
	nodes, used := []any{}, [2]int64{}
	for _, n := range g.Status.Nodes {
		node := map[string]any{"name": n.Name, "status": phases[n.State]}
		if eips := eipsOf(n, all); len(eips) > 0 {
			node["eips"] = eips
		}
		nodes = append(nodes, node)
	}
	for _, s := range all {
		for family := range s.ip {
			if s.ip[family] != "" {
				used[family]++
			}
		}
	}
	now["nodeList"] = nodes
	now["ipUsage"] = map[string]any{
		"ipv4Total": total[0], "ipv4Free": max(0, total[0]-used[0]), "ipv6Total": total[1], "ipv6Free": max(0, total[1]-used[1]),
	}
	return now
}

// eipsOf are the addresses that a node answers for, and whose they are. Policies that get its own are together, without an address.
func eipsOf(n v1alpha1.GatewayNode, all []served) (list []any) {
	var own []any
	for _, s := range all {
		if s.ofNode && len(n.OwnAddresses) > 0 {
			own = append(own, s.policies()...)
		}
		eip := map[string]any{}
		for family, name := range []string{"ipv4", "ipv6"} {
			if s.ip[family] != "" && slices.Contains(n.Addresses, s.ip[family]) {
				eip[name] = s.ip[family]
			}
		}
		if len(eip) == 0 || len(s.origins) == 0 {
			continue
		}
		eip["policies"] = s.policies()
		list = append(list, eip)
	}
	if len(own) > 0 {
		list = append(list, map[string]any{"policies": own})
	}
	return list
}

// policies are theirs that it was made of.
func (s served) policies() []any {
	policies := []any{}
	for _, origin := range s.origins {
		_, name, _ := strings.Cut(origin, " ")
		policy := map[string]any{"name": name}
		if namespace, in, is := strings.Cut(name, "/"); is {
			policy = map[string]any{"namespace": namespace, "name": in}
		}
		policies = append(policies, policy)
	}
	return policies
}

// statuses are what the status of each of theirs has to be, by name. totals are what gateways can give out.
func statuses(theirs []*unstructured.Unstructured, have []client.Object, totals map[string][2]int64) map[string]map[string]any {
	gateways, of, by := map[string]*v1alpha1.EgressGateway{}, map[string][]served{}, map[string]*served{}
	for _, h := range have {
		if g, is := h.(*v1alpha1.EgressGateway); is {
			gateways[g.Name] = g
		}
	}
	for _, h := range have {
		if s, ok := servedBy(h, gateways); ok {
			for _, object := range s.origins {
				by[object] = &s
			}
			of[policySpec(h).Gateway] = append(of[policySpec(h).Gateway], s)
		}
	}
	out := map[string]map[string]any{}
	for _, u := range theirs {
		was, _, _ := unstructured.NestedMap(u.Object, "status")
		if was == nil {
			was = map[string]any{}
		}
		switch u.GetKind() {
		case "EgressGateway":
			g := gateways[u.GetName()]
			if g != nil && originsOf(g) == nil { // somebody's own
				g = nil
			}
			out[nameOf(u)] = gatewayStatusOf(was, g, of[u.GetName()], totals[u.GetName()])
		case "EgressPolicy", "EgressClusterPolicy":
			out[nameOf(u)] = policyStatusOf(was, by[nameOf(u)])
		}
	}
	return out
}
