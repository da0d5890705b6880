package transit

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/tier"
)

// strangerPort marks the UDP packets that must not arrive, goodPort the others.
const strangerPort, goodPort = 0xa77a, 0x600d

// What nobody may send ends at the same reason by XDP as by tc, and does not arrive.
func TestTransitRefuses(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			if family == 6 {
				tier.Long(t, "TestTransitRefuses/IPv4; over IPv6 test/e2e/bridge TestStrangerOnTheUnderlay/IPv6")
			}
			t.Parallel()
			all := newPassage(t, passageOptions{mode: transitModes[0], family: family, finished: true})
			all.up()
			dropped := map[string]map[string]map[string]uint64{} // by mode and attack
			for _, mode := range transitModes {
				t.Run(mode, func(t *testing.T) {
					n := all.sub(t)
					n.turn(mode)
					n.Pings(harness.Ways(n.client, n.server)...)
					dropped[mode] = n.attacked()
				})
			}
			for mode, reasons := range dropped {
				for name, of := range reasons {
					if want := dropped["tc"][name]; !reflect.DeepEqual(of, want) {
						t.Errorf("%s: %s drops it for %v, tc for %v", name, mode, of, want)
					}
				}
			}
		})
	}
}

// datagram is a frame with UDP from one guest to the other.
func datagram(srcMAC, dstMAC string, from, to netip.Addr, port uint16, ttl int) []byte {
	words := fmt.Sprintf("ttl %d udp %s > %s 100", ttl, netip.AddrPortFrom(from, 4242), netip.AddrPortFrom(to, port))
	return pkttest.Frame(srcMAC, dstMAC, words)
}

// hasPort finds datagrams to a port, and not messages that quote them.
func hasPort(port uint16) func([]byte) bool {
	mark := []byte{4242 >> 8, 4242 & 0xff, byte(port >> 8), byte(port & 0xff)}
	return func(b []byte) bool {
		at := map[bool]int{true: 14 + 20, false: 14 + 40}[len(b) > 14 && b[14] == 0x45]
		return len(b) > at && bytes.HasPrefix(b[at:], mark)
	}
}

// passageAttack is a frame that edge1 gets from the underlay or at its uplink.
type passageAttack struct {
	name   string
	frame  []byte
	uplink bool
	reason string // that must be counted, once; "": none
}

func (n *passage) passageAttacks() (list []passageAttack) {
	const near, far = "02:00:00:00:04:05", "02:00:00:00:04:06"
	outer := func(from netip.Addr, vni uint32, change func(*pkttest.Outer)) pkttest.Outer {
		o := n.Outer(from, vni)
		if change != nil {
			change(&o)
		}
		return o
	}
	for _, inner := range []int{4, 6} {
		server, client := n.server.Addr(inner), n.client.Addr(inner)
		in := datagram(far, near, server, client, strangerPort, 64)
		add := func(name string, o pkttest.Outer, frame []byte, reason string) {
			list = append(list, passageAttack{fmt.Sprintf("IPv%d %s", inner, name), o.Wrap(frame), false, reason})
		}
		add("with another VNI", outer(n.Tep(2), 5001, nil), in, "unknown-vni")
		add("with VNI 0", outer(n.Tep(2), 0, nil), in, "unknown-vni")
		add("from an address that is no remote", outer(n.Tep(9), 5000, nil), in, "unknown-remote")
		add("from edge1's own address", outer(n.Tep(1), 5000, nil), in, "unknown-remote")
		add("without the I flag", outer(n.Tep(2), 5000, func(o *pkttest.Outer) { o.Flags = 0x01000000 }), in, "tunnel-flags")
		add("to another host's MAC address", outer(n.Tep(2), 5000, func(o *pkttest.Outer) { o.DstMAC = harness.UnderlayMAC(7).String() }), in, "")
		add("to another UDP port", outer(n.Tep(2), 5000, func(o *pkttest.Outer) { o.DstPort = 8472 }), in, "")
		add("to another router's MAC address inside", outer(n.Tep(2), 5000, nil), datagram(far, "02:00:00:00:04:99", server, client, strangerPort, 64), "not-routed")
		add("from a group address inside", outer(n.Tep(2), 5000, nil), datagram("03:00:00:00:00:01", near, server, client, strangerPort, 64), "source-multicast")
		list = append(list, passageAttack{fmt.Sprintf("IPv%d in a VLAN of the underlay", inner), harness.TagFrame(n.Outer(n.Tep(2), 5000).Wrap(in), "vlan 10 "), false, ""})
		add("with a TTL that ends", outer(n.Tep(2), 5000, nil), datagram(far, near, server, client, strangerPort, 1), "ttl-exceeded")
		at := func(name string, frame []byte, reason string) {
			list = append(list, passageAttack{fmt.Sprintf("IPv%d uplink, %s", inner, name), frame, true, reason})
		}
		mac := n.client.Ether().String()
		out := func(src, dst string) []byte { return datagram(src, dst, client, server, strangerPort, 64) }
		at("from the gateway's MAC address", out(harness.GatewayMAC, harness.GatewayMAC), "spoofed-mac")
		at("from a group address", out("03:00:00:00:00:01", harness.GatewayMAC), "source-multicast")
		at("to the host's MAC address", out(mac, "02:00:00:00:00:77"), "")
		at("in a VLAN without an uplink", harness.TagFrame(out(mac, harness.GatewayMAC), "vlan 10 "), "")
		at("to a group address", out(mac, harness.Broadcast), "")
	}
	return list
}

// attacked sends all attacks to edge1 and returns what it counted for each.
func (n *passage) attacked() map[string]map[string]uint64 {
	n.T.Helper()
	counted := map[string]map[string]uint64{}
	stranger, err := harness.OpenFrames(n.Hosts[1], topo.UnderlayName, false)
	n.Must(err)
	defer stranger.Close()
	guest, err := harness.OpenFrames(n.client.Host, topo.EndName, false)
	n.Must(err)
	defer guest.Close()
	far, err := harness.OpenFrames(n.server.Host, topo.EndName, false)
	n.Must(err)
	defer far.Close()
	goodIn := n.Outer(n.Tep(2), 5000).Wrap(datagram("02:00:00:00:04:06", "02:00:00:00:04:05", n.server.Addr(4), n.client.Addr(4), goodPort, 64))
	goodOut := datagram(n.client.Ether().String(), harness.GatewayMAC, n.client.Addr(4), n.server.Addr(4), goodPort, 64)
	n.Once("attacks do not arrive, and are counted", func() error {
		var errs []error
		for _, a := range n.passageAttacks() {
			var err error
			if a.uplink {
				counted[a.name], err = n.attack(guest, far, a.frame, goodOut)
			} else {
				counted[a.name], err = n.attack(stranger, guest, a.frame, goodIn)
			}
			want := map[string]uint64{}
			if a.reason != "" {
				want[a.reason] = 1
			}
			if err == nil && !maps.Equal(counted[a.name], want) {
				err = fmt.Errorf("drops %v, want %v", counted[a.name], want)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", a.name, err))
			}
		}
		return errors.Join(errs...)
	})
	return counted
}

// attack sends a frame and a good one behind it, of which only that may arrive, and
// returns what edge1 dropped meanwhile.
func (n *passage) attack(from, to *harness.Frames, frame, good []byte) (map[string]uint64, error) {
	before, err := n.Drops("edge1")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(from.Send(frame), from.Send(good)); err != nil {
		return nil, err
	}
	got, err := to.Until(hasPort(strangerPort), hasPort(goodPort))
	if err == nil && len(got) > 0 {
		err = fmt.Errorf("it has arrived: %x", got)
	}
	after, more := n.Drops("edge1")
	return grown(before, after), errors.Join(err, more)
}

// grown are the counts that rose, and by how much.
func grown(before, after map[string]uint64) map[string]uint64 {
	d := map[string]uint64{}
	for reason, packets := range after {
		if packets > before[reason] {
			d[reason] = packets - before[reason]
		}
	}
	return d
}
