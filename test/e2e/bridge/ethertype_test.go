package bridge

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/tier"
)

func TestSelvageEthertypes(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			if family == 6 {
				tier.Long(t, "TestSelvageEthertypes/IPv4; over IPv6 TestSelvageEncapsulations/NVGRE/IPv6")
			}
			t.Parallel()
			n := harness.NewTwoHosts(t, topo.TwoHostsOptions{UnderlayMTU: 1600, InnerMTU: 1500, UnderlayFamily: family})
			half := n.Ours(overlay.VXLAN, "wire: true")
			n.BuildRecorded(half, half)
			framesCross(n, harness.ClientMAC, harness.ServerMAC, pkttest.EtherTypeExperimental)
			framesCross(n, harness.ClientMAC, harness.Broadcast, pkttest.EtherTypeExperimental)
			// No bridge forwards this group, a wire does.
			framesCross(n, harness.ClientMAC, harness.LldpGroup, pkttest.EtherTypeLLDP)
			framesCross(n, harness.ClientMAC, harness.ServerMAC, 0x8847) // MPLS
			n.NoDrops()
			tagged(n)
			noWire(n)
		})
	}
}

// noWire: without "wire" the frames for the nearest bridge end at the edge of their sender.
func noWire(n *harness.TwoHosts) {
	n.T.Helper()
	n.Rewrite(n.A.Name, "wire: true", "wire: false")
	out, err := harness.OpenFrames(n.Client, topo.EndName, false)
	n.Must(err)
	defer out.Close()
	n.Fact("LLDP is dropped as reserved-group", func() error {
		if err := out.Send(harness.RawFrame(harness.ClientMAC, harness.LldpGroup, pkttest.EtherTypeLLDP, 100)); err != nil {
			return err
		}
		drops, err := n.Drops(n.A.Name)
		if err == nil && drops["reserved-group"] == 0 {
			err = fmt.Errorf("drops %v", drops)
		}
		return err
	})
}

// framesCross sends frames of every kind of length from client to server, and
// answers from server to client.
func framesCross(n *harness.TwoHosts, src, dst string, ethertype uint16) {
	n.T.Helper()
	back := dst
	if dst == harness.ServerMAC {
		back = src
	}
	for _, c := range []struct {
		from, to *topo.Host
		src, dst string
	}{{n.Client, n.Server, src, dst}, {n.Server, n.Client, harness.ServerMAC, back}} {
		n.Once(fmt.Sprintf("ethertype %#04x from %s to %s crosses", ethertype, c.from.Name, c.dst), func() error {
			return cross(c.from, c.to, c.src, c.dst, ethertype)
		})
	}
}

func cross(from, to *topo.Host, src, dst string, ethertype uint16) error {
	out, err := harness.OpenFrames(from, topo.EndName, false)
	if err != nil {
		return err
	}
	defer out.Close()
	in, err := harness.OpenFrames(to, topo.EndName, false)
	if err != nil {
		return err
	}
	defer in.Close()
	for _, size := range []int{15, 18, 46, harness.MinFrame - 1, harness.MinFrame, harness.MinFrame + 1, 64, 128, 161, 1000, harness.MaxFrame - 1, harness.MaxFrame} {
		frame := harness.RawFrame(src, dst, ethertype, size)
		if err := out.Send(frame); err != nil {
			return err
		}
		if err := arrives(in, frame); err != nil {
			return fmt.Errorf("frame of %d bytes: %w", size, err)
		}
	}
	return nil
}

// arrives waits for a frame, which may have been brought to Ethernet's minimum.
func arrives(in *harness.Frames, frame []byte) error {
	got, err := in.Until(
		func(b []byte) bool { return len(b) > 13 && bytes.Equal(b[12:14], frame[12:14]) },
		func(b []byte) bool {
			padding := max(0, min(harness.MinFrame, len(b))-len(frame))
			return len(b) == len(frame)+padding && bytes.HasPrefix(b, frame) && bytes.Count(b[len(frame):], []byte{0}) == padding
		})
	for _, b := range got {
		err = fmt.Errorf("%w\ngot %x", err, b[:min(80, len(b))])
	}
	return err
}

// tagged frames are dropped with their reason, on their way in from a port.
func tagged(n *harness.TwoHosts) {
	n.T.Helper()
	n.Once("tagged frames are sent", func() error {
		out, err := harness.OpenFrames(n.Client, topo.EndName, false)
		if err != nil {
			return err
		}
		defer out.Close()
		for _, tpid := range []uint16{0x8100, 0x88a8} {
			frame := harness.RawFrame(harness.ClientMAC, harness.ServerMAC, tpid, 100)
			binary.BigEndian.PutUint16(frame[14:], 5) // VLAN 5
			if err := out.Send(frame); err != nil {
				return err
			}
		}
		return nil
	})
	n.Fact("they are dropped as vlan-tagged", func() error {
		drops, err := n.Drops(n.A.Name)
		if err == nil && (drops["vlan-tagged"] != 2 || len(drops) != 1) {
			err = fmt.Errorf("drops %v", drops)
		}
		return err
	})
}
