package trace

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/selvage/selvage/internal/overlay"
)

// packet is what the frame carries, in the words of Grammar as far as they go.
func (f *frame) packet() string {
	switch {
	case f.etherType == typeARP && len(f.payload) >= arpLen:
		return arp(f.payload)
	case !f.ip:
		return fmt.Sprintf("ethertype 0x%04x, %d bytes", f.etherType, len(f.payload))
	}
	line := fmt.Sprintf("%s, TTL %d, %d bytes", f.transportWords(), f.ttl, f.length)
	if f.tos != 0 {
		line += fmt.Sprintf(", DSCP %d, ECN %d", f.tos>>2, f.tos&3)
	}
	if f.fragment != "" {
		line += ", " + f.fragment
	}
	return line
}

func arp(b []byte) string {
	sender, target := netip.AddrFrom4([4]byte(b[14:18])), netip.AddrFrom4([4]byte(b[24:28]))
	if binary.BigEndian.Uint16(b[6:]) == 2 {
		return fmt.Sprintf("arp %s is at %s", sender, overlay.MAC(b[8:14]))
	}
	return fmt.Sprintf("arp %s ? %s", sender, target)
}

func (f *frame) transportWords() string {
	ports := func(name string) string {
		return fmt.Sprintf("%s %s > %s", name, netip.AddrPortFrom(f.addrs[0], f.srcPort()), netip.AddrPortFrom(f.addrs[1], f.dstPort()))
	}
	t := f.transport
	switch {
	case f.proto == protoTCP && len(t) >= tcpLen:
		return ports("tcp") + " " + tcpFlags(t)
	case f.proto == protoUDP && len(t) >= udpLen:
		return ports("udp")
	case f.proto == protoICMP && len(t) >= icmpLen:
		return fmt.Sprintf("icmp %s > %s %s", f.addrs[0], f.addrs[1], icmp(t))
	case f.proto == protoICMPv6 && len(t) >= icmpLen:
		return fmt.Sprintf("icmp %s > %s %s", f.addrs[0], f.addrs[1], icmpv6(t))
	}
	return fmt.Sprintf("ip %s > %s protocol %d", f.addrs[0], f.addrs[1], f.proto)
}

// tcpFlags also names the MSS that a SYN offers (RFC 9293 section 3.7.1).
func tcpFlags(t []byte) string {
	var names []string
	for _, f := range flagBits {
		if t[13]&f.bit != 0 {
			names = append(names, f.name)
		}
	}
	words := strings.Join(names, "+")
	if words == "" {
		words = "no flags"
	}
	for options := t[tcpLen:max(tcpLen, min(int(t[12]>>4)*4, len(t)))]; len(options) >= 2; {
		switch size := int(options[1]); {
		case options[0] == 1: // no operation
			options = options[1:]
			continue
		case options[0] == 0 || size < 2 || size > len(options):
			return words
		case options[0] == 2 && size == 4:
			words += fmt.Sprintf(" MSS %d", binary.BigEndian.Uint16(options[2:]))
			options = options[size:]
		default:
			options = options[size:]
		}
	}
	return words
}

// icmp names the messages that a gateway sends and answers (RFC 792, 1191, 1812).
func icmp(t []byte) string {
	switch kind, code := t[0], t[1]; {
	case kind == 0:
		return "echo reply"
	case kind == 8:
		return "echo request"
	case kind == 3 && code == 4:
		return fmt.Sprintf("fragmentation needed, MTU %d", binary.BigEndian.Uint16(t[6:]))
	case kind == 3 && code == 0:
		return "network unreachable"
	case kind == 3 && code == 1:
		return "host unreachable"
	case kind == 3 && code == 13:
		return "administratively prohibited"
	case kind == 11:
		return "time exceeded"
	default:
		return fmt.Sprintf("type %d code %d", kind, code)
	}
}

// icmpv6 does the same of RFC 4443 and 4861.
func icmpv6(t []byte) string {
	switch kind, code := t[0], t[1]; {
	case kind == 128:
		return "echo request"
	case kind == 129:
		return "echo reply"
	case kind == 2:
		return fmt.Sprintf("packet too big, MTU %d", binary.BigEndian.Uint32(t[4:]))
	case kind == 1 && code == 0:
		return "no route to destination"
	case kind == 1 && code == 1:
		return "administratively prohibited"
	case kind == 1 && code == 3:
		return "address unreachable"
	case kind == 3:
		return "time exceeded"
	case (kind == 135 || kind == 136) && len(t) >= 24:
		name := map[byte]string{135: "neighbour solicitation for", 136: "neighbour advertisement of"}[kind]
		return fmt.Sprintf("%s %s", name, netip.AddrFrom16([16]byte(t[8:24])))
	default:
		return fmt.Sprintf("type %d code %d", kind, code)
	}
}
