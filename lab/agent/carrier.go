package agent

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// carriers are the interfaces that carry an SSH session, given as sshd's SSH_CONNECTION: the one
// that has its local address, and those below it: its VLAN's parent, its bridge's or bond's
// ports. Without a session there are none.
func carriers(connection string) ([]string, error) {
	if connection == "" {
		return nil, nil
	}
	words := strings.Fields(connection)
	if len(words) != 4 {
		return nil, fmt.Errorf("SSH_CONNECTION is %q, not four words", connection)
	}
	local, err := netip.ParseAddr(words[2])
	if err != nil {
		return nil, fmt.Errorf("SSH_CONNECTION: %w", err)
	}
	first, err := holder(local.Unmap())
	if err != nil {
		return nil, err
	}
	devices, err := listDevices()
	if err != nil {
		return nil, err
	}
	return below(first, devices), nil
}

// holder is the index of the interface that has an address.
func holder(addr netip.Addr) (int, error) {
	all, err := net.Interfaces()
	if err != nil {
		return 0, err
	}
	for _, dev := range all {
		addrs, err := dev.Addrs()
		if err != nil {
			continue // it has just gone
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err == nil && p.Addr().Unmap() == addr.WithZone("") && (addr.Zone() == "" || addr.Zone() == dev.Name) {
				return dev.Index, nil
			}
		}
	}
	return 0, fmt.Errorf("no interface has %s, the local address of this SSH session", addr)
}

// device is an interface with what it stands on.
type device struct {
	index, lower, master int
	name                 string
}

// below are the names of a device and of those that carry its packets.
func below(index int, devices []device) []string {
	seen := []int{index}
	for i := 0; i < len(seen); i++ {
		for _, d := range devices {
			if next := d.index; d.master == seen[i] && !slices.Contains(seen, next) {
				seen = append(seen, next)
			}
			if d.index == seen[i] && d.lower != 0 && !slices.Contains(seen, d.lower) {
				seen = append(seen, d.lower)
			}
		}
	}
	var names []string
	for _, index := range seen {
		for _, d := range devices {
			if d.index == index {
				names = append(names, d.name)
			}
		}
	}
	return names
}

// listDevices asks rtnetlink(7).
func listDevices() ([]device, error) {
	answer, err := syscall.NetlinkRIB(unix.RTM_GETLINK, unix.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	messages, err := syscall.ParseNetlinkMessage(answer)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	var all []device
	for _, m := range messages {
		if m.Header.Type != unix.RTM_NEWLINK {
			continue
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil {
			return nil, fmt.Errorf("list interfaces: %w", err)
		}
		d := device{index: int(int32(binary.NativeEndian.Uint32(m.Data[4:])))} // struct ifinfomsg
		elsewhere := false
		for _, a := range attrs {
			switch a.Attr.Type {
			case unix.IFLA_IFNAME:
				d.name = strings.TrimRight(string(a.Value), "\x00")
			case unix.IFLA_LINK:
				d.lower = int(binary.NativeEndian.Uint32(a.Value))
			case unix.IFLA_MASTER:
				d.master = int(binary.NativeEndian.Uint32(a.Value))
			case unix.IFLA_LINK_NETNSID: // as a veth's: the index is of that namespace
				elsewhere = true
			}
		}
		if elsewhere {
			d.lower = 0
		}
		all = append(all, d)
	}
	return all, nil
}
