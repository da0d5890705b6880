// Package plan says what the data path should contain: the configuration
// joined with what the host is like.
//
// Its one invariant: it is pure. The same edge and view give the same tables
// in the same order, and nothing is read or changed. Applying is the data path's.
package plan

import (
	"cmp"
	"slices"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// Want is what must be observed of the host for e.
func Want(e overlay.Edge) host.Want {
	interfaces := slices.Clone(e.Underlay.Interfaces)
	for _, a := range Attachments(e) {
		if !slices.Contains(interfaces, a.Interface) {
			interfaces = append(interfaces, a.Interface)
		}
	}
	want := host.Want{Interfaces: interfaces, Pairs: Pairs(e)}
	for _, p := range e.Patterns {
		want.Patterns = append(want.Patterns, string(p))
	}
	for _, t := range e.Underlay.Local() {
		want.TEPs = append(want.TEPs, t.Addr)
	}
	return want
}

// Desired joins e with what the host is like and the plan of its paths into the data
// path's tables. Each problem names the object that does not work and says what to do;
// those of the plan are Teamed's. What translates is for Translate.
func Desired(e overlay.Edge, v host.State, pathPolicies PathPolicies) (fib.Tables, []problem.Problem) {
	routing := NewRouting(e, nil)
	routing.SetOutages(OutagesOf(e, v, pathPolicies))
	return DesiredBy(routing, e, v, pathPolicies)
}

// DesiredBy is Desired where the routing of e is made, with its outages.
func DesiredBy(routing *Routing, e overlay.Edge, v host.State, pathPolicies PathPolicies) (fib.Tables, []problem.Problem) {
	t := fib.Tables{Segments: AllSegments(e, v), Routers: routing.desired()}
	underlays, problems := desiredUnderlays(e, v)
	t.Underlays = underlays
	ports, more := desiredPorts(e, v)
	t.Ports = ports
	problems = append(problems, more...)
	t.TEPs, t.PathPolicies = PathSelection(e, pathPolicies)
	t.PathPolicyOf = pathPolicyNumbers(e, pathPolicies)
	problems = append(problems, pathProblems(e, v)...)
	problems = append(problems, routeProblems(routing.All())...)
	t.Coalescer = fib.Coalescer(v.GRODevice)
	t.ChecksumDevices, more = desiredChecksumDevices(e, v)
	problems = append(problems, more...)
	t.Transit, t.TxDevices, more = desiredTransit(e, v)
	problems = append(problems, more...)
	return t, append(problems, portMTUs(e, v, pathPolicies)...)
}

// HostConfig are the changes of the host that e needs: next hops kept resolved,
// promiscuous ports and uplinks where a NIC would drop the frames of others, the kernel's
// tunnel devices for segments with outer UDP checksums and for VXLAN's UDP ports, the
// coalescer, and no LRO.
func HostConfig(e overlay.Edge, v host.State) host.Desired {
	h := host.Desired{GRODevice: host.GRODeviceName(e.Name)}
	for _, pair := range Pairs(e) {
		for _, one := range PathsOf(e, v, pair) {
			// The kernel keeps no neighbours of a link that is down.
			if path := v.Routes[one]; one.Via == (overlay.Via{}) || isUp(Facts{Links: v.Links}, path) {
				h.NextHops = append(h.NextHops, path.NextHop)
			}
		}
	}
	slices.SortFunc(h.NextHops, func(a, b host.NextHop) int {
		return cmp.Or(cmp.Compare(a.Ifindex, b.Ifindex), a.Addr.Compare(b.Addr))
	})
	h.NextHops = slices.Compact(h.NextHops)
	h.Promisc = promisc(e, v)
	h.Offloads = withoutLRO(e)
	for _, s := range Segments(e) {
		switch {
		case s.Tunnel.UDPChecksum:
			h.ChecksumDevices = append(h.ChecksumDevices, s.Tunnel.UDPPort)
		case s.Tunnel.Encapsulation == overlay.VXLAN:
			h.GRODevices = append(h.GRODevices, s.Tunnel.UDPPort)
		}
	}
	slices.Sort(h.ChecksumDevices)
	h.ChecksumDevices = slices.Compact(h.ChecksumDevices)
	slices.Sort(h.GRODevices)
	h.GRODevices = slices.Compact(h.GRODevices)
	return h
}

// withoutLRO turns off large receive offload where packets of others arrive, as the kernel does for
// what it forwards: what an adapter joined so cannot be cut again into the packets that were sent.
func withoutLRO(e overlay.Edge) (list []host.Offload) {
	names := slices.Clone(e.Underlay.Interfaces)
	for _, r := range e.Routers {
		for _, u := range r.Uplinks {
			names = append(names, u.Interface)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		list = append(list, host.Offload{Interface: name, Feature: "rx-lro"})
	}
	return list
}

func desiredUnderlays(e overlay.Edge, v host.State) (indexes []int, problems []problem.Problem) {
	for _, name := range e.Underlay.Interfaces {
		link, ok := v.Links[name]
		switch {
		case !ok:
			problems = append(problems, problem.Error(
				"underlay interface %s does not exist: create it, or correct the underlay's interfaces", name))
			continue
		case link.NotEthernet != "":
			problems = append(problems, problem.Error(
				"underlay %s, so that nothing is sent and received by it: use the Ethernet interface below it", notEthernet(link)))
			continue
		case !link.Up:
			problems = append(problems, problem.Error(
				"underlay interface %s is down: enable it with `ip link set dev %s up` and check its cable or peer", name, name))
		}
		indexes = append(indexes, link.Index)
	}
	slices.Sort(indexes)
	for _, t := range e.Underlay.Local() {
		if !v.TEPs[t.Addr] {
			problems = append(problems, problem.Error(
				"TEP address %s is not on this host: add it to an interface, or correct the underlay's TEP", t.Addr))
		}
	}
	return slices.Compact(indexes), problems
}

// desiredChecksumDevices are the devices that the segments of e send through, by UDP port.
func desiredChecksumDevices(e overlay.Edge, v host.State) (byPort map[uint16]int, problems []problem.Problem) {
	for _, s := range Segments(e) {
		if !s.Tunnel.UDPChecksum {
			continue
		}
		ifindex, ok := v.ChecksumDevices[s.Tunnel.UDPPort]
		if !ok {
			problems = append(problems, problem.Error(
				"segment %s: device %s, which fills in UDP checksums, is missing, so nothing is sent to remotes: "+
					"find out why it cannot be created, or remove udpChecksum from the segment",
				s.Name, host.ChecksumDeviceName(s.Tunnel.UDPPort)))
			continue
		}
		if byPort == nil {
			byPort = make(map[uint16]int)
		}
		byPort[s.Tunnel.UDPPort] = ifindex
	}
	return byPort, problems
}
