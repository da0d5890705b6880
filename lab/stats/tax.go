package stats

// wireFraming is what Ethernet adds to every IP packet on the wire, in bytes:
// header 14, FCS 4, preamble and start delimiter 8, interframe outage 12 (IEEE
// 802.3 clauses 3 and 4). VLAN tags are not counted.
const wireFraming = 14 + 4 + 8 + 12

// Path is what decides how much of a wire TCP payload can fill.
type Path struct {
	MTU        int  // bytes of the (inner) IP packet
	IPv6       bool // family of the (inner) packet
	Timestamps bool // TCP timestamps, 12 bytes a segment (RFC 7323)
	// Outer is what a tunnel puts around the inner IP packet, in bytes (see
	// overlay.Encapsulation.Overhead: VXLAN 50 on IPv4, 70 on IPv6); 0 for none.
	Outer int
}

// MSS is the TCP payload of a full segment in bytes.
func (p Path) MSS() int {
	headers := 20 + 20
	if p.IPv6 {
		headers = 40 + 20
	}
	if p.Timestamps {
		headers += 12
	}
	return p.MTU - headers
}

// Share is TCP payload over bits on the wire at full segments (0 … 1), with
// preamble, FCS and outage counted: 0.941 for plain 1500, 0.909 for VXLAN in 1500.
// It is 0 when nothing fits.
func (p Path) Share() float64 {
	if p.MSS() <= 0 {
		return 0
	}
	return float64(p.MSS()) / float64(p.MTU+p.Outer+wireFraming)
}

// HeaderTax is the share of plain's throughput that tunnel's headers alone cost
// when the wire is the limit: 0.0345 for VXLAN in a 1500-byte underlay. Where
// the processor is the limit, less or more may be lost; this is the part that no
// implementation can save on a real wire.
func HeaderTax(plain, tunnel Path) float64 {
	if plain.Share() == 0 {
		return 0
	}
	return 1 - tunnel.Share()/plain.Share()
}
