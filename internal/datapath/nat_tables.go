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
func (d *Datapath) egressSegments(t fib.Tables) map[string]uint32 {
	all := map[string]uint32{}
	for _, e := range t.Egress {
		name := e.Segment
		if name == "" {
			name = e.Uplink
		}
		all[name] = d.names.egressIDs[e.Name]
	}
	return all
}

// translate plans what of a segment is translated.
func (d *Datapath) translate(id uint32, s overlay.Segment, segment *bpfSegment, t fib.Tables, p *plan) {
	segment.Egress = uint16(p.nat.bySegment[s.Name])
	if s.VNI == 0 {
		segment.Flags |= bpfSegmentFlagsSEGMENT_UPLINK
	}
	if slices.Contains(t.Translated, s.Name) {
		segment.Flags |= bpfSegmentFlagsSEGMENT_TRANSLATED
	}
	segment.Inbound = inboundOf(s, t)
	vport, before := *segment, d.segments[id]
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
func (d *Datapath) planTranslation(t fib.Tables, p *plan) error {
	d.nat.changing.Lock()
	defer d.nat.changing.Unlock()
	d.nat.own = make(map[bpfLocalKey]bool, len(p.locals))
	for k := range p.locals {
		d.nat.own[k] = true
	}
	var err error
	p.nat.egresses, err = d.planEgresses(t.Egress)
	p.unplaced.add(err)
	for k, segment := range p.nat.egresses.owned {
		p.locals[k] = segment
	}
	for _, id := range p.nat.egresses.hops {
		p.hops[id] = true
	}
	for id := range d.names.egresses {
		if p.nat.egresses.entries[id] == nil { // it stays as it is
			d.nat.entries[id].eachHop(func(hop uint16) { p.hops[hop] = true })
		}
	}
	if err := d.planPortForwards(t.PortForwards, p); err != nil {
		return err
	}
	d.planUplinks(t, p)
	d.planRouterFlags(t, p)
	p.nat.rules, err = d.planEgressRules(t)
	return err
}

func (d *Datapath) planPortForwards(list []fib.Forward, p *plan) error {
	for _, f := range list {
		router, hasRouter := d.names.routeIDs[f.Router]
		egress, hasEgress := d.names.egressIDs[f.Egress]
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

// planUplinks marks the addresses of uplinks that translate to them.
func (d *Datapath) planUplinks(t fib.Tables, p *plan) {
	translating := map[string]bool{}
	for _, e := range t.Egress {
		translating[e.Uplink] = translating[e.Uplink] || e.Segment == ""
	}
	for _, s := range t.Segments {
		if s.Gateway == nil || !translating[s.Name] {
			continue
		}
		global, _ := gatewayAddrs(s.Gateway)
		for _, addr := range global {
			p.locals[localKey(d.names.routeIDs[s.Gateway.Router], addr)] |= localNAT
		}
	}
}

// planRouterFlags has routers keep the flags that they lose until the end.
func (d *Datapath) planRouterFlags(t fib.Tables, p *plan) {
	for _, e := range t.Egress {
		id := d.names.routeIDs[e.Router]
		p.nat.routers[id] |= bpfRouterFlagsROUTER_NAT
		if e.Segment != "" {
			p.nat.routers[id] |= bpfRouterFlagsROUTER_EGRESS
		}
	}
	for _, f := range t.PortForwards {
		p.nat.routers[d.names.routeIDs[f.Router]] |= bpfRouterFlagsROUTER_NAT
	}
	for _, name := range t.Translated {
		if router := d.segments[d.names.segIDs[name]].Router; router != 0 {
			p.nat.routers[router] |= bpfRouterFlagsROUTER_NAT
		}
	}
	for id := range d.names.routers {
		if now := d.routers[id].Flags; now|p.nat.routers[id] != now {
			d.routers[id].Flags |= p.nat.routers[id]
			p.rerouted[id] = true
		}
	}
}

// writeTranslation writes what segments and rules point at.
func (d *Datapath) writeTranslation(p *plan) error {
	d.nat.changing.Lock()
	defer d.nat.changing.Unlock()
	changed, err := d.writeEgresses(p.nat.egresses)
	if err != nil {
		return err
	}
	d.nat.owned = p.nat.egresses.owned
	for id := range changed {
		p.rerouted[id] = true
	}
	portForwards, err := put(d.objs.PortForwards, p.nat.portForwards)
	for _, k := range portForwards {
		p.rerouted[k.Router] = true
	}
	return errors.Join(err, d.takePorts(portForwards))
}

// takePorts deletes the sessions that have ports of new forwards, unless they lead to the same host. The
// programs give those ports to nobody any more.
func (d *Datapath) takePorts(forwards []bpfPortForwardKey) error {
	if len(forwards) == 0 {
		return nil
	}
	fresh := make(map[bpfPortForwardKey]bool, len(forwards))
	for _, k := range forwards {
		fresh[k] = true
	}
	gone := map[bpfCtKey]bpfCtKey{}
	err := walk(d.objs.NatReverse, func(back bpfCtKey, o bpfNatOrig) {
		at := bpfPortForwardKey{Router: back.Zone, Proto: back.Proto, Port: back.InsidePort, Addr: back.Inside}
		if !fresh[at] || !d.isForwardedElsewhere(&back, o) {
			return
		}
		gone[back] = sessionKey(back, o)
	})
	for back, k := range gone {
		err = errors.Join(err, ignoreMissing(d.objs.NatSessions.Delete(k)), d.deleteReturn(&back))
	}
	return err
}

// engage has packets be translated, before routes lead them to where they have to be.
func (d *Datapath) engage(p *plan) error {
	for id := range p.nat.routers {
		if err := d.putRouter(id, false); err != nil {
			return err
		}
	}
	if p.nat.rules.late {
		return nil
	}
	return d.putEgressRules(p)
}

// pruneTranslation ends translations that are no longer wanted, when the routes are gone
// by which something could leave without them.
func (d *Datapath) pruneTranslation(p *plan) error {
	errs := []error{pruneMap(d.objs.PortForwards, p.nat.portForwards, func(k bpfPortForwardKey) error { return d.reroute(k.Router) })}
	if p.nat.rules.late {
		errs = append(errs, d.putEgressRules(p))
	}
	for id, vport := range p.nat.segments {
		d.segments[id].Flags, d.segments[id].Egress = vport.Flags, vport.Egress
		errs = append(errs, d.untranslate(id, vport))
	}
	for id := range d.names.routers {
		if d.routers[id].Flags != p.nat.routers[id] || p.nat.rules.late && p.nat.rules.swapped {
			d.routers[id].Flags = p.nat.routers[id]
			errs = append(errs, d.putRouter(id, true))
		}
	}
	return errors.Join(append(errs, d.pruneEgresses())...)
}

// untranslate ends what a segment translates.
func (d *Datapath) untranslate(id uint32, vport bpfSegment) error {
	var now bpfSegment
	if err := d.objs.Segments.Lookup(id, &now); err != nil {
		return fmt.Errorf("read segment %d: %w", id, err)
	}
	now.Flags, now.Egress = vport.Flags, vport.Egress
	now.Generation += generationStep
	if err := d.objs.Segments.Put(id, now); err != nil {
		return fmt.Errorf("write segment %d: %w", id, err)
	}
	return nil
}

// reroute has the flows of a router decided anew.
func (d *Datapath) reroute(id uint32) error {
	if _, ok := d.names.routers[id]; !ok {
		return nil
	}
	return d.putRouter(id, true)
}

// pruneEgresses frees the numbers of egresses that went, and removes their sessions, which
// the number's next owner must not get.
func (d *Datapath) pruneEgresses() error {
	d.nat.changing.Lock()
	defer d.nat.changing.Unlock()
	orphans := false
	for id := range d.nat.entries {
		if _, ok := d.names.egresses[uint32(id)]; ok || d.nat.entries[id].Used == 0 {
			continue
		}
		if err := d.putEgressEntry(uint32(id), bpfEgressPolicy{}); err != nil {
			return err
		}
		orphans = true
	}
	if !orphans || d.cfg.Egress == nil {
		return nil
	}
	_, err := d.nat.sessions.sweep()
	return err
}
