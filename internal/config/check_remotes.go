package config

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// remoteChecker checks what names other edges, and makes it their addresses.
type remoteChecker struct {
	file *fileErrors
	doc  *document
}

// directory is what spec.remotes says: the first address of each edge.
type directory struct {
	names     []string
	byName    map[string]netip.Addr
	byAddress map[netip.Addr]netip.Addr
	complete  bool // all that the file has could be read
}

// check compares spec.remotes, and makes every reference to one its first address, so
// that an edge is the same by whatever it is called.
func (c remoteChecker) check() {
	d := c.directory()
	c.doc.eachReference(func(path string, ref *remoteRef, list bool) {
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

func (c remoteChecker) directory() directory {
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

// gatewayMembers makes every member of a group its edge's first address.
func (c remoteChecker) gatewayMembers(d directory) {
	if c.doc.Spec.Egress == nil {
		return
	}
	for i, g := range c.doc.Spec.Egress.Gateways {
		path := fmt.Sprintf("spec.egress.gateways[%d]", i)
		if len(g.Members) > overlay.MaxGateways {
			c.file.problem(path+".members", fmt.Sprintf("%d members, at most %d", len(g.Members), overlay.MaxGateways), "make several groups, with a policy each")
		}
		listed := unique[netip.Addr]{}
		for j := range g.Members {
			at, m := fmt.Sprintf("%s.members[%d]", path, j), &g.Members[j]
			c.gatewayMember(at, m, d)
			listed.add(c.file, m.Addr, netip.Addr{}, at, fmt.Sprintf("gateway %s is already listed", m), "keep one")
		}
	}
}

func (c remoteChecker) gatewayMember(path string, m *memberRef, d directory) {
	first, listed := d.byAddress[m.Addr]
	own := string(c.doc.Metadata.Name)
	named := slices.Contains(d.names, m.text)
	switch {
	case m.IsValid() && c.doc.Spec.Underlay.hasTEP(m.Addr):
		m.Addr = c.doc.Spec.Underlay.firstTEP()
	case m.IsValid() && listed:
		m.Addr = first
	case m.IsValid():
		c.notOurs(path, m.Addr)
	case m.text == own && named:
		c.file.problem(path, fmt.Sprintf("both this edge and a remote are called %q", own), "give the remote another name, or write an address")
	case m.text == own:
		m.Addr = c.doc.Spec.Underlay.firstTEP()
	case named:
		m.Addr = d.byName[m.text]
	case m.text != "" && own != "" && d.complete:
		c.file.problem(path, fmt.Sprintf("there is no edge %q", m), suggest(m.text, append(slices.Clone(d.names), own), "names"))
	}
}

// notOurs checks that addr can be another edge's.
func (c remoteChecker) notOurs(path string, addr netip.Addr) {
	own := c.doc.Spec.Underlay.firstTEP()
	if !addr.IsValid() || !own.IsValid() {
		return
	}
	switch {
	case c.doc.Spec.Underlay.hasTEP(addr):
		c.file.problem(path, fmt.Sprintf("overlapping addresses: %s is this edge's own tep", addr), "list the other edges only")
	case addr.Is4() != own.Is4():
		otherFamily(c.file, path, addr, own)
	}
}

// eachReference calls visit for every place that names another edge; list says
// whether it is in a segment's list of them.
func (d *document) eachReference(visit func(path string, ref *remoteRef, list bool)) {
	d.eachNetwork(func(path string, n *overlayNetwork) {
		for j := range n.Remotes {
			visit(fmt.Sprintf("%s.remotes[%d]", path, j), &n.Remotes[j], true)
		}
	})
	for i, s := range d.Spec.Segments {
		for j := range s.FDB {
			visit(fmt.Sprintf("spec.segments[%d].fdb[%d].remote", i, j), &s.FDB[j].Remote, false)
		}
	}
	for i, r := range d.Spec.Routers {
		for j, route := range r.Routes {
			for k := range route.Via {
				visit(fmt.Sprintf("spec.routers[%d].routes[%d].via[%d].remote", i, j, k), &route.Via[k].Remote, false)
			}
		}
	}
}
