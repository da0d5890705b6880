package config

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// eachNetwork calls visit for every segment that has tunnels: the configured
// ones, those between routers and those of egress policies.
func (c checker) eachNetwork(visit func(path string, n *overlayNetwork)) {
	for i := range c.doc.Spec.Segments {
		visit(fmt.Sprintf("spec.segments[%d]", i), &c.doc.Spec.Segments[i].overlayNetwork)
	}
	for i, r := range c.doc.Spec.Routers {
		if r.L3 != nil {
			visit(fmt.Sprintf("spec.routers[%d].l3", i), &r.L3.overlayNetwork)
		}
	}
	if e := c.doc.Spec.Egress; e != nil {
		for i := range e.Policies {
			visit(fmt.Sprintf("spec.egress.policies[%d]", i), &e.Policies[i].overlayNetwork)
		}
	}
}

// tunnels checks what tells the tunnels of segments apart when they arrive.
func (c checker) tunnels() {
	type identity struct {
		vni  uint32
		port uint16 // 0 with nvgre
	}
	numbered, ports, first := unique[identity]{}, map[uint16]string{}, map[uint16]string{}
	c.eachNetwork(func(path string, n *overlayNetwork) {
		c.tunnelFields(path, n)
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
			c.file.problem(path+".udpPort", fmt.Sprintf("UDP port %d already carries %s (%s, line %d)", port, other, first[port], c.file.at(first[port]).Line),
				fmt.Sprintf("give %s a port of its own, as in %d", n.Encapsulation, kind.DefaultUDPPort()))
		case !known:
			ports[port], first[port] = n.Encapsulation, path
			c.probePort(path, port)
			if len(ports) > maxUDPPorts {
				c.file.problem(path+".udpPort", fmt.Sprintf("UDP port %d is beyond the %d ports that an edge can listen on", port, maxUDPPorts),
					"let segments share ports; the vni tells them apart")
			}
		}
	})
}

// probePort checks that tunnels leave offload probes their port.
func (c checker) probePort(path string, port uint16) {
	if p := c.doc.Spec.Underlay.Offload; p != nil && p.Port == port {
		c.file.problem("spec.underlay.offloadProbe.port", fmt.Sprintf("UDP port %d already carries tunnels (%s)", port, path),
			"give the probes another one, the same on all edges")
	}
}

// tunnelFields checks what an encapsulation does not have.
func (c checker) tunnelFields(path string, n *overlayNetwork) {
	kind := overlay.Encapsulation(n.Encapsulation)
	_, port := c.file.seen[path+".udpPort"]
	switch {
	case kind == overlay.NVGRE && port:
		c.file.problem(path+".udpPort", "nvgre has no UDP port (RFC 7637 section 3.1: it is GRE)", "remove the line")
	case kind != "" && kind != overlay.Geneve && len(n.Options) > 0:
		c.file.problem(path+".options", fmt.Sprintf("%s has no options", kind), "remove the line; it is for geneve")
	case kind != "" && kind != overlay.VXLAN && n.UDPChecksum:
		c.file.problem(path+".udpChecksum", fmt.Sprintf("there are no outer UDP checksums with %s", kind), "remove the line; it is for vxlan")
	case n.UDPChecksum && c.ownTEP().Is4():
		c.file.problem(path+".udpChecksum", "an IPv4 underlay always sends UDP checksum zero (RFC 7348 section 5)",
			"remove the line; it is for IPv6")
	}
}

// remotesOnce checks that a segment has each edge once, by whatever it is called.
func (c checker) remotesOnce(path string, list []remoteRef) {
	listed := unique[netip.Addr]{}
	for j, r := range list {
		listed.add(c.file, r.Addr, netip.Addr{}, fmt.Sprintf("%s.remotes[%d]", path, j), fmt.Sprintf("remote %s is already listed", r), "keep one")
	}
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

// segment checks what segment i says about hosts.
func (c checker) segment(i int) {
	s, path := c.doc.Spec.Segments[i], fmt.Sprintf("spec.segments[%d]", i)
	c.staticMACs(path, s)
	c.neighbours(path, s)
	families := unique[string]{}
	for j, a := range s.TooBigFrom {
		if a.IsValid() {
			families.add(c.file, family(a.Addr), "", fmt.Sprintf("%s.icmpSources[%d]", path, j),
				fmt.Sprintf("there is already a source for %s", family(a.Addr)), "keep one per family")
		}
	}
	if s.Gateway == nil || s.Gateway.Router == "" {
		return
	}
	if routers, complete := c.routerNames(); complete && !slices.Contains(routers, string(s.Gateway.Router)) {
		c.file.problem(path+".gateway.router", fmt.Sprintf("there is no router %q", s.Gateway.Router), suggest(string(s.Gateway.Router), routers, "routers"))
	}
}

func (c checker) staticMACs(path string, s segment) {
	known := unique[macAddress]{}
	for j, f := range s.FDB {
		at := fmt.Sprintf("%s.fdb[%d]", path, j)
		known.add(c.file, f.MAC, macAddress{}, at+".mac", fmt.Sprintf("%s already has an entry", f.MAC), "an address can be in only one place")
		_, port := c.file.seen[at+".port"]
		_, remote := c.file.seen[at+".remote"]
		switch {
		case port && remote:
			c.file.problem(at, "both port and remote are given", "keep the one that the address is behind")
		case !port && !remote:
			if !c.file.failed[at] { // else it is no entry at all, or not ours to read
				c.file.problem(at, "neither port nor remote is given", "add the one that the address is behind")
			}
		case port && f.Port != "":
			c.staticPort(at+".port", s, f.Port)
		case remote && f.Remote.IsValid():
			if !c.file.failed[path+".remotes"] {
				c.staticRemote(at+".remote", s, f.Remote)
			}
		}
	}
}

func (c checker) staticPort(path string, s segment, name objectName) {
	var here []string
	for i, p := range c.doc.Spec.Ports {
		if p.Name == "" || len(c.members[i]) == 0 {
			return // incomplete: it may be this one
		}
		for _, m := range c.members[i] {
			switch {
			case m.segment == "":
				return
			case m.segment == s.Name:
				here = append(here, m.name)
			case m.name == string(name):
				c.file.problem(path, fmt.Sprintf("port %q is in segment %q, not %q", name, m.segment, s.Name),
					"move the entry to that segment")
				return
			}
		}
	}
	if s.Name != "" && !c.file.failed["spec.ports"] && !slices.Contains(here, string(name)) {
		c.file.problem(path, fmt.Sprintf("segment %q has no port %q", s.Name, name), suggest(string(name), here, "ports in the segment"))
	}
}

func (c checker) staticRemote(path string, s segment, ref remoteRef) {
	for _, r := range s.Remotes {
		if !r.IsValid() || r.Addr == ref.Addr {
			return
		}
	}
	if s.Name != "" {
		c.file.problem(path, fmt.Sprintf("%s is not a remote of segment %q", ref, s.Name), "add it to the segment's remotes")
	}
}

// neighbours checks that an address is one host's, and no gateway's.
func (c checker) neighbours(path string, s segment) {
	known := unique[netip.Addr]{}
	for j, n := range s.Neighbours {
		at := fmt.Sprintf("%s.neighbours[%d].address", path, j)
		known.add(c.file, n.Address.Addr, netip.Addr{}, at, fmt.Sprintf("%s already has an entry", n.Address), "an address can have only one MAC address")
		if s.Gateway == nil || !n.Address.IsValid() {
			continue
		}
		own := slices.ContainsFunc(s.Gateway.Addresses, func(a interfacePrefix) bool { return a.Addr() == n.Address.Addr })
		if own {
			c.file.problem(at, fmt.Sprintf("%s is the gateway's own address", n.Address), "list hosts only")
		}
	}
}
