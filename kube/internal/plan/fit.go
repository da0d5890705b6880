package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

const (
	// maxPolicies is how many an edge takes, with its uplinks that translate.
	maxPolicies = 1023
	// memberUplinks is how many a gateway's node has: it is no member of gateways with different ones.
	memberUplinks = 1
)

// fit refuses what is too much for an edge. Policies of the lowest priority number come first, of these the oldest, so that a new one
// takes nothing away.
//
// A gateway's node has all policies of its gateways, which every node knows. So what it has no room for is refused on all nodes
// alike, and nothing is sent to a gateway that would drop it. The room that is left is for policies of the node's own pods.
func (m *maker) fit() {
	order := slices.SortedFunc(slices.Values(m.concerns), func(a, b *concern) int {
		return cmp.Or(cmp.Compare(a.rank.Priority, b.rank.Priority), a.created.Compare(b.created), a.rank.Compare(b.rank))
	})
	has := map[string]int{}
	for _, members := range m.members {
		for _, n := range members {
			has[n] = memberUplinks
		}
	}
	for _, c := range order {
		if !c.inFile() {
			continue
		}
		if full := slices.IndexFunc(c.members, func(n string) bool { return has[n] >= maxPolicies }); full >= 0 {
			c.Reason = v1alpha1.ReasonTooManyPolicies
			c.refused = fmt.Sprintf("node %s of EgressGateway %s has %d policies already, and an edge takes no more: use a gateway on other nodes, "+
				"have fewer policies, or give this one a lower priority number", c.members[full], c.gateway.Name, has[c.members[full]]-memberUplinks)
			continue
		}
		for _, n := range c.members {
			has[n]++
		}
	}
	self := has[m.in.Node]
	for _, c := range order {
		if !c.inFile() || c.Member || c.Pods == 0 {
			continue
		}
		if self >= maxPolicies {
			c.Reason = v1alpha1.ReasonTooManyPolicies
			c.refused = fmt.Sprintf("policies of other pods on node %s are as many as an edge takes: have its pods on other nodes, "+
				"have fewer policies, or give this one a lower priority number", m.in.Node)
			continue
		}
		self++
	}
}
