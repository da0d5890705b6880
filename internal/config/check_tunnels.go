package config

import (
	"fmt"
	"net/netip"

	"github.com/selvage/selvage/internal/overlay"
)

// tunnelChecker compares the tunnels of segments.
type tunnelChecker struct {
	file *fileErrors
	doc  *document
}

// check compares what tells the tunnels of segments apart when they arrive.
func (c tunnelChecker) check() {
	type identity struct {
		vni  uint32
		port uint16 // 0 with nvgre
	}
	numbered, ports, first := unique[identity]{}, map[uint16]string{}, map[uint16]string{}
	c.doc.eachNetwork(func(path string, n *overlayNetwork) {
		c.fields(path, n)
		c.remotesOnce(path, n.Remotes)
		kind, port := overlay.Encapsulation(n.Encapsulation), n.udpPort()
		if kind == "" || c.file.failed[path+".udpPort"] {
			return
		}
		taken, hint := fmt.Sprintf("VNI %d on UDP port %d is taken", n.VNI, port), "choose another vni or udpPort, or make them one segment"
		if kind == overlay.NVGRE {
			port = 0
			taken, hint = fmt.Sprintf("VSID %d of nvgre is taken", n.VNI), "choose another vni, or make them one segment"
		}
		if n.VNI != 0 {
			numbered.add(c.file, identity{n.VNI, port}, identity{}, path+".vni", taken, hint)
		}
		if kind == overlay.NVGRE {
			return
		}
		switch other, known := ports[port]; {
		case known && other != n.Encapsulation:
			c.file.problem(path+".udpPort", fmt.Sprintf("UDP port %d already carries %s (%s)", port, other, c.file.place(path+".udpPort", first[port])),
				fmt.Sprintf("give %s a port of its own, as in %d", n.Encapsulation, kind.DefaultUDPPort()))
		case !known:
			ports[port], first[port] = n.Encapsulation, path
			if len(ports) > maxUDPPorts {
				c.file.problem(path+".udpPort", fmt.Sprintf("UDP port %d is beyond the %d ports that an edge can listen on", port, maxUDPPorts),
					"let segments share ports; the vni tells them apart")
			}
		}
	})
}

// fields checks what an encapsulation does not have.
func (c tunnelChecker) fields(path string, n *overlayNetwork) {
	kind := overlay.Encapsulation(n.Encapsulation)
	_, port := c.file.seen[path+".udpPort"]
	switch {
	case kind == overlay.NVGRE && port:
		c.file.problem(path+".udpPort", "nvgre has no UDP port (RFC 7637 section 3.1: it is GRE)", "remove the line")
	case kind != "" && kind != overlay.Geneve && len(n.Options) > 0:
		c.file.problem(path+".options", fmt.Sprintf("%s has no options", kind), "remove the line; it is for geneve")
	case kind != "" && kind != overlay.VXLAN && n.UDPChecksum:
		c.file.problem(path+".udpChecksum", fmt.Sprintf("there are no outer UDP checksums with %s", kind), "remove the line; it is for vxlan")
	case n.UDPChecksum && c.doc.Spec.Underlay.firstTEP().Is4():
		c.file.problem(path+".udpChecksum", "an IPv4 underlay always sends UDP checksum zero (RFC 7348 section 5)",
			"remove the line; it is for IPv6")
	}
}

// remotesOnce checks that a segment has each edge once, by whatever it is called.
func (c tunnelChecker) remotesOnce(path string, list []remoteRef) {
	listed := unique[netip.Addr]{}
	for j, r := range list {
		listed.add(c.file, r.Addr, netip.Addr{}, fmt.Sprintf("%s.remotes[%d]", path, j), fmt.Sprintf("remote %s is already listed", r), "keep one")
	}
}

// eachNetwork calls visit for every segment that has tunnels: the configured
// ones, those between routers and those of egress policies.
func (d *document) eachNetwork(visit func(path string, n *overlayNetwork)) {
	for i := range d.Spec.Segments {
		visit(fmt.Sprintf("spec.segments[%d]", i), &d.Spec.Segments[i].overlayNetwork)
	}
	for i, r := range d.Spec.Routers {
		if r.L3 != nil {
			visit(fmt.Sprintf("spec.routers[%d].l3", i), &r.L3.overlayNetwork)
		}
	}
	if e := d.Spec.Egress; e != nil {
		for i := range e.Policies {
			visit(fmt.Sprintf("spec.egress.policies[%d]", i), &e.Policies[i].overlayNetwork)
		}
	}
}
