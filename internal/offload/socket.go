package offload

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	sentTTL = 255
	// leastTTL is what is left of it behind as many links as multihop BFD allows by
	// itself: what comes from further away is no neighbour's (GTSM, RFC 5082).
	leastTTL = sentTTL + 1 - 16
)

// socket is a UDP socket with one local address.
type socket struct{ conn *net.UDPConn }

// openSocket opens it in the network namespace of the calling thread; port 0 is any. The
// address need not be there yet.
func openSocket(local netip.Addr, port uint16) (*socket, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = setOptions(int(fd), local.Is6()) })
		return errors.Join(err, failed)
	}}
	conn, err := config.ListenPacket(context.Background(), "udp", netip.AddrPortFrom(local, port).String())
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("UDP port %d of %s is taken: give spec.underlay.offloadProbe another port, on all edges", port, local)
	}
	if err != nil {
		return nil, fmt.Errorf("open a UDP socket for offload probes: %w", err)
	}
	return &socket{conn.(*net.UDPConn)}, nil
}

func setOptions(fd int, six bool) error {
	level, options := unix.IPPROTO_IP, [][2]int{{unix.IP_FREEBIND, 1}, {unix.IP_TTL, sentTTL}, {unix.IP_RECVTTL, 1}}
	if six {
		level, options = unix.IPPROTO_IPV6, [][2]int{{unix.IPV6_FREEBIND, 1}, {unix.IPV6_UNICAST_HOPS, sentTTL}, {unix.IPV6_RECVHOPLIMIT, 1}}
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, level, o[0], o[1]); err != nil {
			return fmt.Errorf("set option %d of a UDP socket: %w", o[0], err)
		}
	}
	return nil
}

func (s *socket) send(to netip.AddrPort, m message) error {
	_, err := s.conn.WriteToUDPAddrPort(m.encode(), to)
	return err
}

// receive waits until the deadline for a message that comes from nearby; others are skipped.
func (s *socket) receive(deadline time.Time) (m message, from netip.AddrPort, err error) {
	if err := s.conn.SetReadDeadline(deadline); err != nil {
		return m, from, err
	}
	var buffer [2 * messageSize]byte
	var oob [128]byte
	for {
		n, oobn, _, from, err := s.conn.ReadMsgUDPAddrPort(buffer[:], oob[:])
		if errors.Is(err, unix.ECONNREFUSED) { // nothing listens there, so far
			continue
		}
		if err != nil {
			return m, from, err
		}
		if m, err := decode(buffer[:n]); err == nil && ttlOf(oob[:oobn]) >= leastTTL {
			return m, netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), nil
		}
	}
}

// ttlOf is the TTL or hop limit that a packet came with, 0 where the kernel did not say.
func ttlOf(oob []byte) int {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		four := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_TTL
		six := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_HOPLIMIT
		if (four || six) && len(m.Data) >= 4 {
			return int(binary.NativeEndian.Uint32(m.Data))
		}
	}
	return 0
}

func (s *socket) close() error { return s.conn.Close() }
