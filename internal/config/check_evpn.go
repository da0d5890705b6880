package config

import (
	"fmt"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// instance is a segment, or that of a router, of which others are told by EVPN.
type instance struct {
	path string // of its network
	vni  uint32
	*evpn
}

// evpnChecker compares the EVPN instances.
type evpnChecker struct {
	file *fileErrors
	doc  *document
}

func (c evpnChecker) instances() (list []instance) {
	for i, s := range c.doc.Spec.Segments {
		if s.EVPN != nil {
			list = append(list, instance{fmt.Sprintf("spec.segments[%d]", i), s.VNI, s.EVPN})
		}
	}
	for i, r := range c.doc.Spec.Routers {
		if r.L3 != nil && r.L3.EVPN != nil {
			list = append(list, instance{fmt.Sprintf("spec.routers[%d].l3", i), r.L3.VNI, &r.L3.EVPN.evpn})
			given := unique[evpnSource]{}
			for j, s := range r.L3.EVPN.Announce {
				given.add(c.file, s, "", fmt.Sprintf("spec.routers[%d].l3.evpn.advertise[%d]", i, j), fmt.Sprintf("%s is already listed", s), "keep one")
			}
		}
	}
	return list
}

// check refuses instances that have nobody to tell, and those that nothing tells apart there.
func (c evpnChecker) check() {
	list := c.instances()
	numbers, distinguishers := unique[uint32]{}, unique[overlay.RouteDistinguisher]{}
	for _, e := range list {
		at := e.path + ".evpn"
		if c.doc.Spec.BGP == nil && !c.file.failedIn("spec", "bgp") {
			c.file.problem(at, "EVPN needs BGP, which is not configured", "add spec.bgp, with a neighbour such as a route reflector")
		}
		numbers.add(c.file, e.vni, 0, e.path+".vni", fmt.Sprintf("VNI %d belongs to another EVPN instance", e.vni), "EVPN knows a segment by its VNI, whatever its encapsulation and port: choose another")
		distinguishers.add(c.file, e.RD.RouteDistinguisher, 0, at+".rd", fmt.Sprintf("%s belongs to another instance", e.RD), "each instance of each edge needs its own; without the line it is automatic")
		c.targetsOnce(at+".import", e.Import)
		c.targetsOnce(at+".export", e.Export)
	}
	b := c.doc.Spec.BGP
	if len(list) == 0 || b == nil || c.file.failedIn("spec.bgp", "neighbours") {
		return
	}
	for i, n := range b.Neighbours {
		if c.file.failedIn(fmt.Sprintf("spec.bgp.neighbours[%d]", i), "families", "uplink") || slices.Contains(n.Families, "") ||
			slices.Contains(c.doc.families(n), overlay.FamilyEVPN) {
			return
		}
	}
	c.file.problem("spec.bgp.neighbours", "none exchanges evpn, which "+list[0].path+" needs", "add evpn to the families of one, or remove evpn there")
}

func (c evpnChecker) targetsOnce(path string, list []routeTarget) {
	listed := unique[overlay.RouteTarget]{}
	for j, t := range list {
		listed.add(c.file, t.RouteTarget, 0, fmt.Sprintf("%s[%d]", path, j), fmt.Sprintf("%s is already listed", t), "keep one")
	}
}
