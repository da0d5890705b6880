package config

import (
	"fmt"
	"net/netip"
	"slices"
)

// What the data path's tables hold (bpf/abi.h), less their unused first entry.
const (
	maxUDPPorts = 8
	maxSegments = 4095
	maxMembers  = 1024 // ports and remotes of one segment
	maxEnds     = 8191 // ports and remotes of one edge
)

// checker compares the fields of a document with each other. A field that was
// missing or did not decode is zero, already reported, and not compared.
type checker struct {
	*decoder
	doc *document
}

func checkDocument(d *decoder, doc *document) {
	c := checker{d, doc}
	c.interfaces()
	c.segments()
	c.ports()
	for i := range doc.Spec.Segments {
		c.remotes(i)
		c.staticMACs(i)
	}
	c.limits()
}

// problem reports at path.
func (c checker) problem(path, message, hint string) {
	c.report(c.at(path), path, message, hint)
}

// unique knows the path of every value and reports one that comes again.
type unique[T comparable] map[T]string

func (u unique[T]) add(c checker, value, zero T, path, message, hint string) {
	if value == zero {
		return
	}
	first, twice := u[value]
	if !twice {
		u[value] = path
		return
	}
	c.problem(path, fmt.Sprintf("%s (%s, line %d)", message, first, c.at(first).Line), hint)
}

func (c checker) interfaces() {
	used := unique[interfaceName]{}
	for i, name := range c.doc.Spec.Underlay.Interfaces {
		used.add(c, name, "", fmt.Sprintf("spec.underlay.interfaces[%d]", i),
			fmt.Sprintf("interface %q is used already", name), "keep one")
	}
	for i, p := range c.doc.Spec.Ports {
		used.add(c, p.Interface, "", fmt.Sprintf("spec.ports[%d].interface", i),
			fmt.Sprintf("interface %q is used already", p.Interface), "an interface is one port or underlay")
	}
}

func (c checker) segments() {
	type tunnel struct {
		vni  uint32
		port uint16
	}
	named, numbered, ports := unique[objectName]{}, unique[tunnel]{}, map[uint16]bool{}
	for i, s := range c.doc.Spec.Segments {
		path := fmt.Sprintf("spec.segments[%d]", i)
		named.add(c, s.Name, "", path+".name", fmt.Sprintf("segment %q exists already", s.Name), "names are unique")
		id := tunnel{s.VNI, s.UDPPort}
		if id.vni == 0 || id.port == 0 {
			id = tunnel{}
		}
		numbered.add(c, id, tunnel{}, path+".vni", fmt.Sprintf("VNI %d on UDP port %d is taken", s.VNI, s.UDPPort),
			"choose another vni or udpPort, or make them one segment")
		if s.UDPChecksum && c.doc.Spec.Underlay.TEP.Is4() {
			c.problem(path+".udpChecksum", "an IPv4 underlay always sends UDP checksum zero (RFC 7348 section 5)",
				"remove the line; it is for IPv6")
		}
		if s.UDPPort == 0 || ports[s.UDPPort] {
			continue
		}
		if ports[s.UDPPort] = true; len(ports) > maxUDPPorts {
			c.problem(path+".udpPort", fmt.Sprintf("UDP port %d is one more than the %d that an edge can listen on", s.UDPPort, maxUDPPorts),
				"let segments share ports; the vni tells them apart")
		}
	}
}

func (c checker) ports() {
	segments, complete := c.segmentNames()
	named := unique[objectName]{}
	for i, p := range c.doc.Spec.Ports {
		path := fmt.Sprintf("spec.ports[%d]", i)
		named.add(c, p.Name, "", path+".name", fmt.Sprintf("port %q exists already", p.Name), "names are unique")
		if p.Segment != "" && complete && !slices.Contains(segments, string(p.Segment)) {
			c.problem(path+".segment", fmt.Sprintf("there is no segment %q", p.Segment), suggest(string(p.Segment), segments, "segments"))
		}
	}
}

// segmentNames returns the names and whether they are all that the file has.
func (c checker) segmentNames() (list []string, complete bool) {
	for _, s := range c.doc.Spec.Segments {
		if s.Name == "" {
			return nil, false
		}
		list = append(list, string(s.Name))
	}
	return list, !c.failed["spec.segments"]
}

func (c checker) remotes(i int) {
	tep := c.doc.Spec.Underlay.TEP.Addr
	listed := unique[netip.Addr]{}
	for j, r := range c.doc.Spec.Segments[i].Remotes {
		path := fmt.Sprintf("spec.segments[%d].remotes[%d]", i, j)
		listed.add(c, r.Addr, netip.Addr{}, path, fmt.Sprintf("remote %s is listed already", r), "keep one")
		if !r.IsValid() || !tep.IsValid() {
			continue
		}
		switch {
		case r.Addr == tep:
			c.problem(path, fmt.Sprintf("overlapping addresses: %s is this edge's own tep", r), "list the other edges only")
		case r.Is4() != tep.Is4():
			c.problem(path, fmt.Sprintf("%s is %s but the tep %s is %s", r, family(r.Addr), tep, family(tep)),
				"one underlay is IPv4 or IPv6")
		}
	}
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

func (c checker) staticMACs(i int) {
	s := c.doc.Spec.Segments[i]
	known := unique[macAddress]{}
	for j, f := range s.FDB {
		path := fmt.Sprintf("spec.segments[%d].fdb[%d]", i, j)
		known.add(c, f.MAC, macAddress{}, path+".mac", fmt.Sprintf("%s has an entry already", f.MAC), "an address is in one place")
		_, port := c.seen[path+".port"]
		_, remote := c.seen[path+".remote"]
		switch {
		case port && remote:
			c.problem(path, "both port and remote are given", "keep the one behind which the address is")
		case !port && !remote:
			if !c.failed[path] { // else it is no entry at all
				c.problem(path, "neither port nor remote is given", "add the one behind which the address is")
			}
		case port && f.Port != "":
			c.staticPort(path+".port", s, f.Port)
		case remote && f.Remote.IsValid():
			if !c.failed[fmt.Sprintf("spec.segments[%d].remotes", i)] {
				c.staticRemote(path+".remote", s, f.Remote.Addr)
			}
		}
	}
}

func (c checker) staticPort(path string, s segment, name objectName) {
	var here []string
	for _, p := range c.doc.Spec.Ports {
		switch {
		case p.Name == "" || p.Segment == "":
			return // incomplete: it may be this one
		case p.Segment == s.Name:
			here = append(here, string(p.Name))
		case p.Name == name:
			c.problem(path, fmt.Sprintf("port %q is in segment %q, not %q", name, p.Segment, s.Name),
				"move the entry to that segment")
			return
		}
	}
	if s.Name != "" && !c.failed["spec.ports"] && !slices.Contains(here, string(name)) {
		c.problem(path, fmt.Sprintf("segment %q has no port %q", s.Name, name), suggest(string(name), here, "ports in the segment"))
	}
}

func (c checker) staticRemote(path string, s segment, addr netip.Addr) {
	for _, r := range s.Remotes {
		if !r.IsValid() || r.Addr == addr {
			return
		}
	}
	if s.Name != "" {
		c.problem(path, fmt.Sprintf("%s is not a remote of segment %q", addr, s.Name), "add it to the segment's remotes")
	}
}

// limits reports what does not fit in the data path's tables.
func (c checker) limits() {
	s := &c.doc.Spec
	tooMany := func(path string, have, limit int, what, hint string) {
		if have > limit {
			c.problem(path, fmt.Sprintf("%d %s, at most %d", have, what, limit), hint)
		}
	}
	tooMany("spec.segments", len(s.Segments), maxSegments, "segments", "divide them among several edges")
	static, remotes, members := 0, map[netip.Addr]bool{}, map[objectName]int{}
	for _, p := range s.Ports {
		members[p.Segment]++
	}
	for i, g := range s.Segments {
		static += len(g.FDB)
		for _, r := range g.Remotes {
			remotes[r.Addr] = true
		}
		tooMany(fmt.Sprintf("spec.segments[%d]", i), members[g.Name]+len(g.Remotes), maxMembers, "ports and remotes in one segment",
			"divide the segment, flooding to so many costs too much")
	}
	tooMany("spec", len(s.Ports)+len(remotes), maxEnds, "ports and remotes", "divide them among several edges")
	if s.FDB.Size > 0 {
		tooMany("spec.fdb", static, int(s.FDB.Size), "static MAC addresses", "raise spec.fdb.size, with room for learned ones")
	}
}
