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
	for _, a := range Attachments(e) {
		if !slices.Contains(interfaces, a.Interface) {
			interfaces = append(interfaces, a.Interface)
		}
	}
	return host.Want{Interfaces: interfaces, TEP: e.Underlay.TEP, Remotes: Remotes(e)}
}

// Desired joins e with what the host is like and what was probed of the paths
// into the data path's tables. Each problem names the object that does not work
// and says what to do.
func Desired(e overlay.Edge, v host.View, probed Probed) (datapath.Tables, []string) {
	t := datapath.Tables{Segments: AllSegments(e, v), Routers: desiredRouters(e)}
	underlays, problems := desiredUnderlays(e, v)
	t.Underlays = underlays
	ports, more := desiredPorts(e, v)
	t.Ports = ports
	problems = append(problems, more...)
	for _, remote := range Remotes(e) {
		tep, problem := desiredTEP(e, v, probed, remote)
		t.TEPs = append(t.TEPs, tep)
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	t.Coalescer = datapath.Coalescer(v.Coalescer)
	t.Checksummers, more = desiredChecksummers(e, v)
	problems = append(problems, more...)
	t.Transit, t.Exits, more = desiredTransit(e, v)
	problems = append(problems, more...)
	return t, append(problems, portMTUs(e, v, probed)...)
}

// Holds are the changes of the host that e needs: next hops kept resolved,
// promiscuous ports and uplinks where a NIC would drop the frames of others, the kernel's
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
	h.Promisc = promisc(e, v)
	for _, s := range Segments(e) {
		if s.Tunnel.UDPChecksum {
			h.Checksummers = append(h.Checksummers, s.Tunnel.UDPPort)
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

func desiredTEP(e overlay.Edge, v host.View, probed Probed, remote netip.Addr) (datapath.TEP, string) {
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
		Addr: remote, Ifindex: path.Ifindex, MTU: probed.MTU(remote, path), SrcMAC: path.SrcMAC, NextMAC: path.NextMAC,
	}
	if path.NextMAC == (overlay.MAC{}) {
		return tep, fmt.Sprintf("remote %s: next hop %s on %s does not answer: check that it is up and in the same network",
			remote, path.NextHop.Addr, path.Interface)
	}
	return tep, ""
}

// desiredChecksummers are the devices that the segments of e send through, by UDP port.
func desiredChecksummers(e overlay.Edge, v host.View) (byPort map[uint16]int, problems []string) {
	for _, s := range Segments(e) {
		if !s.Tunnel.UDPChecksum {
			continue
		}
		ifindex, ok := v.Checksummers[s.Tunnel.UDPPort]
		if !ok {
			problems = append(problems, fmt.Sprintf(
				"segment %s: device %s, which fills in UDP checksums, is missing and nothing is sent to remotes: "+
					"see why the change of the host does not work, or remove udpChecksum from the segment",
				s.Name, host.ChecksummerName(s.Tunnel.UDPPort)))
			continue
		}
		if byPort == nil {
			byPort = make(map[uint16]int)
		}
		byPort[s.Tunnel.UDPPort] = ifindex
	}
	return byPort, problems
}

func isUnderlay(e overlay.Edge, v host.View, ifindex int) bool {
	return slices.ContainsFunc(e.Underlay.Interfaces, func(name string) bool {
		link, ok := v.Links[name]
		return ok && link.Index == ifindex
	})
}
