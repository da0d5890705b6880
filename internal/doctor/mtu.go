package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/doctor/fix"
)

// headroom is what the NSX edge study leaves for Geneve's options and outer headers.
const headroom = 200

// s0BlackHole is why a path that is too narrow matters.
const s0BlackHole = "A tunnel endpoint must not fragment (RFC 7348 section 4.3), so full packets are lost while small ones pass, and not all senders are notified. " +
	"The FortiGate study: 9 Mbit/s in bursts with an MTU too large for its tunnel, 546 Mbit/s once it fitted."

// strait is the narrowest place on the way to some remotes.
type strait struct {
	where   string // an interface, or "" for the route
	mtu     int
	remotes []netip.Addr
	path    Path
}

// straits are the narrowest places of all paths of a tunnel.
func (inv *Inventory) straits(t Tunnel) []*strait {
	var found []*strait
	for _, p := range t.Paths {
		if !p.Reachable || p.Local {
			continue
		}
		where, mtu := inv.narrowest(p)
		same := func(s *strait) bool {
			return s.where == where && s.mtu == mtu && s.remotes[0].Is4() == p.Remote.Is4()
		}
		i := slices.IndexFunc(found, same)
		if i < 0 {
			i = len(found)
			found = append(found, &strait{where: where, mtu: mtu, path: p})
		}
		found[i].remotes = append(found[i].remotes, p.Remote)
	}
	return found
}

func (inv *Inventory) narrowest(p Path) (where string, mtu int) {
	mtu = p.MTU
	for _, name := range p.Hops {
		// The first hop's own MTU is in the path's, which a route may narrow.
		if l, ok := inv.link(name); ok && (l.MTU < mtu || l.MTU == mtu && where == "") {
			where, mtu = name, l.MTU
		}
	}
	return where, mtu
}

// checkMTU compares what a tunnel makes of its largest packet with every hop.
func checkMTU(inv *Inventory) []Finding {
	var found []Finding
	for _, t := range inv.Tunnels {
		carries := inv.carries(t)
		if carries == 0 || t.External {
			continue
		}
		for _, s := range inv.straits(t) {
			overhead := t.overhead(s.remotes[0])
			switch need := carries + overhead; {
			case need > s.mtu && t.Source == fromSelvage && !t.Answers && slices.Contains(t.firstHops(), s.where):
				// The edge sees this one itself: checkEdges has it.
			case need > s.mtu:
				found = append(found, inv.tooNarrow(t, s, carries, need))
			default:
				found = append(found, good("mtu", t.Name, "%d bytes + %d of %s = %d fit %s of %d towards %s",
					carries, overhead, t.Encapsulation, need, s.name(), s.mtu, addrs(s.remotes)))
			}
		}
	}
	return found
}

func (s *strait) name() string {
	if s.where == "" {
		return "the route"
	}
	return s.where
}

// tooNarrow is a fault, but where an edge answers for what does not fit: it says what its status says of that.
func (inv *Inventory) tooNarrow(t Tunnel, s *strait, carries, need int) Finding {
	f := Finding{
		Check: "mtu", Severity: Fault, Subject: t.Name,
		What: fmt.Sprintf("packets of %d bytes leave %s with %d, but %s takes %d", carries, t.Name, need, s.name(), s.mtu),
		Evidence: fmt.Sprintf("MTU %d of %s + %d bytes of %s over IPv%d = %d; MTU of %s is %d, on the way to %s over %s",
			carries, inv.carrier(t), need-carries, t.Encapsulation, version(s.remotes[0]), need, s.name(), s.mtu, addrs(s.remotes), strings.Join(s.path.Hops, " → ")),
		Why: s0BlackHole,
		Measure: []string{
			pingFull(s.remotes[0], need),
			"ip route flush cache; ip -6 route flush cache  # on end systems that learned a smaller path MTU: they keep it for 10 minutes",
			iperf,
		},
	}
	if t.Source == fromSelvage {
		f.Severity, f.Why = Warning, "The edge answers what does not fit with ICMP errors (RFC 1191, RFC 8201); senders that ignore those lose packets."
	}
	if t.Answers {
		f.Severity, f.Why = Note, "The edge lowers the MSS of TCP to what the tunnel carries, and answers larger packets with ICMP errors (RFC 1191, RFC 8201): nothing is lost, but senders learn it one by one."
	}
	if s.where == "" {
		f.Change = append(f.Change, fix.Line("ip -%d route flush cache  # if a router reported it (ip route get %s says expires); else change that route's mtu",
			version(s.remotes[0]), s.remotes[0]))
	}
	for _, name := range slices.Backward(s.path.Hops) { // the lowest first: a VLAN is no larger than its link
		if l, ok := inv.link(name); ok && l.MTU < need {
			f.Change = append(f.Change, setMTU(name, need))
		}
	}
	if used := inv.fills(t); used > 0 && used+need-carries <= s.mtu {
		f.Severity = Note
		f.Evidence += fmt.Sprintf("; so far its ports send no more than %d", used)
	}
	return f.orLower(inv, t, s.mtu-(need-carries))
}

// fills is the largest packet that the ports of a tunnel device send into it, 0
// when it has none.
func (inv *Inventory) fills(t Tunnel) int {
	largest := 0
	for _, name := range inv.senders(t) {
		if l, ok := inv.link(name); ok {
			largest = max(largest, l.MTU)
		}
	}
	return largest
}

// orLower adds the other way: less in the overlay.
func (f Finding) orLower(inv *Inventory, t Tunnel, mtu int) Finding {
	const remark = "  # lower the overlay, and its end systems too"
	if t.Device != "" && t.MTU > 0 {
		f.either([]string{setMTU(t.Device, mtu) + remark})
		return f
	}
	var lower []string
	for _, name := range t.Ports {
		if l, ok := inv.link(name); ok && l.MTU > mtu {
			lower = append(lower, setMTU(name, mtu)+remark)
		}
	}
	f.either(lower)
	return f
}

// carrier is what sets the size of inner packets.
func (inv *Inventory) carrier(t Tunnel) string {
	if t.MTU > 0 {
		return t.Device
	}
	var largest []string
	for _, name := range t.Ports {
		if l, ok := inv.link(name); ok && l.MTU == inv.carries(t) {
			largest = append(largest, name)
		}
	}
	return few(largest)
}

// checkPorts looks for interfaces that send more into a tunnel device than it
// carries. Tunnels without a device of their own are judged by their ports in
// checkMTU.
func checkPorts(inv *Inventory) []Finding {
	var found []Finding
	for _, t := range inv.Tunnels {
		if t.MTU == 0 || len(t.Ports) == 0 || t.External {
			continue
		}
		var larger []string
		largest := 0
		for _, name := range inv.senders(t) {
			if l, ok := inv.link(name); ok && l.MTU > t.MTU {
				larger, largest = append(larger, name), max(largest, l.MTU)
			}
		}
		if len(larger) == 0 {
			found = append(found, good("port-mtu", t.Name, "no port of %s sends more than the %d bytes it carries", t.Bridge, t.MTU))
			continue
		}
		f := Finding{
			Check: "port-mtu", Severity: Warning, Subject: few(larger),
			What:     fmt.Sprintf("frames of up to %d bytes enter %s, which carries %d", largest, t.Name, t.MTU),
			Evidence: fmt.Sprintf("%d of the interfaces at bridge %s have a larger MTU than %s", len(larger), t.Bridge, t.Name),
			Why:      "A bridge drops frames larger than the MTU of the port they leave by, without an ICMP error. " + s0BlackHole,
			Measure:  []string{fix.Line("ping -c 3 -M do -s %d FAR-END-SYSTEM  # from an end system at %s", t.MTU-28, larger[0]), iperf},
		}
		for _, name := range first(larger) {
			f.Change = append(f.Change, setMTU(name, t.MTU)+"  # and the end system behind it")
		}
		found = append(found, f)
	}
	return found
}

// senders are the ports of a tunnel, and its bridge if the host itself sends by it.
func (inv *Inventory) senders(t Tunnel) []string {
	if l, ok := inv.link(t.Bridge); ok && len(l.Addrs) > 0 {
		return append(slices.Clone(t.Ports), t.Bridge)
	}
	return t.Ports
}

// checkHeadroom wants room for Geneve's options, which only appear with traffic.
func checkHeadroom(inv *Inventory) []Finding {
	var found []Finding
	for _, t := range inv.Tunnels {
		carries := inv.carries(t)
		if t.Encapsulation != "geneve" || carries == 0 || t.External {
			continue
		}
		for _, s := range inv.straits(t) {
			fixed, want := carries+t.overhead(s.remotes[0]), carries+headroom
			if fixed > s.mtu { // checkMTU's
				continue
			}
			if s.mtu >= want {
				found = append(found, good("headroom", t.Name, "%d bytes of room for Geneve's headers and options, %d wanted", s.mtu-carries, headroom))
				continue
			}
			f := Finding{
				Check: "headroom", Severity: Warning, Subject: t.Name,
				What:     fmt.Sprintf("%d bytes of room for Geneve's headers and options towards %s, %d wanted", s.mtu-carries, addrs(s.remotes), headroom),
				Evidence: fmt.Sprintf("inner MTU %d, MTU of %s is %d; without options %d bytes are used", carries, s.name(), s.mtu, fixed),
				Why: "Options take up to 252 bytes and appear when a feature is turned on (RFC 8926 section 3.4). " +
					"The NSX edge study leaves at least 200 bytes: 1500 needs 1700 below it, and 9000 leaves 8800.",
				Measure: []string{pingFull(s.remotes[0], want), iperf},
			}
			for _, name := range slices.Backward(s.path.Hops) {
				if l, ok := inv.link(name); ok && l.MTU < want {
					f.Change = append(f.Change, setMTU(name, want))
				}
			}
			found = append(found, f.orLower(inv, t, s.mtu-headroom))
		}
	}
	return found
}

func setMTU(name string, mtu int) string { return fix.Line("ip link set dev %s mtu %d", name, mtu) }

// iperf measures what users feel.
const iperf = "iperf3 -c SERVER -t 10  # SERVER across the tunnel"

// pingFull proves that an IP packet of size bytes reaches addr unfragmented.
func pingFull(addr netip.Addr, size int) string {
	headers := 20 + 8
	if addr.Is6() {
		headers = 40 + 8
	}
	return fmt.Sprintf("ping -c 3 -M do -s %d %s", size-headers, addr)
}

func version(addr netip.Addr) int {
	if addr.Is6() {
		return 6
	}
	return 4
}

// most is how many names or commands one finding shows.
const most = 8

func first(names []string) []string { return names[:min(most, len(names))] }

// few joins names, and counts those that would be too many.
func few(names []string) string {
	text := strings.Join(first(names), ", ")
	if rest := len(names) - most; rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}

func addrs(list []netip.Addr) string {
	var names []string
	for _, a := range list {
		names = append(names, a.String())
	}
	return few(names)
}
