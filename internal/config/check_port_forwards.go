package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// forwarding is a forward of a router's uplink.
type forwarding struct {
	protocol string
	addr     netip.Addr
	ports    overlay.PortRange
	path     string
	order    int
}

// portForwardChecker checks what uplinks translate by themselves.
type portForwardChecker struct {
	file     *fileErrors
	doc      *document
	declared declared
}

func (c portForwardChecker) check() {
	gateways, _ := c.declared.gateways()
	for i, r := range c.doc.Spec.Routers {
		path := fmt.Sprintf("spec.routers[%d]", i)
		uplinks, _ := c.declared.uplinks(path, r)
		own := append(slices.Clip(gateways[r.Name]), uplinks...)
		var list []forwarding
		for j, u := range r.Uplinks {
			if u.NAT == nil {
				continue
			}
			at := fmt.Sprintf("%s.uplinks[%d].nat", path, j)
			natPorts(c.file, at, u.NAT.natRange)
			for k, f := range u.NAT.PortForwards {
				where := fmt.Sprintf("%s.portForwards[%d]", at, k)
				c.portForward(where, r, u, f, own)
				list = append(list, forwarding{f.Protocol, u.forwarded(f), f.Port.PortRange, where, len(list)})
			}
		}
		c.distinct(list)
	}
}

func (c portForwardChecker) portForward(path string, r router, u uplink, f portForward, own []connected) {
	c.address(path, r, u, f)
	count := int(f.Port.Last) - int(f.Port.First)
	if f.Port.First == 0 && c.file.given(path+".port") {
		c.file.problem(path+".port", "port 0 is not valid", "begin with 1")
	}
	if f.ToPort != 0 && int(f.ToPort)+count > 65535 {
		c.file.problem(path+".toPort", fmt.Sprintf("%d ports from %d on go beyond 65535", count+1, f.ToPort), "lower it, or forward fewer")
	}
	if f.To.IsValid() && slices.ContainsFunc(own, func(n connected) bool { return n.Addr() == f.To.Addr }) {
		c.file.problem(path+".to", fmt.Sprintf("%s is the router's own address", f.To), "give the address of a host")
	}
}

// address checks where the port is.
func (c portForwardChecker) address(path string, r router, u uplink, f portForward) {
	switch {
	case !f.Address.IsValid():
		if f.To.IsValid() && len(u.Addresses) > 0 && !u.forwarded(f).IsValid() && !c.file.failed[path+".address"] {
			c.file.problem(path+".to", fmt.Sprintf("uplink %q has no %s address", u.Name, family(f.To.Addr)), "give the address to forward from, or add one to the uplink")
		}
	case f.To.IsValid() && f.Address.Is4() != f.To.Is4():
		c.file.problem(path+".to", fmt.Sprintf("%s is %s but %s is %s", f.To, family(f.To.Addr), f.Address, family(f.Address.Addr)), "families are not translated; make them the same")
	case !c.answersFor(r, u, f.Address.Addr):
		c.file.problem(path+".address", fmt.Sprintf("%s is neither an address of uplink %q nor in a pool at it", f.Address, u.Name), "use one of the uplink's addresses, or leave it out")
	}
}

// answersFor reports whether addr is of the uplink, or of a pool that may be at it.
func (c portForwardChecker) answersFor(r router, u uplink, addr netip.Addr) bool {
	if slices.ContainsFunc(u.Addresses, func(a interfacePrefix) bool { return !a.IsValid() || a.Addr() == addr }) {
		return true
	}
	e := c.doc.Spec.Egress
	if e == nil {
		return c.file.failed["spec.egress"] || c.file.failed["spec"]
	}
	return slices.ContainsFunc(e.Policies, func(p egressPolicy) bool {
		return p.Router == r.Name && p.Uplink == u.Name && slices.ContainsFunc(p.Pool, func(n poolRange) bool {
			return !n.uplink && (!n.First.IsValid() || n.First.Compare(addr) <= 0 && addr.Compare(n.Last) <= 0)
		})
	})
}

// distinct checks that a port leads to one host.
func (c portForwardChecker) distinct(list []forwarding) {
	list = slices.DeleteFunc(list, func(f forwarding) bool { return f.protocol == "" || !f.addr.IsValid() || f.ports.Last == 0 })
	slices.SortFunc(list, func(a, b forwarding) int {
		return cmp.Or(cmp.Compare(a.protocol, b.protocol), a.addr.Compare(b.addr), cmp.Compare(a.ports.First, b.ports.First), cmp.Compare(a.order, b.order))
	})
	for i := 1; i < len(list); i++ {
		a, b := list[i-1], list[i]
		if a.protocol != b.protocol || a.addr != b.addr || b.ports.First > a.ports.Last {
			continue
		}
		last := b
		if a.ports.Last > b.ports.Last {
			last = a
		}
		port := b.ports.First
		if a.order > b.order {
			a, b = b, a
		}
		c.file.problem(b.path+".port", fmt.Sprintf("%s port %d of %s is already forwarded (%s)", a.protocol, port, a.addr, c.file.place(b.path+".port", a.path)),
			"a port can lead to only one host")
		list[i] = last
	}
}

// natPorts refuses port 0, from which nothing comes.
func natPorts(file *fileErrors, path string, n natRange) {
	if n.Ports.First == 0 && file.given(path+".ports") {
		file.problem(path+".ports", "port 0 is not valid", "begin with 1, or better 1024")
	}
}
