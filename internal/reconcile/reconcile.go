// Package reconcile says what the data path should contain: the configuration
// joined with what the host is like.
//
// Its one invariant: it is pure. The same edge and view give the same tables
// in the same order, and nothing is read or changed. Applying is the data path's.
package reconcile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
)

// Want is what must be observed of the host for e.
func Want(e overlay.Edge) host.Want {
	interfaces := slices.Clone(e.Underlay.Interfaces)
	for _, p := range e.Ports {
		interfaces = append(interfaces, p.Interface)
	}
	return host.Want{Interfaces: interfaces, TEP: e.Underlay.TEP, Remotes: Remotes(e)}
}

// Remotes are the TEPs that any segment of e sends to, sorted.
func Remotes(e overlay.Edge) []netip.Addr {
	var remotes []netip.Addr
	for _, s := range e.Segments {
		remotes = append(remotes, s.Remotes...)
		for _, m := range s.Static {
			if m.Remote.IsValid() {
				remotes = append(remotes, m.Remote)
			}
		}
	}
	slices.SortFunc(remotes, netip.Addr.Compare)
	return slices.Compact(remotes)
}

// Desired joins e with what the host is like into the data path's tables.
// Each problem names the object that does not work and says what to do.
func Desired(e overlay.Edge, v host.View) (datapath.Tables, []string) {
	t := datapath.Tables{Segments: e.Segments}
	underlays, problems := desiredUnderlays(e, v)
	t.Underlays = underlays
	ports, more := desiredPorts(e, v)
	t.Ports = ports
	problems = append(problems, more...)
	for _, remote := range Remotes(e) {
		tep, problem := desiredTEP(e, v, remote)
		t.TEPs = append(t.TEPs, tep)
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	t.Coalescer = datapath.Coalescer(v.Coalescer)
	t.Checksummers, more = desiredChecksummers(e, v)
	problems = append(problems, more...)
	return t, append(problems, portMTUs(e, v)...)
}

// Holds are the changes of the host that e needs: next hops kept resolved,
// promiscuous ports where a NIC would drop the frames of others, the kernel's
// tunnel devices for segments with outer UDP checksums, and the coalescer.
func Holds(e overlay.Edge, v host.View) host.Holds {
	h := host.Holds{Coalescer: host.CoalescerName(e.Name)}
	for _, remote := range Remotes(e) {
		if path, ok := Path(e, v, remote); ok {
			h.NextHops = append(h.NextHops, path.NextHop)
		}
	}
	slices.SortFunc(h.NextHops, func(a, b host.NextHop) int {
		return cmp.Or(cmp.Compare(a.Ifindex, b.Ifindex), a.Addr.Compare(b.Addr))
	})
	h.NextHops = slices.Compact(h.NextHops)
	for _, p := range e.Ports {
		if link, ok := v.Links[p.Interface]; ok && link.Physical() {
			h.Promisc = append(h.Promisc, link.Index)
		}
	}
	slices.Sort(h.Promisc)
	h.Promisc = slices.Compact(h.Promisc)
	for _, s := range e.Segments {
		if s.UDPChecksum {
			h.Checksummers = append(h.Checksummers, s.UDPPort)
		}
	}
	slices.Sort(h.Checksummers)
	h.Checksummers = slices.Compact(h.Checksummers)
	return h
}

// Path is the way to remote that tunnels may take: it leaves this host by an
// underlay interface. A route by another interface would carry tunnels into a
// network that was not meant to see them.
func Path(e overlay.Edge, v host.View, remote netip.Addr) (host.Path, bool) {
	path, ok := v.Paths[remote]
	return path, ok && !path.Local && isUnderlay(e, v, path.Ifindex)
}

// InnerMTU is the largest inner IP packet in bytes that fits an underlay
// packet of mtu bytes to remote, in the segments of e that send there.
func InnerMTU(e overlay.Edge, remote netip.Addr, mtu int) int {
	inner := mtu
	for _, s := range e.Segments {
		if SendsTo(s, remote) {
			inner = min(inner, mtu-s.Encapsulation.Overhead(remote))
		}
	}
	return max(inner, 0)
}

func desiredUnderlays(e overlay.Edge, v host.View) (indexes []int, problems []string) {
	for _, name := range e.Underlay.Interfaces {
		link, ok := v.Links[name]
		switch {
		case !ok:
			problems = append(problems, fmt.Sprintf(
				"underlay interface %s does not exist: create it, or correct the underlay's interfaces", name))
			continue
		case !link.Up:
			problems = append(problems, fmt.Sprintf(
				"underlay interface %s is down: enable it with `ip link set dev %s up` and check its cable or peer", name, name))
		}
		indexes = append(indexes, link.Index)
	}
	slices.Sort(indexes)
	if !v.TEPPresent {
		problems = append(problems, fmt.Sprintf(
			"TEP address %s is not on this host: add it to an interface, or correct the underlay's TEP", e.Underlay.TEP))
	}
	return slices.Compact(indexes), problems
}

func desiredPorts(e overlay.Edge, v host.View) (ports []datapath.Port, problems []string) {
	for _, p := range e.Ports {
		link, ok := v.Links[p.Interface]
		switch {
		case !ok:
			problems = append(problems, fmt.Sprintf(
				"port %s: interface %s does not exist: create it, it is attached when it appears", p.Name, p.Interface))
			continue
		case !link.Up:
			problems = append(problems, fmt.Sprintf(
				"port %s: interface %s is down: enable it with `ip link set dev %s up`, and what is behind it",
				p.Name, p.Interface, p.Interface))
		}
		ports = append(ports, datapath.Port{
			Name: p.Name, Ifindex: link.Index, Segment: p.Segment, MTU: link.MTU, Peer: link.PeerElsewhere,
		})
	}
	slices.SortFunc(ports, func(a, b datapath.Port) int { return cmp.Compare(a.Name, b.Name) })
	return ports, problems
}

func desiredTEP(e overlay.Edge, v host.View, remote netip.Addr) (datapath.TEP, string) {
	path, ok := v.Paths[remote]
	switch {
	case !ok:
		return datapath.TEP{Addr: remote}, fmt.Sprintf(
			"remote %s: no route from %s: add one, or correct the remote", remote, e.Underlay.TEP)
	case path.Local:
		return datapath.TEP{Addr: remote}, fmt.Sprintf(
			"remote %s is an address of this host: correct the remote", remote)
	case !isUnderlay(e, v, path.Ifindex):
		return datapath.TEP{Addr: remote}, fmt.Sprintf(
			"remote %s: its route leaves by %s, which is no underlay interface: change the route, or add %s to the underlay's interfaces",
			remote, path.Interface, path.Interface)
	}
	tep := datapath.TEP{
		Addr: remote, Ifindex: path.Ifindex, MTU: path.MTU, SrcMAC: path.SrcMAC, NextMAC: path.NextMAC,
	}
	if path.NextMAC == (overlay.MAC{}) {
		return tep, fmt.Sprintf("remote %s: next hop %s on %s does not answer: check that it is up and in the same network",
			remote, path.NextHop.Addr, path.Interface)
	}
	return tep, ""
}

// desiredChecksummers are the devices that the segments of e send through, by UDP port.
func desiredChecksummers(e overlay.Edge, v host.View) (byPort map[uint16]int, problems []string) {
	for _, s := range e.Segments {
		if !s.UDPChecksum {
			continue
		}
		ifindex, ok := v.Checksummers[s.UDPPort]
		if !ok {
			problems = append(problems, fmt.Sprintf(
				"segment %s: device %s, which fills in UDP checksums, is missing and nothing is sent to remotes: "+
					"see why the change of the host does not work, or remove udpChecksum from the segment",
				s.Name, host.ChecksummerName(s.UDPPort)))
			continue
		}
		if byPort == nil {
			byPort = make(map[uint16]int)
		}
		byPort[s.UDPPort] = ifindex
	}
	return byPort, problems
}

// portMTUs finds the ports that accept packets too large for a tunnel of their
// segment, and names the narrowest tunnel of each.
func portMTUs(e overlay.Edge, v host.View) (problems []string) {
	for _, s := range e.Segments {
		narrow, ok := narrowest(e, v, s)
		if !ok {
			continue
		}
		overhead := s.Encapsulation.Overhead(narrow.remote)
		carries := narrow.path.MTU - overhead
		for _, p := range e.Ports {
			link, ok := v.Links[p.Interface]
			if p.Segment != s.Name || !ok || link.MTU <= carries {
				continue
			}
			problems = append(problems, fmt.Sprintf(
				"port %s has MTU %d, the tunnel to %s carries %d: lower the MTU of %s and of what is behind it to %d, or raise that of %s to %d",
				p.Name, link.MTU, narrow.remote, carries, p.Interface, carries, narrow.path.Interface, link.MTU+overhead))
		}
	}
	return problems
}

type tunnel struct {
	remote netip.Addr
	path   host.Path
}

func narrowest(e overlay.Edge, v host.View, s overlay.Segment) (narrow tunnel, ok bool) {
	for _, remote := range Remotes(overlay.Edge{Segments: []overlay.Segment{s}}) {
		path, usable := Path(e, v, remote)
		if usable && (!ok || path.MTU < narrow.path.MTU) {
			narrow, ok = tunnel{remote, path}, true
		}
	}
	return narrow, ok
}

// SendsTo reports whether s has remote as a remote or behind a static MAC.
func SendsTo(s overlay.Segment, remote netip.Addr) bool {
	return slices.Contains(s.Remotes, remote) ||
		slices.ContainsFunc(s.Static, func(m overlay.StaticMAC) bool { return m.Remote == remote })
}

func isUnderlay(e overlay.Edge, v host.View, ifindex int) bool {
	return slices.ContainsFunc(e.Underlay.Interfaces, func(name string) bool {
		link, ok := v.Links[name]
		return ok && link.Index == ifindex
	})
}
