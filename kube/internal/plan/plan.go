// Package plan is what a node of a cluster has to have: a pure function of what the API server has, of the pods of the
// node, and of the node's own interfaces.
package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// Input is all that a node's plan is made of.
type Input struct {
	Node     string // the node's own name
	Nodes    []Node // all nodes of the cluster
	Gateways []v1alpha1.EgressGateway
	Policies []v1alpha1.EgressPolicy
	// ClusterPolicies are those of all namespaces.
	ClusterPolicies []v1alpha1.ClusterEgressPolicy
	Namespaces      map[string]labels.Set
	Pods            []Pod // of the node alone
	Host            Host
	Settings        Settings
	// NetworksUnknown is why no network of pods is in the settings, "" where one is.
	NetworksUnknown string
	// Passwords are those of BGP, as the node has them.
	Passwords map[v1alpha1.SecretKey]Password
	// Lingering are addresses of pods that still run, though their objects say otherwise, by the ShortKey of the policy that steers them.
	Lingering map[string][]netip.Addr
}

// Node is what of a node counts.
type Node struct {
	Name      string
	Addresses []netip.Addr // InternalIP, the first of a family is its tunnel endpoint
	Ready     bool
	Created   time.Time
}

// NodeOf is what of a node counts.
func NodeOf(n *corev1.Node) Node {
	out := Node{Name: n.Name, Created: n.CreationTimestamp.Time}
	for _, c := range n.Status.Conditions {
		out.Ready = out.Ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	for _, own := range n.Status.Addresses {
		if addr, err := netip.ParseAddr(own.Address); err == nil && own.Type == corev1.NodeInternalIP {
			out.Addresses = append(out.Addresses, addr)
		}
	}
	return out
}

// Pod is what of a pod counts.
type Pod struct {
	Namespace, Name, ServiceAccount string
	Labels                          labels.Set
	Addresses                       []netip.Addr
	HostNetwork                     bool
	Phase                           corev1.PodPhase
}

// PodOf is what of a pod counts.
func PodOf(p *corev1.Pod) Pod {
	out := Pod{Namespace: p.Namespace, Name: p.Name, ServiceAccount: p.Spec.ServiceAccountName, Labels: p.Labels, HostNetwork: p.Spec.HostNetwork, Phase: p.Status.Phase}
	for _, ip := range p.Status.PodIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil {
			out.Addresses = append(out.Addresses, addr)
		}
	}
	return out
}

// Host is what the node's kernel has.
type Host struct {
	Underlay string                    // interface of the node's address
	Uplinks  map[string][]netip.Prefix // interface to its addresses
}

// Settings are the same on all nodes.
type Settings struct {
	Cluster []netip.Prefix // networks of pods, services and nodes: never steered
	UDPPort uint16         // of tunnels
	// ReplicationPort is the first of 256 by which gateways tell each other of connections; FirstReplicationPort when it is 0.
	ReplicationPort uint16
	KeyFile         string // of the replication
	LinkUp          LinkPair
	TunnelIP        string // family of tunnel endpoints: IPv4, also when left out, or IPv6
}

// NodeLocal are destinations that answer for the node itself, of which pods ask as without policies: link-local ones (RFC 3927, RFC 4291), and
// those of metadata services of clouds that are not link-local: AWS, Google, Azure, Alibaba.
var NodeLocal = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("fd00:ec2::/32"), netip.MustParsePrefix("fd20:ce::254/128"), netip.MustParsePrefix("168.63.129.16/32"), netip.MustParsePrefix("100.100.100.200/32"),
}

// DefaultLinkPair has addresses that no packet outside of the node has: of 192.0.0.0/24, which RFC 6890 keeps for protocols, and of a ULA.
var DefaultLinkPair = LinkPair{
	Host: "selvage0", Edge: "selvage1",
	HostAddrs: []netip.Prefix{netip.MustParsePrefix("192.0.0.253/30"), netip.MustParsePrefix("fd53:656c:7661:ffff::1/126")},
	EdgeAddrs: []netip.Prefix{netip.MustParsePrefix("192.0.0.254/30"), netip.MustParsePrefix("fd53:656c:7661:ffff::2/126")},
}

// WithLink has addresses of other networks, one of a family: /30 and /126, or larger.
func (l LinkPair) WithLink(networks []netip.Prefix) (LinkPair, error) {
	l.HostAddrs, l.EdgeAddrs = slices.Clone(l.HostAddrs), slices.Clone(l.EdgeAddrs)
	for _, n := range networks {
		if n != n.Masked() || n.Addr().BitLen()-n.Bits() < 2 || !n.Addr().IsGlobalUnicast() {
			return l, fmt.Errorf("%s is not a network of two addresses, such as 192.0.0.252/30", n)
		}
		at := slices.IndexFunc(l.HostAddrs, func(p netip.Prefix) bool { return p.Addr().Is4() == n.Addr().Is4() })
		l.HostAddrs[at] = netip.PrefixFrom(n.Addr().Next(), n.Bits())
		l.EdgeAddrs[at] = netip.PrefixFrom(n.Addr().Next().Next(), n.Bits())
	}
	return l, nil
}

// Families of tunnel endpoints.
const (
	IPv4 = "IPv4"
	IPv6 = "IPv6"
)

// LinkPair is the pair of interfaces between a node and its edge.
type LinkPair struct {
	Host, Edge string         // names of its ends
	HostAddrs  []netip.Prefix // one of each family, of the host's end
	EdgeAddrs  []netip.Prefix // of the edge's end
}

// Plan is what a node has to have.
type Plan struct {
	Cluster  []netip.Prefix          // of the settings: never steered
	Unknown  string                  // why no network of pods is known
	Twin     Twin                    // of the node
	Edge     []byte                  // configuration file of the edge
	BGP      bool                    // by which the edge speaks BGP
	Password Passwords               // of its sessions
	Groups   map[string][]netip.Addr // members of the file's live groups: pods of policies
	Gateways map[string]string       // the file's groups of gateways, and the EgressGateway of each
	Remotes  map[netip.Addr]string   // nodes by their tunnel endpoint, the own one too
	Uplinks  []netip.Prefix          // addresses of the node's uplinks, as a member of gateways
	Steering []Steer                 // in the order of policies
	Policies []Policy                // those that concern the node, in their order
}

// Steer is which packets of the node's pods go to the edge: the first that matches decides. A policy may have several.
type Steer struct {
	Policy string // NAMESPACE/NAME or NAME
	Pods   []netip.Addr
	Except []netip.Prefix // of these destinations, nothing
	To     []netip.Prefix // of these, or of all when empty
	// Gateway is the group whose members serve; NodeWhenGone has packets leave by the node while none does.
	Gateway      string
	NodeWhenGone bool
	// Held has packets dropped by the node, or leave by it where NodeWhenGone is set: the edge's file does not have the policy,
	// and there a later one would give them its addresses.
	Held bool
}

// Policy is a policy that concerns the node.
type Policy struct {
	Key        string // NAMESPACE/NAME or NAME
	UID        string
	Generation int64
	EdgeName   string // name of the edge's policy and live group
	Pods       int
	Gateway    string
	Member     bool // the node is one of the gateway's
	Cluster    bool // it is a ClusterEgressPolicy
	Problem    string
	Reason     string // of the problem, where programs tell it apart
}
