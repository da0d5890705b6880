package e2e

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

	"github.com/selvage/selvage/lab/topo"
)

// patience bounds what a probe waits for.
const patience = 10 * time.Second

// ping sends five echo requests and wants every answer.
func ping(ctx context.Context, from *topo.Host, addr netip.Addr) error {
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

// neighbour returns the MAC address that a host has resolved.
func neighbour(ctx context.Context, h *topo.Host, addr netip.Addr) (string, error) {
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

// listenUDP opens a socket in a host.
func listenUDP(h *topo.Host, addr netip.Addr) (conn *net.UDPConn, err error) {
	err = h.Do(func() error {
		conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
		return err
	})
	if err != nil {
		return nil, err
	}
	return conn, errors.Join(conn.SetReadBuffer(4<<20), conn.SetWriteBuffer(4<<20))
}

func dialUDP(h *topo.Host, to net.Addr) (conn *net.UDPConn, err error) {
	err = h.Do(func() error {
		conn, err = net.DialUDP("udp", nil, to.(*net.UDPAddr))
		return err
	})
	return conn, err
}

// echo sends a datagram of each size, which comes back as it was.
func echo(d direction, sizes ...int) error {
	server, err := listenUDP(d.to, d.addr)
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
	client, err := dialUDP(d.from, server.LocalAddr())
	if err != nil {
		return err
	}
	defer client.Close()
	for _, size := range sizes {
		if err := echoOne(client, content[size:2*size], time.Second); err != nil {
			return fmt.Errorf("datagram of %d bytes: %w", size, err)
		}
	}
	return nil
}

// echoOne sends to an echo and wants the same back, in one piece.
func echoOne(client net.Conn, data []byte, wait time.Duration) error {
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

// listenTCP opens a listening socket in a host.
func listenTCP(h *topo.Host, addr netip.Addr) (l *net.TCPListener, err error) {
	err = h.Do(func() error {
		l, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
		return err
	})
	return l, err
}

func dialTCP(from *topo.Host, addr string) (conn *net.TCPConn, err error) {
	err = from.Do(func() error {
		c, err := net.DialTimeout("tcp", addr, patience)
		if err == nil {
			conn = c.(*net.TCPConn)
		}
		return err
	})
	return conn, err
}

// transfer sends size bytes over TCP and compares their hash.
func transfer(d direction, size int) error {
	return transferBytes(d, content[:size], nil)
}

// transferBytes calls progress, unless nil, with the bytes received so far.
func transferBytes(d direction, data []byte, progress func(int)) error {
	want := contentSum
	if len(data) != len(content) {
		want = sha256.Sum256(data)
	}
	l, err := listenTCP(d.to, d.addr)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() { sent <- send(d.from, l.Addr().String(), data) }()
	received := receive(l, want, progress)
	return errors.Join(received, <-sent)
}

func send(from *topo.Host, addr string, data []byte) error {
	conn, err := dialTCP(from, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(3 * patience)); err != nil {
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
	if err := conn.SetDeadline(time.Now().Add(3 * patience)); err != nil {
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

// pingFails is nil when one echo request brings an error, whose words match a
// pattern, from an address; any when that is not valid.
func pingFails(n *network, h *topo.Host, to, from netip.Addr, pattern string, options ...string) error {
	argv := append([]string{"ping", "-n", "-c1", "-W1"}, options...)
	out, err := h.Output(n.ctx, append(argv, to.String())...)
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
