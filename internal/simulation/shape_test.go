package simulation

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// How many of each there may be.
const (
	maxSegments = 5
	maxPorts    = 8
	maxRemotes  = 5 // of the configuration
	maxLearned  = 4 // that BGP tells of
	maxMACs     = 6 // of static entries, in each segment
	maxRoutes   = 4
)

// shape is what a configuration says.
type shape struct {
	dual, bfd, bgp bool // of the whole run
	fdbSize        int
	firewall       int // 0: none, else one of its variants
	segments       map[int]*segment
	ports          map[int]*port
	routes         map[int]int // of the router, by number: through which segment
}

type segment struct {
	gateway, evpn bool
	remotes       map[int]bool
	static        map[int]int // MAC address → port, or -1 - remote
}

type port struct {
	segment int
	guarded bool
}

func newShape() shape {
	return shape{fdbSize: 32, segments: map[int]*segment{}, ports: map[int]*port{}, routes: map[int]int{}}
}

func (s shape) clone() shape {
	c := s
	c.segments, c.ports, c.routes = map[int]*segment{}, map[int]*port{}, maps.Clone(s.routes)
	for i, seg := range s.segments {
		own := *seg
		own.remotes, own.static = maps.Clone(seg.remotes), maps.Clone(seg.static)
		c.segments[i] = &own
	}
	for i, p := range s.ports {
		own := *p
		c.ports[i] = &own
	}
	return c
}

// tidy removes what refers to what is not there.
func (s shape) tidy() {
	for i, p := range s.ports {
		if s.segments[p.segment] == nil {
			delete(s.ports, i)
		}
	}
	for n, seg := range s.segments {
		for mac, at := range seg.static {
			if at >= 0 && (s.ports[at] == nil || s.ports[at].segment != n) || at < 0 && !seg.remotes[-1-at] {
				delete(seg.static, mac)
			}
		}
	}
	for n, by := range s.routes {
		if seg := s.segments[by]; seg == nil || !seg.gateway {
			delete(s.routes, n)
		}
	}
}

func (s shape) hasRouter() bool {
	for _, seg := range s.segments {
		if seg.gateway {
			return true
		}
	}
	return false
}

// Addresses and names, by number.
func vniOf(seg int) uint32         { return uint32(100 + seg) }
func macOf(seg, n int) string      { return fmt.Sprintf("02:00:00:00:%02x:%02x", seg, n) }
func guardMAC(port int) string     { return fmt.Sprintf("02:00:00:01:00:%02x", port) }
func remoteAddr(n int) netip.Addr  { return netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + n)}) }
func secondAddr(n int) netip.Addr  { return netip.AddrFrom4([4]byte{198, 51, 100, byte(10 + n)}) }
func learnedAddr(n int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(40 + n)}) }
func prefixOf(seg int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(seg), 0, 0}), 24)
}
func staticPrefix(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(100 + n), 0, 0}), 16)
}
func nextHopIn(seg int) netip.Addr    { return netip.AddrFrom4([4]byte{10, byte(seg), 0, 1}) }
func gatewayIn(seg int) netip.Addr    { return netip.AddrFrom4([4]byte{10, byte(seg), 0, 254}) }
func interfaceOf(port int) string     { return fmt.Sprintf("veth%d", port) }
func (s shape) remotes(seg int) []int { return slices.Sorted(maps.Keys(s.segments[seg].remotes)) }
func sorted[V any](m map[int]V) []int { return slices.Sorted(maps.Keys(m)) }
func (s shape) addrs(n int) (list []netip.Addr) {
	list = append(list, remoteAddr(n))
	if s.dual {
		list = append(list, secondAddr(n))
	}
	return list
}

// The TEPs of the edge.
var tep, tep2 = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1")

// text is the configuration as a user writes it.
func (s shape) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("apiVersion: selvage.dev/v1alpha2\nkind: Edge\nmetadata: {name: a}\nspec:\n  underlay:")
	if s.dual {
		line("    teps: [{name: u0, address: %s, interface: eth0}, {name: u1, address: %s, interface: eth1}]", tep, tep2)
	} else {
		line("    interfaces: [eth0]\n    tep: %s", tep)
	}
	line("    probeMTU: false")
	if s.bfd {
		line("    bfd: {interval: 50ms}")
	}
	line("  fdb: {size: %d}", s.fdbSize)
	line("  tables: {vports: 64, nextHops: 64, nextHopGroups: 64, routes: 64, members: 128, remotes: 128}")
	line("  remotes:")
	for n := range maxRemotes {
		line("    - {name: r%d, addresses: %s}", n, flow(s.addrs(n)))
	}
	s.writeSegments(line)
	s.writePorts(line)
	s.writeRest(line)
	return b.String()
}

func (s shape) writeSegments(line func(string, ...any)) {
	if len(s.segments) > 0 {
		line("  segments:")
	}
	for _, n := range sorted(s.segments) {
		seg := s.segments[n]
		line("    - name: s%d\n      vni: %d", n, vniOf(n))
		var remotes []string
		for _, r := range s.remotes(n) {
			remotes = append(remotes, fmt.Sprintf("r%d", r))
		}
		line("      remotes: [%s]", strings.Join(remotes, ", "))
		if seg.gateway {
			line("      gateway: {router: main, addresses: [%s/24]}", gatewayIn(n))
		}
		if seg.evpn && s.bgp {
			line("      evpn: {}")
		}
		if len(seg.static) > 0 {
			line("      fdb:")
		}
		for _, mac := range sorted(seg.static) {
			if at := seg.static[mac]; at >= 0 {
				line("        - {mac: %q, port: p%d}", macOf(n, mac), at)
			} else {
				line("        - {mac: %q, remote: r%d}", macOf(n, mac), -1-at)
			}
		}
	}
}

func (s shape) writePorts(line func(string, ...any)) {
	if len(s.ports) > 0 {
		line("  ports:")
	}
	for _, n := range sorted(s.ports) {
		p, guard := s.ports[n], ""
		if p.guarded {
			guard = fmt.Sprintf(", allowed: {macs: [%q]}", guardMAC(n))
		}
		line("    - {name: p%d, interface: %s, segment: s%d%s}", n, interfaceOf(n), p.segment, guard)
	}
}

func (s shape) writeRest(line func(string, ...any)) {
	if s.hasRouter() {
		line("  routers:\n    - name: main")
		if len(s.routes) > 0 {
			line("      routes:")
		}
		for _, n := range sorted(s.routes) {
			line("        - {prefix: %s, via: [{address: %s}]}", staticPrefix(n), nextHopIn(s.routes[n]))
		}
	}
	if s.firewall > 0 {
		line("  firewall:\n    default: %s\n    sections:\n      - {name: web, rules: [{name: some, services: [tcp/%d], action: allow}]}", []string{"allow", "drop"}[s.firewall%2], 80+s.firewall)
	}
	if s.bgp {
		line("  bgp: {as: 65000, neighbours: [{name: rr1, address: %s}]}", reflector)
	}
}

func flow(addrs []netip.Addr) string {
	words := make([]string, len(addrs))
	for i, a := range addrs {
		words[i] = a.String()
	}
	return "[" + strings.Join(words, ", ") + "]"
}
