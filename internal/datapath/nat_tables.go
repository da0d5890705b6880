package datapath

import (
	"errors"
	"fmt"
	"slices"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
)

// translationPlan is what Apply does for NAT.
type translationPlan struct {
	egresses     *egressPlan
	portForwards map[bpfPortForwardKey]bpfPortForward
	// bySegment are the egresses of segments, by name.
	bySegment map[string]uint32
	// routers are their flags at the end, and segments those that lose a translation then:
	// until nothing leads there any more they keep what they have.
	routers  map[uint32]bpfRouterFlags
	segments map[uint32]bpfSegment
	rules    egressRules
}

// egressSegments are the numbers of the egresses that segments have, by the segment's name.
func (eg *Egress) egressSegments(t fib.Tables) map[string]uint32 {
	all := map[string]uint32{}
	for _, e := range t.Egress {
		name := e.Segment
		if name == "" {
			name = e.Uplink
		}
		all[name] = eg.numbers.names.egressIDs[e.Name]
	}
	return all
}

// translate plans what of a segment is translated.
func (eg *Egress) translate(id uint32, s overlay.Segment, segment *bpfSegment, t fib.Tables, p *plan) {
	segment.Egress = uint16(p.nat.bySegment[s.Name])
	if s.VNI == 0 {
		segment.Flags |= bpfSegmentFlagsSEGMENT_UPLINK
	}
	if slices.Contains(t.Translated, s.Name) {
		segment.Flags |= bpfSegmentFlagsSEGMENT_TRANSLATED
	}
	segment.Inbound = inboundOf(s, t)
	vport, before := *segment, eg.numbers.segments[id]
	segment.Flags |= before.Flags & bpfSegmentFlagsSEGMENT_TRANSLATED
	if segment.Egress == 0 {
		segment.Egress = before.Egress
	}
	if *segment != vport {
		p.nat.segments[id] = vport
	}
}

// inboundOf are the families in which replies to what comes in by the uplink s may be translated: those
// in which it translates itself, or all where policies of its router do. Where translation is
// required no reply leaves without one.
func inboundOf(s overlay.Segment, t fib.Tables) (families bpfInboundFlags) {
	if s.VNI != 0 || s.Gateway == nil || slices.Contains(t.Translated, s.Name) {
		return 0
	}
	for _, e := range t.Egress {
		if e.Router != s.Gateway.Router || e.Segment == "" && e.Uplink != s.Name {
			continue
		}
		for f, family := range []bpfInboundFlags{bpfInboundFlagsINBOUND_IPV4, bpfInboundFlagsINBOUND_IPV6} {
			if e.Segment != "" || len(e.Pool[f]) > 0 {
				families |= family
			}
		}
	}
	return families
}

// planTranslation must come after the segments, whose addresses are planned, and the routes.
func (eg *Egress) planTranslation(t fib.Tables, p *plan) error {
	eg.changing.Lock()
	defer eg.changing.Unlock()
	eg.own = make(map[bpfLocalKey]bool, len(p.locals))
	for k := range p.locals {
		eg.own[k] = true
	}
	var err error
	p.nat.egresses, err = eg.planEgresses(t.Egress)
	p.unplaced.add(err)
	for k, segment := range p.nat.egresses.owned {
		p.locals[k] = segment
	}
	for _, id := range p.nat.egresses.hops {
		p.hops[id] = true
	}
	for id := range eg.numbers.names.egresses {
		if p.nat.egresses.entries[id] == nil { // it stays as it is
			eg.numbers.egresses[id].eachHop(func(hop uint16) { p.hops[hop] = true })
		}
	}
	if err := eg.planPortForwards(t.PortForwards, p); err != nil {
		return err
	}
	eg.planUplinks(t, p)
	eg.planRouterFlags(t, p)
	p.nat.rules, err = eg.policies.planEgressRules(t)
	return err
}

func (eg *Egress) planPortForwards(list []fib.Forward, p *plan) error {
	for _, f := range list {
		router, hasRouter := eg.numbers.names.routeIDs[f.Router]
		egress, hasEgress := eg.numbers.names.egressIDs[f.Egress]
		if !hasRouter || !hasEgress {
			return fmt.Errorf("forward of %s port %d: there is no router %q or no egress %q", f.Addr, f.Port, f.Router, f.Egress)
		}
		key := bpfPortForwardKey{Router: router, Proto: f.Proto, Port: wire16(f.Port)}
		key.Addr.W = wireAddr(f.Addr)
		to := bpfPortForward{Port: wire16(f.ToPort), Egress: uint16(egress)}
		to.Addr.W = wireAddr(f.To)
		p.nat.portForwards[key] = to
	}
	return nil
}

// planUplinks marks the addresses of uplinks that they, or policies, translate to.
func (eg *Egress) planUplinks(t fib.Tables, p *plan) {
	translating := map[string]bool{}
	for _, e := range t.Egress {
		translating[e.Uplink] = translating[e.Uplink] || e.Segment == ""
		for _, addr := range slices.Concat(e.Pool[0], e.Pool[1]) {
			if key := localKey(eg.numbers.names.routeIDs[e.Router], addr); eg.own[key] {
				p.locals[key] |= localNAT
			}
		}
	}
	for _, s := range t.Segments {
		if s.Gateway == nil || !translating[s.Name] {
			continue
		}
		global, _ := gatewayAddrs(s.Gateway)
		for _, addr := range global {
			p.locals[localKey(eg.numbers.names.routeIDs[s.Gateway.Router], addr)] |= localNAT
		}
	}
}

// planRouterFlags has routers keep the flags that they lose until the end.
func (eg *Egress) planRouterFlags(t fib.Tables, p *plan) {
	for _, e := range t.Egress {
		id := eg.numbers.names.routeIDs[e.Router]
		p.nat.routers[id] |= bpfRouterFlagsROUTER_NAT
		if e.Segment != "" {
			p.nat.routers[id] |= bpfRouterFlagsROUTER_EGRESS
		}
	}
	for _, f := range t.PortForwards {
		p.nat.routers[eg.numbers.names.routeIDs[f.Router]] |= bpfRouterFlagsROUTER_NAT
	}
	for _, name := range t.Translated {
		if router := eg.numbers.segments[eg.numbers.names.segIDs[name]].Router; router != 0 {
			p.nat.routers[router] |= bpfRouterFlagsROUTER_NAT
		}
	}
	for id := range eg.numbers.names.routers {
		if now := eg.numbers.routers[id].Flags; now|p.nat.routers[id] != now {
			eg.numbers.routers[id].Flags |= p.nat.routers[id]
			p.rerouted[id] = true
		}
	}
}

// writeTranslation writes what segments and rules point at.
func (eg *Egress) writeTranslation(p *plan) error {
	eg.changing.Lock()
	defer eg.changing.Unlock()
	changed, err := eg.writeEgresses(p.nat.egresses)
	if err != nil {
		return err
	}
	eg.owned = p.nat.egresses.owned
	for id := range changed {
		p.rerouted[id] = true
	}
	portForwards, err := put(eg.sessions.maps.PortForwards, p.nat.portForwards)
	for _, k := range portForwards {
		p.rerouted[k.Router] = true
	}
	return errors.Join(err, eg.takePorts(portForwards))
}

// takePorts deletes the sessions that have ports of new forwards, unless they lead to the same host. The
// programs give those ports to nobody any more.
func (eg *Egress) takePorts(forwards []bpfPortForwardKey) error {
	if len(forwards) == 0 {
		return nil
	}
	fresh := make(map[bpfPortForwardKey]bool, len(forwards))
	for _, k := range forwards {
		fresh[k] = true
	}
	gone := map[bpfCtKey]bpfCtKey{}
	err := walk(eg.sessions.maps.NatReverse, func(back bpfCtKey, o bpfNatOrig) {
		at := bpfPortForwardKey{Router: back.Zone, Proto: back.Proto, Port: back.InsidePort, Addr: back.Inside}
		if !fresh[at] || !eg.sessions.isForwardedElsewhere(&back, o) {
			return
		}
		gone[back] = sessionKey(back, o)
	})
	for back, k := range gone {
		err = errors.Join(err, ignoreMissing(eg.sessions.maps.NatSessions.Delete(k)), eg.sessions.deleteReturn(&back))
	}
	return err
}

// engage has packets be translated, before routes lead them to where they have to be.
func (eg *Egress) engage(p *plan) error {
	for id := range p.nat.routers {
		if err := eg.routes.putRouter(id, false); err != nil {
			return err
		}
	}
	if p.nat.rules.late {
		return nil
	}
	return eg.policies.putEgressRules(p)
}

// pruneTranslation ends translations that are no longer wanted, when the routes are gone
// by which something could leave without them.
func (eg *Egress) pruneTranslation(p *plan) error {
	errs := []error{pruneMap(eg.sessions.maps.PortForwards, p.nat.portForwards, func(k bpfPortForwardKey) error { return eg.routes.reroute(k.Router) })}
	if p.nat.rules.late {
		errs = append(errs, eg.policies.putEgressRules(p))
	}
	for id, vport := range p.nat.segments {
		eg.numbers.segments[id].Flags, eg.numbers.segments[id].Egress = vport.Flags, vport.Egress
		errs = append(errs, eg.untranslate(id, vport))
	}
	for id := range eg.numbers.names.routers {
		if eg.numbers.routers[id].Flags != p.nat.routers[id] || p.nat.rules.late && p.nat.rules.swapped {
			eg.numbers.routers[id].Flags = p.nat.routers[id]
			errs = append(errs, eg.routes.putRouter(id, true))
		}
	}
	return errors.Join(append(errs, eg.pruneEgresses())...)
}

// untranslate ends what a segment translates.
func (eg *Egress) untranslate(id uint32, vport bpfSegment) error {
	var now bpfSegment
	if err := eg.numbers.maps.Segments.Lookup(id, &now); err != nil {
		return fmt.Errorf("read segment %d: %w", id, err)
	}
	now.Flags, now.Egress = vport.Flags, vport.Egress
	now.Generation += generationStep
	if err := eg.numbers.maps.Segments.Put(id, now); err != nil {
		return fmt.Errorf("write segment %d: %w", id, err)
	}
	return nil
}

// reroute has the flows of a router decided anew.
func (ro *Routes) reroute(id uint32) error {
	if _, ok := ro.numbers.names.routers[id]; !ok {
		return nil
	}
	return ro.putRouter(id, true)
}

// pruneEgresses frees the numbers of egresses that went, and removes their sessions, which
// the number's next owner must not get.
func (eg *Egress) pruneEgresses() error {
	eg.changing.Lock()
	defer eg.changing.Unlock()
	orphans := false
	for id := range eg.numbers.egresses {
		if _, ok := eg.numbers.names.egresses[uint32(id)]; ok || eg.numbers.egresses[id].Used == 0 {
			continue
		}
		if err := eg.putEgressEntry(uint32(id), bpfEgressPolicy{}); err != nil {
			return err
		}
		orphans = true
	}
	if !orphans || eg.prog.cfg.Egress == nil {
		return nil
	}
	_, err := eg.sessions.table.sweep()
	return err
}
