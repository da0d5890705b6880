package proof

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/prove"
)

// underlayPaths are the paths of the segment's tunnels to a remote, with their interfaces, or why
// there is none.
func (p planner) underlayPaths(at *proof) {
	first := at.remote.Addrs[0]
	for _, path := range p.Paths {
		if path.Edge != first || !p.isPinnedTo(at.segment, path.Local) {
			continue
		}
		name := p.Host.Routes[path.Pair].Interface
		if path.Life != "" {
			at.control = append(at.control, fmt.Sprintf("BFD of %s: %s", path.Pair, path.Life))
			at.known.Alive = at.known.Alive || path.Life == bfd.Up || path.EndpointLife == bfd.Up
		}
		if path.NextMAC == (overlay.MAC{}) {
			at.known.NoWay = fmt.Sprintf("next hop %s on %s does not answer", p.Host.Routes[path.Pair].Addr, name)
			at.known.NoWayFix = "check that it is up and in the same network"
			continue
		}
		at.control = append(at.control, fmt.Sprintf("path MTU of %s: %d, %s", path.Pair, path.MTU, path.MTUState))
		at.tunnel.Paths = append(at.tunnel.Paths, prove.Path{Pair: path.Pair, Ifindex: path.Ifindex, SrcMAC: path.SrcMAC, NextMAC: path.NextMAC, MTU: path.MTU})
		at.names = append(at.names, name)
	}
	switch {
	case len(at.tunnel.Paths) > 0:
		at.known.NoWay, at.known.NoWayFix = "", ""
	case at.known.NoWay == "":
		at.known.NoWay = fmt.Sprintf("there is no route to %s by an underlay interface", first)
		at.known.NoWayFix = "add the route, or add the interface to the underlay: `selvage teps` says more"
	}
}

// isPinnedTo reports whether the segment may use a TEP.
func (p planner) isPinnedTo(s overlay.Segment, local netip.Addr) bool {
	return len(s.TEPs) == 0 || slices.ContainsFunc(p.Config.Underlay.Local(), func(t overlay.TEP) bool {
		return t.Addr == local && slices.Contains(s.TEPs, t.Name)
	})
}

// plainMTU is that of hosts where no port says another.
const plainMTU = 1500

// sizeOf is the largest inner IP packet that goes to the remote: what the paths carry and, of a
// segment with hosts, what its ports do.
func (p planner) sizeOf(at *proof) int {
	size := 0
	for _, path := range at.tunnel.Paths {
		carries := path.MTU - at.segment.Tunnel.Overhead(path.Remote)
		if size == 0 || carries < size {
			size = carries
		}
	}
	if at.router != "" {
		return size
	}
	most := 0
	for _, a := range plan.Attachments(p.Config) {
		if a.Segment == at.segment.Name {
			most = max(most, p.Host.Links[a.Interface].MTU)
		}
	}
	return min(size, cmp.Or(most, plainMTU))
}
