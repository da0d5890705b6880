package firewall

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
)

// Ways past a firewall: frames that go everywhere, headers before the one that counts, tags.

// not7002 drops one service, of one protocol, whichever way it goes.
var not7002 = policy{options: "default: allow", rules: []string{"name: not-7002, action: drop, services: [udp/7002]"}}

// to makes a frame one for another MAC address.
func to(mac net.HardwareAddr) func([]byte) []byte {
	return func(frame []byte) []byte { return append(slices.Clone(mac), frame[6:]...) }
}

const (
	allowedDatagram = "udp A:6000 > B:7001 100"
	deniedDatagram  = "udp A:6000 > B:7002 100"
)

// everywhere is a fact for each frame: it arrives at all others, or at none.
func (n *policed) everywhere(family int, from harness.Guest, change func([]byte) []byte, what string) {
	n.T.Helper()
	others := slices.DeleteFunc([]harness.Guest{n.red1, n.red2, n.red3}, func(g harness.Guest) bool { return g == from })
	for _, s := range []sends{{from, n.red3, allowedDatagram, change, ""}, {from, n.red3, deniedDatagram, change, "denied"}} {
		if from == n.red3 {
			s.to = n.red1
		}
		n.Once(fmt.Sprintf("%q from %s to %s, IPv%d: %q", n.words(s, family), from.Name, what, family, s.reason), func() error {
			return n.delivers(s, n.frame(s, family), others...)
		})
	}
}

// floods: a frame that is flooded is judged at each port, with the packet in it.
func floods(n *policed) {
	n.T.Helper()
	for _, family := range []int{4, 6} {
		for _, from := range []harness.Guest{n.red1, n.red3} {
			n.everywhere(family, from, to(harness.EndMAC(0x77)), "a MAC address that nobody has heard of")
			n.everywhere(family, from, to(harness.BroadcastMAC), "the broadcast address")
			n.everywhere(family, from, to(net.HardwareAddr{0x01, 0, 0x5e, 1, 2, 3}), "a group address")
		}
	}
	n.enforce(1, policy{options: "default: allow", rules: []string{"name: not-at-p2, action: drop, direction: in, appliedTo: [{port: p2}], services: [udp/7002]"}}, "p1", "p2")
	for _, family := range []int{4, 6} {
		s := sends{from: n.red3, to: n.red1, words: deniedDatagram, change: to(harness.BroadcastMAC)}
		n.Once("a broadcast arrives at the port without the rule", func() error { return n.delivers(s, n.frame(s, family), n.red1) })
		s.reason = "denied"
		n.Once("and not at the one that has it", func() error { return n.delivers(s, n.frame(s, family), n.red2) })
	}
}

// headers: what stands before the transport header does not hide it.
func headers(n *policed) {
	n.T.Helper()
	extended := func(kinds ...uint8) func([]byte) []byte {
		return func(frame []byte) []byte { return pkttest.WithExtensions(frame, kinds...) }
	}
	atomic := func(frame []byte) []byte { return pkttest.Atomic(frame, 7) }
	const hop, routing, destination = pkttest.ProtoHopByHop, pkttest.ProtoRouting, pkttest.ProtoDestination
	for _, c := range []struct {
		what   string
		change func([]byte) []byte
	}{
		{"hop-by-hop options", extended(hop)},
		{"destination options", extended(destination)},
		{"three headers", extended(hop, routing, destination)},
		{"six headers", extended(hop, destination, destination, destination, destination, destination)},
		{"an atomic fragment", atomic},
		{"an atomic fragment behind options", func(f []byte) []byte { return pkttest.WithExtensions(atomic(f), hop) }},
		{"options behind the header of an atomic fragment", func(f []byte) []byte { return atomic(pkttest.WithExtensions(f, destination)) }},
	} {
		n.T.Log(c.what)
		for _, from := range []harness.Guest{n.red1, n.red3} {
			other := map[harness.Guest]harness.Guest{n.red1: n.red3, n.red3: n.red1}[from]
			n.talks(6,
				sends{from, other, allowedDatagram, c.change, ""},
				sends{from, other, deniedDatagram, c.change, "denied"},
				sends{from, other, deniedDatagram, c.change, "denied"})
		}
	}
	seven := extended(hop, destination, destination, destination, destination, destination, destination)
	n.talks(6,
		sends{n.red1, n.red3, allowedDatagram, seven, "ipv6-ext-headers"},
		sends{n.red1, n.red3, deniedDatagram, seven, "ipv6-ext-headers"},
		// A first fragment that holds options only, and the transport header in the next.
		sends{n.red1, n.red3, deniedDatagram, func(f []byte) []byte {
			return pkttest.Fragments(pkttest.WithExtensions(f, destination), 9, 8)[0]
		}, "fragment-tiny"},
	)
	// IPv4 options move the transport header.
	n.talks(4,
		sends{n.red1, n.red3, allowedDatagram, withOptions, ""},
		sends{n.red1, n.red3, deniedDatagram, withOptions, "denied"})
}

// withOptions puts eight bytes of options into an IPv4 header.
func withOptions(frame []byte) []byte {
	const ether, header = 14, 20
	options := []byte{1, 1, 1, 1, 1, 1, 1, 0} // no operation, end of list (RFC 791 section 3.1)
	out := slices.Concat(frame[:ether+header], options, frame[ether+header:])
	ip := out[ether:]
	ip[0] = 0x40 | (header+8)/4
	length := len(out) - ether
	ip[2], ip[3] = byte(length>>8), byte(length)
	ip[10], ip[11] = 0, 0
	sum := ^pkttest.Sum(ip[:header+8], 0)
	ip[10], ip[11] = byte(sum>>8), byte(sum)
	return out
}

// tags: where a segment keeps them, the packet behind them is judged.
func tags(n *policed) {
	n.T.Helper()
	for i, p := range []policy{not7002, none} {
		ports := [][]string{{"p1", "p2"}, {"p3"}}[i]
		spec := strings.Replace(policedSpec(p, ports...), "{name: red, ", "{name: red, vlanTransparent: true, ", 1)
		n.Must(n.Reload(n.Hosts[i].Name, n.Yaml(i+1, spec)))
	}
	tagged := sends{from: n.red1, to: n.red3, words: "vlan 7 udp A:6000 > B:7001 100"}
	n.Fact("tagged frames cross", func() error { return n.delivers(tagged, n.frame(tagged, 4), n.red3) })
	for _, family := range []int{4, 6} {
		for _, tags := range []string{"vlan 7 ", "svlan 7 vlan 8 ", "vlan 7 vlan 8 "} {
			for _, from := range []harness.Guest{n.red1, n.red3} {
				other := map[harness.Guest]harness.Guest{n.red1: n.red3, n.red3: n.red1}[from]
				n.talks(family,
					sends{from, other, tags + allowedDatagram, nil, ""},
					sends{from, other, tags + deniedDatagram, nil, "denied"})
			}
		}
	}
}

// nonIP: frames that are not IP are another matter.
func nonIP(n *policed) {
	n.T.Helper()
	n.talks(4, sends{n.red1, n.red3, "raw 0x88b6 50", nil, ""}, sends{n.red3, n.red1, "raw 0x88b6 50", nil, ""})
	strict := not7002
	strict.options = "default: allow, nonIP: drop"
	n.enforce(1, strict, "p1", "p2")
	for _, s := range []sends{{from: n.red1, to: n.red3, words: "raw 0x88b6 50"}, {from: n.red3, to: n.red1, words: "raw 0x88b6 50"}} {
		n.Once("a frame from "+s.from.Name+" that is not IP is dropped", func() error { return n.vanishes(s, "non-ip") })
	}
	n.Pings(harness.Ways(n.red1, n.red3)...)
	n.Fact("ARP and neighbour discovery pass", func() error {
		for _, flush := range []string{"-4", "-6"} {
			if _, err := n.red1.Output(n.Ctx, "ip", flush, "neigh", "flush", "all"); err != nil {
				return err
			}
		}
		return nil
	})
	n.Pings(harness.Ways(n.red1, n.red3)...)
}

// vanishes sends a frame where those that are not IP do not pass, so a datagram is behind it.
func (n *policed) vanishes(s sends, reason string) error {
	out, err := harness.OpenFrames(s.from.Host, "eth0", false)
	if err != nil {
		return err
	}
	defer out.Close()
	in, err := harness.OpenFrames(s.to.Host, "eth0", false)
	if err != nil {
		return err
	}
	defer in.Close()
	before, err := n.Drops("edge1")
	if err != nil {
		return err
	}
	behind := n.frame(sends{from: s.from, to: s.to, words: allowedDatagram}, 4)
	frame := n.frame(s, 4)
	for _, f := range [][]byte{frame, behind} {
		if err := out.Send(f); err != nil {
			return err
		}
	}
	got, err := in.Until(func(b []byte) bool { return carries(b, frame) }, func(b []byte) bool { return carries(b, behind) })
	if err == nil && len(got) > 0 {
		err = fmt.Errorf("it has arrived: %x", got)
	}
	if err != nil {
		return err
	}
	after, err := n.Drops("edge1")
	if err == nil && after[reason] != before[reason]+1 {
		err = fmt.Errorf("drops %v, before it was %v", after, before)
	}
	return err
}
