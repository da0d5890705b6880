package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/overlay"
)

// Device is a network interface as its users see it, tunnel or not.
type Device struct {
	Name  string      `json:"name"`
	Alts  []string    `json:"altnames,omitempty"`
	Index int         `json:"index"`
	Kind  string      `json:"kind"` // "veth", "vxlan", …; "" of a physical interface
	MTU   int         `json:"mtu"`  // an IP packet's size in bytes
	MAC   overlay.MAC `json:"mac"`
	Up    bool        `json:"up"`
	// Loopback says that packets do not leave by it.
	Loopback bool           `json:"loopback,omitempty"`
	Master   string         `json:"master,omitempty"` // bridge or bond that it is a member of
	Lower    string         `json:"lower,omitempty"`  // of a VLAN, macvlan or the like
	Bus      string         `json:"bus,omitempty"`    // "pci", "virtio", …
	BusName  string         `json:"bus_name,omitempty"`
	Addrs    []netip.Prefix `json:"addrs,omitempty"`
	Counters Counters       `json:"counters"`
	Tunnel   *Tunnel        `json:"tunnel,omitempty"`
	Bond     *Bond          `json:"bond,omitempty"`
}

// Physical reports whether the device has no software kind.
func (d Device) Physical() bool { return d.Kind == "" && !d.Loopback }

// Counters are packets since the interface was made.
type Counters struct {
	RxPackets uint64 `json:"rx_packets"`
	TxPackets uint64 `json:"tx_packets"`
	RxErrors  uint64 `json:"rx_errors"`
	TxErrors  uint64 `json:"tx_errors"`
	RxDropped uint64 `json:"rx_dropped"` // by the kernel, also what nobody wanted
	TxDropped uint64 `json:"tx_dropped"`
	RxNoRoom  uint64 `json:"rx_no_room"` // by the device: missed, FIFO and overrun
}

// Tunnel is the configuration of a tunnel device of the kernel. What the kernel
// or the netlink library does not tell is nil.
type Tunnel struct {
	Encapsulation string       `json:"encapsulation"` // "vxlan", "geneve", "gretap", "gre", "ipip", "sit"; named only: "ip6tnl", "vti", "wireguard", "xfrm"
	VNI           uint32       `json:"vni"`
	Local         netip.Addr   `json:"local,omitzero"`
	Group         netip.Addr   `json:"group,omitzero"` // multicast
	Remotes       []netip.Addr `json:"remotes,omitempty"`
	Port          uint16       `json:"port,omitempty"` // UDP
	Lower         string       `json:"lower,omitempty"`
	External      bool         `json:"external,omitempty"` // remotes come with each packet
	Checksum      *bool        `json:"checksum,omitempty"` // outer UDP, over IPv4
	Zero6Tx       *bool        `json:"udp6_zero_tx,omitempty"`
	Zero6Rx       *bool        `json:"udp6_zero_rx,omitempty"`
	// The range of the outer source port; 0 to 0 is the host's ephemeral range.
	SourceLow  uint16 `json:"source_low,omitempty"`
	SourceHigh uint16 `json:"source_high,omitempty"`
}

// Survey reads the network namespace that the calling thread was in when it was
// opened, and changes nothing. Its methods are for one goroutine.
type Survey struct {
	host  Host
	links map[int]Link // by index, of the last Devices
}

// OpenSurvey opens a survey.
func OpenSurvey() (*Survey, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	if err := handle.SetSocketTimeout(requestTimeout); err != nil {
		handle.Close()
		return nil, fmt.Errorf("set the netlink timeout: %w", err)
	}
	return &Survey{host: Host{handle: handle}}, nil
}

// Close ends the survey.
func (s *Survey) Close() { s.host.handle.Close() }

// Devices lists all interfaces by index.
func (s *Survey) Devices() ([]Device, error) {
	links, err := dump(s.host.handle.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	addrs, err := dump(func() ([]netlink.Addr, error) { return s.host.handle.AddrList(nil, unix.AF_UNSPEC) })
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	names := make(map[int]string, len(links))
	s.links = make(map[int]Link, len(links))
	for _, l := range links {
		names[l.Attrs().Index], s.links[l.Attrs().Index] = l.Attrs().Name, linkOf(l)
	}
	devices := make([]Device, 0, len(links))
	for _, l := range links {
		d := deviceOf(l, names)
		for _, a := range addrs {
			if addr, ok := netip.AddrFromSlice(a.IP); ok && a.LinkIndex == d.Index {
				ones, _ := a.Mask.Size()
				d.Addrs = append(d.Addrs, netip.PrefixFrom(addr.Unmap(), ones))
			}
		}
		d.Bond = bondOf(l)
		if d.Tunnel = tunnelOf(l, names); d.Tunnel != nil && d.Kind == "vxlan" {
			if err := s.addRemotes(d.Index, d.Tunnel); err != nil {
				return nil, err
			}
		}
		devices = append(devices, d)
	}
	slices.SortFunc(devices, func(a, b Device) int { return a.Index - b.Index })
	return devices, nil
}

// Paths are the kernel's ways to remote, from local unless that is unset: one for each next hop, none
// when there is none over the devices that Devices listed.
func (s *Survey) Paths(remote, local netip.Addr) ([]Path, error) {
	return s.host.route(remote, local, s.links)
}

func deviceOf(l netlink.Link, names map[int]string) Device {
	a, link := l.Attrs(), linkOf(l)
	d := Device{
		Name: link.Name, Alts: a.AltNames, Index: link.Index, Kind: link.Kind, MTU: link.MTU, MAC: link.MAC, Up: link.Up,
		Loopback: link.Loopback, Master: names[a.MasterIndex], Bus: a.ParentDevBus, BusName: a.ParentDev,
	}
	// With a namespace, the index of the link below is one of that namespace.
	if onAnother(d.Kind) && a.NetNsID < 0 {
		d.Lower = names[a.ParentIndex]
	}
	if c := a.Statistics; c != nil {
		d.Counters = Counters{
			RxPackets: c.RxPackets, TxPackets: c.TxPackets, RxErrors: c.RxErrors, TxErrors: c.TxErrors,
			RxDropped: c.RxDropped, TxDropped: c.TxDropped, RxNoRoom: c.RxMissedErrors + c.RxFifoErrors + c.RxOverErrors,
		}
	}
	return d
}

// onAnother reports whether links of this kind send through one that they name.
func onAnother(kind string) bool {
	return slices.Contains([]string{"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap"}, kind)
}

// tunnelOf is nil for a link that is no tunnel.
func tunnelOf(l netlink.Link, names map[int]string) *Tunnel {
	switch v := l.(type) {
	case *netlink.Vxlan:
		t := &Tunnel{
			Encapsulation: "vxlan", VNI: uint32(v.VxlanId), Local: address(v.SrcAddr), Port: uint16(v.Port),
			Lower: names[v.VtepDevIndex], External: v.FlowBased, SourceLow: uint16(v.PortLow), SourceHigh: uint16(v.PortHigh),
			Checksum: &v.UDPCSum, Zero6Tx: &v.UDP6ZeroCSumTx, Zero6Rx: &v.UDP6ZeroCSumRx,
		}
		// The kernel keeps a group and a default remote in one attribute.
		if to := address(v.Group); to.IsMulticast() {
			t.Group = to
		} else if to.IsValid() {
			t.Remotes = []netip.Addr{to}
		}
		return t
	case *netlink.Geneve:
		t := &Tunnel{
			Encapsulation: "geneve", VNI: v.ID, Port: v.Dport, External: v.FlowBased,
			SourceLow: uint16(v.PortLow), SourceHigh: uint16(v.PortHigh),
		}
		return t.to(v.Remote)
	case *netlink.Gretap:
		t := &Tunnel{Encapsulation: "gretap", VNI: v.OKey, Local: address(v.Local), Lower: names[int(v.Link)], External: v.FlowBased}
		return t.to(v.Remote)
	case *netlink.Gretun:
		t := &Tunnel{Encapsulation: "gre", VNI: v.OKey, Local: address(v.Local), Lower: names[int(v.Link)], External: v.FlowBased}
		return t.to(v.Remote)
	case *netlink.Iptun: // without a remote it takes next hops of routes for its remotes, as Calico has it
		t := &Tunnel{Encapsulation: "ipip", Local: address(v.Local), Lower: names[int(v.Link)], External: v.FlowBased || address(v.Remote) == netip.Addr{} && v.Flags&net.FlagUp != 0}
		return t.to(v.Remote)
	case *netlink.Sittun:
		t := &Tunnel{Encapsulation: "sit", Local: address(v.Local), Lower: names[int(v.Link)], External: address(v.Remote) == netip.Addr{} && v.Flags&net.FlagUp != 0}
		return t.to(v.Remote)
	case *netlink.Ip6tnl, *netlink.Vti, *netlink.Wireguard, *netlink.Xfrmi: // of which no more is read
		return &Tunnel{Encapsulation: l.Type()}
	}
	return nil
}

func (t *Tunnel) to(remote net.IP) *Tunnel {
	if addr := address(remote); addr.IsValid() {
		t.Remotes = []netip.Addr{addr}
	}
	return t
}

// address is ip, unset when that is unspecified.
func address(ip net.IP) netip.Addr {
	addr, ok := netip.AddrFromSlice(ip)
	if !ok || addr.IsUnspecified() {
		return netip.Addr{}
	}
	return addr.Unmap()
}

// addRemotes adds the destinations in the FDB of a vxlan device: the default
// ones of the all-zero address, and those of single addresses.
func (s *Survey) addRemotes(ifindex int, t *Tunnel) error {
	list, err := dump(func() ([]netlink.Neigh, error) { return s.host.handle.NeighList(ifindex, unix.AF_BRIDGE) })
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("list the FDB of interface %d: %w", ifindex, err)
	}
	for _, n := range list {
		addr := address(n.IP)
		if addr.IsValid() && !addr.IsMulticast() && !slices.Contains(t.Remotes, addr) {
			t.Remotes = append(t.Remotes, addr)
		}
	}
	slices.SortFunc(t.Remotes, netip.Addr.Compare)
	return nil
}
