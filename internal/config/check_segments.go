package config

import (
	"fmt"
	"net/netip"
	"slices"
)

// segmentChecker checks what segments say about hosts.
type segmentChecker struct {
	file     *fileErrors
	doc      *document
	declared declared
}

func (c segmentChecker) check() {
	for i, s := range c.doc.Spec.Segments {
		c.segment(fmt.Sprintf("spec.segments[%d]", i), s)
	}
}

func (c segmentChecker) segment(path string, s segment) {
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
	if routers, complete := c.declared.routerNames(); complete && !slices.Contains(routers, string(s.Gateway.Router)) {
		c.file.problem(path+".gateway.router", fmt.Sprintf("there is no router %q", s.Gateway.Router), suggest(string(s.Gateway.Router), routers, "routers"))
	}
}

func (c segmentChecker) staticMACs(path string, s segment) {
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

func (c segmentChecker) staticPort(path string, s segment, name objectName) {
	var here []string
	for i, p := range c.doc.Spec.Ports {
		if p.Name == "" || len(c.declared.members[i]) == 0 {
			return // incomplete: it may be this one
		}
		for _, m := range c.declared.members[i] {
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

func (c segmentChecker) staticRemote(path string, s segment, ref remoteRef) {
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
func (c segmentChecker) neighbours(path string, s segment) {
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
