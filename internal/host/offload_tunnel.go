package host

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/overlay"
)

const (
	// probeTunnelName is in a namespace of its own, where nothing else is.
	probeTunnelName = "svo"
	// probeTunnelTTL lets the receiver see how far away the sender is (RFC 5082).
	probeTunnelTTL = 255
	// Ports that the kernel's tunnel device insists to have.
	firstDynamicPort, lastDynamicPort = 49152, 65535
	portTries                         = 16
	// probeTunnelBuffer holds back who sends faster than the interface takes it, in bytes.
	probeTunnelBuffer = 1 << 20
)

// ProbeTunnelOptions say how the frames of a ProbeTunnel are wrapped in VXLAN.
type ProbeTunnelOptions struct {
	Local, Remote netip.Addr
	Ifindex       int    // interface of the underlay by which they leave
	Port          uint16 // UDP port to which they go
	VNI           overlay.VNI
	Checksum      bool        // outer UDP checksums
	To            overlay.MAC // destination of the frames
}

// ProbeTunnel sends large segments through the kernel's own VXLAN device: these have the
// marks of the data path's tunnels on the interface of the underlay. The device is in a
// network namespace that ends with it or with the process, so nothing that comes back in
// reaches this host.
type ProbeTunnel struct {
	fd int
	ns netns.NsHandle
	to unix.SockaddrLinklayer
}

// OpenProbeTunnel makes one in the network namespace of the calling thread.
func OpenProbeTunnel(o ProbeTunnelOptions) (*ProbeTunnel, error) {
	runtime.LockOSThread()
	// Unlocked only when the thread is where it was: Go ends one that is not.
	here, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("open the network namespace: %w", err)
	}
	defer here.Close()
	t := &ProbeTunnel{fd: -1, ns: netns.None()}
	err = t.isolate()
	if back := netns.Set(here); back != nil {
		return nil, errors.Join(fmt.Errorf("return to the network namespace: %w", back), t.Close())
	}
	runtime.UnlockOSThread()
	if err == nil {
		err = t.connect(o)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tunnel for probes to %s: %w", o.Remote, err), t.Close())
	}
	return t, nil
}

// isolate makes the namespace, in which the calling thread is then, and the socket in it.
func (t *ProbeTunnel) isolate() (err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("make a network namespace: %w", err)
	}
	if t.ns, err = netns.Get(); err != nil {
		return err
	}
	// Protocol 0: it sends only.
	if t.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open a packet socket: %w", err)
	}
	if err := unix.SetsockoptInt(t.fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
		return fmt.Errorf("set PACKET_VNET_HDR: %w", err)
	}
	return unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, probeTunnelBuffer)
}

// connect makes the device, with its outer end in the thread's namespace.
func (t *ProbeTunnel) connect(o ProbeTunnelOptions) error {
	if err := t.addDevice(o); err != nil {
		return err
	}
	inside, err := netlink.NewHandleAt(t.ns, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer inside.Close()
	link, err := inside.LinkByName(probeTunnelName)
	if err != nil {
		return fmt.Errorf("look up %s: %w", probeTunnelName, err)
	}
	if err := inside.LinkSetIP6AddrGenMode(link, nl.IN6_ADDR_GEN_MODE_NONE); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("keep %s without an IPv6 address: %w", probeTunnelName, err)
	}
	if err := inside.LinkSetUp(link); err != nil {
		return fmt.Errorf("enable %s: %w", probeTunnelName, err)
	}
	t.to = unix.SockaddrLinklayer{Ifindex: link.Attrs().Index, Halen: 6}
	copy(t.to.Addr[:], o.To[:])
	return t.addRemote(o)
}

// addDevice tries UDP ports: the device listens on one, though to nobody.
func (t *ProbeTunnel) addDevice(o ProbeTunnelOptions) error {
	outside, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer outside.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Namespace = probeTunnelName, netlink.NsFd(t.ns)
	device := &netlink.Vxlan{
		LinkAttrs: attrs, VxlanId: int(o.VNI), VtepDevIndex: o.Ifindex, SrcAddr: net.IP(o.Local.AsSlice()), TTL: probeTunnelTTL,
		UDPCSum: o.Checksum, UDP6ZeroCSumTx: !o.Checksum, UDP6ZeroCSumRx: true,
	}
	for range portTries {
		device.Port = firstDynamicPort + rand.IntN(lastDynamicPort-firstDynamicPort+1)
		err = outside.LinkAdd(device)
		if !errors.Is(err, unix.EADDRINUSE) && !errors.Is(err, unix.EEXIST) {
			break
		}
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("create a vxlan device: %w: this kernel has none, so its offloads cannot be probed", err)
	}
	if err != nil {
		return fmt.Errorf("create a vxlan device: %w", err)
	}
	return nil
}

// addRemote has frames to o.To go to the remote, and to another port than the device's own
// (the netlink library has no word for that).
func (t *ProbeTunnel) addRemote(o ProbeTunnelOptions) error {
	sock, err := nl.GetNetlinkSocketAt(t.ns, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer sock.Close()
	req := nl.NewNetlinkRequest(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: sock}}
	req.AddData(&netlink.Ndmsg{
		Family: unix.AF_BRIDGE, Index: uint32(t.to.Ifindex),
		State: unix.NUD_PERMANENT | unix.NUD_NOARP, Flags: netlink.NTF_SELF,
	})
	req.AddData(nl.NewRtAttr(netlink.NDA_LLADDR, o.To[:]))
	req.AddData(nl.NewRtAttr(netlink.NDA_DST, o.Remote.AsSlice()))
	req.AddData(nl.NewRtAttr(netlink.NDA_PORT, []byte{byte(o.Port >> 8), byte(o.Port)}))
	if _, err := req.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return fmt.Errorf("add the remote %s: %w", o.Remote, err)
	}
	return nil
}

// Send sends a frame behind its struct virtio_net_hdr, and waits for room.
func (t *ProbeTunnel) Send(frame []byte) error {
	for {
		err := unix.Sendto(t.fd, frame, 0, &t.to)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS): // lost in a queue, like on the way
			return nil
		default:
			return err
		}
	}
}

// Drained reports whether all that was sent has left the host.
func (t *ProbeTunnel) Drained() (bool, error) {
	n, err := unix.IoctlGetInt(t.fd, unix.SIOCOUTQ)
	return n == 0, err
}

// Close removes the device.
func (t *ProbeTunnel) Close() error {
	var errs []error
	if t.ns.IsOpen() {
		errs = append(errs, t.removeDevice(), t.ns.Close())
	}
	if t.fd >= 0 {
		errs = append(errs, unix.Close(t.fd))
	}
	return errors.Join(errs...)
}

// removeDevice does at once what the end of the namespace would do a little later.
func (t *ProbeTunnel) removeDevice() error {
	inside, err := netlink.NewHandleAt(t.ns, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer inside.Close()
	link, err := inside.LinkByName(probeTunnelName)
	if err == nil {
		err = inside.LinkDel(link)
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("remove %s: %w", probeTunnelName, err)
	}
	return nil
}
