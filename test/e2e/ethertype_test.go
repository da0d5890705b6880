package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/pkttest"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//	eth0      p0    u0         1600        u0    p0      eth0
//	MTU 1500                                        MTU 1500
//
// Frames of any ethertype and size cross as they are; a tagged one does not.

const (
	clientMAC = "02:00:00:00:00:01"
	serverMAC = "02:00:00:00:00:02"
	broadcast = "ff:ff:ff:ff:ff:ff"
	lldpGroup = "01:80:c2:00:00:0e"
	minFrame  = 60   // Ethernet's minimum without its checksum
	maxFrame  = 1514 // 1500 bytes of payload
)

func TestSelvageEthertypes(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayMTU: 1600, InnerMTU: 1500, UnderlayFamily: family})
			n.build(n.selvage(), n.selvage())
			n.framesCross(clientMAC, serverMAC, pkttest.EtherTypeExperimental)
			n.framesCross(clientMAC, broadcast, pkttest.EtherTypeExperimental)
			// No switch forwards this group, a wire does.
			n.framesCross(clientMAC, lldpGroup, pkttest.EtherTypeLLDP)
			n.framesCross(clientMAC, serverMAC, 0x8847) // MPLS
			n.noDrops()
			n.tagged()
		})
	}
}

func TestKernelVXLANEthertypes(t *testing.T) {
	n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayMTU: 1600, InnerMTU: 1500})
	n.build(n.selvage(), topo.KernelHalf{})
	n.framesCross(clientMAC, serverMAC, pkttest.EtherTypeExperimental)
	n.framesCross(clientMAC, broadcast, pkttest.EtherTypeExperimental)
	n.noDrops()
}

func TestOpenVSwitchEthertypes(t *testing.T) {
	n := newTwoHosts(t, topo.TwoHostsOptions{UnderlayMTU: 1600, InnerMTU: 1500})
	n.build(n.selvage(), topo.OVSHalf{})
	n.framesCross(clientMAC, serverMAC, pkttest.EtherTypeExperimental)
	n.framesCross(clientMAC, broadcast, pkttest.EtherTypeExperimental)
	n.noDrops()
}

// framesCross sends frames of every kind of length from client to server, and
// answers from server to client.
func (n *twoHosts) framesCross(src, dst string, ethertype uint16) {
	n.t.Helper()
	back := dst
	if dst == serverMAC {
		back = src
	}
	for _, c := range []struct {
		from, to *topo.Host
		src, dst string
	}{{n.Client, n.Server, src, dst}, {n.Server, n.Client, serverMAC, back}} {
		n.once(fmt.Sprintf("ethertype %#04x from %s to %s crosses", ethertype, c.from.Name, c.dst), func() error {
			return cross(c.from, c.to, c.src, c.dst, ethertype)
		})
	}
}

func cross(from, to *topo.Host, src, dst string, ethertype uint16) error {
	out, err := openFrames(from, topo.EndName, false)
	if err != nil {
		return err
	}
	defer out.close()
	in, err := openFrames(to, topo.EndName, false)
	if err != nil {
		return err
	}
	defer in.close()
	for _, size := range []int{15, 18, 46, minFrame - 1, minFrame, minFrame + 1, 64, 128, 161, 1000, maxFrame - 1, maxFrame} {
		frame := rawFrame(src, dst, ethertype, size)
		if err := out.send(frame); err != nil {
			return err
		}
		if err := arrives(in, frame); err != nil {
			return fmt.Errorf("frame of %d bytes: %w", size, err)
		}
	}
	return nil
}

// rawFrame is a frame of size bytes whose payload counts up from its size.
func rawFrame(src, dst string, ethertype uint16, size int) []byte {
	payload := make([]byte, size-14)
	for i := range payload {
		payload[i] = byte(size + i)
	}
	ethernet := pkttest.Ether(src, dst)
	ethernet.Type = ethertype
	return pkttest.Packet(ethernet, pkttest.Bytes(payload))
}

// arrives waits for a frame, which may have been brought to Ethernet's minimum.
func arrives(in *frames, frame []byte) error {
	got, err := in.until(
		func(b []byte) bool { return len(b) > 13 && bytes.Equal(b[12:14], frame[12:14]) },
		func(b []byte) bool {
			padding := max(0, min(minFrame, len(b))-len(frame))
			return len(b) == len(frame)+padding && bytes.HasPrefix(b, frame) && bytes.Count(b[len(frame):], []byte{0}) == padding
		})
	for _, b := range got {
		err = fmt.Errorf("%w\ngot %x", err, b[:min(80, len(b))])
	}
	return err
}

// tagged frames are dropped with their reason, on their way in from a port.
func (n *twoHosts) tagged() {
	n.t.Helper()
	n.once("tagged frames are sent", func() error {
		out, err := openFrames(n.Client, topo.EndName, false)
		if err != nil {
			return err
		}
		defer out.close()
		for _, tpid := range []uint16{0x8100, 0x88a8} {
			frame := rawFrame(clientMAC, serverMAC, tpid, 100)
			binary.BigEndian.PutUint16(frame[14:], 5) // VLAN 5
			if err := out.send(frame); err != nil {
				return err
			}
		}
		return nil
	})
	n.fact("they are dropped as vlan-tagged", func() error {
		drops, err := n.drops(n.A.Name)
		if err == nil && (drops["vlan-tagged"] != 2 || len(drops) != 1) {
			err = fmt.Errorf("drops %v", drops)
		}
		return err
	})
}
