// Package forbidden states which frames an edge must never forward: a second opinion on the data
// path, by its documents and RFCs, in plain Go.
//
// Its one invariant: it shares no code with the data path, its tests or their packets, and
// imports the standard library alone. It states a security policy, not forwarding: of what it
// has no objection to, the data path may still drop anything. Do not use it to predict where a
// frame goes.
package forbidden

import (
	"net/netip"
	"slices"
)

// MAC is an Ethernet address.
type MAC [6]byte

// Entry is where a frame enters the edge.
type Entry int

// The entries.
const (
	FromPort Entry = iota // a port or an uplink
	FromUnderlay
)

// Port is where end systems or, at an uplink, other routers are.
type Port struct {
	Device   string
	VLAN     uint16 // 0: untagged
	Segment  string
	MACs     []MAC          // allowed, none: all
	Prefixes []netip.Prefix // allowed, none: all
	Uplink   bool
	Firewall bool // allows TCP connections to port 80, and what belongs to them
	Routers  bool // may send router advertisements
	DHCP     bool // may be a DHCP server
}

// Segment is a broadcast domain.
type Segment struct {
	Name         string
	VNI          uint32
	UDPPort      uint16 // 0: NVGRE, or an uplink's
	Remotes      []netip.Addr
	KeepTags     bool
	Wire         bool // control protocols of bridges cross it
	Router       string
	GatewayMAC   MAC
	GatewayAddrs []netip.Addr
}

// Encapsulation is that of a UDP port.
type Encapsulation int

// The encapsulations on UDP.
const (
	VXLAN Encapsulation = iota + 1
	Geneve
)

// Config is what the policy depends on.
type Config struct {
	TEPs     []netip.Addr // of the edge and of remotes
	Own      []netip.Addr // of the edge
	UDPPorts map[uint16]Encapsulation
	NVGRE    bool
	Options  []uint32 // Geneve options that a segment uses: class << 8 | type
	Segments []Segment
	Ports    []Port
	Inside   []netip.Prefix // what no uplink may be the source of
}

// Opinion is what the policy says of a frame.
type Opinion struct {
	// Rule is why the frame must not be forwarded, or "".
	Rule    string
	Segment string // where it came from, "" unknown
	Routed  bool   // to the gateway
}

// Of is the opinion on a frame that entered by a device.
func (c *Config) Of(entry Entry, device string, frame []byte) Opinion {
	f := examination{c: c}
	if entry == FromUnderlay {
		f.underlay(frame)
	} else {
		f.port(device, frame)
	}
	o := Opinion{Rule: f.rule}
	if f.segment != nil {
		o.Segment, o.Routed = f.segment.Name, f.routed
	}
	return o
}

// examination is a frame under examination. The first rule that it breaks counts.
type examination struct {
	c       *Config
	rule    string
	segment *Segment
	at      *Port // nil: from a tunnel
	routed  bool
	tagged  bool // tags stay on it: a network of the guests' own, whose ARP and ND nobody inspects
}

func (f *examination) refuse(rule string) {
	if f.rule == "" {
		f.rule = rule
	}
}

func (f *examination) port(device string, frame []byte) {
	e, ok := parseEthernet(frame)
	if !ok {
		f.refuse("ethernet")
		return
	}
	vlan, kept := uint16(0), len(e.tags)
	if kept > 0 { // of VLAN 0 it has a priority only
		vlan = e.tags[0] & 0xfff
		kept--
	}
	f.at = f.c.portOf(device, vlan)
	if f.at == nil { // a tag of the tenant's
		f.at = f.c.portOf(device, 0)
		kept = len(e.tags)
	}
	if f.at == nil {
		f.refuse("unknown-port")
		return
	}
	f.segment = f.c.segment(f.at.Segment)
	if f.at.Uplink && (kept > 0 || e.dst != f.segment.GatewayMAC) {
		f.refuse("uplink: the host's")
		return
	}
	f.guardMAC(e)
	f.frame(e, kept)
}

func (c *Config) portOf(device string, vlan uint16) *Port {
	for i := range c.Ports {
		if c.Ports[i].Device == device && c.Ports[i].VLAN == vlan {
			return &c.Ports[i]
		}
	}
	return nil
}

func (c *Config) segment(name string) *Segment {
	for i := range c.Segments {
		if c.Segments[i].Name == name {
			return &c.Segments[i]
		}
	}
	return nil
}

func (f *examination) guardMAC(e ethernet) {
	if len(f.at.MACs) > 0 && !slices.Contains(f.at.MACs, e.src) {
		f.refuse("spoofed-mac")
	}
	if f.segment.GatewayMAC != (MAC{}) && e.src == f.segment.GatewayMAC {
		f.refuse("spoofed-mac: the gateway's")
	}
}

// frame examines what a port or a tunnel brought into the segment.
func (f *examination) frame(e ethernet, kept int) {
	if e.src[0]&1 != 0 || e.src == (MAC{}) {
		f.refuse("source-multicast")
	}
	f.tagged = kept > 0
	if kept > 0 && !f.segment.KeepTags {
		f.refuse("vlan")
	}
	if !f.segment.Wire && reserved(e.dst) {
		f.refuse("reserved-group")
	}
	f.routed = f.segment.GatewayMAC != (MAC{}) && e.dst == f.segment.GatewayMAC && kept == 0
	switch e.kind {
	case 0x0800:
		f.ipv4(e)
	case 0x86dd:
		f.ipv6(e)
	case 0x0806:
		f.arp(e)
	}
}

// reserved are the addresses of 802.1Q 8.6.3, and of PVST.
func reserved(a MAC) bool {
	return a[0] == 1 && a[1] == 0x80 && a[2] == 0xc2 && a[3] == 0 && a[4] == 0 && a[5] < 16 ||
		a == MAC{1, 0, 0xc, 0xcc, 0xcc, 0xcd}
}

func (f *examination) arp(e ethernet) {
	if len(e.rest) < 28 {
		f.refuse("malformed-arp")
		return
	}
	f.claims(netip.AddrFrom4([4]byte(e.rest[14:18])), "ARP")
}

// claims examines an address that a port says to have.
func (f *examination) claims(a netip.Addr, by string) {
	if f.at == nil || f.at.Uplink || f.tagged || a.IsUnspecified() {
		return
	}
	if slices.Contains(f.segment.GatewayAddrs, a) {
		f.refuse("gateway's address by " + by)
	}
	if !f.mayUse(a) {
		f.refuse("spoofed-address by " + by)
	}
}

func (f *examination) mayUse(a netip.Addr) bool {
	return len(f.at.Prefixes) == 0 || slices.ContainsFunc(f.at.Prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

func (f *examination) ipv4(e ethernet) {
	p, ok := parseIPv4(e.rest)
	if !ok {
		f.refuse("malformed-ipv4")
		return
	}
	f.ip(p)
}

func (f *examination) ipv6(e ethernet) {
	p, ok := parseIPv6(e.rest)
	if !ok {
		f.refuse("malformed-ipv6")
		return
	}
	if p.src.Is4In6() || p.dst.Is4In6() {
		f.refuse("mapped-address")
	}
	f.ip(p)
	if p.isDiscovery() {
		f.discovery(p)
	}
}

// ip examines what IPv4 and IPv6 share.
func (f *examination) ip(p packet) {
	if p.src.IsMulticast() {
		f.refuse("martian")
	}
	f.l4(p)
	if f.at != nil {
		f.source(p)
		f.servers(p)
		f.firewall(p)
	}
	if f.routed && !p.isDiscovery() { // neighbours of the gateway talk to it, not through it
		f.router(p)
	}
}

// router examines what is to be routed.
func (f *examination) router(p packet) {
	if martian(p.src) {
		f.refuse("martian")
	}
	if p.ttl <= 1 {
		f.refuse("ttl")
	}
	if f.at != nil && !f.at.Uplink && slices.Contains(f.c.TEPs, p.dst) && f.isTunnel(p) {
		f.refuse("tunnel to a TEP")
	}
	if f.at != nil && f.at.Uplink && slices.ContainsFunc(f.c.Inside, func(i netip.Prefix) bool { return i.Contains(p.src) }) {
		f.refuse("urpf")
	}
}

func (f *examination) l4(p packet) {
	least := map[uint8]int{6: 20, 17: 8, 1: 4, 58: 4}[p.proto]
	if p.v6 && p.proto == 1 || !p.v6 && p.proto == 58 {
		least = 0
	}
	if !p.tail && !p.first && !p.deep && len(p.rest) < least { // who reassembles sees what a first fragment lacks
		f.refuse("malformed-l4")
	}
}

func (f *examination) isTunnel(p packet) bool {
	if p.tail || p.opaque {
		return false
	}
	if p.proto == 47 {
		return f.c.NVGRE
	}
	return p.proto == 17 && len(p.rest) >= 4 && f.c.UDPPorts[u16(p.rest[2:])] != 0
}

// source examines who says to have sent a packet of a port.
func (f *examination) source(p packet) {
	if f.at.Uplink {
		return
	}
	if slices.Contains(f.segment.GatewayAddrs, p.src) {
		f.refuse("gateway's address")
	}
	unowned := p.src.IsUnspecified() || p.v6 && p.src.IsLinkLocalUnicast()
	if !unowned && !f.mayUse(p.src) {
		f.refuse("spoofed-address")
	}
}

// servers examines who answers for the network.
func (f *examination) servers(p packet) {
	if f.at.Uplink || f.at.DHCP || p.proto != 17 || p.tail || p.opaque || len(p.rest) < 8 {
		return
	}
	from, to := u16(p.rest), u16(p.rest[2:])
	if !p.v6 && from == 67 && to == 68 || p.v6 && from == 547 && to == 546 {
		f.refuse("dhcp-server")
	}
}

// firewall allows TCP to and from port 80, errors and neighbour discovery.
func (f *examination) firewall(p packet) {
	if !f.at.Firewall || p.tail || len(p.rest) < 4 {
		return
	}
	kind := p.rest[0]
	switch {
	case p.proto == 6:
		if u16(p.rest) != 80 && u16(p.rest[2:]) != 80 {
			f.refuse("firewall")
		}
	case p.isError():
	case p.proto == 58 && p.v6 && kind >= 133 && kind <= 137 && p.ttl == 255:
	case p.proto == 58 && !p.v6:
		f.refuse("firewall: protocol 58 in IPv4")
	default:
		f.refuse("firewall")
	}
}

// discovery examines ND.
func (f *examination) discovery(p packet) {
	if f.at == nil || f.at.Uplink {
		return
	}
	kind := p.rest[0]
	if p.extended > 0 {
		f.refuse("ND behind extension headers")
		return
	}
	if (kind == 134 || kind == 137) && !f.at.Routers {
		f.refuse("router advertisement or redirect")
	}
	if kind == 136 && len(p.rest) >= 24 {
		if target := netip.AddrFrom16([16]byte(p.rest[8:24])); !target.IsLinkLocalUnicast() {
			f.claims(target, "ND")
		}
	}
}

var martians = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("224.0.0.0/3"),
	netip.MustParsePrefix("::/128"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
}

// martian are sources that no router forwards (RFC 1812 section 5.3.7, RFC 4291 section 2.5).
func martian(a netip.Addr) bool {
	return slices.ContainsFunc(martians, func(p netip.Prefix) bool { return p.Contains(a) })
}
