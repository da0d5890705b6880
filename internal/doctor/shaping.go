package doctor

import (
	"fmt"
	"slices"

	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/internal/doctor/fix"
	"github.com/selvage/selvage/internal/host"
)

// addWay notes what else the kernel has on the way of packets: queueing disciplines, policers and IPsec.
func addWay(inv *Inventory, n Network) {
	var err error
	if inv.Shapers, err = n.Shapers(); err != nil {
		inv.unknown("queueing disciplines", "%v", err)
	}
	if count, err := n.IPsec(); err != nil {
		inv.unknown("IPsec", "%v", err)
	} else {
		inv.IPsec = &count
	}
}

// checkShaping looks for what limits or delays packets by intent. At ports that is often wanted.
func checkShaping(inv *Inventory) (found []Finding) {
	if inv.Shapers == nil {
		return nil
	}
	for _, l := range inv.of(Underlay, Device, Port) {
		before := len(found)
		for _, s := range inv.Shapers[l.Name] {
			if s.Kind == "police" || facts.Shapes(s.Kind) {
				found = append(found, shaped(l, s))
			}
		}
		if len(found) == before && l.Role == Underlay {
			found = append(found, good("shaping", l.Name, "no queueing discipline or policer that limits"))
		}
	}
	return found
}

func shaped(l *Link, s host.Shaper) Finding {
	f := Finding{
		Check: "shaping", Severity: Note, Subject: l.Name,
		What: fmt.Sprintf("%s limits or delays what passes %s", s.Kind, l.Name), Evidence: fmt.Sprintf("tc qdisc show dev %s", fix.Quote(l.Name)),
		Why:     "All tunnels over it share what it lets through. Packets beyond that wait, then are dropped, which no counter of the tunnel shows: 0 losses there prove nothing.",
		Change:  []string{fix.Line("tc qdisc del dev %s root  # if nobody wants it", l.Name)},
		Measure: []string{fix.Line("tc -s qdisc show dev %s  # dropped, overlimits: before and after iperf3 -c SERVER -t 10", l.Name), iperf},
	}
	if s.Rate > 0 {
		f.What = fmt.Sprintf("%s limits what passes %s to %.3g Gbit/s", s.Kind, l.Name, float64(s.Rate)*8/1e9)
	}
	if s.Kind == "police" {
		f.Evidence = fmt.Sprintf("tc filter show dev %s ingress, egress", fix.Quote(l.Name))
		f.Change, f.Measure = nil, []string{fix.Line("tc -s filter show dev %s ingress; tc -s filter show dev %s egress", l.Name, l.Name), iperf}
	}
	if l.Role != Port && (s.Rate > 0 || s.Kind == "netem") {
		f.Severity = Warning
	}
	return f
}

// added is what encapsulations that are named and not examined add to a packet.
var added = map[string]string{
	"wireguard": "60 bytes over IPv4, 80 over IPv6; wg show has its peers",
	"xfrm":      "ESP: 50 to 80 bytes, by the cipher; ip xfrm state has it",
	"vti":       "ESP: 50 to 80 bytes, by the cipher; ip xfrm state has it",
	"vti6":      "ESP: 70 to 100 bytes, by the cipher; ip xfrm state has it",
	"ip6tnl":    "40 bytes, 48 with an encapsulation limit (RFC 2473); ip -d link has its ends",
}

// checkOthers names what the other checks do not look into.
func checkOthers(inv *Inventory) (found []Finding) {
	name := func(subject, what, evidence, why string) {
		found = append(found, Finding{
			Check: "tunnel", Severity: Note, Subject: subject, What: what, Evidence: evidence,
			Why:     why + ". Offloads for plain packets do not reach into it.",
			Measure: []string{"ping -c 3 -M do -s SIZE PEER  # SIZE: the MTU of the way inside less 28", iperf},
		})
	}
	for _, t := range inv.Tunnels {
		if adds, is := added[t.Encapsulation]; is {
			name(t.Name, fmt.Sprintf("%s is named here, and its ends and path MTUs are not examined", t.Encapsulation), "kind of the interface (netlink)", "It adds "+adds)
		}
	}
	switch {
	case inv.IPsec == nil:
	case *inv.IPsec == 0:
		found = append(found, good("tunnel", "host", "no IPsec"))
	default:
		name("host", fmt.Sprintf("IPsec has %d security associations: which packets it encrypts is not examined", *inv.IPsec), "ip xfrm state", "It adds "+added["xfrm"])
	}
	return found
}

// named says that a tunnel's ends were not read.
func (t Tunnel) named() bool { return slices.Contains(sorted(added), t.Encapsulation) }
