package proof

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/prove"
)

// Of each tunnel so many are asked.
const (
	mostHosts     = 3
	mostLoopbacks = 2
	mostRouted    = 3 // prefixes, by packets that end at the router
	mostEdges     = 3 // by as many addresses of a remote
)

// echoTTL is that of an echo request that is not meant to end at a router.
const echoTTL = 64

// planner makes proofs of facts.
type planner struct {
	Facts
	segments []overlay.Segment
	hearsays map[receivedOf]hearsay
	// Of what is behind each remote in each segment:
	neighbours map[receivedOf][]datapath.Neighbour
	macs       map[receivedOf]map[datapath.Origin]int
	ours       map[netip.Addr]bool // remotes whose probes were heard
}

func newPlanner(f Facts) planner {
	p := planner{
		Facts: f, segments: plan.Segments(f.Config), hearsays: hearsays(f.Advertised),
		neighbours: make(map[receivedOf][]datapath.Neighbour), macs: make(map[receivedOf]map[datapath.Origin]int), ours: make(map[netip.Addr]bool),
	}
	for _, n := range f.Neighbours {
		at := receivedOf{n.Segment, n.Remote}
		p.neighbours[at] = append(p.neighbours[at], n)
	}
	for _, f := range f.FDB {
		if !f.Remote.IsValid() {
			continue
		}
		if [3]byte(f.MAC[:3]) == prove.Prefix && f.MAC == prove.MAC(f.Remote) {
			p.ours[f.Remote] = true
			continue
		}
		at := receivedOf{f.Segment, f.Remote}
		if p.macs[at] == nil {
			p.macs[at] = make(map[datapath.Origin]int)
		}
		p.macs[at][f.Origin]++
	}
	return p
}

// plan is what is to be proven: everything for "", a segment by name, or the way to a prefix or
// address.
func (p planner) plan(what string) ([]proof, error) {
	if prefix, err := api.ParsePrefix(what); err == nil {
		return p.toPrefix(prefix.Masked())
	}
	var proofs []proof
	var names []string
	for _, s := range p.segments {
		if s.VNI == 0 {
			continue
		}
		names = append(names, s.Name)
		if what != "" && what != s.Name {
			continue
		}
		if router, ok := p.routerOf(s.Name); ok {
			proofs = append(proofs, p.ofRouter(s, router, netip.Prefix{})...)
			continue
		}
		for _, remote := range s.Remotes {
			proofs = append(proofs, p.ofSegment(s, remote, nil))
		}
	}
	if what != "" && !slices.Contains(names, what) {
		return nil, api.BadRequest{Err: fmt.Errorf("%q is not a segment, prefix or address; segments: %s", what, strings.Join(names, ", "))}
	}
	return proofs, nil
}

// routerOf is the router whose L3 segment has that name.
func (p planner) routerOf(segment string) (overlay.Router, bool) {
	for _, r := range p.Config.Routers {
		if r.L3 != nil && r.SegmentName() == segment {
			return r, true
		}
	}
	return overlay.Router{}, false
}

// start is a proof with what all have in common.
func (p planner) start(s overlay.Segment, remote netip.Addr, router string) proof {
	at := proof{segment: s, remote: p.Config.Remote(remote), router: router}
	at.tunnel = prove.Tunnel{VNI: s.VNI, Header: s.Tunnel, Remotes: at.remote.Addrs}
	at.known.Remote = remote.String()
	if at.remote.Name != "" {
		at.known.Remote = fmt.Sprintf("%s (%s)", at.remote.Name, remote)
	}
	at.known.Ours = p.ours[remote]
	p.underlayPaths(&at)
	name := s.Name
	if router != "" {
		name = router
	}
	if h, ok := p.hearsays[receivedOf{name, remote}]; ok {
		at.control = append(at.control, h.words())
	}
	at.tunnel.Size = p.sizeOf(&at)
	return at
}

func (p *proof) add(kind, origin string, t prove.Target) {
	p.tunnel.Targets = append(p.tunnel.Targets, t)
	p.targets = append(p.targets, proofTarget{kind, origin})
}

// addEdge asks the remote itself, which answers where it is one of ours.
func (p planner) addEdge(at *proof) {
	own := prove.MAC(p.Self)
	for _, addr := range at.remote.Addrs[:min(len(at.remote.Addrs), mostEdges)] {
		mac := prove.MAC(addr)
		at.add(TargetEdge, "", prove.Target{
			Ask: prove.Echo, MAC: mac, Addr: prove.LinkLocal(mac), From: prove.LinkLocal(own), TTL: echoTTL, Near: true,
		})
	}
}

// ofSegment is the proof of a segment's tunnels to a remote, by hosts there: by only, where it
// is given.
func (p planner) ofSegment(s overlay.Segment, remote netip.Addr, only *datapath.Neighbour) proof {
	at := p.start(s, remote, "")
	hosts := p.hosts(s, remote)
	if only != nil {
		hosts = []datapath.Neighbour{*only}
	}
	for _, n := range hosts {
		at.add(TargetHost, string(n.Origin), prove.Target{Ask: prove.Resolve, MAC: n.MAC, Addr: n.Addr})
	}
	if s.Gateway != nil && len(s.Gateway.Addresses) > 0 {
		at.add(TargetGateway, "", prove.Target{Ask: prove.Resolve, MAC: s.Gateway.MAC, Addr: s.Gateway.Addresses[0].Addr(), Near: true})
	}
	p.addEdge(&at)
	macs := p.macs[receivedOf{s.Name, remote}]
	at.known.Hosts = macs[datapath.OriginBGP]
	at.control = append(at.control, fmt.Sprintf("MAC addresses there: %d by BGP, %d learned, %d configured",
		macs[datapath.OriginBGP], macs[datapath.OriginLearned], macs[datapath.OriginStatic]))
	return at
}

// hosts are some that are behind a remote: those of BGP first, as they are what it promises,
// and then who was heard last.
func (p planner) hosts(s overlay.Segment, remote netip.Addr) []datapath.Neighbour {
	var list []datapath.Neighbour
	for _, n := range p.neighbours[receivedOf{s.Name, remote}] {
		if n.MAC != (overlay.MAC{}) && !isProber(n) && !isGatewayOf(s, n) {
			list = append(list, n)
		}
	}
	rank := func(n datapath.Neighbour) int {
		if n.Origin == datapath.OriginBGP {
			return 0
		}
		return 1
	}
	slices.SortFunc(list, func(a, b datapath.Neighbour) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.AgeNS, b.AgeNS), a.Addr.Compare(b.Addr))
	})
	return list[:min(len(list), mostHosts)]
}

// isProber reports whether n is an edge that probed.
func isProber(n datapath.Neighbour) bool {
	return n.Addr == prove.LinkLocal(n.MAC) && [3]byte(n.MAC[:3]) == prove.Prefix
}

func isGatewayOf(s overlay.Segment, n datapath.Neighbour) bool {
	return s.Gateway != nil && n.MAC == s.Gateway.MAC
}
