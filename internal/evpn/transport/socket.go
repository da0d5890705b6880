package transport

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ipv6MinHopCount is IPV6_MINHOPCOUNT of linux/in6.h.
const ipv6MinHopCount = 73

func dialer(n Neighbour, timeout time.Duration) *net.Dialer {
	d := &net.Dialer{Timeout: timeout, KeepAlive: -1, Control: func(_, _ string, c syscall.RawConn) error {
		return control(c, func(fd int) error { return errors.Join(password(fd, n.Addr, n.Password), setTTL(fd, n)) })
	}}
	if n.Local.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(n.Local, 0))
	}
	return d
}

// Listen takes connections at these addresses.
func (t *Transport) Listen(addrs []netip.AddrPort) error {
	// A neighbour with TTL security looks at the answer to its SYN already.
	lc := net.ListenConfig{KeepAlive: -1, Control: func(network, _ string, c syscall.RawConn) error {
		return control(c, func(fd int) error { return setHops(fd, network == "tcp6", 255, 0) })
	}}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range addrs {
		network := "tcp4"
		if a.Addr().Is6() {
			network = "tcp6"
		}
		l, err := lc.Listen(t.ctx, network, a.String())
		if err != nil {
			return err
		}
		listener := l.(*net.TCPListener)
		t.listeners = append(t.listeners, listener)
		t.work.Go(func() { t.accept(listener) })
	}
	return nil
}

// acceptPause is how long none is taken after one could not be: the process may have no file descriptors.
const acceptPause = 100 * time.Millisecond

func (t *Transport) accept(l *net.TCPListener) {
	for {
		conn, err := l.AcceptTCP()
		switch {
		case t.ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return
		case err != nil:
			t.options.Log.Warn("BGP connection cannot be accepted", "why", err)
			select {
			case <-t.ctx.Done():
			case <-time.After(acceptPause):
			}
			continue
		}
		addr := addrOf(conn.RemoteAddr())
		t.mu.Lock()
		known := t.links[addr]
		n := Neighbour{}
		if known != nil {
			n = known.Neighbour
		}
		t.mu.Unlock()
		if raw, err := conn.SyscallConn(); err == nil && known != nil {
			if err := control(raw, func(fd int) error { return setTTL(fd, n) }); err != nil {
				t.options.Log.Warn("TTL of a BGP connection cannot be set", "neighbour", addr, "why", err)
			}
		}
		t.arrived(addr, conn, false)
	}
}

func addrOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

func control(c syscall.RawConn, set func(fd int) error) error {
	var failed error
	if err := c.Control(func(fd uintptr) { failed = set(int(fd)) }); err != nil {
		return err
	}
	return failed
}

func setTTL(fd int, n Neighbour) error { return setHops(fd, n.Addr.Is6(), n.TTL, n.MinTTL) }

// setHops sets the TTL of what is sent, and the least of what is received (RFC 5082); 0 leaves it.
func setHops(fd int, six bool, ttl, least int) error {
	level, sent, received := unix.IPPROTO_IP, unix.IP_TTL, unix.IP_MINTTL
	if six {
		level, sent, received = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, ipv6MinHopCount
	}
	if ttl != 0 {
		if err := unix.SetsockoptInt(fd, level, sent, ttl); err != nil {
			return fmt.Errorf("set TTL %d: %w", ttl, err)
		}
	}
	if least != 0 {
		if err := unix.SetsockoptInt(fd, level, received, least); err != nil {
			return fmt.Errorf("set the least TTL %d: %w", least, err)
		}
	}
	return nil
}

// setPassword gives a listener the password of a neighbour of its family, or takes it away.
func setPassword(l *net.TCPListener, addr netip.Addr, key string) error {
	if addrOf(l.Addr()).Is4() != addr.Is4() {
		return nil
	}
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	return control(raw, func(fd int) error {
		if key == "" {
			_ = signature(fd, addr, "") // the kernel says when there was none
			return nil
		}
		return password(fd, addr, key)
	})
}

func password(fd int, addr netip.Addr, key string) error {
	if key == "" {
		return nil
	}
	if err := signature(fd, addr, key); err != nil {
		return fmt.Errorf("set the password (TCP MD5): %w", err)
	}
	return nil
}

// signature is TCP_MD5SIG (RFC 2385).
func signature(fd int, addr netip.Addr, key string) error {
	s := unix.TCPMD5Sig{Keylen: uint16(len(key))}
	copy(s.Key[:], key)
	if addr.Is4() {
		s.Addr.Family = unix.AF_INET
		b := addr.As4()
		copy(s.Addr.Data[2:], b[:])
	} else {
		s.Addr.Family = unix.AF_INET6
		b := addr.As16()
		copy(s.Addr.Data[6:], b[:])
	}
	return unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, &s)
}
