// Package overlay is the model of an overlay network edge: what a
// configuration asks for and a data plane does, as plain data.
//
// Its one invariant: it does no I/O and imports nothing else of this module,
// so everything may import it. Do not put behaviour here that needs a kernel,
// a file or a clock.
package overlay

import (
	"fmt"
	"net/netip"
	"time"
)

// VNI is a VXLAN network identifier, 24 bits (RFC 7348 section 5).
type VNI uint32

// MaxVNI is the largest identifier that fits the header's 24 bits.
const MaxVNI VNI = 1<<24 - 1

// Encapsulation names a tunnel header.
type Encapsulation string

// VXLAN is the encapsulation of RFC 7348.
const VXLAN Encapsulation = "vxlan"

// Ethernet and IP header lengths that make up the cost of a tunnel, in bytes.
const (
	ethernetLen = 14
	ipv4Len     = 20
	ipv6Len     = 40
	udpLen      = 8
	vxlanLen    = 8
)

// Overhead is the number of bytes that a tunnel adds to an inner IP packet on
// an underlay of the family of tep: outer IP, UDP and tunnel header plus the
// inner Ethernet header (RFC 7348 section 5: 50 on IPv4, 70 on IPv6).
func (e Encapsulation) Overhead(tep netip.Addr) int {
	outer := ipv4Len
	if tep.Is6() && !tep.Is4In6() {
		outer = ipv6Len
	}
	return outer + udpLen + vxlanLen + ethernetLen
}

// MAC is a 48-bit Ethernet address.
type MAC [6]byte

// String returns the address as six colon-separated lower-case hex bytes.
func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// MarshalText makes a MAC a string in JSON and YAML.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (m *MAC) UnmarshalText(text []byte) error {
	addr, err := ParseMAC(string(text))
	if err != nil {
		return err
	}
	*m = addr
	return nil
}

// Multicast reports whether the group bit is set (broadcast included).
func (m MAC) Multicast() bool { return m[0]&1 == 1 }

// Edge is one overlay edge on one host.
type Edge struct {
	Name      string
	Underlay  Underlay
	FlowCache FlowCache
	FDB       FDB
	Segments  []Segment
	Ports     []Port
}

// Underlay is the plain IP network that carries the tunnels.
type Underlay struct {
	Interfaces []string
	// TEP is the address of this edge's tunnel endpoint: the outer source.
	TEP netip.Addr
}

// FlowCache sizes the cache of decisions.
type FlowCache struct {
	Enabled bool
	Size    uint32 // entries
}

// FDB sizes and ages the forwarding database that all segments share.
type FDB struct {
	Size   uint32        // entries
	Ageing time.Duration // of a learned entry without traffic
}

// Segment is one layer 2 broadcast domain: one VNI at one UDP port.
type Segment struct {
	Name          string
	VNI           VNI
	Encapsulation Encapsulation
	UDPPort       uint16
	// UDPChecksum asks for an outer UDP checksum on an IPv6 underlay. The
	// default of zero is RFC 6935 and 6936; IPv4 always sends zero, as RFC
	// 7348 section 5 recommends. Both are accepted on receipt.
	UDPChecksum bool
	Remotes     []netip.Addr
	Static      []StaticMAC
}

// StaticMAC is a forwarding entry that neither ages nor moves. Exactly one of
// Port and Remote is set.
type StaticMAC struct {
	MAC    MAC
	Port   string
	Remote netip.Addr
}

// Port attaches a local interface to a segment.
type Port struct {
	Name      string
	Interface string
	Segment   string
}
