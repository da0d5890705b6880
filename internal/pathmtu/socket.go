package pathmtu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// icmpFilter is the socket option of linux/icmp.h, which golang.org/x/sys lacks.
const icmpFilter = 1

// socket is a raw ICMP socket with the address of one TEP. It sends with the
// Don't Fragment bit up to the interface's MTU, whatever path MTU the kernel
// believes in. It gets copies of the host's echo replies and errors.
type socket struct {
	file   *os.File
	raw    syscall.RawConn
	family family
}

// openSocket makes the socket in the network namespace of the calling thread.
func openSocket(source netip.Addr, ifindex int) (*socket, error) {
	f := familyOf(source)
	fd, err := unix.Socket(f.domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, f.protocol)
	if err != nil {
		return nil, fmt.Errorf("open a raw ICMP socket: %w", err)
	}
	if err := errors.Join(f.configure(fd), f.filter(fd), f.leaveBy(fd, ifindex)); err != nil {
		unix.Close(fd)
		return nil, err
	}
	if err := unix.Bind(fd, sockaddr(source)); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind an ICMP socket to %s: %w", source, err)
	}
	file := os.NewFile(uintptr(fd), "icmp "+source.String())
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("poll the ICMP socket of %s: %w", source, err), file.Close())
	}
	return &socket{file: file, raw: raw, family: f}, nil
}

func (f family) configure(fd int) error {
	if f.is6() {
		var filter unix.ICMPv6Filter // a set bit blocks its type (RFC 3542 section 3.2)
		for i := range filter.Data {
			filter.Data[i] = ^uint32(0)
		}
		for _, kind := range []byte{f.reply, f.tooBig} {
			filter.Data[kind/32] &^= 1 << (kind % 32)
		}
		if err := unix.SetsockoptICMPv6Filter(fd, unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, &filter); err != nil {
			return fmt.Errorf("set ICMPV6_FILTER: %w", err)
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1); err != nil {
			return fmt.Errorf("set IPV6_DONTFRAG: %w", err)
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE); err != nil {
			return fmt.Errorf("set IPV6_MTU_DISCOVER: %w", err)
		}
		return nil
	}
	blocked := ^(1<<f.reply | 1<<f.tooBig)
	if err := unix.SetsockoptInt(fd, unix.SOL_RAW, icmpFilter, blocked); err != nil {
		return fmt.Errorf("set ICMP_FILTER: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE); err != nil {
		return fmt.Errorf("set IP_MTU_DISCOVER: %w", err)
	}
	return nil
}

// leaveBy chooses the interface of what is sent, and of nothing that is received.
func (f family) leaveBy(fd, ifindex int) error {
	if ifindex == 0 {
		return nil
	}
	level, name, option := unix.IPPROTO_IP, "IP_UNICAST_IF", unix.IP_UNICAST_IF
	if f.is6() {
		level, name, option = unix.IPPROTO_IPV6, "IPV6_UNICAST_IF", unix.IPV6_UNICAST_IF
	}
	big := binary.BigEndian.AppendUint32(nil, uint32(ifindex)) // both take it so
	if err := unix.SetsockoptInt(fd, level, option, int(int32(binary.NativeEndian.Uint32(big)))); err != nil {
		return fmt.Errorf("set %s to %d: %w", name, ifindex, err)
	}
	return nil
}

// filter has the socket take no "too big" but those about ICMP: a flood of messages
// about tunnel packets, which anybody can send, leaves room for answers.
func (f family) filter(fd int) error {
	const (
		loadX     = unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH // X = 4 * (byte & 15): the IPv4 header
		loadAtX   = unix.BPF_LD | unix.BPF_B | unix.BPF_IND
		ifEqual   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		result    = unix.BPF_RET | unix.BPF_K
		all       = 0xffffffff
		setX      = unix.BPF_LDX | unix.BPF_W | unix.BPF_IMM
		protocol4 = 9 // offsets in the header that is quoted
		protocol6 = 6
	)
	header, protocol := unix.SockFilter{Code: loadX}, uint32(protocol4)
	if f.is6() { // a raw IPv6 socket gets no IP header
		header, protocol = unix.SockFilter{Code: setX}, protocol6
	}
	program := []unix.SockFilter{
		header,
		{Code: loadAtX},
		{Code: ifEqual, K: uint32(f.tooBig), Jf: 2},
		{Code: loadAtX, K: icmpHeader + protocol},
		{Code: ifEqual, K: uint32(f.protocol), Jf: 1},
		{Code: result, K: all},
		{Code: result},
	}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}); err != nil {
		return fmt.Errorf("filter an ICMP socket: %w", err)
	}
	return nil
}

func sockaddr(addr netip.Addr) unix.Sockaddr {
	if addr.Is4() {
		return &unix.SockaddrInet4{Addr: addr.As4()}
	}
	return &unix.SockaddrInet6{Addr: addr.As16()}
}

// send does not wait for room: what finds none is lost like in a router.
func (s *socket) send(remote netip.Addr, message []byte) error {
	var sent error
	err := s.raw.Write(func(fd uintptr) bool {
		sent = unix.Sendto(int(fd), message, unix.MSG_DONTWAIT, sockaddr(remote))
		return true
	})
	if err == nil {
		err = sent
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS) {
		return nil
	}
	return err
}

// receive waits for an ICMP message and returns it, in buffer, with its source.
// close ends the waiting with an error.
func (s *socket) receive(buffer []byte) (message []byte, from netip.Addr, err error) {
	var n int
	var sa unix.Sockaddr
	var received error
	err = s.raw.Read(func(fd uintptr) bool {
		n, sa, received = unix.Recvfrom(int(fd), buffer, unix.MSG_DONTWAIT)
		return !errors.Is(received, unix.EAGAIN)
	})
	if err == nil {
		err = received
	}
	if err != nil {
		return nil, netip.Addr{}, err
	}
	message = buffer[:n]
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		from = netip.AddrFrom4(sa.Addr)
		if n == 0 { // a raw IPv4 socket gets the IP header too
			return nil, from, nil
		}
		message = message[min(n, 4*int(message[0]&0xf)):]
	case *unix.SockaddrInet6:
		from = netip.AddrFrom16(sa.Addr)
	}
	return message, from, nil
}

func (s *socket) close() error { return s.file.Close() }
