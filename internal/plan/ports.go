package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// Attachment is what of an interface is in one segment: a port, a member of a
// trunk, or an uplink.
type Attachment struct {
	Name      string // of a trunk's member: the port's, a dot, and the VLAN
	Interface string
	VLAN      uint16 // 0: untagged frames
	Segment   string
	Trunk     string // of a trunk's member, the port's name
	Router    string // of an uplink
	Allowed   *overlay.Allowed
	Limits    overlay.Limits
	// AllowRA and DHCPServer are whether a router and a DHCP server may be at the port.
	AllowRA, DHCPServer bool
}

// Attachments are those of e, in the configuration's order, uplinks last.
func Attachments(e overlay.Edge) (list []Attachment) {
	for _, p := range e.Ports {
		a := Attachment{
			Name: p.Name, Interface: p.Interface, Segment: p.Segment, Allowed: p.Allowed, Limits: p.Limits,
			AllowRA: p.AllowRA, DHCPServer: p.DHCPServer,
		}
		if len(p.VLANs) > 0 {
			a.Trunk = p.Name
		}
		if p.Segment != "" {
			list = append(list, a)
		}
		for _, v := range p.VLANs {
			a.Name, a.VLAN, a.Segment = fmt.Sprintf("%s.%d", p.Name, v.VLAN), v.VLAN, v.Segment
			list = append(list, a)
		}
	}
	for _, r := range e.Routers {
		for _, u := range r.Uplinks {
			list = append(list, Attachment{Name: u.Name, Interface: u.Interface, VLAN: u.VLAN, Segment: u.Name, Router: r.Name, Limits: overlay.UplinkLimits()})
		}
	}
	return list
}

func desiredPorts(e overlay.Edge, v host.State) (ports []fib.Port, problems []problem.Problem) {
	type place struct {
		ifindex int
		vlan    uint16
	}
	reported, taken := make(map[string]bool), make(map[place]string)
	for _, a := range Attachments(e) {
		link, ok := v.Links[a.Interface]
		if p := linkProblem(a, link, ok); p.Text != "" && !reported[p.Text] {
			reported[p.Text] = true // once a trunk
			problems = append(problems, p)
		}
		if !ok || link.NotEthernet != "" {
			continue
		}
		at := place{link.Index, a.VLAN}
		if first, twice := taken[at]; twice { // by another of the interface's names
			problems = append(problems, problem.Error("%s: interface %s is that of %s, by another name: give each an interface, or a VLAN, of its own", a.Name, a.Interface, first))
			continue
		}
		taken[at] = a.Name
		ports = append(ports, fib.Port{
			Name: a.Name, Ifindex: link.Index, VLAN: a.VLAN, Segment: a.Segment, MTU: link.MTU, Peer: ByPeer(link),
			Segments: link.Segments, Uplink: a.Router != "", Down: !link.Up, Allowed: a.Allowed, Limits: a.Limits, AllowRA: a.AllowRA, DHCPServer: a.DHCPServer,
		})
	}
	slices.SortFunc(ports, func(a, b fib.Port) int { return cmp.Compare(a.Name, b.Name) })
	return ports, problems
}

// ByPeer reports whether frames for link go straight to the other end of its veth.
// They do not when it takes no large TCP segments: only the device has them cut.
func ByPeer(link host.Link) bool { return link.PeerElsewhere && link.Segments }

// linkProblem is what is wrong with the interface of a, nothing without Text.
func linkProblem(a Attachment, link host.Link, exists bool) problem.Problem {
	what := "port " + cmp.Or(a.Trunk, a.Name)
	if a.Router != "" {
		what = "uplink " + a.Name
	}
	switch {
	case !exists:
		return problem.Error("%s: interface %s does not exist: create it, it is attached when it appears", what, a.Interface)
	case !link.Up:
		return problem.Error("%s: interface %s is down: enable it with `ip link set dev %s up`, and check what is behind it",
			what, a.Interface, a.Interface)
	case link.NotEthernet != "":
		return problem.Error("%s: %s, so that it is not attached: use an Ethernet interface, as tap and veth", what, notEthernet(link))
	}
	return problem.Problem{}
}

// promisc are the physical interfaces that would drop frames for the MAC
// addresses behind ports, or for a router's own.
func promisc(e overlay.Edge, v host.State) (indexes []int) {
	add := func(name string, needed func(host.Link) bool) {
		if link, ok := v.Links[name]; ok && link.Physical() && needed(link) {
			indexes = append(indexes, link.Index)
		}
	}
	for _, p := range e.Ports {
		add(p.Interface, func(host.Link) bool { return true })
	}
	for _, r := range e.Routers {
		for _, u := range r.Uplinks {
			add(u.Interface, func(l host.Link) bool { return UplinkMAC(u, l) != l.MAC })
		}
	}
	slices.Sort(indexes)
	return slices.Compact(indexes)
}
