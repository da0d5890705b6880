package importing

import (
	"cmp"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// Need is what a gateway cannot do without.
type Need struct {
	Gateway string `json:"gateway"`
	Option  string `json:"option"` // Interfaces, NextHops, Nodes or Addresses
	Why     string `json:"why"`
}

// Needed is what objects do not say and the caller did not.
type Needed []Need

// Error lists it, a line each.
func (n Needed) Error() string {
	lines := make([]string, len(n))
	for at, need := range n {
		lines[at] = fmt.Sprintf("gateway %s: %s", need.Gateway, need.Why)
	}
	return strings.Join(lines, "\n")
}

func (i *importer) need(g *gateway, option, why string) {
	i.needed = append(i.needed, Need{g.name, option, why})
}

// settle gives gateways their names, and what the caller said.
func (i *importer) settle() error {
	slices.SortStableFunc(i.gateways, func(a, b *gateway) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.project, b.project)) })
	for _, g := range i.gateways {
		g.name = i.unique("EgressGateway", "", g.name, g.project)
	}
	for _, g := range i.gateways {
		if err := i.apply(g); err != nil {
			return err
		}
		i.complete(g)
	}
	if err := i.unused(); err != nil {
		return err
	}
	if len(i.needed) > 0 {
		return i.needed
	}
	i.drop()
	return nil
}

// unique gives a name that no other object of the kind has.
func (i *importer) unique(kind, namespace, name, project string) string {
	for n, wanted := 1, name; ; n++ {
		if key := kind + " " + namespace + "/" + name; !i.names[key] {
			i.names[key] = true
			return name
		}
		suffix := "-" + project
		if n > 1 {
			suffix += "-" + strconv.Itoa(n)
		}
		name = strings.TrimRight(wanted[:min(len(wanted), 253-len(suffix))], "-.") + suffix
	}
}

// of returns the settings of a gateway: those with its name, or those without one.
func (i *importer) of(g *gateway, all []Setting) (values []string, named bool) {
	for at := range all {
		if all[at].Gateway == g.name {
			values, named = append(values, all[at].Value), true
			i.settled[&all[at]] = true
		}
	}
	if named {
		return values, true
	}
	for at := range all {
		if all[at].Gateway == "" {
			values = append(values, all[at].Value)
		}
	}
	return values, false
}

// unused finds settings for gateways that there are not.
func (i *importer) unused() error {
	for _, all := range [][]Setting{i.Interfaces, i.VLANs, i.NextHops, i.Nodes, i.Addresses} {
		for at := range all {
			if all[at].Gateway != "" && !i.settled[&all[at]] {
				names := make([]string, len(i.gateways))
				for n, g := range i.gateways {
					names[n] = g.name
				}
				return fmt.Errorf("%s@%s: there is no gateway %q; there are %s", all[at].Value, all[at].Gateway, all[at].Gateway, strings.Join(names, ", "))
			}
		}
	}
	return nil
}

// apply gives a gateway what the caller said: instead of what its objects say if the gateway is named.
func (i *importer) apply(g *gateway) error {
	for _, set := range []func(*gateway) error{i.applyUplink, i.applyNodes, i.applyAddresses, i.applyHops} {
		if err := set(g); err != nil {
			return err
		}
	}
	return nil
}

func (i *importer) applyUplink(g *gateway) error {
	if v, named := i.of(g, i.Interfaces); len(v) > 0 && (named || g.uplink == "") {
		if g.uplink = v[len(v)-1]; g.uplink == "" || len(g.uplink) > maxInterface {
			return fmt.Errorf("uplink interface %q: a name has 1 to %d bytes", g.uplink, maxInterface)
		}
	}
	if v, named := i.of(g, i.VLANs); len(v) > 0 && (named || g.vlan == 0) {
		n, err := strconv.ParseUint(v[len(v)-1], 10, 16)
		if err != nil || n < 1 || n > maxVLAN {
			return fmt.Errorf("VLAN %q: it is from 1 to %d", v[len(v)-1], maxVLAN)
		}
		g.vlan = uint16(n)
	}
	return nil
}

func (i *importer) applyNodes(g *gateway) error {
	if v, named := i.of(g, i.Nodes); len(v) > 0 && (named || g.nodes == nil) {
		s, err := metav1.ParseToLabelSelector(v[len(v)-1])
		if err != nil {
			return fmt.Errorf("nodes %q: %w", v[len(v)-1], err)
		}
		g.nodes = s
	}
	return nil
}

// applyAddresses gives a gateway addresses: besides those of its objects if it is named, or if these have none.
func (i *importer) applyAddresses(g *gateway) error {
	v, named := i.of(g, i.Addresses)
	if !named && len(g.addresses) > 0 {
		return nil
	}
	for _, s := range v {
		a, err := parseSpan(s)
		if err != nil {
			return fmt.Errorf("address %q: %w", s, err)
		}
		g.addresses, g.given = append(g.addresses, a), append(g.given, a)
	}
	return nil
}

// applyHops gives a gateway next hops: of families of which it has addresses and no next hop, unless it is named, or needs no addresses.
func (i *importer) applyHops(g *gateway) error {
	values, named := i.of(g, i.NextHops)
	if named {
		g.hops = nil
	}
	have, left, nodes := families(g.hops), room(g, nil), len(g.addresses) == 0 && !i.takesAddresses(g)
	for _, s := range values {
		a, err := parseAddr(s)
		switch {
		case err != nil:
			return fmt.Errorf("next hop %q: %w", s, err)
		case !named && (have[a.Is4()] || left[a.Is4()] == nil && !nodes): // of no use
		case !slices.Contains(g.hops, a):
			g.hops = append(g.hops, a)
		}
	}
	if len(g.hops) > maxNextHops {
		return fmt.Errorf("%d next hops: %d fit", len(g.hops), maxNextHops)
	}
	return nil
}

// families says of which there are addresses: IPv4 is true.
func families(all []netip.Addr) map[bool]bool {
	have := map[bool]bool{}
	for _, a := range all {
		have[a.Is4()] = true
	}
	return have
}

// complete says what a gateway lacks.
func (i *importer) complete(g *gateway) {
	if g.uplink == "" {
		i.need(g, "Interfaces", "the interface by which packets leave its nodes")
	}
	have, left := families(g.hops), room(g, nil)
	for _, f := range bothFamilies {
		if left[f.is4] != nil && !have[f.is4] {
			i.need(g, "NextHops", "the "+f.name+" routers behind that interface")
		}
	}
	if len(g.hops) == 0 && len(g.addresses) == 0 {
		i.need(g, "NextHops", "the routers behind that interface")
	}
	i.withoutHops(g)
	if g.nodes == nil {
		i.need(g, "Nodes", "a label selector of its nodes")
	}
	if len(g.addresses) == 0 && i.takesAddresses(g) {
		i.need(g, "Addresses", "the addresses that pods get: those of the interface are the node's own")
	}
	g.addresses = mergeSpans(g.addresses, false)
	if n := len(g.addresses); n > maxAddresses {
		g.addresses = mergeSpans(g.addresses, true)
	}
}

// takesAddresses reports whether a policy of the gateway takes addresses from it, or may be written to.
func (i *importer) takesAddresses(g *gateway) bool {
	all := i.policiesOf(g)
	return len(all) == 0 || slices.ContainsFunc(all, func(p *policy) bool { return !p.ofNode })
}

// withoutHops takes routers' own addresses out of the pool, for ranges of others include them.
func (i *importer) withoutHops(g *gateway) {
	for _, hop := range g.hops {
		if slices.ContainsFunc(i.policies, func(p *policy) bool { return p.gateway == g && slices.Contains(p.fixed, hop) }) {
			continue
		}
		var out []span
		for _, s := range g.addresses {
			if !s.contains(hop) {
				out = append(out, s)
				continue
			}
			i.changed(g.origins[0], "", nil, fmt.Sprintf("the address %s of a next hop is taken out of %s", hop, s), "")
			if s.first != hop {
				out = append(out, span{s.first, hop.Prev()})
			}
			if s.last != hop {
				out = append(out, span{hop.Next(), s.last})
			}
		}
		g.addresses = out
	}
}

// family is IPv4 or IPv6.
type family struct {
	is4  bool
	name string
}

var bothFamilies = []family{{true, "IPv4"}, {false, "IPv6"}}

// drop leaves gateways out that have more ranges than fit, and their policies.
func (i *importer) drop() {
	gone := map[*gateway]bool{}
	for _, g := range slices.Clone(i.gateways) {
		if !g.pool {
			i.divide(g)
		}
		if n := len(g.addresses); n > maxAddresses {
			gone[g] = true
			i.lost(g.origins[0], "", nil, fmt.Sprintf("gateway %s has %d ranges of addresses, and %d fit", g.name, n, maxAddresses), "divide it")
		}
	}
	i.gateways = slices.DeleteFunc(i.gateways, func(g *gateway) bool { return gone[g] })
	i.policies = slices.DeleteFunc(i.policies, func(p *policy) bool {
		if gone[p.gateway] {
			i.lost(p.object(), "", nil, "its gateway is not carried", "")
		}
		return gone[p.gateway]
	})
}

// room counts the addresses of a gateway that no policy has, by whether they are of IPv4.
func room(g *gateway, policies []*policy) map[bool]*big.Int {
	left := map[bool]*big.Int{}
	for _, s := range g.addresses {
		n, is := left[s.first.Is4()]
		if !is {
			n = new(big.Int)
			left[s.first.Is4()] = n
		}
		n.Add(n, s.size())
	}
	for _, p := range policies {
		if p.gateway != g {
			continue
		}
		for _, a := range p.fixed {
			if n := left[a.Is4()]; n != nil {
				n.Sub(n, big.NewInt(1))
			}
		}
	}
	return left
}

// noGateway says what policies do without a gateway, where the other project has packets leave by their node.
func (i *importer) noGateway(project, there string) {
	if i.WhenNoGateway == v1alpha1.NoGatewayDrop {
		i.differs(project, there+"; here they are dropped", "whenNoGateway: Node has them leave by their node")
	}
}
