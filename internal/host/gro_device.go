package host

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// cutting are the features that the near end must not have: then the kernel cuts what goes in, and
// the far end polls.
var cutting = []string{
	"tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation", "tx-tcp6-segmentation", "tx-udp-segmentation",
}

// groDeviceMTU is the largest that a veth may have: it limits nothing.
const groDeviceMTU = 65535

// GRODevice is the ifindexes of a veth pair of ours: packets go in at Near, and
// Far, which polls, hands out what the kernel could put together (GRO).
type GRODevice struct{ Near, Far int }

// GRODeviceName is the name of an edge's pair, which its ends extend.
func GRODeviceName(edge string) string {
	h := fnv.New32a()
	h.Write([]byte(edge))
	return fmt.Sprintf("svg%08x", h.Sum32())
}

func nearEnd(name string) string { return name + "n" }

func farEnd(name string) string { return name + "f" }

// ensureGRODevice makes the pair of that name be there; "" undoes what was made.
func (d *devices) ensureGRODevice(name string) error {
	if held := d.held.GRODevice; held != "" && held != name {
		if err := d.releaseGRODevice(held); err != nil {
			return err
		}
	}
	if name == "" {
		return nil
	}
	near, err := d.handle.LinkByName(nearEnd(name))
	if gone(err) {
		if err := d.held.setGRODevice(name); err != nil {
			return err
		}
		near, err = d.addGRODevice(name)
	}
	if err != nil {
		return fmt.Errorf("coalescer %s: %w", name, err)
	}
	if d.held.GRODevice != name {
		if err := d.adoptGRODevice(name, near); err != nil {
			return err
		}
	}
	if near.Attrs().RawFlags&unix.IFF_UP != 0 {
		return d.limitGRODevice(name)
	}
	return d.enableGRODevice(name, near)
}

// adoptGRODevice takes over a pair that no record notes: an edge of this name left it, whose record another one of the same
// name replaced in another network namespace, or that is lost.
func (d *devices) adoptGRODevice(name string, near netlink.Link) error {
	far, err := d.handle.LinkByName(farEnd(name))
	if err != nil || near.Type() != "veth" || far.Type() != "veth" || near.Attrs().ParentIndex != far.Attrs().Index {
		return fmt.Errorf("%s exists and is not this edge's: remove it with `ip link delete dev %s`", nearEnd(name), nearEnd(name))
	}
	d.log.Info("took over a pair that a former process left", "interface", nearEnd(name))
	return d.held.setGRODevice(name)
}

// HasDevices reports whether there is a device by whose name an edge of that name made it.
func HasDevices(edge string) bool {
	_, err := net.InterfaceByName(nearEnd(GRODeviceName(edge)))
	return err == nil
}

// Adopt takes over what an edge of that name left on this host and no record notes, for Ensure to use or undo. It reports
// whether there was something.
func (h *Host) Adopt(edge string) (found bool, err error) {
	name := GRODeviceName(edge)
	if h.held.GRODevice == name {
		return false, nil
	}
	near, err := h.handle.LinkByName(nearEnd(name))
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up %s: %w", nearEnd(name), err)
	}
	return true, h.devices.adoptGRODevice(name, near)
}

// limitGRODevice has the kernel cut what goes into the pair, and leave single packets that come out
// as they are. An operator's script that sets offloads of all interfaces may say otherwise.
func (d *devices) limitGRODevice(name string) error {
	for end, features := range map[string][]string{nearEnd(name): cutting, farEnd(name): {"rx-udp-gro-forwarding", "rx-gro-list"}} {
		states, err := d.tool.Features(end)
		if err != nil && !gone(err) {
			return fmt.Errorf("read the offloads of %s: %w", end, err)
		}
		off := make(map[string]bool)
		for _, feature := range features {
			if states[feature] {
				off[feature] = false
			}
		}
		if len(off) == 0 {
			continue
		}
		if err := d.tool.Change(end, off); err != nil {
			return fmt.Errorf("set the offloads of %s: %w", end, err)
		}
	}
	return nil
}

func (d *devices) addGRODevice(name string) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = nearEnd(name), groDeviceMTU
	if err := d.handle.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: farEnd(name), PeerMTU: groDeviceMTU}); err != nil {
		return nil, err
	}
	return d.handle.LinkByName(nearEnd(name))
}

// enableGRODevice sets the pair up so that the far end polls: a veth hands a
// packet to the poller of its other end only when it cannot send large segments itself.
func (d *devices) enableGRODevice(name string, near netlink.Link) error {
	far, err := d.handle.LinkByName(farEnd(name))
	if err != nil {
		return fmt.Errorf("look up %s: %w", farEnd(name), err)
	}
	err = errors.Join(d.limitGRODevice(name), d.tool.Change(farEnd(name), map[string]bool{"rx-gro": true}))
	if err != nil {
		return fmt.Errorf("set the offloads of %s: %w", name, err)
	}
	for _, link := range []netlink.Link{far, near} {
		if err := d.handle.LinkSetIP6AddrGenMode(link, nl.IN6_ADDR_GEN_MODE_NONE); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("keep %s without an IPv6 address: %w", link.Attrs().Name, err)
		}
		if err := d.handle.LinkSetUp(link); err != nil {
			return fmt.Errorf("enable %s: %w", link.Attrs().Name, err)
		}
	}
	return nil
}

func (d *devices) releaseGRODevice(name string) error {
	link, err := d.handle.LinkByName(nearEnd(name))
	if err == nil {
		err = d.handle.LinkDel(link)
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("remove %s: %w", nearEnd(name), err)
	}
	return d.held.setGRODevice("")
}

// groDevice is the held pair when both ends are there and enabled.
func (d *devices) groDevice(links []netlink.Link) GRODevice {
	var c GRODevice
	if d.held.GRODevice == "" {
		return c
	}
	for _, l := range links {
		if l.Attrs().RawFlags&unix.IFF_UP == 0 {
			continue
		}
		switch l.Attrs().Name {
		case nearEnd(d.held.GRODevice):
			c.Near = l.Attrs().Index
		case farEnd(d.held.GRODevice):
			c.Far = l.Attrs().Index
		}
	}
	if c.Near == 0 || c.Far == 0 {
		return GRODevice{}
	}
	return c
}
