package evpn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/checksum"
	"github.com/selvage/selvage/lab/topo"
)

// Guest is an end system of a fabric. Its port at an edge has the name of its host.
type Guest struct {
	*topo.Host
	Segment, Number int
	MAC             net.HardwareAddr

	fabric *Fabric
	edges  []int
	at     int        // the edge's index
	patch  *topo.Host // between it and the edges, where it can be behind several
}

// Addr is the guest's of a family, 4 or 6.
func (g *Guest) Addr(family int) netip.Addr { return Addr(g.Segment, g.Number, family) }

// At is the edge that it is behind.
func (g *Guest) At() *Edge { return g.fabric.Edges[g.at] }

// addGuest links a guest to its edge. One that can be behind several has a patch between, a
// bridge that learns nothing and of whose ports to edges one forwards at a time: edges do not
// see from their links where the guest is.
func (n *Fabric) addGuest(ctx context.Context, o GuestOptions) (err error) {
	g := &Guest{Segment: o.Segment, Number: o.Number, MAC: net.HardwareAddr{2, 0, 0, 0, byte(o.Segment), byte(o.Number)}, fabric: n, edges: o.Edges, at: o.Edges[0]}
	if g.Host, err = n.Lab.Host(o.Name); err != nil {
		return err
	}
	end := topo.LinkEnd{Host: g.Host, Name: topo.EndName, MAC: g.MAC, Addrs: []netip.Prefix{
		netip.PrefixFrom(g.Addr(4), 24), netip.PrefixFrom(g.Addr(6), 64),
	}}
	for _, gateway := range n.gateways(o.Segment) {
		end.Gateways = append(end.Gateways, gateway.Addr())
	}
	n.Guests = append(n.Guests, g)
	if len(o.Edges) == 1 {
		return n.Lab.Link(ctx, end, topo.LinkEnd{Host: g.At().Host, Name: o.Name}, n.innerMTU())
	}
	if g.patch, err = n.Lab.Host(o.Name + "-patch"); err != nil {
		return err
	}
	if err := n.Lab.Link(ctx, end, topo.LinkEnd{Host: g.patch, Name: "guest"}, n.innerMTU()); err != nil {
		return err
	}
	if err := g.patch.Bridge(ctx, "br0", n.innerMTU(), "guest"); err != nil {
		return err
	}
	if err := g.patch.SetLearning("guest", false); err != nil {
		return err
	}
	for _, i := range o.Edges {
		if err := g.wire(ctx, n.Edges[i]); err != nil {
			return err
		}
	}
	return nil
}

// wire links the patch with an edge. Nothing sends anything yet.
func (g *Guest) wire(ctx context.Context, e *Edge) error {
	if err := g.fabric.Lab.Link(ctx, topo.LinkEnd{Host: e.Host, Name: g.Name}, topo.LinkEnd{Host: g.patch, Name: e.Name}, g.fabric.innerMTU()); err != nil {
		return err
	}
	if err := g.patch.Enslave(e.Name, "br0"); err != nil {
		return err
	}
	if err := g.patch.SetLearning(e.Name, false); err != nil {
		return err
	}
	if e.Index == g.at {
		return nil
	}
	return g.patch.SetBlocked(e.Name, true)
}

// Move has the guest behind another edge, as a live migration does: what it says goes there
// now, and the guest, as a hypervisor does for it, says where it is. The link to the old edge
// stays up, as that of a virtual machine which was left behind.
func (g *Guest) Move(_ context.Context, to *Edge) error {
	if !slices.Contains(g.edges, to.Index) || g.patch == nil {
		return fmt.Errorf("guest %s cannot be behind %s", g.Name, to.Name)
	}
	from := g.At()
	if from == to {
		return g.Announce()
	}
	if err := g.patch.SetBlocked(from.Name, true); err != nil {
		return err
	}
	if err := g.patch.SetBlocked(to.Name, false); err != nil {
		return err
	}
	g.at = to.Index
	return g.Announce()
}

// Announce sends a gratuitous ARP request (RFC 5227 section 3) and an unsolicited neighbour
// advertisement (RFC 4861 section 7.2.6).
func (g *Guest) Announce() error {
	index, err := g.Index(topo.EndName)
	if err != nil {
		return err
	}
	err = g.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return os.NewSyscallError("socket", err)
		}
		defer unix.Close(fd)
		to := &unix.SockaddrLinklayer{Ifindex: index}
		return errors.Join(unix.Sendto(fd, gratuitous(g.MAC, g.Addr(4)), 0, to), unix.Sendto(fd, unsolicited(g.MAC, g.Addr(6)), 0, to))
	})
	if err != nil {
		return fmt.Errorf("announce %s: %w", g.Name, err)
	}
	return nil
}

// gratuitous is a broadcast ARP request of an address for itself.
func gratuitous(mac net.HardwareAddr, addr netip.Addr) []byte {
	b := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac...)
	b = append(b, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1)
	b = append(append(b, mac...), addr.AsSlice()...)
	return append(append(b, make([]byte, 6)...), addr.AsSlice()...)
}

// unsolicited is a neighbour advertisement to all nodes, which overrides what they have.
func unsolicited(mac net.HardwareAddr, addr netip.Addr) []byte {
	all := netip.MustParseAddr("ff02::1")
	message := []byte{136, 0, 0, 0, 0x20, 0, 0, 0}
	message = append(append(message, addr.AsSlice()...), 2, 1)
	message = append(message, mac...)
	pseudo := append(append(addr.AsSlice(), all.AsSlice()...), 0, 0, 0, byte(len(message)), 0, 0, 0, unix.IPPROTO_ICMPV6)
	binary.BigEndian.PutUint16(message[2:], checksum.Of(append(pseudo, message...)))
	b := append([]byte{0x33, 0x33, 0, 0, 0, 1}, mac...)
	b = append(b, 0x86, 0xdd, 0x60, 0, 0, 0, 0, byte(len(message)), unix.IPPROTO_ICMPV6, 255)
	b = append(append(b, addr.AsSlice()...), all.AsSlice()...)
	return append(b, message...)
}
