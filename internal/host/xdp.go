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
	// HidesTags: a frame's 802.1Q tag may come beside it, where a program does not look.
	// TellsTags: the driver tells a program that is bound to it (Linux 6.8).
	HidesTags, TellsTags bool
	// CsumPartial: frames may come whose TCP and UDP checksums are left to a device that
	// fills them in. Those of a wire are complete.
	CsumPartial bool
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
	netdevRx     = 5
	rxVLANTag    = 1 << 2
)

// genlHeader is struct genlmsghdr. The library's is two bytes long and sends what lies
// behind it in memory as the reserved field, which the kernel refuses unless it is zero.
type genlHeader struct{ command, version uint8 }

func (h genlHeader) Len() int          { return nl.SizeofGenlmsg }
func (h genlHeader) Serialize() []byte { return []byte{h.command, h.version, 0, 0} }

// xdpQuery asks drivers, in the namespace of the thread that opened it.
type xdpQuery struct {
	family  uint16 // 0: the kernel has none
	sockets map[int]*nl.SocketHandle
	known   map[int]XDP // by ifindex
}

func openXDPQuery() (*xdpQuery, error) {
	h, err := netlink.NewHandle(unix.NETLINK_GENERIC)
	if err != nil {
		return nil, fmt.Errorf("open generic netlink: %w", err)
	}
	defer h.Close()
	family, err := familyOf(h, "netdev")
	if errors.Is(err, unix.ENOENT) {
		return &xdpQuery{known: map[int]XDP{}}, nil
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
	return &xdpQuery{family.ID, map[int]*nl.SocketHandle{unix.NETLINK_GENERIC: {Socket: socket}}, map[int]XDP{}}, nil
}

// familyOf asks again when the kernel refuses what the library left in the header's
// reserved field.
func familyOf(h *netlink.Handle, name string) (family *netlink.GenlFamily, err error) {
	for range 100 {
		if family, err = h.GenlFamilyGet(name); !errors.Is(err, unix.EINVAL) {
			return family, err
		}
	}
	return family, err
}

// xdpOf is what is known of the link. What could not be asked this time is as it was.
func (h *Host) xdpOf(link Link) XDP {
	x, err := h.xdp.of(link.Index)
	if err != nil {
		h.log.Debug("ask for the XDP features", "interface", link.Name, "err", err)
		return h.xdp.known[link.Index]
	}
	driver, _ := h.tool.DriverName(link.Name)
	x.CsumPartial = link.Kind != "" || driver == "virtio_net"
	if features, err := h.tool.Features(link.Name); err == nil {
		x.HidesTags = features["rx-vlan-hw-parse"] || features["rx-vlan-stag-hw-parse"]
	}
	h.xdp.known[link.Index] = x
	return x
}

// of asks what the driver of a link can do.
func (q *xdpQuery) of(ifindex int) (XDP, error) {
	if q.family == 0 {
		return XDP{}, nil
	}
	request := nl.NewNetlinkRequest(int(q.family), unix.NLM_F_REQUEST)
	request.Sockets = q.sockets
	request.AddData(genlHeader{command: netdevDevGet, version: 1})
	request.AddData(nl.NewRtAttr(netdevIndex, nl.Uint32Attr(uint32(ifindex))))
	messages, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return XDP{}, fmt.Errorf("netdev family: %w", err)
	}
	if len(messages) != 1 || len(messages[0]) < nl.SizeofGenlmsg {
		return XDP{}, fmt.Errorf("netdev family: %d messages in answer to one question", len(messages))
	}
	attrs, err := nl.ParseRouteAttr(messages[0][nl.SizeofGenlmsg:])
	if err != nil {
		return XDP{}, fmt.Errorf("netdev family: %w", err)
	}
	var x XDP
	for _, a := range attrs {
		if len(a.Value) < 8 {
			continue
		}
		flags := binary.NativeEndian.Uint64(a.Value)
		switch a.Attr.Type {
		case netdevXDP:
			x.Known, x.Takes, x.Sends = true, flags&xdpBasic != 0 && flags&xdpRedirect != 0, flags&xdpXmit != 0
			x.TakesJumbo, x.SendsJumbo = flags&xdpRxSG != 0, flags&xdpXmitSG != 0
		case netdevRx:
			x.TellsTags = flags&rxVLANTag != 0
		}
	}
	return x, nil
}

func (q *xdpQuery) close() {
	for _, s := range q.sockets {
		s.Close()
	}
}
