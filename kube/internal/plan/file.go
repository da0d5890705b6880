package plan

import (
	"cmp"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// PodPort is the port of an edge by which packets of the node's pods come in.
const PodPort = router

// router is the one of an edge, between the node and the networks outside. The node's end of the pair is at a port in a segment of
// its own, not at an uplink: what comes in by an uplink is never asked about by policies.
const router = "pods"

// nodeVNI is that segment's. It has no remotes, so that it is on no wire; policies' VNIs begin after it.
const nodeVNI = 6160383

// sessions is how many connections NAT and firewall remember.
const sessions = 262144

// object is a part of the edge's file.
type object = map[string]any

// file is the configuration of the edge.
//
// Networks of the cluster are routed to the node, which knows its pods: replies from gateways go there. Other destinations
// have no route but on a gateway, so that the edge asks the policies about them, and what matches none is dropped.
func (m *maker) file() ([]byte, error) {
	self := m.nodes[m.in.Node]
	tep, err := m.endpoint(self)
	if err != nil {
		return nil, err
	}
	remotes := m.remotes()
	spec := object{
		"underlay": object{"interfaces": []string{m.in.Host.Underlay}, "tep": tep.String(), "bfd": m.liveness()},
		"remotes":  remotes,
		"segments": []object{m.segment()},
		// All pods of the node share the port.
		"ports": []object{{"name": router, "interface": m.in.Settings.LinkUp.Edge, "segment": router, "limits": object{
			"halfOpen": 0, "connections": 0, "natSessions": 0, "flows": 0,
		}}},
		"firewall": m.firewall(),
		"routers":  []object{{"name": router, "routes": m.routes(), "uplinks": m.uplinks()}},
	}
	if tables := m.tables(len(remotes)); len(tables) > 0 {
		spec["tables"] = tables
	}
	if policies := m.policies(); len(policies) > 0 {
		spec["egress"] = object{"sessions": sessions, "gateways": m.groups(), "policies": policies}
	}
	if bgp := m.bgp(); bgp != nil {
		spec["bgp"] = bgp
	}
	return yaml.Marshal(object{
		"apiVersion": "selvage.dev/v1alpha2", "kind": "Edge", "metadata": object{"name": EdgeName(m.in.Node)}, "spec": spec,
	})
}

// tables are sizes of those that have to be larger than usual: on a gateway each policy has each node.
func (m *maker) tables(remotes int) object {
	pairs, sizes := 0, object{}
	for _, c := range m.concerns {
		switch {
		case c.inFile() && c.Member:
			pairs += remotes
		case c.inFile():
			pairs += len(c.members)
		}
	}
	for _, t := range []struct {
		name                   string
		entries, usual, atMost int
	}{{"vports", remotes, 8192, 64512}, {"segmentMembers", remotes, 1024, 16384}, {"members", pairs, 131072, 4194304}, {"remotes", pairs, 65536, 4194304}} {
		if want := t.entries + t.entries/4; want > t.usual { // a power of two, so that it seldom changes
			sizes[t.name] = min(1<<bits.Len(uint(want-1)), t.atMost)
		}
	}
	return sizes
}

// segment is the one of the port, without remotes. It listens where policies do: another UDP port may be the CNI's.
func (m *maker) segment() object {
	s := object{"name": router, "vni": nodeVNI, "gateway": object{"router": router, "addresses": Texts(m.in.Settings.LinkUp.EdgeAddrs)}}
	if m.in.Settings.UDPPort != 0 {
		s["udpPort"] = m.in.Settings.UDPPort
	}
	return s
}

// firewall has the live groups, and lets connections begin at pods alone: there is none at an uplink, and who is there would reach
// pods. It remembers connections as long and as many as NAT, so that it refuses no answer that NAT lets in.
func (m *maker) firewall() object {
	f := object{
		"default": "drop", "connections": sessions, "halfOpen": sessions / 4,
		"timeouts": object{"opening": "4m", "halfClosed": "4m", "timeWait": "4m", "udp": "2m", "udpReplied": "5m", "udpStream": "5m"},
		"sections": []object{{"name": router, "rules": []object{{"name": "from-pods", "action": "allow", "direction": "out"}}}},
	}
	if groups := m.liveGroups(); len(groups) > 0 {
		f["groups"] = groups
	}
	return f
}

// used are the gateways of the file's policies, by name.
func (m *maker) used() []*v1alpha1.EgressGateway {
	var list []*v1alpha1.EgressGateway
	for _, c := range m.concerns {
		if c.inFile() && !slices.Contains(list, c.gateway) {
			list = append(list, c.gateway)
		}
	}
	slices.SortFunc(list, func(a, b *v1alpha1.EgressGateway) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func (m *maker) isMember(g *v1alpha1.EgressGateway) bool {
	return slices.Contains(m.members[g.Name], m.in.Node)
}

// remotes are the members of gateways, and on a member all nodes, since any may have pods.
func (m *maker) remotes() []object {
	names := map[string]bool{}
	for _, g := range m.used() {
		for _, n := range m.members[g.Name] {
			names[n] = true
		}
		if m.isMember(g) {
			for n := range m.peers {
				names[n] = true
			}
		}
	}
	delete(names, m.in.Node)
	list := []object{}
	for name := range names {
		list = append(list, object{"name": EdgeName(name), "addresses": []string{m.peers[name].String()}})
	}
	slices.SortFunc(list, func(a, b object) int { return cmp.Compare(a["name"].(string), b["name"].(string)) })
	return list
}

// liveness is the fastest that a gateway wants, for an edge has one.
func (m *maker) liveness() object {
	interval, multiplier := 50*time.Millisecond, uint8(3)
	for i, g := range m.used() {
		l := g.Spec.Liveness
		if l.Interval.Duration == 0 || l.Multiplier == 0 {
			continue
		}
		if i == 0 || l.Interval.Duration*time.Duration(l.Multiplier) < interval*time.Duration(multiplier) {
			interval, multiplier = l.Interval.Duration, l.Multiplier
		}
	}
	return object{"interval": interval.String(), "multiplier": multiplier}
}

func (m *maker) routes() []object {
	list := []object{}
	for _, host := range m.in.Settings.LinkUp.HostAddrs {
		for _, n := range m.in.Settings.Cluster {
			if n.Addr().Is4() == host.Addr().Is4() && !m.isConnected(n) {
				list = append(list, object{"prefix": n.Masked().String(), "via": []object{{"address": host.Addr().String()}}})
			}
		}
	}
	for _, is4 := range []bool{true, false} {
		var via []object
		for _, g := range m.uplinked() {
			for _, h := range g.Spec.Uplink.NextHops {
				if a, err := netip.ParseAddr(h); err == nil && a.Is4() == is4 && m.isNextHop(g, a) {
					via = append(via, object{"address": a.String()})
				}
			}
		}
		if len(via) > 0 {
			list = append(list, object{"prefix": map[bool]string{true: "0.0.0.0/0", false: "::/0"}[is4], "via": unique(via)})
		}
	}
	return list
}

// isConnected reports whether a network of the cluster is one of the uplink, or in one: who is there is reached there.
func (m *maker) isConnected(n netip.Prefix) bool {
	return slices.ContainsFunc(m.uplinked(), func(g *v1alpha1.EgressGateway) bool {
		return slices.ContainsFunc(m.uplink(g), func(p netip.Prefix) bool { return p.Bits() <= n.Bits() && p.Contains(n.Addr()) })
	})
}

// isNextHop reports whether packets can leave by an address: it is in a network of the uplink, and not the node's own.
func (m *maker) isNextHop(g *v1alpha1.EgressGateway, a netip.Addr) bool {
	return m.isNear(g, a) && !m.isOwn(a)
}

// isNear reports whether an address is in a network of the uplink, as an edge demands.
func (m *maker) isNear(g *v1alpha1.EgressGateway, a netip.Addr) bool {
	return slices.ContainsFunc(m.uplink(g), func(p netip.Prefix) bool { return p.Contains(a) })
}

func unique(list []object) []object {
	slices.SortFunc(list, func(a, b object) int { return cmp.Compare(a["address"].(string), b["address"].(string)) })
	return slices.CompactFunc(list, func(a, b object) bool { return a["address"] == b["address"] })
}

// uplinked are the gateways whose uplink the node has.
func (m *maker) uplinked() (list []*v1alpha1.EgressGateway) {
	for _, g := range m.used() {
		if m.isMember(g) && m.broken(g) == "" {
			list = append(list, g)
		}
	}
	return list
}

// uplink are the addresses of the node's interface for a gateway. The one that tunnels use is none.
func (m *maker) uplink(g *v1alpha1.EgressGateway) []netip.Prefix {
	if g.Spec.Uplink.Interface == m.in.Host.Underlay && g.Spec.Uplink.VLAN == 0 {
		return nil
	}
	return m.in.Host.Uplinks[g.Spec.Uplink.Interface]
}

// uplinkName is that of a gateway's uplink: gateways with the same interface and VLAN share it.
func uplinkName(u v1alpha1.Uplink) string {
	name := u.Interface
	if u.VLAN != 0 {
		name = fmt.Sprintf("%s.%d", u.Interface, u.VLAN)
	}
	if !word.MatchString(name) {
		return edgeName("u", hashed(name))
	}
	return edgeName("u", name)
}

func (m *maker) uplinks() []object {
	list := []object{}
	for _, g := range m.used() {
		spec := g.Spec.Uplink
		if !m.isMember(g) || slices.ContainsFunc(list, func(u object) bool { return u["name"] == uplinkName(spec) }) {
			continue
		}
		u := object{"name": uplinkName(spec), "interface": spec.Interface, "nat": object{"required": true}} // what is untranslated does not leave
		if m.broken(g) == "" {
			u["addresses"] = Texts(m.forwarding(g))
		} else {
			u["interface"], u["addresses"] = missing, nowhere
		}
		if spec.VLAN != 0 {
			u["vlan"] = spec.VLAN
		}
		list = append(list, u)
	}
	return list
}

// missing is the name of an interface that there is not. A member that cannot serve has an uplink that is down, so that the
// other edges hear by BFD that it does not.
const missing = "selvage-none"

// nowhere are the addresses of that uplink: an edge refuses one without an address of each family of its pools. RFC 7600, RFC 6666.
var nowhere = []string{"192.0.0.8/32", "100::8/128"}

// Texts are addresses, or networks, as files have them.
func Texts[T fmt.Stringer](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.String()
	}
	return out
}

func (m *maker) groups() (list []object) {
	modes := map[v1alpha1.GatewayMode]string{v1alpha1.ActiveActive: "active-active"}
	for _, g := range m.used() {
		var members []string
		for _, n := range m.members[g.Name] {
			members = append(members, EdgeName(n))
		}
		group := object{"name": edgeName("g", g.Name), "mode": cmp.Or(modes[g.Spec.Mode], "active-standby"), "members": members}
		if port := m.ports[g.Name]; port != 0 && len(members) > 1 {
			replication := object{"port": port}
			if m.in.Settings.KeyFile != "" {
				replication["keyFile"] = m.in.Settings.KeyFile
			}
			group["replication"] = replication
		}
		list = append(list, group)
	}
	return list
}

func (m *maker) policies() (list []object) {
	for _, c := range m.concerns {
		if !c.inFile() {
			continue
		}
		p := object{
			"name": c.EdgeName, "router": router, "vni": c.status.VNI, "from": []string{c.EdgeName},
			"gateways": edgeName("g", c.gateway.Name), "pool": c.addresses(),
		}
		if c.ofNode() {
			p["pool"] = []string{"uplink"}
		}
		if to := c.served(); len(to) > 0 {
			p["to"] = Texts(to)
		}
		if m.in.Settings.UDPPort != 0 {
			p["udpPort"] = m.in.Settings.UDPPort
		}
		if except := networks(c.spec.Except); len(except) > 0 {
			p["except"] = Texts(except)
		}
		if c.spec.Mapping == v1alpha1.EndpointIndependent {
			p["mapping"] = "endpoint-independent"
		}
		if c.spec.Limit != nil {
			p["limit"] = *c.spec.Limit
		}
		if m.isMember(c.gateway) {
			p["uplink"] = uplinkName(c.gateway.Spec.Uplink)
		}
		list = append(list, p)
	}
	return list
}

func (m *maker) liveGroups() (list []object) {
	for _, c := range m.concerns {
		if c.inFile() {
			list = append(list, object{"name": c.EdgeName, "live": true})
		}
	}
	return list
}
