package datapath

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/test/pkttest"
)

// The first fragments of one port cost no other port its later ones, at the firewall and at NAT.
func TestFragmentsOfOtherPorts(t *testing.T) {
	t.Parallel()
	fw := openFirewall(false)
	w := natWorld(t, ways()[0], func(c *Config, tables *fib.Tables) {
		guardAt(t, c, tables, fw, policy.Place{Name: "p0", Port: "p0", Segment: "blue"}, policy.Place{Name: "p1", Port: "p1", Segment: "blue"})
	})
	n := w.talk(t)
	piece := "carol: piece %d of 64 id 7 udp 10.0.1.12:4100 > 203.0.113.5:53 150 => isp: piece %d of 64 id 7 udp 198.51.100.1:4100 > 203.0.113.5:53 150"
	n.follow(fmt.Sprintf(piece, 0, 0))
	host := natHostOf("alice")
	w.offerMany(t, "p0", natFrame(host.src, host.dst, "piece 0 of 64 id 1 udp 10.0.1.10:4100 > 203.0.113.5:53 150"), 40_000, func(frame []byte, n int) {
		binary.BigEndian.PutUint16(frame[etherLen+4:], uint16(n))
	})
	n.follow(fmt.Sprintf(piece, 1, 1))
}

// overlapping is a first fragment of a TCP segment and a later one, by their next headers, behind options or not.
func overlapping(v6 bool, options int, firstNext, next uint8, offset uint16) (first, later []byte) {
	tcp := slices.Concat([]byte{0x10, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, byte(5+options/4) << 4, 2, 16, 0, 0, 0, 0, 0}, make([]byte, options+80))
	if !v6 {
		list := pkttest.Fragments(pkttest.Packet(pkttest.Ether(alice, gatewayMAC), pkttest.WithProto(pkttest.IPv4("10.0.1.10", "10.0.2.13"), next), pkttest.Bytes(tcp)), 7, 64)
		first, later = list[0], list[1]
		binary.BigEndian.PutUint16(later[etherLen+6:], offset/8)
		return first, later
	}
	packet := func(next uint8, fragment uint16, body []byte) []byte {
		return pkttest.Packet(pkttest.Ether(alice, gatewayMAC), pkttest.IPv6("2001:db8:1::a", "2001:db8:2::d"),
			&pkttest.Extension{Kind: pkttest.ProtoFragment, Next: next, Fragment: fragment}, pkttest.Bytes(body))
	}
	if firstNext != pkttest.ProtoTCP {
		tcp = slices.Concat([]byte{pkttest.ProtoTCP, 0, 1, 4, 0, 0, 0, 0}, tcp)
	}
	return packet(firstNext, 1, tcp[:64]), packet(next, offset, make([]byte, 64))
}

// A later fragment replaces nothing of the headers that were judged, whatever it says is behind it (RFC 3128, RFC 5722).
func TestLaterFragmentsKeepTheHeaders(t *testing.T) {
	t.Parallel()
	const tiny = "fragment-tiny"
	tcp, udp, options := uint8(pkttest.ProtoTCP), uint8(pkttest.ProtoUDP), uint8(destinationOptions)
	for _, c := range []struct {
		name            string
		v6              bool
		options         int // bytes of TCP's
		firstNext, next uint8
		offset          uint16
		reason          string
	}{
		{"after the headers", true, 0, tcp, tcp, 64, ""},
		{"right after the headers", true, 4, tcp, tcp, 24, ""},
		{"over the TCP header", true, 0, tcp, tcp, 16, tiny},
		{"as UDP", true, 0, tcp, udp, 8, tiny},
		{"as options", true, 0, tcp, options, 16, tiny},
		{"over TCP options", true, 20, tcp, tcp, 32, tiny},
		{"behind options", true, 0, options, options, 8, tiny},
		{"behind options, over the end", true, 0, options, options, 24, tiny},
		{"behind options, right after", true, 4, options, options, 32, ""},
		{"IPv4, right after the headers", false, 4, tcp, tcp, 24, ""},
		{"IPv4, over the TCP header", false, 0, tcp, tcp, 16, tiny},
		{"IPv4, over TCP options", false, 20, tcp, tcp, 32, tiny},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := firewallWorldBy(t, ways()[0], openFirewall(false))
			first, later := overlapping(c.v6, c.options, c.firstNext, c.next, c.offset)
			w.offerEach(t, "blue", offers{{"first", "p0", first, ""}, {"later", "p0", later, c.reason}})
		})
	}
}
