package evpn

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
)

// Problems of routes without room.
const (
	tableFull    = "table full"
	moreThanMost = "more than the default maximumPrefixes"
)

// multihomed is said of routes that are used all the same.
const multihomed = "it is of a multihomed host or network (ESI), which is not supported: used by its next hop alone"

// explainer says what became of routes, and why. It changes nothing.
type explainer struct {
	in     *instances
	adjOut *adjRIBOut
	room   *room
}

func (x *explainer) whyInSegment(p *path, used bool) (why, problem string) {
	s := p.segment
	if p.inSegment != fits {
		return x.whyUnfit(p, p.inSegment, &s.instance, "segment", p.VNI)
	}
	if p.leftOutOfSegment() {
		return "table full: the data path has no room for it; raise fdb.size, or have fewer hosts advertised", tableFull
	}
	why = p.whyHost(used)
	if why == "" && p.ESI != ([10]byte{}) {
		return multihomed, "multihomed"
	}
	if p.Type == MACIP && s.macEntries[p.MAC].frozen() && !p.isMAC() {
		return why, "frozen"
	}
	if r := x.in.unrouted(p); why == "" && r != nil {
		return fmt.Sprintf("used, but not for routing: router %s, which has its L3 VNI, imports %s", r.name, r.importText()), "route target differs"
	}
	return why, ""
}

// whyHost is why p's host is not what p says, "" when it is, and of routes of no host.
func (p *path) whyHost(used bool) string {
	if p.Type != MACIP {
		return ""
	}
	why := p.whyMAC()
	if p.Addr.IsValid() && (why == "" || used) && !p.isARP() {
		why = p.whyARP()
	}
	return why
}

// unrouted is the router that has the L3 VNI of p but does not import its targets, nil
// without.
func (in *instances) unrouted(p *path) *router {
	if !p.hasHostRoute() || p.router != nil {
		return nil
	}
	for _, r := range in.routers {
		if r.l3 != nil && r.vni == p.L3VNI {
			return r
		}
	}
	return nil
}

// whyMAC is why p's remote is not where the MAC address is, "" when it is.
func (p *path) whyMAC() string {
	st := p.segment.macEntries[p.MAC]
	static, isStatic := p.segment.static[p.MAC]
	switch {
	case p.isMAC():
		return ""
	case isStatic && static.Port == "":
		return "a static entry of the segment says where its MAC address is"
	case st.frozen():
		return fmt.Sprintf("the MAC address is frozen where it is, because it moved too often; selvage bgp thaw %s %s lets it move",
			p.segment.name, p.MAC)
	case isStatic:
		return "a static entry says that the host is at a port here"
	case st.local != nil:
		return fmt.Sprintf("the host is at a port here, with sequence number %d against %d", st.local.sequence, p.Sequence)
	case st.best.Sticky && !p.Sticky:
		return fmt.Sprintf("%s says that it does not move from there (sticky)", st.best.remote)
	case st.best.Sequence != p.Sequence:
		return fmt.Sprintf("%s has it with the higher sequence number %d", st.best.remote, st.best.Sequence)
	}
	return fmt.Sprintf("%s has it with the same sequence number, and is the lower address", st.best.remote)
}

func (p *path) whyARP() string {
	r := p.segment.arpEntries[p.Addr]
	mac, static := p.segment.neighbours[p.Addr]
	switch {
	case static:
		return fmt.Sprintf("a static neighbour says that its IP address is at %s", mac)
	case r.owner != nil:
		return fmt.Sprintf("its IP address is at a port here, at %s", r.owner.mac)
	case r.best.MAC != p.MAC:
		return fmt.Sprintf("%s at %s has its IP address, with sequence number %d", r.best.MAC, r.best.remote, r.best.Sequence)
	}
	return ""
}

func (x *explainer) whyInRouter(p *path, used bool) (why, problem string) {
	r := p.router
	vni := p.VNI
	if p.Type == MACIP {
		vni = p.L3VNI
	}
	d := r.destinations[p.prefix()]
	switch {
	case p.inRouter != fits:
		return x.whyUnfit(p, p.inRouter, &r.instance, "router", vni)
	case used && p.ESI != ([10]byte{}) && p.Type == Prefix:
		return multihomed, "multihomed"
	case used:
		return "", ""
	case p.leftOutOfRouter():
		return "table full: the data path has no room for it or its next hop; have the neighbours advertise less (import, maximumPrefixes)", tableFull
	case d.hosts > 0:
		return "the host is at a port here", ""
	case d.sources != 0:
		return fmt.Sprintf("a route of this edge wins (%s)", d.sources), ""
	case p.Type == MACIP && p.outdated():
		return "the host is elsewhere by now: its MAC address is not at this next hop", ""
	case slices.Contains(d.best, p):
		return fmt.Sprintf("there are %d equal next hops already, the most", MaxHops), ""
	case len(d.best) == 0:
		return "no path is usable", ""
	}
	return p.whyWorse(d.best[0]), ""
}

// whyWorse follows bestPaths.
func (p *path) whyWorse(than *path) string {
	switch b := than; {
	case b.Type == MACIP && p.Type != MACIP:
		return "the host itself is advertised (type 2)"
	case b.Type == MACIP:
		return fmt.Sprintf("%s has the host, with sequence number %d against %d", b.remote, b.Sequence, p.Sequence)
	case p.old() && !b.old():
		return "it is stale, and there is one that is not"
	case p.LocalPref != b.LocalPref:
		return fmt.Sprintf("local preference %d, another has %d", p.LocalPref, b.LocalPref)
	case len(p.ASPath) != len(b.ASPath):
		return fmt.Sprintf("AS path of %d, another has %d", len(p.ASPath), len(b.ASPath))
	case p.Type == b.Type && p.fromAS() == b.fromAS() && p.MED != b.MED:
		return fmt.Sprintf("MED %d, another has %d", p.MED, b.MED)
	case p.Type != Unicast && b.Type == Unicast:
		return "an uplink has it too, which needs no tunnel"
	case !p.from.external && b.from.external:
		return "it is from within the AS, another is not"
	}
	return "another path from its AS has a lower MED"
}

// String names the sources.
func (set sources) String() string {
	var names []string
	for i, s := range allSources {
		if set&(1<<i) != 0 {
			names = append(names, string(s))
		}
	}
	return strings.Join(names, ", ")
}

func (p *path) encapsulation() overlay.Encapsulation {
	if p.Encapsulation == "" {
		return overlay.VXLAN
	}
	return p.Encapsulation
}

// whyUnfit is in words what the verdict is.
func (x *explainer) whyUnfit(p *path, v verdict, i *instance, kind string, vni overlay.VNI) (why, problem string) {
	switch v {
	case otherEncapsulation:
		return fmt.Sprintf("its encapsulation is %s, that of %s %s %s; set both ends to the same",
			p.encapsulation(), kind, i.name, i.encapsulation), "encapsulation differs"
	case otherVNI:
		return fmt.Sprintf("its route target is imported by %s %s, but its VNI is %d instead of %d; give both ends the same VNI, or other route targets",
			kind, i.name, vni, i.vni), "VNI differs"
	case ownNextHop:
		return x.whyOwn(p)
	case otherFamily:
		return fmt.Sprintf("this edge has no tunnel endpoint of the family of its next hop %s", p.NextHop), "next hop of another family"
	case mixedFamilies:
		return fmt.Sprintf("its next hop %s is not of the family of the prefix, which is not supported", p.NextHop), "next hop of another family"
	case noNextHop:
		return "it has no next hop", "no next hop"
	case groupMAC:
		return fmt.Sprintf("%s is no MAC address of a host", p.MAC), "no host's MAC address"
	case ownGateway:
		return "it is the gateway, which is here too (anycast)", ""
	case otherGateway:
		return p.gatewayDetail(), "gateway differs"
	case noRouterMAC:
		return "it has no router MAC address, without which router " + i.name + " cannot send to its next hop; " +
			"have the other end advertise it (router's MAC extended community, RFC 9135)", "no router MAC"
	case noGateway:
		return fmt.Sprintf("its gateway %s is on no network of router %s", p.Gateway, i.name), "gateway unreachable"
	case unreachable:
		return fmt.Sprintf("its next hop %s is on no network of router %s; have the neighbour set itself as the next hop",
			p.NextHop, i.name), "next hop unreachable"
	case connectedElsewhere:
		return p.whyElsewhere(), "address connected elsewhere"
	}
	return p.whyImplausible(v, x.in)
}

// whyElsewhere says what has the address of a host that is another's.
func (p *path) whyElsewhere() string {
	at, _ := p.router.places.find(p.Addr)
	text := fmt.Sprintf("%s is %s, which is connected here", p.Addr, at.text)
	if at.segment != "" {
		text += fmt.Sprintf(", and the route is of another segment (VNI %d)", p.VNI)
	}
	return fmt.Sprintf("%s: a host at %s claims an address of others; guard its port there with allowed.addresses", text, p.remote)
}

func (x *explainer) whyOwn(p *path) (why, problem string) {
	if _, own := x.adjOut.own[p.Key]; own {
		return "it is this edge's own, which came back", ""
	}
	return fmt.Sprintf("its next hop %s is this edge: give each edge an address of its own", p.NextHop), "next hop is this edge"
}

// gatewayDetail says how another edge's gateway differs from that of p's segment.
func (p *path) gatewayDetail() string {
	g := p.segment.gateway
	if p.Addr.IsValid() && !slices.ContainsFunc(g.Addresses, hasAddr(p.Addr)) {
		return fmt.Sprintf("%s advertises the gateway %s (%s), which segment %s has not here; give all edges the same gateway",
			p.remote, p.Addr, p.MAC, p.segment.name)
	}
	return fmt.Sprintf("%s has the gateway's address with MAC address %s, this edge with %s; give all edges the same (anycast)",
		p.remote, p.MAC, g.MAC)
}

// whyNowhere is why a route concerns no segment and no router.
func (in *instances) whyNowhere(p *path) (why, problem string) {
	if p.excess {
		return fmt.Sprintf("its neighbour advertises more than %d routes of the family, the most that are used; have it advertise less, "+
			"import only what is needed, or set maximumPrefixes", in.edge.BGP.MostPrefixes), moreThanMost
	}
	if p.implausible != fits {
		return p.whyImplausible(p.implausible, in)
	}
	if p.Type == Unicast {
		return fmt.Sprintf("there is no uplink %q here", p.Uplink), "no uplink"
	}
	has := "it has no route target"
	if len(p.Targets) > 0 {
		names := make([]string, 0, len(p.Targets))
		for _, target := range p.Targets {
			names = append(names, target.String())
		}
		has = "nothing here imports its route targets " + strings.Join(names, ", ")
	}
	if i, kind := in.byVNI(p); i != nil {
		return fmt.Sprintf("%s: %s %s, which has its VNI, imports %s", has, kind, i.name, i.importText()), "route target differs"
	}
	return has + in.importsText(p.Type), ""
}

// byVNI is the instance that has p's VNI: probably the one that p is for.
func (in *instances) byVNI(p *path) (*instance, string) {
	if p.Type == Prefix {
		for _, r := range in.routers {
			if r.l3 != nil && r.vni == p.VNI {
				return &r.instance, "router"
			}
		}
		return nil, ""
	}
	for _, s := range in.segments {
		if s.vni == p.VNI {
			return &s.instance, "segment"
		}
	}
	return nil, ""
}

func (i *instance) importText() string {
	if i.imports == nil {
		return fmt.Sprintf("ANY-AS:%d", uint32(i.automatic))
	}
	names := make([]string, 0, len(i.imports))
	for _, target := range i.imports {
		names = append(names, target.String())
	}
	return strings.Join(names, ", ")
}

// importsText says what is imported instead, of the first few.
func (in *instances) importsText(of RouteType) string {
	const few = 4
	var list []*instance
	if of == Prefix {
		for _, r := range in.routers {
			if r.l3 != nil {
				list = append(list, &r.instance)
			}
		}
	} else {
		for _, s := range in.segments {
			list = append(list, &s.instance)
		}
	}
	slices.SortFunc(list, func(a, b *instance) int { return a.order - b.order })
	var text strings.Builder
	for n, i := range list {
		if n == few {
			fmt.Fprintf(&text, ", and %d others", len(list)-few)
			break
		}
		fmt.Fprintf(&text, "%s %s imports %s", []string{",", ":"}[flag(n == 0)], i.name, i.importText())
	}
	return text.String()
}
