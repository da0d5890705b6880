package topo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/ethtool"
)

// Bridge makes a bridge without multicast snooping, spanning tree or IPv6 of its
// own and enslaves ports to it.
func (h *Host) Bridge(ctx context.Context, name string, mtu int, ports ...string) error {
	off := false
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, mtu
	if err := h.nl.LinkAdd(&netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &off}); err != nil {
		return fmt.Errorf("add bridge %s to %s: %w", name, h.Name, err)
	}
	if err := h.DisableIPv6(name); err != nil {
		return err
	}
	for _, port := range ports {
		if err := h.Enslave(port, name); err != nil {
			return err
		}
	}
	if err := h.Up(name); err != nil {
		return err
	}
	return h.AwaitUp(ctx, name)
}

// Enslave makes an interface a port of a bridge.
func (h *Host) Enslave(port, bridge string) error {
	master, err := h.find(bridge)
	if err != nil {
		return err
	}
	return h.change("make a port of "+bridge, port, func(dev netlink.Link) error { return h.nl.LinkSetMaster(dev, master) })
}

// SetLearning has a bridge learn from a port, or not.
func (h *Host) SetLearning(port string, on bool) error {
	what := "turn off learning on"
	if on {
		what = "turn on learning on"
	}
	return h.change(what, port, func(dev netlink.Link) error { return h.nl.LinkSetLearning(dev, on) })
}

// SuppressNeighbours has a bridge keep ARP and neighbour discovery for what it knows out of a port.
func (h *Host) SuppressNeighbours(port string) error {
	return h.change("suppress neighbour discovery on", port, func(dev netlink.Link) error { return h.nl.LinkSetBrNeighSuppress(dev, true) })
}

// States of a bridge's port, as in linux/if_bridge.h.
const (
	portDisabled   = 0
	portForwarding = 3
)

// SetBlocked has a bridge without spanning tree carry nothing from and to a port, or all again.
func (h *Host) SetBlocked(port string, blocked bool) error {
	state := byte(portForwarding)
	if blocked {
		state = portDisabled
	}
	index, err := h.Index(port)
	if err != nil {
		return err
	}
	request := func() error {
		r := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
		info := nl.NewIfInfomsg(unix.AF_BRIDGE)
		info.Index = int32(index)
		r.AddData(info)
		options := nl.NewRtAttr(unix.IFLA_PROTINFO|unix.NLA_F_NESTED, nil)
		options.AddRtAttr(nl.IFLA_BRPORT_STATE, []byte{state})
		r.AddData(options)
		_, err := r.Execute(unix.NETLINK_ROUTE, 0)
		return err
	}
	if err := h.Do(request); err != nil {
		return fmt.Errorf("state %d of port %s of %s: %w", state, port, h.Name, err)
	}
	return nil
}

// SetMAC sets an interface's Ethernet address.
func (h *Host) SetMAC(name string, mac net.HardwareAddr) error {
	return h.change("set MAC address of", name, func(dev netlink.Link) error { return h.nl.LinkSetHardwareAddr(dev, mac) })
}

// AddFDB tells a vxlan device for ever behind which endpoint a MAC address is.
func (h *Host) AddFDB(tunnel string, mac net.HardwareAddr, remote netip.Addr) error {
	return h.change("add MAC address to", tunnel, permanent(h.nl, netlink.NTF_SELF, mac, remote.AsSlice()))
}

// AddBridgeFDB tells the bridge of a port for ever that a MAC address is behind it.
func (h *Host) AddBridgeFDB(port string, mac net.HardwareAddr) error {
	return h.change("add MAC address to the bridge of", port, permanent(h.nl, netlink.NTF_MASTER, mac, nil))
}

// permanent writes an entry of a bridge's or a tunnel's FDB.
func permanent(nl *netlink.Handle, flags int, mac net.HardwareAddr, ip net.IP) func(netlink.Link) error {
	return func(dev netlink.Link) error {
		return nl.NeighSet(&netlink.Neigh{
			LinkIndex: dev.Attrs().Index, Family: unix.AF_BRIDGE, Flags: flags,
			State: netlink.NUD_PERMANENT | netlink.NUD_NOARP, IP: ip, HardwareAddr: mac,
		})
	}
}

// VXLAN describes a device of the kernel's own vxlan driver. Fields left zero
// are as ip-link(8) leaves them: UDP checksums are sent over IPv4 and over IPv6
// and, over IPv6, demanded.
type VXLAN struct {
	VNI     uint32
	Local   netip.Addr
	Remotes []netip.Addr // get what is broadcast, multicast or unknown
	Port    uint16       // UDP; 0 is 4789
	MTU     int
	// NoUDPCsum sends UDP checksum zero over IPv4.
	NoUDPCsum bool
	// UDP6ZeroCsumTx and UDP6ZeroCsumRx send and accept it over IPv6 (RFC 6935).
	UDP6ZeroCsumTx, UDP6ZeroCsumRx bool
	// NoLearning leaves the FDB to whoever fills it.
	NoLearning bool
}

// VXLAN makes a device of the kernel's vxlan driver and sets it up. It asks ip
// to, because the netlink library cannot send "no UDP checksum".
func (h *Host) VXLAN(ctx context.Context, name string, v VXLAN) error {
	port := v.Port
	if port == 0 {
		port = 4789
	}
	argv := []string{"ip", "link", "add", name, "mtu", strconv.Itoa(v.MTU), "type", "vxlan",
		"id", strconv.FormatUint(uint64(v.VNI), 10), "local", v.Local.String(), "dstport", strconv.Itoa(int(port))}
	for flag, on := range map[string]bool{"noudpcsum": v.NoUDPCsum, "udp6zerocsumtx": v.UDP6ZeroCsumTx, "udp6zerocsumrx": v.UDP6ZeroCsumRx, "nolearning": v.NoLearning} {
		if on {
			argv = append(argv, flag)
		}
	}
	if _, err := h.Output(ctx, argv...); err != nil {
		return fmt.Errorf("add vxlan device %s to %s: %w", name, h.Name, err)
	}
	if err := h.DisableIPv6(name); err != nil {
		return err
	}
	for _, remote := range v.Remotes {
		if err := h.addRemote(name, remote); err != nil {
			return err
		}
	}
	if err := h.Up(name); err != nil {
		return err
	}
	return h.AwaitUp(ctx, name)
}

// addRemote appends to the all-zero entry of a vxlan device's FDB: the default
// destination.
func (h *Host) addRemote(name string, remote netip.Addr) error {
	return h.change("add remote "+remote.String()+" to", name, func(dev netlink.Link) error {
		return h.nl.NeighAppend(&netlink.Neigh{
			LinkIndex:    dev.Attrs().Index,
			Family:       unix.AF_BRIDGE,
			State:        netlink.NUD_PERMANENT | netlink.NUD_NOARP,
			Flags:        netlink.NTF_SELF,
			IP:           remote.AsSlice(),
			HardwareAddr: make([]byte, 6),
		})
	})
}

// Features returns an interface's offloads by the names of ethtool -k's kernel
// strings ("tx-tcp-segmentation", "rx-gro").
func (h *Host) Features(name string) (features map[string]bool, err error) {
	err = h.ethtool(func(e *ethtool.Tool) error {
		features, err = e.Features(name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("features of %s/%s: %w", h.Name, name, err)
	}
	return features, nil
}

// SetFeatures changes an interface's offloads, checks that the driver took them,
// and returns what sets the old values again.
func (h *Host) SetFeatures(name string, want map[string]bool) (restore func() error, err error) {
	old, err := h.Features(name)
	if err != nil {
		return nil, err
	}
	before := map[string]bool{}
	for feature := range want {
		before[feature] = old[feature]
	}
	if err := h.changeFeatures(name, want); err != nil {
		return nil, errors.Join(err, h.changeFeatures(name, before))
	}
	return func() error { return h.changeFeatures(name, before) }, nil
}

func (h *Host) changeFeatures(name string, want map[string]bool) error {
	err := h.ethtool(func(e *ethtool.Tool) error { return e.Change(name, want) })
	if err != nil {
		return fmt.Errorf("set features of %s/%s: %w", h.Name, name, err)
	}
	have, err := h.Features(name)
	if err != nil {
		return err
	}
	for feature, on := range want {
		if have[feature] != on {
			return fmt.Errorf("feature %s of %s/%s stays %t", feature, h.Name, name, !on)
		}
	}
	return nil
}

// DriverStats are the counters of an interface's driver (ethtool -S), and the packets that it did
// not transmit.
func (h *Host) DriverStats(name string) (stats map[string]uint64, dropped uint64, err error) {
	err = h.ethtool(func(e *ethtool.Tool) (err error) {
		stats, err = e.Stats(name)
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("counters of %s: %w", name, err)
	}
	dev, err := h.find(name)
	if err != nil {
		return nil, 0, err
	}
	return stats, dev.Attrs().Statistics.TxDropped, nil
}

func (h *Host) ethtool(f func(*ethtool.Tool) error) error {
	return h.Do(func() error {
		e, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer e.Close()
		return f(e)
	})
}
