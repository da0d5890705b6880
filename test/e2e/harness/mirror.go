package harness

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/topo"
)

// MirrorPort is where a host tells whoever asks from which address and port they come.
const MirrorPort = 7100

// Mirror answers on TCP and UDP, on the mirror's port and the next, until the test ends.
func (n *Network) Mirror(h *topo.Host) {
	n.T.Helper()
	for port := MirrorPort; port <= MirrorPort+1; port++ {
		n.Must(h.Do(func() error {
			addr := fmt.Sprintf(":%d", port)
			stream, err := net.Listen("tcp", addr)
			if err != nil {
				return err
			}
			datagrams, err := listenAnswering(port)
			if err != nil {
				return errors.Join(err, stream.Close())
			}
			n.T.Cleanup(func() { stream.Close(); datagrams.Close() })
			go mirrorStreams(stream)
			go mirrorDatagrams(datagrams)
			return nil
		}))
	}
}

// listenAnswering is a socket for both families that answers by the address that was asked.
func listenAnswering(port int) (*net.UDPConn, error) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{Port: port})
	if err != nil {
		return nil, err
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1) })
	return conn, errors.Join(err, failed)
}

func mirrorStreams(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // closed
		}
		_, _ = conn.Write([]byte(conn.RemoteAddr().String())) // the client misses it
		conn.Close()
	}
}

func mirrorDatagrams(conn *net.UDPConn) {
	b, control := make([]byte, 1<<16), make([]byte, 512)
	for {
		_, size, _, from, err := conn.ReadMsgUDPAddrPort(b, control)
		if err != nil {
			return // closed
		}
		said := netip.AddrPortFrom(from.Addr().Unmap(), from.Port()).String()
		_, _, _ = conn.WriteMsgUDPAddrPort([]byte(said), answering(control[:size]), from) // the client misses it
	}
}

// answering is the control message by which an answer comes from where a question went to.
func answering(control []byte) []byte {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		if m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= unix.SizeofInet6Pktinfo {
			var info unix.Inet6Pktinfo
			copy(info.Addr[:], m.Data)
			return unix.PktInfo6(&info)
		}
	}
	return nil
}

// reusing lets sockets with one local port begin several conversations.
func reusing(_, _ string, raw syscall.RawConn) (err error) {
	control := raw.Control(func(fd uintptr) {
		err = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	})
	return errors.Join(control, err)
}

// DialFrom connects from a local port, 0: any.
func DialFrom(from *topo.Host, network string, local uint16, to netip.AddrPort) (conn net.Conn, err error) {
	var source net.Addr = &net.TCPAddr{Port: int(local)}
	if network == "udp" {
		source = &net.UDPAddr{Port: int(local)}
	}
	dialer := net.Dialer{LocalAddr: source, Timeout: 3 * time.Second}
	if local != 0 { // else the kernel might give a port that another such socket has
		dialer.Control = reusing
	}
	err = from.Do(func() error {
		conn, err = dialer.Dial(network, to.String())
		return err
	})
	return conn, err
}

// Mirrored is what a host's socket is to a mirror.
func Mirrored(from *topo.Host, network string, local uint16, to netip.AddrPort) (netip.AddrPort, error) {
	conn, err := DialFrom(from, network, local, to)
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer CloseNow(conn)
	if err := conn.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
		return netip.AddrPort{}, err
	}
	if network == "udp" {
		if _, err := conn.Write([]byte("who am I?")); err != nil {
			return netip.AddrPort{}, err
		}
	}
	b := make([]byte, 100)
	size, err := conn.Read(b)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.ParseAddrPort(string(b[:size]))
}

// SeenAs is a fact: to a mirror, a guest's sockets have an address out of a set, which is returned.
func (n *Network) SeenAs(from Guest, network string, to netip.Addr, among []netip.Addr) (as netip.Addr) {
	n.T.Helper()
	n.Once(fmt.Sprintf("%s is translated, %s to %s", from.Name, network, to), func() error {
		got, err := Mirrored(from.Host, network, 0, netip.AddrPortFrom(to, MirrorPort))
		if err == nil && !slices.Contains(among, got.Addr()) {
			err = fmt.Errorf("it comes from %s, want one of %v", got, among)
		}
		as = got.Addr()
		return err
	})
	return as
}

// Fetch is a TCP transfer to who asks for it.
func Fetch(d Direction, size int) error {
	l, err := ListenTCP(d.To, d.Addr)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.SetDeadline(time.Now().Add(Patience)); err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_ = conn.SetDeadline(time.Now().Add(3 * Patience)) // or it hangs, which shows
			_, err = conn.Write(Content[:size])
			err = errors.Join(err, conn.Close())
		}
		sent <- err
	}()
	conn, err := DialTCP(d.From, l.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(3 * Patience)); err != nil {
		return err
	}
	hash := sha256.New()
	got, err := io.Copy(hash, conn)
	if err = errors.Join(err, <-sent); err == nil && [sha256.Size]byte(hash.Sum(nil)) != sha256.Sum256(Content[:size]) {
		err = fmt.Errorf("%d bytes received, and not those that were sent", got)
	}
	return err
}

// Fetches are facts, of transfers without captures.
func (n *Network) Fetches(size int, ds ...Direction) {
	n.T.Helper()
	n.StopCaptures()
	for _, d := range ds {
		n.Once(fmt.Sprintf("%d bytes intact to %s", size, d.Name), func() error { return Fetch(d, size) })
	}
}
