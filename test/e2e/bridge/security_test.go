package bridge

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
)

//	end1 -- edge1 -- switch -- edge2 -- end2
//	                    |
//	                stranger
//
// The stranger is on the underlay and sends what it likes to edge1. Nothing of it
// reaches end1, and each packet is counted under its reason.

func TestStrangerOnTheUnderlay(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			t.Parallel()
			n := newHub(t, 2, family)
			stranger := n.Host("stranger")
			n.Join(stranger, 9)
			n.Must(n.Sw.Enslave("e9", "br0"))
			run(n)
			out, err := harness.OpenFrames(stranger, topo.UnderlayName, false)
			n.Must(err)
			defer out.Close()
			for _, a := range attacks(n) {
				refused(n, out, a)
			}
			n.Once("edge2 has seen nothing of it", func() error { return dropped(n.Network, "edge2", "unknown-remote", 0) })
			n.Fact("end1 still pings end2", func() error { return harness.Ping(n.Ctx, n.Ends[0], endAddr(2)) })
		})
	}
}

// attack is a packet and the reason that it must be dropped for; none when it is
// not the edge's to drop.
type attack struct {
	name   string
	packet []byte
	reason string
}

// refused is a fact: the packet is counted, and end1 gets what comes behind it but
// not the packet.
func refused(n *harness.Hub, out *harness.Frames, a attack) {
	n.T.Helper()
	n.Once(a.name+" does not arrive", func() error {
		in, err := harness.OpenFrames(n.Ends[0], topo.EndName, false)
		if err != nil {
			return err
		}
		defer in.Close()
		before, err := n.Drops("edge1")
		if err != nil {
			return err
		}
		if err := out.Send(a.packet); err != nil {
			return err
		}
		// A good one from the only remote, spoofed too, comes behind it.
		if err := out.Send(n.Outer(n.Tep(2), 100).Wrap(harness.Marked(harness.EndMAC(2), harness.EndMAC(1), "good"))); err != nil {
			return err
		}
		got, err := in.Until(harness.Has(attackMark), harness.Has("good"))
		if err != nil {
			return err
		}
		if len(got) > 0 {
			return fmt.Errorf("it has arrived: %x", got)
		}
		after, err := n.Drops("edge1")
		if err != nil {
			return err
		}
		if a.reason != "" {
			before[a.reason]++
		}
		if fmt.Sprint(before) != fmt.Sprint(after) {
			return fmt.Errorf("drops %v, want %v", after, before)
		}
		return nil
	})
}

const attackMark = "attack"

func attacks(n *harness.Hub) []attack {
	inner := harness.Marked(harness.EndMAC(2), harness.EndMAC(1), attackMark)
	remote := n.Outer(n.Tep(2), 100)
	with := func(change func(*pkttest.Outer)) []byte {
		o := remote
		change(&o)
		return o.Wrap(inner)
	}
	list := []attack{
		{"from an address that is no remote", n.Outer(n.Tep(9), 100).Wrap(inner), "unknown-remote"},
		{"from edge1's own address", n.Outer(n.Tep(1), 100).Wrap(inner), "unknown-remote"},
		{"with another VNI", n.Outer(n.Tep(2), 101).Wrap(inner), "unknown-vni"},
		{"with VNI 0", n.Outer(n.Tep(2), 0).Wrap(inner), "unknown-vni"},
		{"with VNI 0 from an address that reads like a port's index", n.Outer(likeIndex(n), 0).Wrap(inner), "unknown-vni"},
		{"with another VNI from no remote", n.Outer(n.Tep(9), 101).Wrap(inner), "unknown-vni"},
		{"without the I flag", with(func(o *pkttest.Outer) { o.Flags = 0x01000000 }), "tunnel-flags"},
		{"to another UDP port", with(func(o *pkttest.Outer) { o.DstPort = 8472 }), ""},
		{"from a group address inside", remote.Wrap(harness.Marked(harness.BroadcastMAC, harness.EndMAC(1), attackMark)), "source-multicast"},
		{"with a tag inside", remote.Wrap(retyped(inner, 0x8100)), "vlan-tagged"},
		{"with IPv4 inside that is none", remote.Wrap(retyped(inner, pkttest.EtherTypeIPv4)), "malformed-ipv4"},
		{"with IPv6 inside that is none", remote.Wrap(retyped(inner, pkttest.EtherTypeIPv6)), "malformed-ipv6"},
	}
	list = append(list, truncated(remote.Wrap(inner), remote.Len())...)
	return append(list, fragments(n, remote.Wrap(inner), remote.Len())...)
}

// likeIndex is the address whose last four bytes are the index of edge1's port, as
// this machine keeps it in memory.
func likeIndex(n *harness.Hub) netip.Addr {
	n.T.Helper()
	index, err := n.Hosts[0].Index(topo.AccessName)
	n.Must(err)
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], uint32(index))
	if n.Family == 4 {
		return netip.AddrFrom4(b)
	}
	long := n.Tep(9).As16()
	copy(long[12:], b[:])
	return netip.AddrFrom16(long)
}

func retyped(frame []byte, ethertype uint16) []byte {
	b := append([]byte{}, frame...)
	binary.BigEndian.PutUint16(b[12:], ethertype)
	return b
}

// truncated are a packet whose lengths say more than there is, by where it ends.
func truncated(packet []byte, header int) []attack {
	const vxlan, udp = 8, 8
	cut := func(size int) []byte { return append([]byte{}, packet[:size]...) }
	short := append([]byte{}, packet...)
	binary.BigEndian.PutUint16(short[header-vxlan-udp+4:], udp+vxlan-1) // the UDP length
	empty := append([]byte{}, cut(header)...)
	binary.BigEndian.PutUint16(empty[header-vxlan-udp+4:], udp+vxlan)
	if binary.BigEndian.Uint16(empty[12:]) == 0x0800 {
		binary.BigEndian.PutUint16(empty[16:], uint16(len(empty)-14)) // the IPv4 total length
	} else {
		binary.BigEndian.PutUint16(empty[18:], udp+vxlan) // the IPv6 payload length
	}
	return []attack{
		{"cut in the inner payload", cut(len(packet) - 10), "outer-malformed"},
		{"cut in the inner Ethernet header", cut(header + 10), "outer-malformed"},
		{"cut in the VXLAN header", cut(header - 4), "outer-malformed"},
		{"with a UDP length that ends in the VXLAN header", short, "outer-malformed"},
		{"without a frame", empty, "malformed-ethernet"},
	}
}

// fragments are the first piece of a fragmented packet, with its UDP header, and
// the second: the host's, which never sees the first.
func fragments(n *harness.Hub, packet []byte, header int) []attack {
	if n.Family == 6 {
		return nil // the fragment header stands before UDP: all pieces are the host's
	}
	const at, flags, moreFragments = 14, 6, 0x2000
	piece := func(offset uint16, from, to int) []byte {
		b := append(append([]byte{}, packet[:at+20]...), packet[from:to]...)
		binary.BigEndian.PutUint16(b[at+2:], uint16(len(b)-at))
		binary.BigEndian.PutUint16(b[at+flags:], offset)
		b[at+10], b[at+11] = 0, 0
		binary.BigEndian.PutUint16(b[at+10:], ^pkttest.Sum(b[at:at+20], 0))
		return b
	}
	split := header + 16 // 32 bytes behind the IP header: a multiple of 8
	return []attack{
		{"first fragment", piece(moreFragments, at+20, split), "outer-fragment"},
		{"last fragment", piece(uint16(split-at-20)/8, split, len(packet)), ""},
	}
}
