package topo

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/ethtool"
)

// Port is an interface that exists, as it was when it was read. Nothing here changes it.
type Port struct {
	Namespace, Name string
	Index           int
	MAC             net.HardwareAddr
	MTU             int
	Up, Carrier     bool
	Kind            string // "veth", "bond", …; "device" of an adapter
	Driver          string // "" where it has no name
	Mbps            int    // 0 where the driver does not know
	Program         int    // number of the XDP program at it, 0 for none
	Master          string // the bridge or bond that it is a port of
	TxQueues        int
	Addrs           []netip.Prefix // of the host, without link-local ones
	Overflows       uint64         // frames that its receive ring had no room for
}

// String names the port with its namespace.
func (p Port) String() string {
	if p.Namespace == "" {
		return p.Name
	}
	return "ns:" + p.Namespace + ":" + p.Name
}

// ReadPort reads an interface of a network namespace by its name, "" being this program's own.
func ReadPort(namespace, name string) (p Port, err error) {
	err = InNamespace(namespace, func() (err error) {
		p, err = readPort(name)
		return err
	})
	p.Namespace, p.Name = namespace, name
	if err != nil {
		return p, fmt.Errorf("port %s: %w", p, err)
	}
	return p, nil
}

// InNamespace calls f on a thread in a network namespace, "" being this program's own.
func InNamespace(namespace string, f func() error) error {
	if namespace == "" {
		return f()
	}
	h := &Host{Name: namespace, Namespace: namespace}
	thread, err := startThread(func() error { return enterNamed(h.Path()) })
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", namespace, err)
	}
	defer thread.stop()
	return thread.run(f)
}

// enterNamed moves this thread.
func enterNamed(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Setns(fd, unix.CLONE_NEWNET)
}

// readPort works in the namespace of this thread.
func readPort(name string) (p Port, err error) {
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return p, err
	}
	defer nl.Close()
	dev, err := nl.LinkByName(name)
	if err != nil {
		return p, err
	}
	a := dev.Attrs()
	p.Index, p.MAC, p.MTU, p.Kind, p.TxQueues = a.Index, a.HardwareAddr, a.MTU, dev.Type(), a.NumTxQueues
	p.Up, p.Carrier = a.Flags&net.FlagUp != 0, a.RawFlags&unix.IFF_LOWER_UP != 0
	if a.Xdp != nil && a.Xdp.Attached {
		p.Program = int(a.Xdp.ProgId)
	}
	if s := a.Statistics; s != nil {
		p.Overflows = s.RxMissedErrors + s.RxFifoErrors + s.RxOverErrors
	}
	if a.MasterIndex != 0 {
		p.Master = fmt.Sprint("interface ", a.MasterIndex)
		if master, err := nl.LinkByIndex(a.MasterIndex); err == nil {
			p.Master = master.Attrs().Name
		}
	}
	addrs, err := nl.AddrList(dev, netlink.FAMILY_ALL)
	if err != nil {
		return p, fmt.Errorf("addresses: %w", err)
	}
	for _, addr := range addrs {
		ip, ok := netip.AddrFromSlice(addr.IP)
		if ones, _ := addr.Mask.Size(); ok && !addr.IP.IsLinkLocalUnicast() {
			p.Addrs = append(p.Addrs, netip.PrefixFrom(ip.Unmap(), ones))
		}
	}
	return p, p.ask(name)
}

// ask asks the driver. One that does not answer is no error.
func (p *Port) ask(name string) error {
	tool, err := ethtool.Open()
	if err != nil {
		return err
	}
	defer tool.Close()
	p.Driver, _ = tool.DriverName(name)
	if p.Kind == "veth" || p.Kind == "tuntap" || p.Kind == "bridge" {
		return nil // their drivers say a speed that nothing holds them to
	}
	const unknown = 1<<32 - 1
	if mbps, err := tool.Speed(name); err == nil && mbps != unknown {
		p.Mbps = int(mbps)
	}
	return nil
}
