package harness

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/topo"
)

// Patience bounds what a probe waits for.
const Patience = 10 * time.Second

// Ping sends five echo requests and wants every answer.
func Ping(ctx context.Context, from *topo.Host, addr netip.Addr) error {
	const count = "5"
	out, err := from.Output(ctx, "ping", "-n", "-q", "-c", count, "-i", "0.01", "-W", "1", addr.String())
	if err == nil && !strings.Contains(string(out), count+" received,") {
		err = errors.New("answers are missing")
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// Neighbour returns the MAC address that a host has resolved.
func Neighbour(ctx context.Context, h *topo.Host, addr netip.Addr) (string, error) {
	out, err := h.Output(ctx, "ip", "neigh", "show", addr.String())
	if err != nil {
		return "", err
	}
	words := strings.Fields(string(out))
	for i, w := range words {
		if w == "lladdr" && i+1 < len(words) {
			return words[i+1], nil
		}
	}
	return "", fmt.Errorf("%s has %q", h.Name, out)
}

// ListenUDP opens a socket in a host.
func ListenUDP(h *topo.Host, addr netip.Addr) (conn *net.UDPConn, err error) {
	err = h.Do(func() error {
		conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
		return err
	})
	if err != nil {
		return nil, err
	}
	return conn, errors.Join(forceReadBuffer(conn, 4<<20), conn.SetWriteBuffer(4<<20))
}

// forceReadBuffer makes the read buffer so large whatever net.core.rmem_max says: a reader that waits for a core must
// not look like a loss.
func forceReadBuffer(conn *net.UDPConn, size int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var forced error
	err = raw.Control(func(fd uintptr) { forced = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, size) })
	return errors.Join(err, forced)
}

// DialUDP opens a socket in a host that talks to one address.
func DialUDP(h *topo.Host, to net.Addr) (conn *net.UDPConn, err error) {
	err = h.Do(func() error {
		conn, err = net.DialUDP("udp", nil, to.(*net.UDPAddr))
		return err
	})
	return conn, err
}

// Echo sends a datagram of each size, which comes back as it was.
func Echo(d Direction, sizes ...int) error {
	server, err := ListenUDP(d.To, d.Addr)
	if err != nil {
		return err
	}
	defer server.Close()
	go func() {
		b := make([]byte, 1<<16)
		for {
			size, from, err := server.ReadFromUDPAddrPort(b)
			if err != nil {
				return // closed
			}
			_, _ = server.WriteToUDPAddrPort(b[:size], from) // the client misses it
		}
	}()
	client, err := DialUDP(d.From, server.LocalAddr())
	if err != nil {
		return err
	}
	defer client.Close()
	for _, size := range sizes {
		if err := EchoOne(client, Content[size:2*size], time.Second); err != nil {
			return fmt.Errorf("datagram of %d bytes: %w", size, err)
		}
	}
	return nil
}

// EchoOne sends to an echo and wants the same back, in one piece.
func EchoOne(client net.Conn, data []byte, wait time.Duration) error {
	if err := client.SetDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	if _, err := client.Write(data); err != nil {
		return err
	}
	b := make([]byte, 1<<16)
	size, err := client.Read(b)
	if err == nil && !bytes.Equal(b[:size], data) {
		return fmt.Errorf("%d bytes came back, and not the same", size)
	}
	return err
}

// ListenTCP opens a listening socket in a host.
func ListenTCP(h *topo.Host, addr netip.Addr) (l *net.TCPListener, err error) {
	err = h.Do(func() error {
		l, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
		return err
	})
	return l, err
}

// DialTCP connects from a host.
func DialTCP(from *topo.Host, addr string) (conn *net.TCPConn, err error) {
	err = from.Do(func() error {
		c, err := net.DialTimeout("tcp", addr, Patience)
		if err == nil {
			conn = c.(*net.TCPConn)
		}
		return err
	})
	return conn, err
}

// Transfer sends size bytes over TCP and compares their hash.
func Transfer(d Direction, size int) error {
	return TransferBytes(d, Content[:size], nil)
}

// TransferBytes calls progress, unless nil, with the bytes received so far.
func TransferBytes(d Direction, data []byte, progress func(int)) error {
	want := contentSum
	if len(data) != len(Content) {
		want = sha256.Sum256(data)
	}
	l, err := ListenTCP(d.To, d.Addr)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.SetDeadline(time.Now().Add(Patience)); err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() { sent <- send(d.From, l.Addr().String(), data) }()
	received := receive(l, want, progress)
	return errors.Join(received, <-sent)
}

func send(from *topo.Host, addr string, data []byte) error {
	conn, err := DialTCP(from, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(3 * Patience)); err != nil {
		return err
	}
	_, err = conn.Write(data)
	return err
}

func receive(l net.Listener, want [sha256.Size]byte, progress func(int)) error {
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(3 * Patience)); err != nil {
		return err
	}
	hash := sha256.New()
	b, total := make([]byte, 1<<18), 0
	for {
		size, err := conn.Read(b)
		hash.Write(b[:size])
		total += size
		if progress != nil {
			progress(total)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("after %d bytes: %w", total, err)
		}
	}
	if [sha256.Size]byte(hash.Sum(nil)) != want {
		return fmt.Errorf("%d bytes received, and not those that were sent", total)
	}
	return nil
}

// PingFails is nil when one echo request brings an error, whose words match a
// pattern, from an address; any when that is not valid.
func PingFails(n *Network, h *topo.Host, to, from netip.Addr, pattern string, options ...string) error {
	argv := append([]string{"ping", "-n", "-c1", "-W1"}, options...)
	out, err := h.Output(n.Ctx, append(argv, to.String())...)
	said := regexp.MustCompile(`(?m)^From (\S+?):? .*(` + pattern + `)`).FindSubmatch(out)
	switch {
	case err == nil:
		return fmt.Errorf("it is answered: %s", out)
	case said == nil:
		return fmt.Errorf("no %q in %s", pattern, out)
	case from.IsValid() && string(said[1]) != from.String():
		return fmt.Errorf("it comes from %s, want %s: %s", said[1], from, out)
	}
	return nil
}
