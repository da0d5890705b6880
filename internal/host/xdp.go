package host

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// XDP is what a driver says that it can do (the netdev family of generic netlink,
// Linux 6.3).
type XDP struct {
	// Known is false where the kernel does not tell.
	Known bool
	// Takes: packets can be given to a program in the driver, which may redirect them.
	Takes bool
	// Sends: the interface takes packets that were redirected to it. Some drivers do
	// while they have a program themselves, a veth while its other end has one or GRO.
	Sends bool
	// Frames beyond a page: in to a program, and out by redirect.
	TakesJumbo, SendsJumbo bool
	// Unsummed: frames may come whose TCP and UDP checksums are left to a device that
	// fills them in. Those of a wire are complete.
	Unsummed bool
}

// Flags of NETDEV_A_DEV_XDP_FEATURES (include/uapi/linux/netdev.h).
const (
	xdpBasic     = 1 << 0
	xdpRedirect  = 1 << 1
	xdpXmit      = 1 << 2
	xdpRxSG      = 1 << 5
	xdpXmitSG    = 1 << 6
	netdevDevGet = 1
	netdevIndex  = 1
	netdevXDP    = 3
)

// xdpQuery asks drivers, in the namespace of the thread that opened it.
type xdpQuery struct {
	family  uint16 // 0: the kernel has none
	sockets map[int]*nl.SocketHandle
}

func openXDPQuery() (*xdpQuery, error) {
	h, err := netlink.NewHandle(unix.NETLINK_GENERIC)
	if err != nil {
		return nil, fmt.Errorf("open generic netlink: %w", err)
	}
	defer h.Close()
	family, err := h.GenlFamilyGet("netdev")
	if errors.Is(err, unix.ENOENT) {
		return &xdpQuery{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the netdev family: %w", err)
	}
	socket, err := nl.Subscribe(unix.NETLINK_GENERIC)
	if err != nil {
		return nil, fmt.Errorf("open generic netlink: %w", err)
	}
	timeout := unix.NsecToTimeval(requestTimeout.Nanoseconds())
	if err := errors.Join(socket.SetReceiveTimeout(&timeout), socket.SetSendTimeout(&timeout)); err != nil {
		socket.Close()
		return nil, fmt.Errorf("set the netlink timeout: %w", err)
	}
	return &xdpQuery{family.ID, map[int]*nl.SocketHandle{unix.NETLINK_GENERIC: {Socket: socket}}}, nil
}

func (h *Host) xdpOf(link Link) XDP {
	x := h.xdp.of(link.Index)
	driver, _ := h.tool.DriverName(link.Name)
	x.Unsummed = link.Kind != "" || driver == "virtio_net"
	return x
}

// of is what the driver of a link can do; unknown when the link went meanwhile.
func (q *xdpQuery) of(ifindex int) XDP {
	if q.family == 0 {
		return XDP{}
	}
	request := nl.NewNetlinkRequest(int(q.family), unix.NLM_F_REQUEST)
	request.Sockets = q.sockets
	request.AddData(&nl.Genlmsg{Command: netdevDevGet, Version: 1})
	request.AddData(nl.NewRtAttr(netdevIndex, nl.Uint32Attr(uint32(ifindex))))
	messages, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil || len(messages) != 1 || len(messages[0]) < nl.SizeofGenlmsg {
		return XDP{}
	}
	attrs, err := nl.ParseRouteAttr(messages[0][nl.SizeofGenlmsg:])
	if err != nil {
		return XDP{}
	}
	for _, a := range attrs {
		if a.Attr.Type != netdevXDP || len(a.Value) < 8 {
			continue
		}
		flags := binary.NativeEndian.Uint64(a.Value)
		return XDP{
			Known: true, Takes: flags&xdpBasic != 0 && flags&xdpRedirect != 0, Sends: flags&xdpXmit != 0,
			TakesJumbo: flags&xdpRxSG != 0, SendsJumbo: flags&xdpXmitSG != 0,
		}
	}
	return XDP{}
}

func (q *xdpQuery) close() {
	for _, s := range q.sockets {
		s.Close()
	}
}
