package agent

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// dump asks rtnetlink(7) for all of a kind. header is the request's, as long as the kernel wants it.
func dump(what string, kind uint16, header int) ([]syscall.NetlinkMessage, error) {
	fail := func(err error) error { return fmt.Errorf("list %s: %w", what, err) }
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fail(err)
	}
	defer unix.Close(fd)
	timeout := unix.Timeval{Sec: 5}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return nil, fail(err)
	}
	request := make([]byte, unix.SizeofNlMsghdr+header)
	binary.NativeEndian.PutUint32(request[0:], uint32(len(request)))
	binary.NativeEndian.PutUint16(request[4:], kind)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, fail(err)
	}
	var all []syscall.NetlinkMessage
	buffer := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if err != nil {
			return nil, fail(err)
		}
		messages, err := syscall.ParseNetlinkMessage(append([]byte(nil), buffer[:n]...))
		if err != nil {
			return nil, fail(err)
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				return all, nil
			case unix.NLMSG_ERROR:
				if len(m.Data) >= 4 {
					err = unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
				}
				return nil, fail(err)
			}
			all = append(all, m)
		}
	}
}

// attributes are those after a message's own header, by type.
func attributes(data []byte, header int) map[uint16][]byte {
	all := map[uint16][]byte{}
	for rest := data[min(header, len(data)):]; len(rest) >= unix.SizeofRtAttr; {
		length, kind := int(binary.NativeEndian.Uint16(rest)), binary.NativeEndian.Uint16(rest[2:])
		if length < unix.SizeofRtAttr || length > len(rest) {
			break
		}
		all[kind&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER)] = rest[unix.SizeofRtAttr:length]
		rest = rest[min(len(rest), (length+3)&^3):]
	}
	return all
}
