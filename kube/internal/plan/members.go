package plan

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// MaxMembers is how many gateways an edge lets a group have.
const MaxMembers = 16

const (
	firstReplicationPort = 49789
	replicationPorts     = 256
)

// known are the nodes that edges can reach: those with an address for tunnels that no other has. Two objects with one address are
// a node that was given another name; the node itself counts, then the first name.
func (m *maker) known() map[string]netip.Addr {
	nodes := slices.Clone(m.in.Nodes)
	slices.SortFunc(nodes, func(a, b Node) int {
		return cmp.Or(CompareTrue(a.Name == m.in.Node, b.Name == m.in.Node), cmp.Compare(a.Name, b.Name))
	})
	known, taken := map[string]netip.Addr{}, map[netip.Addr]bool{}
	for _, n := range nodes {
		if a, err := m.endpoint(n); err == nil && !taken[a] {
			known[n.Name], taken[a] = a, true
		}
	}
	return known
}

// CompareTrue has true first.
func CompareTrue(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// join finds the members of each gateway and the port of its replication. Edges have to find the same, so that it depends on
// nothing that one node knows alone. Of gateways that want the same of a node or port the oldest has it, so that a new one takes
// nothing away.
//
// A node has one default route, and translated packets go by it whatever gateway they are of. So it is no member of gateways with
// different uplinks.
func (m *maker) join() {
	order := slices.SortedFunc(mapValues(m.gateways), func(a, b *v1alpha1.EgressGateway) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	claims, ports := map[string]string{}, map[uint16]bool{}
	for _, g := range order {
		at := uplinkOf(g.Spec.Uplink)
		for _, n := range g.Status.Nodes {
			_, known := m.peers[n.Name]
			claim, claimed := claims[n.Name]
			if !known || claimed && claim != at || slices.Contains(m.members[g.Name], n.Name) || len(m.members[g.Name]) == MaxMembers {
				continue
			}
			claims[n.Name] = at
			m.members[g.Name] = append(m.members[g.Name], n.Name)
		}
		if g.Spec.Replication != v1alpha1.Disabled {
			m.ports[g.Name] = freePort(g.Name, ports)
		}
	}
}

func mapValues[K comparable, V any](m map[K]V) func(func(V) bool) {
	return func(yield func(V) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// uplinkOf is the same for equal uplinks.
func uplinkOf(u v1alpha1.Uplink) string {
	return fmt.Sprintf("%s %d %q%s", u.Interface, u.VLAN, slices.Sorted(slices.Values(u.NextHops)), textOf(u.BGP))
}

// freePort depends on the name, unless an older gateway has that port; 0 when all are taken.
func freePort(name string, taken map[uint16]bool) uint16 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name))
	for i := range uint32(replicationPorts) {
		port := uint16(firstReplicationPort + (hash.Sum32()+i)%replicationPorts)
		if !taken[port] {
			taken[port] = true
			return port
		}
	}
	return 0
}

// apart refuses what an earlier policy has, on all nodes alike: the controller may be between two changes.
func apart(list []*concern) {
	vnis, addresses := map[int32]string{}, map[string]string{}
	for _, c := range list {
		if !c.inFile() {
			continue
		}
		if first, taken := vnis[c.status.VNI]; taken {
			c.refused = fmt.Sprintf("its VNI %d is that of policy %s", c.status.VNI, first)
		}
		for _, a := range c.addresses() {
			if first, taken := addresses[a]; taken {
				c.refused = fmt.Sprintf("its address %s is that of policy %s", a, first)
			}
		}
		if c.refused != "" {
			continue
		}
		vnis[c.status.VNI] = c.Key
		for _, a := range c.addresses() {
			addresses[a] = c.Key
		}
	}
}
