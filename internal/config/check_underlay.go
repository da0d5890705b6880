package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// underlayChecker checks the tunnel endpoints of this edge.
type underlayChecker struct {
	file *fileErrors
	doc  *document
}

func (c underlayChecker) check() {
	const path = "spec.underlay"
	u := c.doc.Spec.Underlay
	_, given := c.file.seen[path]
	_, several := c.file.seen[path+".teps"]
	about := map[string]string{}
	for _, f := range fieldsOf(reflect.TypeFor[underlay]()) {
		about[f.name] = f.about
	}
	for _, name := range []string{"interfaces", "tep"} {
		_, one := c.file.seen[path+"."+name]
		switch {
		case one && several:
			c.file.problem(path+"."+name, "cannot be combined with teps", "remove it: each of the teps has its address and interface")
		case !one && !several && given && !c.file.failed[path]:
			c.file.problem(path+"."+name, "is missing", "add it: "+about[name])
		}
	}
	if len(u.TEPs) > overlay.MaxTEPs {
		c.file.problem(path+".teps", fmt.Sprintf("%d tunnel endpoints, at most %d", len(u.TEPs), overlay.MaxTEPs), "keep fewer")
	}
	names, addresses := unique[objectName]{}, unique[netip.Addr]{}
	first := c.doc.Spec.Underlay.firstTEP()
	for i, t := range u.TEPs {
		at := fmt.Sprintf("%s.teps[%d]", path, i)
		names.add(c.file, t.Name, "", at+".name", fmt.Sprintf("tunnel endpoint %q already exists", t.Name), "names are unique")
		addresses.add(c.file, t.Address.Addr, netip.Addr{}, at+".address", fmt.Sprintf("%s is already a tunnel endpoint", t.Address), "keep one")
		if t.Address.IsValid() && t.Address.Is4() != first.Is4() {
			otherFamily(c.file, at+".address", t.Address.Addr, first)
		}
	}
}

// pins checks the tunnel endpoints that segments are pinned to.
func (c underlayChecker) pins() {
	var known []string
	complete := !c.file.failedIn("spec.underlay", "teps")
	for _, t := range c.doc.Spec.Underlay.TEPs {
		complete = complete && t.Name != ""
		known = append(known, string(t.Name))
	}
	c.doc.eachNetwork(func(path string, n *overlayNetwork) {
		listed := unique[objectName]{}
		for j, name := range n.TEPs {
			at := fmt.Sprintf("%s.teps[%d]", path, j)
			listed.add(c.file, name, "", at, fmt.Sprintf("tunnel endpoint %q is already listed", name), "keep one")
			if name != "" && complete && !slices.Contains(known, string(name)) {
				c.file.problem(at, fmt.Sprintf("there is no tunnel endpoint %q", name), suggest(string(name), known, "named ones, see spec.underlay.teps"))
			}
		}
	})
}

// firstTEP is the first address of this edge, unset when none could be read.
func (u underlay) firstTEP() netip.Addr {
	if u.TEP.IsValid() {
		return u.TEP.Addr
	}
	for _, t := range u.TEPs {
		if t.Address.IsValid() {
			return t.Address.Addr
		}
	}
	return netip.Addr{}
}

// hasTEP reports whether addr is a tunnel endpoint of this edge.
func (u underlay) hasTEP(addr netip.Addr) bool {
	return addr == u.TEP.Addr || slices.ContainsFunc(u.TEPs, func(t tep) bool { return t.Address.Addr == addr })
}

// otherFamily reports an address that is not of the family of this edge's own.
func otherFamily(file *fileErrors, path string, addr, own netip.Addr) {
	file.problem(path, fmt.Sprintf("%s is %s but the tep %s is %s", addr, family(addr), own, family(own)), "one underlay is IPv4 or IPv6")
}
