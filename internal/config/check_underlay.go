package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// underlay checks the tunnel endpoints of this edge.
func (c checker) underlay() {
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
	first := c.ownTEP()
	for i, t := range u.TEPs {
		at := fmt.Sprintf("%s.teps[%d]", path, i)
		names.add(c.file, t.Name, "", at+".name", fmt.Sprintf("tunnel endpoint %q already exists", t.Name), "names are unique")
		addresses.add(c.file, t.Address.Addr, netip.Addr{}, at+".address", fmt.Sprintf("%s is already a tunnel endpoint", t.Address), "keep one")
		if t.Address.IsValid() && t.Address.Is4() != first.Is4() {
			c.otherFamily(at+".address", t.Address.Addr)
		}
	}
}

// ownTEP is the first address of this edge, unset when none could be read.
func (c checker) ownTEP() netip.Addr {
	u := c.doc.Spec.Underlay
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

// otherFamily reports an address that is not of the family of this edge's own.
func (c checker) otherFamily(path string, addr netip.Addr) {
	own := c.ownTEP()
	c.file.problem(path, fmt.Sprintf("%s is %s but the tep %s is %s", addr, family(addr), own, family(own)), "one underlay is IPv4 or IPv6")
}

// notOurs checks that addr can be another edge's.
func (c checker) notOurs(path string, addr netip.Addr) {
	own := c.ownTEP()
	if !addr.IsValid() || !own.IsValid() {
		return
	}
	ours := func(t tep) bool { return t.Address.Addr == addr }
	switch {
	case addr == c.doc.Spec.Underlay.TEP.Addr || slices.ContainsFunc(c.doc.Spec.Underlay.TEPs, ours):
		c.file.problem(path, fmt.Sprintf("overlapping addresses: %s is this edge's own tep", addr), "list the other edges only")
	case addr.Is4() != own.Is4():
		c.otherFamily(path, addr)
	}
}

// directory is what spec.remotes says: the first address of each edge.
type directory struct {
	names     []string
	byName    map[string]netip.Addr
	byAddress map[netip.Addr]netip.Addr
	complete  bool // all that the file has could be read
}

// remotes checks spec.remotes and makes every reference to one its first address, so
// that an edge is the same by whatever it is called.
func (c checker) remotes() {
	d := c.directory()
	c.eachReference(func(path string, ref *remoteRef, list bool) {
		first, listed := d.byAddress[ref.Addr]
		switch {
		case ref.IsValid() && listed:
			ref.Addr = first
		case ref.IsValid() && list:
			c.notOurs(path, ref.Addr)
		case ref.IsValid(): // compared with the list
		case slices.Contains(d.names, ref.text):
			ref.Addr = d.byName[ref.text]
		case ref.text != "" && d.complete:
			hint := suggest(ref.text, d.names, "named remotes")
			if nearest(ref.text, d.names) == "" {
				hint += ": write an address, or name it in spec.remotes"
			}
			c.file.problem(path, fmt.Sprintf("there is no remote %q", ref), hint)
		}
	})
	c.gatewayMembers(d)
}

func (c checker) directory() directory {
	d := directory{byName: map[string]netip.Addr{}, byAddress: map[netip.Addr]netip.Addr{}, complete: !c.file.failed["spec.remotes"]}
	names, addresses := unique[objectName]{}, unique[netip.Addr]{}
	for i, r := range c.doc.Spec.Remotes {
		path := fmt.Sprintf("spec.remotes[%d]", i)
		d.complete = d.complete && r.Name != "" && !c.file.failed[path]
		names.add(c.file, r.Name, "", path+".name", fmt.Sprintf("remote %q already exists", r.Name), "names are unique")
		if len(r.Addresses) > overlay.MaxTEPs {
			c.file.problem(path+".addresses", fmt.Sprintf("%d tunnel endpoints, at most %d", len(r.Addresses), overlay.MaxTEPs), "keep fewer")
		}
		for j, a := range r.Addresses {
			at := fmt.Sprintf("%s.addresses[%d]", path, j)
			addresses.add(c.file, a.Addr, netip.Addr{}, at, fmt.Sprintf("%s is already a remote's address", a), "keep one")
			c.notOurs(at, a.Addr)
			d.byAddress[a.Addr], d.byName[string(r.Name)] = r.Addresses[0].Addr, r.Addresses[0].Addr
		}
		d.names = append(d.names, string(r.Name))
	}
	return d
}

// eachReference calls visit for every place that names another edge; list says
// whether it is in a segment's list of them.
func (c checker) eachReference(visit func(path string, ref *remoteRef, list bool)) {
	c.eachNetwork(func(path string, n *overlayNetwork) {
		for j := range n.Remotes {
			visit(fmt.Sprintf("%s.remotes[%d]", path, j), &n.Remotes[j], true)
		}
	})
	for i, s := range c.doc.Spec.Segments {
		for j := range s.FDB {
			visit(fmt.Sprintf("spec.segments[%d].fdb[%d].remote", i, j), &s.FDB[j].Remote, false)
		}
	}
	for i, r := range c.doc.Spec.Routers {
		for j, route := range r.Routes {
			for k := range route.Via {
				visit(fmt.Sprintf("spec.routers[%d].routes[%d].via[%d].remote", i, j, k), &route.Via[k].Remote, false)
			}
		}
	}
}

// pins checks the tunnel endpoints that segments are pinned to.
func (c checker) pins() {
	var known []string
	complete := !c.file.failedIn("spec.underlay", "teps")
	for _, t := range c.doc.Spec.Underlay.TEPs {
		complete = complete && t.Name != ""
		known = append(known, string(t.Name))
	}
	c.eachNetwork(func(path string, n *overlayNetwork) {
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
