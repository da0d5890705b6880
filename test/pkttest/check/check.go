// Package check says in a composable way what a packet must look like.
//
// Its one invariant: every packet that passes is right in all lengths and
// checksums, whatever a test asks for besides. Checkers take the headers one
// after another, outermost first.
//
//	check.Packet(t, in, out,
//		check.Ether(src, dst),
//		check.IPv4("192.0.2.1", "192.0.2.2", check.TTL(64), check.DontFragment),
//		check.UDP(check.DstPort(4789), check.NoChecksum),
//		check.VXLAN(100),
//		check.Frame(in))
package check

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/test/pkttest"
)

// Checker looks at the headers that no checker before it has taken, and returns the rest.
type Checker func(left []pkttest.Header) ([]pkttest.Header, error)

// Field looks at one header.
type Field func(pkttest.Header) error

// Packet fails the test unless out is well formed and passes all checkers. in
// is what it was made of; both are printed and kept on failure.
func Packet(t testing.TB, in, out []byte, checkers ...Checker) bool {
	t.Helper()
	var wrong []string
	d := pkttest.Dissect(out)
	for _, f := range d.Faults {
		wrong = append(wrong, f.Error())
	}
	left := d.Headers
	for _, c := range checkers {
		rest, err := c(left)
		if err != nil {
			wrong = append(wrong, err.Error())
		}
		left = rest
	}
	if len(wrong) > 0 {
		pkttest.Errorf(t, []pkttest.Named{{Name: "in", Bytes: in}, {Name: "out", Bytes: out}}, "%s", strings.Join(wrong, "\n"))
	}
	return len(wrong) == 0
}

// Equal fails the test unless the packets are the same, byte for byte.
func Equal(t testing.TB, what string, want, got []byte) bool {
	t.Helper()
	if bytes.Equal(want, got) {
		return true
	}
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	pkttest.Errorf(t, []pkttest.Named{{Name: "want", Bytes: want}, {Name: "got", Bytes: got}},
		"%s: they differ from byte %d on (%d and %d bytes)", what, at, len(want), len(got))
	return false
}

func header(kind pkttest.Kind, fields []Field) Checker {
	return func(left []pkttest.Header) ([]pkttest.Header, error) {
		if len(left) == 0 {
			return nil, fmt.Errorf("%s header is missing", kind)
		}
		h := left[0]
		if h.Kind != kind {
			return left[1:], fmt.Errorf("%s header where %s should be", h.Kind, kind)
		}
		var wrong []string
		for _, f := range fields {
			if err := f(h); err != nil {
				wrong = append(wrong, err.Error())
			}
		}
		if len(wrong) > 0 {
			return left[1:], fmt.Errorf("%s: %s", kind, strings.Join(wrong, ", "))
		}
		return left[1:], nil
	}
}

func differ[T comparable](what string, got, want T) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("%s is %v, want %v", what, got, want)
}

// Ether checks both addresses of an Ethernet header.
func Ether(src, dst string, fields ...Field) Checker {
	return header(pkttest.KindEther, append([]Field{func(h pkttest.Header) error {
		return differ("source > destination", net.HardwareAddr(h.Bytes[6:12]).String()+" > "+net.HardwareAddr(h.Bytes[:6]).String(), src+" > "+dst)
	}}, fields...))
}

// EtherType checks the ethertype.
func EtherType(want uint16) Field {
	return func(h pkttest.Header) error {
		return differ("type", binary.BigEndian.Uint16(h.Bytes[12:]), want)
	}
}

// IP checks the addresses of an IPv4 or IPv6 header.
func IP(src, dst netip.Addr, fields ...Field) Checker {
	kind, at, n := pkttest.KindIPv4, 12, 4
	if !src.Is4() {
		kind, at, n = pkttest.KindIPv6, 8, 16
	}
	return header(kind, append([]Field{func(h pkttest.Header) error {
		s, _ := netip.AddrFromSlice(h.Bytes[at : at+n])
		d, _ := netip.AddrFromSlice(h.Bytes[at+n : at+2*n])
		return differ("source > destination", s.String()+" > "+d.String(), src.String()+" > "+dst.String())
	}}, fields...))
}

// TTL checks an IPv4 TTL or IPv6 hop limit.
func TTL(want uint8) Field {
	return func(h pkttest.Header) error {
		if h.Kind == pkttest.KindIPv6 {
			return differ("hop limit", h.Bytes[7], want)
		}
		return differ("TTL", h.Bytes[8], want)
	}
}

// DontFragment checks that of the IPv4 fragment fields DF alone is set. IPv6
// routers never fragment, so there is nothing to check.
func DontFragment(h pkttest.Header) error {
	if h.Kind == pkttest.KindIPv6 {
		return nil
	}
	return differ("flags and fragment offset", binary.BigEndian.Uint16(h.Bytes[6:]), 0x4000)
}

// MayFragment checks that the IPv4 fragment fields are zero.
func MayFragment(h pkttest.Header) error {
	if h.Kind == pkttest.KindIPv6 {
		return nil
	}
	return differ("flags and fragment offset", binary.BigEndian.Uint16(h.Bytes[6:]), 0)
}

// TOS checks DSCP and ECN.
func TOS(want uint8) Field {
	return func(h pkttest.Header) error {
		if h.Kind == pkttest.KindIPv6 {
			return differ("traffic class", uint8(binary.BigEndian.Uint16(h.Bytes)>>4), want)
		}
		return differ("TOS", h.Bytes[1], want)
	}
}

// PlainHeader checks that an IPv4 header has no options and TOS and ID zero, and that an
// IPv6 header has traffic class zero.
func PlainHeader(h pkttest.Header) error {
	if h.Kind == pkttest.KindIPv6 {
		return differ("version and traffic class", binary.BigEndian.Uint16(h.Bytes)>>4, 0x600)
	}
	return differ("version, length, TOS and ID", fmt.Sprintf("%x %x", h.Bytes[:2], h.Bytes[4:6]), "4500 0000")
}

// FlowLabel checks the IPv6 flow label; IPv4 has none.
func FlowLabel(want uint32) Field {
	return func(h pkttest.Header) error {
		if h.Kind != pkttest.KindIPv6 {
			return nil
		}
		return differ("flow label", binary.BigEndian.Uint32(h.Bytes)&0xfffff, want)
	}
}

// UDP checks a UDP header.
func UDP(fields ...Field) Checker { return header(pkttest.KindUDP, fields) }

// TCP checks a TCP header.
func TCP(fields ...Field) Checker { return header(pkttest.KindTCP, fields) }

// SrcPort checks the source port of TCP or UDP.
func SrcPort(want uint16) Field {
	return func(h pkttest.Header) error { return differ("source port", binary.BigEndian.Uint16(h.Bytes), want) }
}

// DstPort checks the destination port of TCP or UDP.
func DstPort(want uint16) Field {
	return func(h pkttest.Header) error {
		return differ("destination port", binary.BigEndian.Uint16(h.Bytes[2:]), want)
	}
}

// EntropyPort checks that the source port is one for tunnels (RFC 7348 section 5:
// the dynamic range 49152 to 65535).
func EntropyPort(h pkttest.Header) error {
	if port := binary.BigEndian.Uint16(h.Bytes); port < 49152 {
		return fmt.Errorf("source port %d is below 49152", port)
	}
	return nil
}

// NoChecksum checks that the UDP checksum is not used.
func NoChecksum(h pkttest.Header) error {
	return differ("checksum", binary.BigEndian.Uint16(h.Bytes[6:]), 0)
}

// HasChecksum checks that the UDP checksum is used; that it is right is checked always.
func HasChecksum(h pkttest.Header) error {
	if h.Bytes[6]|h.Bytes[7] == 0 {
		return fmt.Errorf("checksum is zero")
	}
	return nil
}

// Frame checks that the header before carries exactly these bytes, and takes all that is left.
func Frame(want []byte) Checker {
	return func(left []pkttest.Header) ([]pkttest.Header, error) {
		if len(left) == 0 {
			return nil, fmt.Errorf("no frame")
		}
		got := append(append([]byte(nil), left[0].Bytes...), left[0].Body...)
		if !bytes.Equal(got, want) {
			return nil, fmt.Errorf("the inner frame is\n%x, want\n%x", got, want)
		}
		return nil, nil
	}
}
