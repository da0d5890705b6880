package forbidden

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// Tunnel is an encapsulated frame.
type Tunnel struct {
	Src, Dst netip.Addr
	VNI      uint32
	UDPPort  uint16 // 0: NVGRE
	Inner    []byte
}

// underlay examines a tunnel packet. All else is the host's and must not be forwarded.
func (f *examination) underlay(frame []byte) {
	t, rule := f.c.Tunnel(frame)
	if rule == "" && !slices.Contains(f.c.Own, t.Dst) {
		rule = "not a tunnel packet for the edge"
	}
	if rule != "" {
		f.refuse(rule)
		return
	}
	for i := range f.c.Segments {
		if s := &f.c.Segments[i]; s.VNI == t.VNI && s.VNI != 0 && s.UDPPort == t.UDPPort {
			f.segment = s
		}
	}
	if f.segment == nil {
		f.refuse("unknown-vni")
		return
	}
	if !slices.Contains(f.segment.Remotes, t.Src) {
		f.refuse("unknown-remote")
	}
	e, ok := parseEthernet(t.Inner)
	if !ok {
		f.refuse("ethernet")
		return
	}
	f.frame(e, len(e.tags))
}

const none = "not a tunnel packet"

// Tunnel takes the outer headers off, or says what is wrong with them.
func (c *Config) Tunnel(frame []byte) (t Tunnel, rule string) {
	p, rule := outer(frame)
	if rule != "" {
		return t, rule
	}
	t.Src, t.Dst = p.src, p.dst
	switch p.proto {
	case 17:
		if len(p.rest) < 8 || c.UDPPorts[u16(p.rest[2:])] == 0 {
			return t, none
		}
		t.UDPPort = u16(p.rest[2:])
		length := int(u16(p.rest[4:]))
		if length < 16 || length > len(p.rest) {
			return t, "outer-malformed"
		}
		rule = c.udp(&t, p.rest[8:length])
		return t, rule
	case 47:
		if !c.NVGRE || len(p.rest) < 8 {
			return t, none
		}
		if binary.BigEndian.Uint32(p.rest) != 0x20006558 {
			return t, "tunnel-flags"
		}
		t.VNI, t.Inner = binary.BigEndian.Uint32(p.rest[4:])>>8, p.rest[8:]
		return t, ""
	}
	return t, none
}

// outer is the outer IP packet.
func outer(frame []byte) (p packet, rule string) {
	e, ok := parseEthernet(frame)
	if !ok || len(e.tags) > 0 {
		return p, none
	}
	switch e.kind {
	case 0x0800:
		p, ok = parseIPv4(e.rest)
	case 0x86dd:
		p, ok = parseIPv6(e.rest)
		ok = ok && p.extended == 0
	default:
		return p, none
	}
	switch {
	case p.src.Is4In6() || p.dst.Is4In6():
		return p, "mapped-address outside"
	case !ok:
		return p, none
	case p.tail || p.first:
		return p, "outer-fragment"
	}
	return p, ""
}

func (c *Config) udp(t *Tunnel, b []byte) (rule string) {
	t.VNI = binary.BigEndian.Uint32(b[4:]) >> 8
	if c.UDPPorts[t.UDPPort] == VXLAN {
		if b[0]&8 == 0 {
			return "tunnel-flags"
		}
		t.Inner = b[8:]
		return ""
	}
	if b[0]>>6 != 0 || b[1]&0x80 != 0 || u16(b[2:]) != 0x6558 {
		return "tunnel-flags"
	}
	options := b[8:]
	size := 4 * int(b[0]&0x3f)
	if size > len(options) {
		return "outer-malformed"
	}
	t.Inner = options[size:]
	for options = options[:size]; len(options) > 0; {
		if len(options) < 4 || 4+4*int(options[3]&31) > len(options) {
			return "outer-malformed"
		}
		if id := uint32(u16(options))<<8 | uint32(options[2]); options[2]&0x80 != 0 && !slices.Contains(c.Options, id) {
			return "unknown-option"
		}
		options = options[4+4*int(options[3]&31):]
	}
	return ""
}

// Leak says why a frame from a segment must not have left as that tunnel packet, or "".
func (c *Config) Leak(from Opinion, out []byte) string {
	t, rule := c.Tunnel(out)
	if rule != "" || !slices.Contains(c.Own, t.Src) {
		return ""
	}
	was := c.segment(from.Segment)
	for i := range c.Segments {
		s := &c.Segments[i]
		if s.VNI != t.VNI || s.UDPPort != t.UDPPort || s.VNI == 0 {
			continue
		}
		switch {
		case !slices.Contains(s.Remotes, t.Dst):
			return "to a remote of other segments"
		case s == was:
			return ""
		case was == nil || !from.Routed || was.Router == "" || was.Router != s.Router:
			return "into the segment " + s.Name
		}
		return ""
	}
	return "with an unknown VNI"
}
