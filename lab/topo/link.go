package topo

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/await"
)

// LinkEnd is one end of a link. The MAC address comes from the host's and the
// interface's name when it is nil. Without an IPv6 address among Addrs the
// interface has no IPv6 at all and is silent. Gateways get default routes.
// Offloads are ethtool features.
type LinkEnd struct {
	Host     *Host
	Name     string
	MAC      net.HardwareAddr
	Addrs    []netip.Prefix
	Gateways []netip.Addr
	Offloads map[string]bool
}

type link struct{ a, b LinkEnd }

// Link joins two hosts by a veth pair and returns when both ends are up.
func (l *Lab) Link(ctx context.Context, a, b LinkEnd, mtu int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = a.Name, mtu, a.mac()
	pair := netlink.NewVeth(attrs)
	pair.PeerName, pair.PeerMTU, pair.PeerHardwareAddr = b.Name, uint32(mtu), b.mac()
	pair.PeerNamespace = netlink.NsFd(b.Host.ns)
	if err := a.Host.nl.LinkAdd(pair); err != nil {
		return fmt.Errorf("link %s to %s: %w", a, b, err)
	}
	for _, end := range []LinkEnd{a, b} {
		if err := end.configure(); err != nil {
			return err
		}
	}
	for _, end := range []LinkEnd{a, b} {
		if err := end.Host.AwaitUp(ctx, end.Name); err != nil {
			return err
		}
		for _, gateway := range end.Gateways {
			if err := end.Host.AddRoute(end.Name, defaultRoute(gateway), gateway); err != nil {
				return err
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.links = append(l.links, link{a, b})
	return nil
}

// Clear removes all interfaces of the host but lo, and the links that had them.
func (h *Host) Clear() error {
	devs, err := h.nl.LinkList()
	if err != nil {
		return fmt.Errorf("interfaces of %s: %w", h.Name, err)
	}
	for _, dev := range devs {
		name := dev.Attrs().Name
		if name == "lo" {
			continue
		}
		var gone netlink.LinkNotFoundError // with another interface of the list
		if err := h.Delete(name); err != nil && !errors.As(err, &gone) {
			return err
		}
	}
	h.lab.mu.Lock()
	defer h.lab.mu.Unlock()
	h.lab.links = slices.DeleteFunc(h.lab.links, func(k link) bool { return k.a.Host == h || k.b.Host == h })
	return nil
}

// String is "host/interface".
func (e LinkEnd) String() string { return e.Host.Name + "/" + e.Name }

func (e LinkEnd) mac() net.HardwareAddr {
	if e.MAC != nil {
		return e.MAC
	}
	sum := fnv.New32a()
	sum.Write([]byte(e.String()))
	return append(net.HardwareAddr{0x02, 0}, sum.Sum(nil)...) // locally administered
}

func (e LinkEnd) configure() error {
	silent := true
	for _, addr := range e.Addrs {
		silent = silent && addr.Addr().Is4()
	}
	if silent {
		if err := e.Host.DisableIPv6(e.Name); err != nil {
			return err
		}
	}
	if len(e.Offloads) > 0 {
		if _, err := e.Host.SetFeatures(e.Name, e.Offloads); err != nil {
			return err
		}
	}
	if err := e.Host.Up(e.Name); err != nil {
		return err
	}
	for _, addr := range e.Addrs {
		if err := e.Host.AddAddr(e.Name, addr); err != nil {
			return err
		}
	}
	return nil
}

func (h *Host) find(name string) (netlink.Link, error) {
	dev, err := h.nl.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("interface %s of %s: %w", name, h.Name, err)
	}
	return dev, nil
}

// change finds an interface and applies f, naming both in an error.
func (h *Host) change(what, name string, f func(netlink.Link) error) error {
	dev, err := h.find(name)
	if err != nil {
		return err
	}
	if err := f(dev); err != nil {
		return fmt.Errorf("%s %s of %s: %w", what, name, h.Name, err)
	}
	return nil
}

// Index returns the ifindex of an interface of the host.
func (h *Host) Index(name string) (int, error) {
	dev, err := h.find(name)
	if err != nil {
		return 0, err
	}
	return dev.Attrs().Index, nil
}

// MTU returns an interface's MTU in bytes.
func (h *Host) MTU(name string) (int, error) {
	dev, err := h.find(name)
	if err != nil {
		return 0, err
	}
	return dev.Attrs().MTU, nil
}

// MAC returns an interface's Ethernet address.
func (h *Host) MAC(name string) (net.HardwareAddr, error) {
	dev, err := h.find(name)
	if err != nil {
		return nil, err
	}
	return dev.Attrs().HardwareAddr, nil
}

// SetMTU sets an interface's MTU in bytes.
func (h *Host) SetMTU(name string, mtu int) error {
	return h.change(fmt.Sprintf("set MTU %d on", mtu), name, func(dev netlink.Link) error { return h.nl.LinkSetMTU(dev, mtu) })
}

// Up sets an interface administratively up.
func (h *Host) Up(name string) error { return h.change("set up", name, h.nl.LinkSetUp) }

// Down sets an interface administratively down.
func (h *Host) Down(name string) error { return h.change("set down", name, h.nl.LinkSetDown) }

// Delete removes an interface, and with a veth its other end.
func (h *Host) Delete(name string) error { return h.change("delete", name, h.nl.LinkDel) }

// AddAddr gives an interface an address that is usable at once.
func (h *Host) AddAddr(name string, addr netip.Prefix) error {
	return h.change("add "+addr.String()+" to", name, func(dev netlink.Link) error { return h.nl.AddrAdd(dev, address(addr)) })
}

// DelAddr takes an address from an interface.
func (h *Host) DelAddr(name string, addr netip.Prefix) error {
	return h.change("delete "+addr.String()+" of", name, func(dev netlink.Link) error { return h.nl.AddrDel(dev, address(addr)) })
}

func address(p netip.Prefix) *netlink.Addr {
	addr := &netlink.Addr{IPNet: ipNet(p)}
	if p.Addr().Is6() {
		addr.Flags = unix.IFA_F_NODAD
	}
	return addr
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// DisableIPv6 takes IPv6 and its chatter from an interface.
func (h *Host) DisableIPv6(name string) error {
	return h.SysctlSet("net/ipv6/conf/"+name+"/disable_ipv6", "1")
}

// AwaitUp waits until an interface carries packets.
func (h *Host) AwaitUp(ctx context.Context, name string) error {
	return await.That(ctx, h.Name+"/"+name+" to be up", func() error {
		dev, err := h.find(name)
		if err != nil {
			return err
		}
		if flags := dev.Attrs().RawFlags; flags&unix.IFF_RUNNING == 0 || flags&unix.IFF_LOWER_UP == 0 {
			return errors.New("it is " + dev.Attrs().OperState.String())
		}
		return nil
	})
}
