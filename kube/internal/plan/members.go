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

// FirstReplicationPort is that of gateways, and of as many after it as there are, unless the settings say otherwise: below the ports that
// Linux gives out, 32768, and those of services, 30000.
const FirstReplicationPort = 14600

const replicationPorts = 256

// known are the nodes that edges can reach: those with an address for tunnels that no other has.
func (m *maker) known() map[string]netip.Addr {
	known, taken := map[string]netip.Addr{}, map[netip.Addr]bool{}
	for _, n := range byLife(m.in.Nodes, m.in.Gateways, m.in.Node) {
		if a, err := m.endpoint(n); err == nil && !taken[a] {
			known[n.Name], taken[a] = a, true
		}
	}
	return known
}

// byLife has those first that count where objects have one address, as of a machine that was replaced or given another name: the node itself, one
// that is ready, one whose agent has reported as a gateway's node, then the newest.
func byLife(nodes []Node, gateways []v1alpha1.EgressGateway, self string) []Node {
	reported := map[string]bool{}
	for i := range gateways {
		for _, n := range gateways[i].Status.Nodes {
			reported[n.Name] = reported[n.Name] || n.State != "" && n.State != v1alpha1.Unknown
		}
	}
	return slices.SortedFunc(slices.Values(nodes), func(a, b Node) int {
		return cmp.Or(CompareTrue(a.Name == self, b.Name == self), CompareTrue(a.Ready, b.Ready), CompareTrue(reported[a.Name], reported[b.Name]),
			b.Created.Compare(a.Created), cmp.Compare(a.Name, b.Name))
	})
}

// Twin is another Node object that has an address of a node.
type Twin struct {
	Name   string
	Addr   netip.Addr
	Counts bool // the other one
}

// Twins are those of nodes, by name. self is the node that asks, if one does.
func Twins(nodes []Node, gateways []v1alpha1.EgressGateway, self string) map[string]Twin {
	first, twins := map[netip.Addr]string{}, map[string]Twin{}
	for _, n := range byLife(nodes, gateways, self) {
		for _, a := range n.Addresses {
			other, taken := first[a]
			if !taken {
				first[a] = n.Name
				continue
			}
			if other != n.Name {
				twins[n.Name] = Twin{other, a, true}
				if _, has := twins[other]; !has {
					twins[other] = Twin{n.Name, a, false}
				}
			}
		}
	}
	return twins
}

// String says what to do, "" where there is none.
func (t Twin) String() string {
	switch {
	case t.Name == "":
		return ""
	case t.Counts:
		return fmt.Sprintf("Node %s has its address %s too, and counts instead", t.Name, t.Addr)
	}
	return fmt.Sprintf("Node %s has its address %s too, and does not count: delete it if its machine is gone, else give it another address", t.Name, t.Addr)
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
			m.ports[g.Name] = freePort(cmp.Or(m.in.Settings.ReplicationPort, FirstReplicationPort), g.Name, ports)
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
	return fmt.Sprintf("%s %d %q%s", u.Interface, u.VLAN, slices.Sorted(slices.Values(Texts(parsed(u.NextHops)))), textOf(u.BGP))
}

// freePort depends on the name, unless an older gateway has that port; 0 when all are taken.
func freePort(first uint16, name string, taken map[uint16]bool) uint16 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name))
	for i := range uint32(replicationPorts) {
		port := first + uint16((hash.Sum32()+i)%replicationPorts)
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
