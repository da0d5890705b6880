package doctor

import (
	"fmt"
	"net/netip"

	"github.com/selvage/selvage/internal/doctor/fix"
	"github.com/selvage/selvage/internal/problem"
)

// checkRemotes looks at what a tunnel can reach at all.
func checkRemotes(inv *Inventory) []Finding {
	var found []Finding
	for _, t := range inv.Tunnels {
		switch {
		case !t.Up:
			found = append(found, Finding{
				Check: "remotes", Severity: Warning, Subject: t.Name, What: "the tunnel device is down",
				Evidence: "interface flags and operational state (netlink)", Why: "It carries 0 packets.",
				Change: []string{fix.Line("ip link set dev %s up", t.Device)}, Measure: []string{fix.Line("ip -s link show dev %s", t.Device)},
			})
		case t.named(): // checkOthers has it
		case len(t.Remotes) == 0 && !t.Group.IsValid() && !t.External:
			found = append(found, noRemote(t))
		}
		var lost, self []netip.Addr
		all := make(map[netip.Addr]bool) // which may have several paths
		for _, p := range t.Paths {
			all[p.Remote] = true
			switch {
			case !p.Reachable:
				lost = append(lost, p.Remote)
			case p.Local:
				self = append(self, p.Remote)
			}
		}
		if len(lost) > 0 {
			found = append(found, noRoute(t, lost, len(all)))
		}
		if len(self) > 0 {
			found = append(found, ownRemote(t, self))
		}
		if n := len(all) - len(lost) - len(self); n > 0 {
			found = append(found, good("remotes", t.Name, "%d of %d remotes have a route; a route does not prove that they answer", n, len(all)))
		}
	}
	return found
}

func noRemote(t Tunnel) Finding {
	f := Finding{
		Check: "remotes", Severity: Note, Subject: t.Name, What: "the tunnel has no remote",
		Evidence: "neither a remote, nor a group, nor an FDB entry with a destination",
		Why:      "Broadcasts and unknown destinations reach 0 hosts, so ARP gets no answer unless a control plane adds remotes.",
		Measure:  []string{fix.Line("ip -d link show dev %s", t.Name)},
	}
	switch {
	case t.Source == fromKernel && t.Encapsulation == "vxlan":
		f.Change = []string{fix.Line("bridge fdb append 00:00:00:00:00:00 dev %s dst REMOTE", t.Name)}
		f.Measure = []string{fix.Line("bridge fdb show dev %s", t.Name)}
	case t.Source == fromOVS:
		f.Change = []string{fix.Line("ovs-vsctl set interface %s options:remote_ip=REMOTE", t.Name)}
		f.Measure = []string{fix.Line("ovs-vsctl get interface %s options", t.Name)}
	case t.Source == fromSelvage:
		f.Measure = []string{"selvage teps"}
	}
	return f
}

func noRoute(t Tunnel, lost []netip.Addr, of int) Finding {
	from, get := "", []string{"ip", "route", "get", lost[0].String()}
	if t.Local.IsValid() {
		from, get = " from "+t.Local.String(), append(get, "from", t.Local.String())
	}
	return Finding{
		Check: "remotes", Severity: Fault, Subject: t.Name, What: fmt.Sprintf("no route to %s", addrs(lost)),
		Evidence: fmt.Sprintf("the kernel has no route%s to %d of %d remotes; a local address that this host does not have looks the same", from, len(lost), of),
		Why:      "All packets for these remotes are dropped: 0 arrive.",
		Change:   []string{fix.Line("ip route add %s via GATEWAY", lost[0])},
		Measure:  []string{fix.Run(get...).String(), fix.Line("ping -c 3 %s", lost[0])},
	}
}

func ownRemote(t Tunnel, self []netip.Addr) Finding {
	f := Finding{
		Check: "remotes", Severity: Fault, Subject: t.Name, What: fmt.Sprintf("the remote %s is this host", addrs(self)),
		Evidence: "the route is of type local",
		Why:      "Broadcast comes back to its sender: MAC addresses move to the tunnel, and a bridge answers with 0 packets to their owner.",
		Measure:  []string{fix.Line("ip route get %s", self[0])},
	}
	if t.Source == fromKernel && t.Encapsulation == "vxlan" {
		f.Change = []string{fix.Line("bridge fdb del 00:00:00:00:00:00 dev %s dst %s", t.Name, self[0])}
	}
	return f
}

// checkEdges passes on what Selvage's edges say of themselves.
func checkEdges(inv *Inventory) []Finding {
	var found []Finding
	for _, e := range inv.Edges {
		for _, p := range e.Problems {
			if p.Severity == problem.SeverityNote { // nothing is wrong, and an MTU is checkMTU's
				continue
			}
			severity := Warning
			if p.Severity == problem.SeverityError {
				severity = Fault
			}
			found = append(found, Finding{
				Check: "edge", Severity: severity, Subject: e.Name, What: p.Text, Evidence: "selvage status",
				Why: "The edge reports it itself.", Measure: []string{fix.Line("selvage status --edge %s", e.Name)},
			})
		}
		if len(e.Drops) == 0 {
			found = append(found, good("edge", e.Name, "has dropped no packet"))
			continue
		}
		total, text := uint64(0), ""
		for _, reason := range sorted(e.Drops) {
			total += e.Drops[reason]
			text += fmt.Sprintf("%s %d, ", reason, e.Drops[reason])
		}
		found = append(found, Finding{
			Check: "edge", Severity: Note, Subject: e.Name, What: fmt.Sprintf("the edge has dropped %d packets", total),
			Evidence: text + "since it was loaded", Why: "Each count is a packet that did not arrive; selvage drops says what each reason means.",
			Measure: []string{fix.Line("selvage drops --edge %s", e.Name)},
		})
	}
	return found
}
