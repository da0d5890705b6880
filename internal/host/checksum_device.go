package host

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/ethtool"
)

const (
	// checksumDeviceMTU is the largest that a link may have: only tunnels limit packets.
	checksumDeviceMTU = 65535
	// iflaVXLANVNIFilter is IFLA_VXLAN_VNIFILTER of linux/if_link.h (Linux 5.18).
	iflaVXLANVNIFilter = 30
	// gatherAgain is between attempts to have a device that another has: each is an event, and so
	// the next look at the host.
	gatherAgain = 5 * time.Minute
)

// ChecksumDeviceName is the name of the checksummer of a UDP port.
func ChecksumDeviceName(udpPort uint16) string { return fmt.Sprintf("svx%d", udpPort) }

// devices are those that an edge makes: for checksums and for GRO. What it makes is in the record.
type devices struct {
	ns         netns.NsHandle
	handle     *netlink.Handle
	tool       *ethtool.Tool
	held       *record
	log        *slog.Logger
	ungathered map[uint16]time.Time // UDP ports whose device for GRO could not be had, and when
}

// ensureChecksumDevices makes the kernel's tunnel devices that give every packet its
// own outer UDP checksum, one for each UDP port of want. Those of gather are made too;
// nothing depends on them, so that what prevents one is no error.
func (d *devices) ensureChecksumDevices(want, gather []uint16) error {
	var errs []error
	for _, port := range slices.Clone(d.held.ChecksumDevices) {
		if !slices.Contains(want, port) && !slices.Contains(gather, port) {
			errs = append(errs, d.releaseChecksumDevice(port))
		}
	}
	for _, port := range want {
		errs = append(errs, d.ensureChecksumDevice(port))
	}
	for _, port := range gather {
		if slices.Contains(want, port) || time.Since(d.ungathered[port]) < gatherAgain {
			continue
		}
		if err := d.ensureChecksumDevice(port); err != nil {
			first := d.ungathered[port].IsZero()
			d.ungathered[port] = time.Now()
			if slices.Contains(d.held.ChecksumDevices, port) {
				errs = append(errs, d.releaseChecksumDevice(port))
			}
			if first {
				d.log.Info("tunnel packets are not put together before the edge", "udp_port", port, "why", err)
			}
			continue
		}
		delete(d.ungathered, port)
	}
	return errors.Join(errs...)
}

func (d *devices) ensureChecksumDevice(port uint16) error {
	name := ChecksumDeviceName(port)
	link, err := d.handle.LinkByName(name)
	switch {
	case gone(err):
		if link, err = d.addChecksumDevice(port); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("look up %s: %w", name, err)
	case !isChecksumDevice(link, port) || !slices.Contains(d.held.ChecksumDevices, port) && !d.isAbandoned(link, port):
		return fmt.Errorf("%s exists and is not this edge's: stop what made it or remove it with `ip link delete dev %s`, "+
			"or give the segments with UDP checksums another UDP port", name, name)
	}
	if err := d.held.addChecksumDevice(port); err != nil {
		return err
	}
	if link.Attrs().RawFlags&unix.IFF_UP != 0 {
		return nil
	}
	if err := d.handle.LinkSetIP6AddrGenMode(link, nl.IN6_ADDR_GEN_MODE_NONE); err != nil {
		return fmt.Errorf("keep %s without an IPv6 address: %w", name, err)
	}
	// What cannot be enabled stays as it is: removing it would be an event, and
	// so the next attempt.
	if err := d.handle.LinkSetUp(link); err != nil {
		return d.portTaken(port, fmt.Errorf("enable %s: %w", name, err))
	}
	return nil
}

// isAbandoned reports whether an edge made a device that no record notes: its record was replaced or lost.
func (d *devices) isAbandoned(link netlink.Link, port uint16) bool {
	vxlan, ok := link.(*netlink.Vxlan)
	return ok && !vxlan.Learning && vxlan.UDP6ZeroCSumRx && link.Attrs().MTU == checksumDeviceMTU && !d.held.othersHave(port)
}

func (d *devices) addChecksumDevice(port uint16) (netlink.Link, error) {
	if err := d.held.addChecksumDevice(port); err != nil {
		return nil, err
	}
	name := ChecksumDeviceName(port)
	err := d.requestChecksumDevice(name, port)
	if err != nil {
		err = d.portTaken(port, fmt.Errorf("create %s: %w", name, err))
		return nil, errors.Join(err, d.held.dropChecksumDevice(port))
	}
	link, err := d.handle.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", name, err)
	}
	return link, nil
}

// requestChecksumDevice asks for a vxlan device in metadata mode with a filter of
// VNIs that stays empty (the netlink library has no word for that): it sends
// what the data path hands it and accepts nothing, whatever is sent to its UDP
// port at any address of this host. Zero checksums are allowed on receipt
// although nothing is received.
func (d *devices) requestChecksumDevice(name string, port uint16) error {
	sock, err := socketIn(d.ns, func(at netns.NsHandle) (*nl.NetlinkSocket, error) {
		return nl.GetNetlinkSocketAt(at, netns.None(), unix.NETLINK_ROUTE)
	})
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer sock.Close()
	timeout := unix.NsecToTimeval(requestTimeout.Nanoseconds())
	if err := errors.Join(sock.SetSendTimeout(&timeout), sock.SetReceiveTimeout(&timeout)); err != nil {
		return fmt.Errorf("set the netlink timeout: %w", err)
	}
	yes, no := nl.Uint8Attr(1), nl.Uint8Attr(0)
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("vxlan"))
	data := info.AddRtAttr(nl.IFLA_INFO_DATA, nil)
	data.AddRtAttr(nl.IFLA_VXLAN_FLOWBASED, yes)
	data.AddRtAttr(iflaVXLANVNIFilter, yes)
	data.AddRtAttr(nl.IFLA_VXLAN_LEARNING, no)
	data.AddRtAttr(nl.IFLA_VXLAN_UDP_ZERO_CSUM6_RX, yes)
	data.AddRtAttr(nl.IFLA_VXLAN_PORT, []byte{byte(port >> 8), byte(port)}) // in network order

	req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: sock}}
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
	req.AddData(nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(checksumDeviceMTU)))
	req.AddData(info)
	_, err = req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// portTaken adds to err, where it means that the UDP port is in use, by what
// and what to do.
func (d *devices) portTaken(port uint16, err error) error {
	if !errors.Is(err, unix.EADDRINUSE) && !errors.Is(err, unix.EEXIST) {
		return err
	}
	links, listErr := dump(d.handle.LinkList)
	if listErr != nil {
		return errors.Join(err, fmt.Errorf("list links: %w", listErr))
	}
	for _, l := range links {
		vxlan, ok := l.(*netlink.Vxlan)
		if ok && vxlan.Port == int(port) && vxlan.Name != ChecksumDeviceName(port) {
			return fmt.Errorf("%w: UDP port %d belongs to vxlan device %s: remove that, "+
				"or give the segments with UDP checksums another UDP port", err, port, vxlan.Name)
		}
	}
	return fmt.Errorf("%w: UDP port %d is taken: `ss -ulnp sport = :%d` says by what; stop that, "+
		"or give the segments with UDP checksums another UDP port", err, port, port)
}

func (d *devices) releaseChecksumDevice(port uint16) error {
	name := ChecksumDeviceName(port)
	link, err := d.handle.LinkByName(name)
	switch {
	case gone(err):
	case err != nil:
		return fmt.Errorf("look up %s: %w", name, err)
	case isChecksumDevice(link, port): // else an operator's by now
		if err := d.handle.LinkDel(link); err != nil && !gone(err) {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return d.held.dropChecksumDevice(port)
}

// checksumDevices are those of links that are held and enabled: their ifindexes by UDP port.
func (d *devices) checksumDevices(links []netlink.Link) map[uint16]int {
	byPort := make(map[uint16]int)
	for _, l := range links {
		for _, port := range d.held.ChecksumDevices {
			if isChecksumDevice(l, port) && l.Attrs().RawFlags&unix.IFF_UP != 0 {
				byPort[port] = l.Attrs().Index
			}
		}
	}
	return byPort
}

// isChecksumDevice reports whether l is as requestChecksumDevice makes them.
func isChecksumDevice(l netlink.Link, port uint16) bool {
	vxlan, ok := l.(*netlink.Vxlan)
	return ok && vxlan.Name == ChecksumDeviceName(port) && vxlan.FlowBased && vxlan.Port == int(port)
}
