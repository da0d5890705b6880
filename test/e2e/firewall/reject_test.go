package firewall

import (
	"fmt"
	"net"
	"strings"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
)

// rejecting refuses one port, and whatever is neither TCP, UDP nor ping.
var rejecting = policy{options: "default: allow", rules: []string{
	"name: rejected, action: reject, services: [tcp/7003, udp/7003]",
	"name: pings, action: allow, services: [icmp/8, icmpv6/128, tcp/1-65535, udp/1-65535]",
	"name: others, action: reject",
}}

const rejectedSYN = "tcp A:5999 > B:7003 syn seq 7"

// answers are what comes back for a frame that is rejected: IP packets for the stranger that sent
// it, before the reset for a SYN that is sent behind it.
func (n *policed) answers(s sends, family int) ([][]byte, error) {
	at, err := harness.OpenFrames(s.from.Host, topo.EndName, false)
	if err != nil {
		return nil, err
	}
	defer at.Close()
	behind := n.frame(sends{from: s.from, to: s.to, words: rejectedSYN}, family)
	for _, frame := range [][]byte{n.frame(s, family), behind} {
		if err := at.Send(frame); err != nil {
			return nil, err
		}
	}
	isLast := func(b []byte) bool {
		tcp, ok := pkttest.TCPOf(b)
		return ok && tcp.Flags&pkttest.RST != 0 && tcp.SrcPort == 7003 && tcp.DstPort == 5999
	}
	mine := n.stranger(s.from, family).AsSlice()
	return at.Until(func(b []byte) bool {
		address := map[int][2]int{4: {30, 34}, 6: {38, 54}}[family] // the destination behind Ethernet
		kind := map[int]byte{4: 0x00, 6: 0xdd}[family]
		return len(b) > address[1] && b[13] == kind && string(b[address[0]:address[1]]) == string(mine)
	}, isLast)
}

// rejections: one is answered once, by what its kind is answered with, and never where an answer could
// begin a storm (RFC 1122 section 3.2.2, RFC 4443 section 2.4, RFC 9293 section 3.10.7.1).
func rejections(n *policed) {
	n.T.Helper()
	reset := func(b []byte) bool {
		tcp, ok := pkttest.TCPOf(b)
		return ok && tcp.Flags&pkttest.RST != 0
	}
	admin := func(b []byte) bool {
		return len(b) > 55 && (b[13] == 0 && b[23] == 1 && b[34] == 3 && b[35] == 13 || b[13] == 0xdd && b[20] == 58 && b[54] == 1 && b[55] == 1)
	}
	for _, family := range []int{4, 6} {
		unreachable := map[int]string{4: "icmp A > B 3/1 40", 6: "icmp A > B 1/0 40"}[family]
		for _, c := range []struct {
			what, words string
			change      func([]byte) []byte
			want        func([]byte) bool // the one answer; nil for none
		}{
			{"a SYN", "tcp A:5000 > B:7003 syn seq 100", nil, reset},
			{"a segment of no connection", "tcp A:5000 > B:7003 ack seq 100 acks 500 30", nil, reset},
			{"a datagram", "udp A:5000 > B:7003 100", nil, admin},
			{"another protocol", "ip A > B 47 60", nil, admin},
			{"a first fragment", "udp A:5000 > B:7003 1000", fragmentOf(0, 400), admin},
			{"a reset", "tcp A:5000 > B:7003 rst seq 100", nil, nil},
			{"a reset with an acknowledgement", "tcp A:5000 > B:7003 rst+ack seq 100 acks 5", nil, nil},
			{"a later fragment", "udp A:5001 > B:7003 1000", fragmentOf(1, 400), nil},
			{"an ICMP error", unreachable, nil, nil},
			{"a datagram to the broadcast MAC address", "udp A:5000 > B:7003 100", to(harness.BroadcastMAC), nil},
			{"a SYN to the broadcast MAC address", "tcp A:5000 > B:7003 syn seq 100", to(harness.BroadcastMAC), nil},
			{"a datagram to a group MAC address", "udp A:5000 > B:7003 100", to(net.HardwareAddr{0x01, 0, 0x5e, 1, 2, 3}), nil},
		} {
			for _, way := range []sends{{from: n.red1, to: n.red2}, {from: n.red1, to: n.red3}, {from: n.red3, to: n.red1}} {
				way.words, way.change = c.words, c.change
				n.Once(fmt.Sprintf("%s from %s to %s, IPv%d", c.what, way.from.Name, way.to.Name, family), func() error {
					got, err := n.answers(way, family)
					switch {
					case err != nil:
						return err
					case c.want == nil && len(got) > 0:
						return fmt.Errorf("it is answered: %x", got)
					case c.want != nil && (len(got) != 1 || !c.want(got[0])):
						return fmt.Errorf("the answers are %x", got)
					}
					return nil
				})
			}
		}
	}
	for family, group := range map[int]string{4: "224.1.2.3", 6: "ff0e::123"} {
		n.Once("a datagram to a group "+group, func() error {
			s := sends{from: n.red1, to: n.red3, words: rejectedSYN, change: func([]byte) []byte {
				text := strings.NewReplacer("B", map[int]string{4: group, 6: "[" + group + "]"}[family]).Replace("udp A:5000 > B:7003 100")
				return n.frame(sends{from: n.red1, to: n.red3, words: text}, family)
			}}
			got, err := n.answers(s, family)
			if err == nil && len(got) > 0 {
				err = fmt.Errorf("it is answered: %x", got)
			}
			return err
		})
	}
}
