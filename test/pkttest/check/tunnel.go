package check

import (
	"encoding/binary"
	"fmt"

	"github.com/selvage/selvage/test/pkttest"
)

// VXLAN checks the VNI, that the I flag alone is set, and that what is reserved is zero.
func VXLAN(vni uint32) Checker {
	return header(pkttest.KindVXLAN, []Field{func(h pkttest.Header) error {
		return differ("header", fmt.Sprintf("%x", h.Bytes), fmt.Sprintf("08000000%06x00", vni))
	}})
}

// Geneve checks the VNI and the options, the C flag, and that what is reserved is zero.
func Geneve(vni uint32, options []byte) Checker {
	critical := 0
	for b := options; len(b) >= 4; b = b[min(len(b), 4+4*int(b[3]&0x1f)):] {
		if b[2]&0x80 != 0 {
			critical = pkttest.GeneveCritical
		}
	}
	return header(pkttest.KindGeneve, []Field{func(h pkttest.Header) error {
		return differ("header", fmt.Sprintf("%x", h.Bytes), fmt.Sprintf("%02x%02x6558%06x00%x", len(options)/4, critical, vni, options))
	}})
}

// NVGRE checks the VSID and that of the flags the key's alone is set.
func NVGRE(vsid uint32, fields ...Field) Checker {
	return header(pkttest.KindNVGRE, append([]Field{func(h pkttest.Header) error {
		return differ("header", fmt.Sprintf("%x", h.Bytes[:7]), fmt.Sprintf("20006558%06x", vsid))
	}}, fields...))
}

// FlowID checks NVGRE's.
func FlowID(want uint8) Field {
	return func(h pkttest.Header) error { return differ("FlowID", h.Bytes[7], want) }
}

// Tag checks an 802.1Q tag, less the TPID, which stands in the header before.
func Tag(tci uint16) Checker {
	return header(pkttest.KindVLAN, []Field{func(h pkttest.Header) error {
		return differ("TCI", binary.BigEndian.Uint16(h.Bytes), tci)
	}})
}
