package datapath

import (
	"testing"

	"golang.org/x/sys/unix"
)

// socket is bound to a port; what it waits for takes 5 s at most.
func (p *peer) socket(port int) (fd int) {
	p.t.Helper()
	inNamespace(p.t, p.ns, func() {
		family := unix.AF_INET
		if p.addr.Is6() {
			family = unix.AF_INET6
		}
		var err error
		if fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			p.t.Fatal(err)
		}
	})
	must(p.t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	must(p.t, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	for _, option := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		must(p.t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &unix.Timeval{Sec: 5}))
	}
	must(p.t, unix.Bind(fd, p.at(port)))
	return fd
}

func (p *peer) at(port int) unix.Sockaddr {
	if p.addr.Is6() {
		return &unix.SockaddrInet6{Port: port, Addr: p.addr.As16()}
	}
	return &unix.SockaddrInet4{Port: port, Addr: p.addr.As4()}
}

func (p *peer) listen(port int) int {
	p.t.Helper()
	fd := p.socket(port)
	must(p.t, unix.Listen(fd, 8))
	return fd
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	clientPort = 1000
	serverPort = 80
)

// open connects a to b.
func (s *stage) open() (a, b int) {
	s.t.Helper()
	listener := s.peers[sideB].listen(serverPort)
	a = s.peers[sideA].socket(clientPort)
	must(s.t, unix.Connect(a, s.peers[sideB].at(serverPort)))
	return a, s.accept(listener)
}

func (s *stage) accept(listener int) int {
	s.t.Helper()
	fd, _, err := unix.Accept(listener)
	must(s.t, err)
	must(s.t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}))
	must(s.t, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	s.t.Cleanup(func() { unix.Close(listener) })
	return fd
}

// say writes n bytes at one end and reads them at the other.
func (s *stage) say(from, to, n int) {
	s.t.Helper()
	_, err := unix.Write(from, make([]byte, n))
	must(s.t, err)
	s.read(to, n)
}

func (s *stage) read(fd, n int) {
	s.t.Helper()
	for buf := make([]byte, 1<<16); n > 0; {
		got, err := unix.Read(fd, buf)
		if must(s.t, err); got == 0 {
			s.t.Fatalf("the stream ends %d bytes early", n)
		}
		n -= got
	}
}

func (s *stage) readEnd(fd int) {
	s.t.Helper()
	n, err := unix.Read(fd, make([]byte, 1))
	if must(s.t, err); n != 0 {
		s.t.Fatal("the stream does not end")
	}
}

// close ends both directions in order: first from, then to.
func (s *stage) close(first, then int) {
	s.t.Helper()
	must(s.t, unix.Shutdown(first, unix.SHUT_WR))
	s.readEnd(then)
	must(s.t, unix.Close(then))
	s.readEnd(first)
	must(s.t, unix.Close(first))
	s.quiet()
}

// abort closes with a reset.
func (s *stage) abort(fd int) {
	s.t.Helper()
	must(s.t, unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
	must(s.t, unix.Close(fd))
	s.quiet()
}
