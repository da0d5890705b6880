package overlay

import "net/netip"

// Encapsulation names a tunnel header.
type Encapsulation string

// The encapsulations.
const (
	VXLAN  Encapsulation = "vxlan"  // RFC 7348
	Geneve Encapsulation = "geneve" // RFC 8926
	NVGRE  Encapsulation = "nvgre"  // RFC 7637
)

// MaxOptions is how many bytes of Geneve options the header's length field
// allows (RFC 8926 section 3.4).
const MaxOptions = 252

// Ethernet, IP and tunnel header lengths that make up the cost of a tunnel, in bytes.
const (
	ethernetLen = 14
	ipv4Len     = 20
	ipv6Len     = 40
	udpLen      = 8
	vxlanLen    = 8
	geneveLen   = 8
	nvgreLen    = 8
)

// DefaultUDPPort is the port that IANA gave the encapsulation, 0 for NVGRE,
// which has none.
func (e Encapsulation) DefaultUDPPort() uint16 {
	switch e {
	case VXLAN:
		return 4789
	case Geneve:
		return 6081
	}
	return 0
}

// Overhead is the number of bytes that the encapsulation without options adds to
// an inner IP packet on an underlay of the family of tep: outer IP, tunnel header
// and inner Ethernet header (VXLAN and Geneve: 50 on IPv4, 70 on IPv6; NVGRE: 42
// and 62).
func (e Encapsulation) Overhead(tep netip.Addr) int {
	return Tunnel{Encapsulation: e}.Overhead(tep)
}

// Overhead is the number of bytes that t adds to an inner IP packet without
// 802.1Q tags on an underlay of the family of tep.
func (t Tunnel) Overhead(tep netip.Addr) int {
	outer := ipv4Len
	if tep.Is6() && !tep.Is4In6() {
		outer = ipv6Len
	}
	switch t.Encapsulation {
	case Geneve:
		outer += udpLen + geneveLen + len(t.Options)
	case NVGRE:
		outer += nvgreLen
	default:
		outer += udpLen + vxlanLen
	}
	return outer + ethernetLen
}
