package config

import (
	"fmt"
	"net/netip"
	"strings"
)

// declared is what a document declares for other fields to refer to: names, parts of ports, and
// networks of routers. It says of each whether it is all that the file has: what could not be read
// may be what a reference means.
type declared struct {
	file    *fileErrors
	doc     *document
	members [][]member // of each port
}

// nameSet is the names of one kind of objects.
type nameSet struct {
	list     []string
	known    map[string]bool
	complete bool // the file has no others
}

func newNames(list []string, complete bool) nameSet {
	n := nameSet{list, make(map[string]bool, len(list)), complete}
	for _, name := range list {
		n.known[name] = true
	}
	return n
}

func (n nameSet) lacks(name string) bool { return n.complete && name != "" && !n.known[name] }

// connected is a network of a router: the prefix of a gateway or an uplink.
type connected struct {
	netip.Prefix        // with the router's own address
	owner        string // path of the segment or uplink
	path         string // of the prefix
}

// segmentNames returns the names and whether they are all that the file has.
func (d declared) segmentNames() (list []string, complete bool) {
	for _, s := range d.doc.Spec.Segments {
		if s.Name == "" {
			return nil, false
		}
		list = append(list, string(s.Name))
	}
	return list, !d.file.failed["spec.segments"]
}

// routerNames returns the names and whether they are all that the file has.
func (d declared) routerNames() (list []string, complete bool) {
	for _, r := range d.doc.Spec.Routers {
		if r.Name == "" {
			return nil, false
		}
		list = append(list, string(r.Name))
	}
	return list, !d.file.failed["spec.routers"]
}

// policySegments are the names of all policies' segments.
func (d declared) policySegments() (list []string, complete bool) {
	e := d.doc.Spec.Egress
	if e == nil {
		return nil, !d.file.failed["spec.egress"]
	}
	complete = !d.file.failedIn("spec.egress", "policies")
	for _, p := range e.Policies {
		complete = complete && p.Name != ""
		list = append(list, policySegment(p.Name))
	}
	return list, complete
}

// routed are the names of uplinks, and those of l3 segments.
func (d declared) routed() (uplinks, l3 []string, complete bool) {
	_, complete = d.routerNames()
	for i, r := range d.doc.Spec.Routers {
		if r.L3 != nil {
			l3 = append(l3, r.model().SegmentName())
		}
		complete = complete && !d.file.failed[fmt.Sprintf("spec.routers[%d]", i)] && !d.file.failed[fmt.Sprintf("spec.routers[%d].uplinks", i)]
		for _, u := range r.Uplinks {
			complete = complete && u.Name != ""
			uplinks = append(uplinks, string(u.Name))
		}
	}
	return uplinks, l3, complete
}

// wholePolicy reports whether all files could be read, and the list that each has in field.
func (d declared) wholePolicy(policies []policySource, field string) bool {
	if d.doc.Spec.Firewall == nil {
		return !d.file.failed["spec.firewall"] && !d.file.failed["spec"]
	}
	files := 0
	for _, s := range policies {
		if !s.file.live {
			files++
		}
	}
	if d.file.failed["spec.firewall.include"] || files != 1+len(d.doc.Spec.Firewall.Include) {
		return false
	}
	for _, s := range policies {
		if s.file.failed[strings.TrimSuffix(s.prefix, ".")] || s.file.failed[s.prefix+field] {
			return false
		}
	}
	return true
}

// uplinksOf are the networks of a router's uplinks.
func (d declared) uplinksOf(name objectName) (list []connected) {
	for i, r := range d.doc.Spec.Routers {
		if r.Name == name {
			list, _ = d.uplinks(fmt.Sprintf("spec.routers[%d]", i), r)
			break
		}
	}
	return list
}

// gateways lists the networks of gateways by router, and says whether they are
// all that the file has.
func (d declared) gateways() (byRouter map[objectName][]connected, complete bool) {
	byRouter, complete = map[objectName][]connected{}, !d.file.failed["spec.segments"]
	for i, s := range d.doc.Spec.Segments {
		path := fmt.Sprintf("spec.segments[%d]", i)
		complete = complete && !d.file.failed[path] && !d.file.failed[path+".gateway"]
		if s.Gateway == nil {
			continue
		}
		list, good := networks(path+".gateway", s.Gateway.Addresses)
		if complete = complete && good && s.Gateway.Router != ""; s.Gateway.Router != "" {
			byRouter[s.Gateway.Router] = append(byRouter[s.Gateway.Router], list...)
		}
	}
	return byRouter, complete
}

// uplinks lists the networks of the uplinks of r likewise.
func (d declared) uplinks(path string, r router) (list []connected, complete bool) {
	complete = !d.file.failed[path+".uplinks"]
	for j, u := range r.Uplinks {
		more, good := networks(fmt.Sprintf("%s.uplinks[%d]", path, j), u.Addresses)
		list, complete = append(list, more...), complete && good
	}
	return list, complete
}

func networks(owner string, addresses []interfacePrefix) (list []connected, complete bool) {
	complete = len(addresses) > 0
	for j, a := range addresses {
		if complete = complete && a.IsValid(); a.IsValid() {
			list = append(list, connected{a.Prefix, owner, fmt.Sprintf("%s.addresses[%d]", owner, j)})
		}
	}
	return list, complete
}
