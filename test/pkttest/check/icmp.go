package check

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/selvage/selvage/test/pkttest"
)

// ICMP checks type and code of a message.
func ICMP(kind, code uint8, fields ...Field) Checker {
	return icmp(pkttest.KindICMP, kind, code, fields)
}

// ICMPv6 checks type and code of a message.
func ICMPv6(kind, code uint8, fields ...Field) Checker {
	return icmp(pkttest.KindICMPv6, kind, code, fields)
}

func icmp(kind pkttest.Kind, number, code uint8, fields []Field) Checker {
	return header(kind, append([]Field{func(h pkttest.Header) error {
		return differ("type/code", fmt.Sprintf("%d/%d", h.Bytes[0], h.Bytes[1]), fmt.Sprintf("%d/%d", number, code))
	}}, fields...))
}

// Rest checks the 4 bytes behind the checksum: the MTU of "too big", zero in other errors.
func Rest(want uint32) Field {
	return func(h pkttest.Header) error {
		if len(h.Body) < 4 {
			return fmt.Errorf("a header of %d bytes", 4+len(h.Body))
		}
		return differ("MTU or unused", binary.BigEndian.Uint32(h.Body), want)
	}
}

// Quotes checks that an error has the beginning of an IP packet: as much as a
// packet of the minimum MTU has room for (RFC 1812 section 4.3.2.3, RFC 4443
// section 2.4), but for less than 4 bytes at the end.
func Quotes(packet []byte) Field {
	return func(h pkttest.Header) error {
		most := 576 - 28
		if h.Kind == pkttest.KindICMPv6 {
			most = 1280 - 48
		}
		if len(h.Body) < 4 {
			return fmt.Errorf("nothing is quoted")
		}
		quoted := h.Body[4:]
		if len(quoted) > most || len(quoted) > len(packet) || len(quoted) < min(most, len(packet))&^3 {
			return fmt.Errorf("%d bytes of %d are quoted, there is room for %d", len(quoted), len(packet), most)
		}
		if !bytes.Equal(quoted, packet[:len(quoted)]) {
			return fmt.Errorf("quoted is\n%x, want\n%x", quoted, packet[:len(quoted)])
		}
		return nil
	}
}

// Carries checks what follows the first 8 bytes of a message: an echo's payload.
func Carries(payload []byte) Field {
	return func(h pkttest.Header) error {
		if len(h.Body) < 4 || !bytes.Equal(h.Body[4:], payload) {
			return fmt.Errorf("payload is\n%x, want\n%x", h.Body, payload)
		}
		return nil
	}
}

// ARP checks all of an ARP packet; op is 1 (request) or 2 (reply).
func ARP(op uint16, senderMAC string, sender netip.Addr, targetMAC string, target netip.Addr) Checker {
	want := fmt.Sprintf("0001080006040%03x%s%x%s%x", op, plain(senderMAC), sender.AsSlice(), plain(targetMAC), target.AsSlice())
	return header(pkttest.KindARP, []Field{func(h pkttest.Header) error {
		return differ("packet", fmt.Sprintf("%x", h.Bytes), want)
	}})
}

// Solicitation checks a neighbour solicitation with its sender's MAC.
func Solicitation(target netip.Addr, mac string) Checker {
	return neighbour(135, "00000000", target, 1, mac)
}

// Flags of a neighbour advertisement (RFC 4861 section 4.4).
const (
	Router    = 0x80
	Solicited = 0x40
	Override  = 0x20
)

// Advertisement checks a neighbour advertisement with the target's MAC.
func Advertisement(flags uint8, target netip.Addr, mac string) Checker {
	return neighbour(136, fmt.Sprintf("%02x000000", flags), target, 2, mac)
}

func neighbour(kind uint8, flags string, target netip.Addr, option uint8, mac string) Checker {
	want := fmt.Sprintf("%s%x%02x01%s", flags, target.AsSlice(), option, plain(mac))
	return ICMPv6(kind, 0, func(h pkttest.Header) error {
		return differ("flags, target and option", fmt.Sprintf("%x", h.Body), want)
	})
}

func plain(mac string) string {
	hw, err := net.ParseMAC(mac)
	if err != nil {
		panic("check: " + err.Error())
	}
	return fmt.Sprintf("%x", []byte(hw))
}

// MSS checks the MSS option of a TCP header, 0: that there is none.
func MSS(want uint16) Field {
	return func(h pkttest.Header) error { return differ("MSS", mss(h.Bytes[20:]), want) }
}

func mss(options []byte) uint16 {
	for len(options) > 0 && options[0] != 0 {
		switch {
		case options[0] == 1:
			options = options[1:]
		case len(options) < 2 || options[1] < 2 || int(options[1]) > len(options):
			return 0
		case options[0] == 2 && options[1] == 4:
			return binary.BigEndian.Uint16(options[2:])
		default:
			options = options[options[1]:]
		}
	}
	return 0
}
