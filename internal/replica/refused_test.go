package replica

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// dialFrom opens a connection to a gateway from 127.0.0.N.
func dialFrom(t testing.TB, n byte, to netip.AddrPort) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(loopback(n), 0))}
	c, err := dialer.DialContext(t.Context(), "tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// Connections from addresses that no link has, whether a port scanner's or a gateway's that is not configured here
// yet, keep no gateway out. They are counted, and one line is logged.
func TestStrangersTakeNoPlace(t *testing.T) {
	port := freePort(t)
	a, b := newGateway(t, 1, newTable(1, 2)), newGateway(t, 3, newTable(3))
	var lines bytes.Buffer
	b.Log = slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelWarn}))
	b.to(t, port, "secret", a) // it listens
	for i := range 2 * shakesMost {
		c := dialFrom(t, []byte{2, 9}[i%2], netip.AddrPortFrom(b.addr, port))
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("a stranger is told %d bytes", n)
		}
	}
	a.to(t, port, "secret", b)
	within(t, "a gateway after strangers", func() bool { return a.state(b, port).Synced })
	if err := errors.Join(a.Close(), b.Close()); err != nil { // so that the log is whole
		t.Fatal(err)
	}
	if n := b.Refused()[UnknownAddress]; n != 2*shakesMost {
		t.Errorf("%d refused connections counted, want %d", n, 2*shakesMost)
	}
	if n := strings.Count(lines.String(), "connection refused"); n != 1 {
		t.Errorf("%d lines about strangers, want 1:\n%s", n, &lines)
	}
}

// A member's address that opens connections and says nothing keeps no other member out, and is cut off in time.
func TestIdleConnectionsLeaveRoom(t *testing.T) {
	port := freePort(t)
	a, b, c := newGateway(t, 1, newTable()), newGateway(t, 2, newTable(2)), newGateway(t, 3, newTable())
	c.to(t, port, "k", a, b)
	for range shakesMost + 1 {
		dialFrom(t, 1, netip.AddrPortFrom(c.addr, port))
	}
	within(t, "refused", func() bool { return c.Refused()[TooMany] == shakesMost+1-shakesOfOne })
	b.to(t, port, "k", c)
	within(t, "another member", func() bool { return c.state(b, port).Synced })
	within(t, "cut off", func() bool { return c.Refused()[Timeout] == shakesOfOne })
	a.to(t, port, "k", c)
	within(t, "the member itself", func() bool { return c.state(a, port).Synced })
}

// A build that does not use TLS is told so in its own words, as the dialer, and both ends say what to do.
func TestOldBuildDials(t *testing.T) {
	port := freePort(t)
	a, b := newGateway(t, 1, newTable()), newGateway(t, 2, newTable())
	b.to(t, port, "k", a)
	c := dialFrom(t, 1, netip.AddrPortFrom(b.addr, port))
	if _, err := c.Write(append([]byte(oldMagic+"\x01\x01\x00\x00\x00\x00\x00\x26"), make([]byte, 38)...)); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(c); string(said) != oldAnswer {
		t.Errorf("it is answered %q (%v)", said, err)
	}
	within(t, "said", func() bool { return strings.Contains(b.state(a, port).Why, "older build") })
	if s := b.state(a, port); s.Refusal != OtherVersion || b.Refused()[OtherVersion] != 1 {
		t.Errorf("state %+v, refused %v", s, b.Refused())
	}
}

func TestOldBuildListens(t *testing.T) {
	a, b := newGateway(t, 1, newTable()), newGateway(t, 2, newTable())
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", netip.AddrPortFrom(b.addr, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write(append([]byte(oldMagic+"\x01\x01\x00\x00\x00\x00\x00\x26"), make([]byte, 38)...))
			_, _ = c.Read(make([]byte, 12))
			c.Close()
		}
	}()
	port := l.Addr().(*net.TCPAddr).AddrPort().Port()
	a.to(t, port, "k", b)
	within(t, "said", func() bool { return strings.Contains(a.state(b, port).Why, "older build") })
}

// Who has a member's address, and not the key that belongs to its end of the link, gets nowhere.
func TestCertificates(t *testing.T) {
	port := freePort(t)
	a, b := newGateway(t, 1, newTable()), newGateway(t, 2, newTable(7))
	b.to(t, port, "k", a)
	link := func(key string, from, to byte) Link {
		return Link{Local: loopback(from), Remote: loopback(to), Port: port, Key: []byte(key)}
	}
	for _, c := range []struct {
		name      string
		as        Link
		protocols []string
		want      Refusal
	}{
		{"another key", link("other", 1, 2), []string{protocol}, OtherKey},
		{"no key", link("", 1, 2), []string{protocol}, OtherKey},
		{"of the listener", link("k", 2, 1), []string{protocol}, OtherKey},
		{"of another member", link("k", 1, 3), []string{protocol}, OtherKey},
		{"of a later protocol", link("k", 1, 2), []string{"selvage-replication/3"}, OtherVersion},
	} {
		config, err := tlsConfig(c.as)
		if err != nil {
			t.Fatal(err)
		}
		config.NextProtos, config.VerifyConnection = c.protocols, nil
		was := b.Refused()[c.want]
		conn := tls.Client(dialFrom(t, 1, netip.AddrPortFrom(b.addr, port)), config)
		_, err = io.ReadAll(conn)
		if err == nil || refusalOf(explain(err)) != c.want {
			t.Errorf("%s: the dialer has %v", c.name, err)
		}
		within(t, c.name+" is refused", func() bool { return b.Refused()[c.want] == was+1 })
	}
	a.to(t, port, "k", b)
	within(t, "the member itself", func() bool { return a.state(b, port).Synced })
}

// A member's address that cannot prove who it is changes nothing about the connection that there is.
func TestRefusedBesideAConnection(t *testing.T) {
	port := freePort(t)
	a, b := newGateway(t, 1, newTable()), newGateway(t, 2, newTable(7))
	a.to(t, port, "k", b)
	b.to(t, port, "k", a)
	within(t, "synchronised", func() bool { return b.state(a, port).Synced })
	_, _ = dialFrom(t, 1, netip.AddrPortFrom(b.addr, port)).Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	within(t, "refused", func() bool { return b.Refused()[Malformed] == 1 })
	if s := b.state(a, port); !s.Synced || s.Why != "" || s.Resyncs != 0 {
		t.Errorf("state %+v", s)
	}
}
