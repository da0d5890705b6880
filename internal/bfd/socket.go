package bfd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"golang.org/x/sys/unix"
)

const (
	singleHopPort = 3784 // RFC 5881 section 4
	multihopPort  = 4784 // RFC 5883 section 5
	// Source ports, RFC 5881 section 4.
	firstSource, lastSource = 49152, 65535
	sourceTries             = 64
	// sentTTL lets the receiver see how far away the sender is (RFC 5082).
	sentTTL = 255
	// trafficClass is that of network control, CS6 of RFC 4594 section 3.1.
	trafficClass = 48 << 2
)

// socket is a UDP socket with one local address. It may be opened before the host
// has the address.
type socket struct {
	local   netip.Addr
	fd      int
	port    int  // its own
	crowded bool // more was there than one turn takes
}

// receipt is a packet with what the kernel says about it.
type receipt struct {
	from    netip.Addr
	port    int // of the sender
	ttl     int
	ifindex int
	payload []byte
}

// listen opens the socket on which packets arrive, in the network namespace of the
// calling thread.
func listen(local netip.Addr, port int) (*socket, error) {
	s, err := openSocket(local, func(fd int) error { return unix.Bind(fd, sockaddr(local, port)) })
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("UDP port %d of %s is taken: stop the other BFD daemon, or keep it off this address", port, local)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for BFD on %s: %w", local, err)
	}
	return s, nil
}

// openSender opens the socket that packets leave from, on any free source port.
func openSender(local netip.Addr) (*socket, error) {
	s, err := openSocket(local, func(fd int) error {
		err := error(unix.EADDRINUSE)
		for try := 0; try < sourceTries && errors.Is(err, unix.EADDRINUSE); try++ {
			err = unix.Bind(fd, sockaddr(local, firstSource+rand.IntN(lastSource-firstSource+1)))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("send BFD from %s: %w", local, err)
	}
	return s, nil
}

func openSocket(local netip.Addr, bind func(fd int) error) (*socket, error) {
	domain := unix.AF_INET6
	if local.Is4() {
		domain = unix.AF_INET
	}
	fd, err := unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return nil, fmt.Errorf("open a UDP socket: %w", err)
	}
	if err = setOptions(fd, local); err == nil {
		err = bind(fd)
	}
	var bound unix.Sockaddr
	if err == nil {
		bound, err = unix.Getsockname(fd)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	_, port := endpointOf(bound)
	return &socket{local: local, fd: fd, port: port}, nil
}

type option struct {
	name               string
	level, code, value int
}

func setOptions(fd int, local netip.Addr) error {
	options := []option{
		{"IPV6_FREEBIND", unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1},
		{"IPV6_V6ONLY", unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1},
		{"IPV6_UNICAST_HOPS", unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, sentTTL},
		{"IPV6_TCLASS", unix.IPPROTO_IPV6, unix.IPV6_TCLASS, trafficClass},
		{"IPV6_RECVHOPLIMIT", unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1},
		{"IPV6_RECVPKTINFO", unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1},
	}
	if local.Is4() {
		options = []option{
			{"IP_FREEBIND", unix.IPPROTO_IP, unix.IP_FREEBIND, 1},
			{"IP_TTL", unix.IPPROTO_IP, unix.IP_TTL, sentTTL},
			{"IP_TOS", unix.IPPROTO_IP, unix.IP_TOS, trafficClass},
			{"IP_RECVTTL", unix.IPPROTO_IP, unix.IP_RECVTTL, 1},
			{"IP_PKTINFO", unix.IPPROTO_IP, unix.IP_PKTINFO, 1},
		}
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.code, o.value); err != nil {
			return fmt.Errorf("set %s: %w", o.name, err)
		}
	}
	return nil
}

func sockaddr(addr netip.Addr, port int) unix.Sockaddr {
	if addr.Is4() {
		return &unix.SockaddrInet4{Addr: addr.As4(), Port: port}
	}
	return &unix.SockaddrInet6{Addr: addr.As16(), Port: port}
}

func endpointOf(s unix.Sockaddr) (addr netip.Addr, port int) {
	switch s := s.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(s.Addr), s.Port
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(s.Addr), s.Port
	}
	return addr, 0
}

// send sends payload through the interface with this index; 0 leaves the choice to
// the routing table. What finds no room is lost like in a router.
func (s *socket) send(remote netip.Addr, port, ifindex int, payload []byte) error {
	var about []byte
	if s.local.Is4() {
		about = unix.PktInfo4(&unix.Inet4Pktinfo{Ifindex: int32(ifindex), Spec_dst: s.local.As4()})
	} else {
		about = unix.PktInfo6(&unix.Inet6Pktinfo{Ifindex: uint32(ifindex), Addr: s.local.As16()})
	}
	err := unix.Sendmsg(s.fd, payload, about, sockaddr(remote, port), unix.MSG_DONTWAIT)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS) {
		return nil
	}
	return err
}

// drain takes what has arrived, up to most packets, and says how many that were.
func (s *socket) drain(most int, take func(receipt)) (taken int, err error) {
	var buffer [256]byte // the length field counts to 255; what is behind it does not matter
	var oob [128]byte
	for taken < most {
		n, oobn, _, from, err := unix.Recvmsg(s.fd, buffer[:], oob[:], unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			return taken, err
		}
		a := receiptOf(from, oob[:oobn])
		a.payload = buffer[:n]
		take(a)
		taken++
	}
	return taken, nil
}

// receiptOf reads the sender, the TTL and the interface. What is missing is zero,
// which no session takes.
func receiptOf(from unix.Sockaddr, oob []byte) (a receipt) {
	a.from, a.port = endpointOf(from)
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return a
	}
	for _, m := range messages {
		level, kind, data := m.Header.Level, m.Header.Type, m.Data
		switch {
		case level == unix.IPPROTO_IP && kind == unix.IP_TTL, level == unix.IPPROTO_IPV6 && kind == unix.IPV6_HOPLIMIT:
			a.ttl = number(data, 0)
		case level == unix.IPPROTO_IP && kind == unix.IP_PKTINFO:
			a.ifindex = number(data, 0)
		case level == unix.IPPROTO_IPV6 && kind == unix.IPV6_PKTINFO:
			a.ifindex = number(data, 16)
		}
	}
	return a
}

// number is the 32-bit integer at offset, 0 when it is not there.
func number(data []byte, offset int) int {
	if len(data) < offset+4 {
		return 0
	}
	return int(binary.NativeEndian.Uint32(data[offset:]))
}

func (s *socket) close() error { return unix.Close(s.fd) }
