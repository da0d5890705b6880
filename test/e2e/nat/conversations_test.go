package nat

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sort"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// conversation is something that a client does by a translator, and what it saw of it: the
// kernel's translation and ours are to look alike.
type conversation struct {
	name string
	does func(n *harness.EgressNet, family int) string
}

// Ports of the outside, at which it behaves.
const (
	portEcho       = 7200 + iota // sends back what it gets, until the client is done
	portHangsUp                  // closes first
	portResets                   // resets
	portIgnored                  // whose packets the outside drops
	portProhibited               // and where it says so
)

// nobody is an address that the outside has no way to.
func nobody(family int) netip.Addr {
	if family == 4 {
		return netip.MustParseAddr("203.0.113.77")
	}
	return netip.MustParseAddr("2001:db8:cafe::77")
}

// behave has the outside offer what conversations need.
func behave(n *harness.EgressNet) {
	n.T.Helper()
	n.Mirror(n.Out)
	for port, serve := range map[int]func(net.Conn){
		portEcho:    func(c net.Conn) { _, _ = io.Copy(c, c) },
		portHangsUp: func(c net.Conn) { _, _ = c.Write([]byte("goodbye")) },
		portResets:  func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) },
	} {
		n.Must(n.Out.Do(func() error {
			l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
			if err != nil {
				return err
			}
			n.T.Cleanup(func() { l.Close() })
			go acceptAll(l, serve)
			return nil
		}))
	}
	_, err := n.Out.Output(n.Ctx, "nft", fmt.Sprintf(`table inet behave { chain in { type filter hook input priority 0;
		meta l4proto { tcp, udp } th dport %d drop;
		meta l4proto { tcp, udp } th dport %d reject with icmpx type admin-prohibited; }; }`, portIgnored, portProhibited))
	n.Must(err)
	for _, family := range []int{4, 6} {
		_, err := n.Out.Output(n.Ctx, "ip", fmt.Sprintf("-%d", family), "route", "add", "unreachable", nobody(family).String())
		n.Must(err)
	}
}

func acceptAll(l net.Listener, serve func(net.Conn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // closed
		}
		go func() {
			defer conn.Close()
			serve(conn)
		}()
	}
}

// conversations with the outside; hops is how many routers there are up to it.
func conversations(hops int) []conversation {
	list := []conversation{
		{"ping", func(n *harness.EgressNet, family int) string {
			return said(harness.Ping(n.Ctx, n.Red1.Host, harness.OutsideAddr(family)))
		}},
		{"ping of nobody", func(n *harness.EgressNet, family int) string {
			return said(harness.PingFails(n.Network, n.Red1.Host, nobody(family), harness.WanAddr(1, family), "Destination Host Unreachable|Destination unreachable: "))
		}},
		{"ping that does not get there", func(n *harness.EgressNet, family int) string {
			return said(harness.PingFails(n.Network, n.Red1.Host, harness.FarAddr(family), harness.WanAddr(1, family), harness.TimeExceeded, "-t", fmt.Sprint(hops+1)))
		}},
		{"datagram that does not get there", func(n *harness.EgressNet, family int) string {
			return said(shortLived(n.Red1.Host, netip.AddrPortFrom(harness.FarAddr(family), harness.MirrorPort), hops+1))
		}},
		{"datagrams", func(n *harness.EgressNet, family int) string {
			var errs []error
			for _, size := range []int{1, 18, 1000, 5000, 20000} {
				errs = append(errs, twice(func() error { return harness.Echo(n.Outward(n.Red1, family), size) }))
			}
			return said(errors.Join(errs...))
		}},
		{"large pings", func(n *harness.EgressNet, family int) string {
			_, err := n.Red1.Output(n.Ctx, "ping", "-n", "-q", "-c2", "-i", "0.01", "-W", "1", "-s", "4000", harness.OutsideAddr(family).String())
			return said(err)
		}},
		{"path MTU", func(n *harness.EgressNet, family int) string {
			d := harness.Direction{Name: "", From: n.Red1.Host, To: n.Far, Addr: harness.FarAddr(family)}
			refused := harness.TooBigPing(n.Network, d, 1400, harness.FarMTU, harness.WanAddr(1, family))
			return said(errors.Join(refused, harness.KnowsMTU(n.Network, d, harness.FarMTU), harness.Transfer(d, 1_000_000), harness.Fetch(d, 1_000_000)))
		}},
		{"upload", func(n *harness.EgressNet, family int) string {
			return said(harness.Transfer(n.Outward(n.Red1, family), 1_000_000))
		}},
		{"download", func(n *harness.EgressNet, family int) string {
			return said(harness.Fetch(n.Outward(n.Red1, family), 1_000_000))
		}},
		{"half-closed", func(n *harness.EgressNet, family int) string {
			return said(halfClosed(n.Red1.Host, netip.AddrPortFrom(harness.OutsideAddr(family), portEcho)))
		}},
		{"reset by the outside", func(n *harness.EgressNet, family int) string {
			return readsUntil(n.Red1.Host, netip.AddrPortFrom(harness.OutsideAddr(family), portResets))
		}},
		{"closed by the outside", func(n *harness.EgressNet, family int) string {
			return readsUntil(n.Red1.Host, netip.AddrPortFrom(harness.OutsideAddr(family), portHangsUp))
		}},
		{"one port to all destinations", oneToAll},
		{"one port of two guests", oneOfTwo},
		{"one port again and again", againAndAgain},
	}
	for _, network := range []string{"tcp", "udp"} {
		for name, port := range map[string]int{"closed": harness.PortFree, "ignored": portIgnored, "prohibited": portProhibited} {
			list = append(list, conversation{network + " port that is " + name, func(n *harness.EgressNet, family int) string {
				want := harness.Silent
				if name != "ignored" {
					want = harness.Refused // so that it waits
				}
				return string(harness.Ask(n.Red1, network, harness.OutsideAddr(family), port, want))
			}})
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].name < list[j].name })
	return list
}

func said(err error) string {
	if err != nil {
		return err.Error()
	}
	return "fine"
}

// shortLived sends a datagram with a TTL that runs out after so many hops, and wants to be told.
func shortLived(from *topo.Host, to netip.AddrPort, hops int) error {
	conn, err := harness.DialFrom(from, "udp", 0, to)
	if err != nil {
		return err
	}
	defer conn.Close()
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		return err
	}
	level, ttl, errorsOn := unix.IPPROTO_IP, unix.IP_TTL, unix.IP_RECVERR
	if to.Addr().Is6() {
		level, ttl, errorsOn = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_RECVERR
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = errors.Join(unix.SetsockoptInt(int(fd), level, ttl, hops), unix.SetsockoptInt(int(fd), level, errorsOn, 1))
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if err := harness.EchoOne(conn, []byte("question"), time.Second); !errors.Is(err, syscall.EHOSTUNREACH) {
		return fmt.Errorf("%w, want no route to host", err)
	}
	return nil
}

// halfClosed says all it has to say, and then gets all of it back.
func halfClosed(from *topo.Host, to netip.AddrPort) error {
	conn, err := harness.DialTCP(from, to.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(harness.Patience)); err != nil {
		return err
	}
	const size = 100_000
	if _, err := conn.Write(harness.Content[:size]); err != nil {
		return err
	}
	if err := conn.CloseWrite(); err != nil {
		return err
	}
	got, err := io.ReadAll(conn)
	if err == nil && !slices.Equal(got, harness.Content[:size]) {
		err = fmt.Errorf("%d bytes came back, and not the same", len(got))
	}
	return err
}

// readsUntil is what a client reads, and how that ends.
func readsUntil(from *topo.Host, to netip.AddrPort) string {
	conn, err := harness.DialTCP(from, to.String())
	if err != nil {
		return fmt.Sprintf("%q, then %s", "", cause(err))
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(harness.Patience)); err != nil {
		return err.Error()
	}
	got, err := io.ReadAll(conn)
	return fmt.Sprintf("%q, then %s", got, cause(err))
}

// cause is an error without the addresses that it was met at.
func cause(err error) string {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number.Error()
	}
	return said(err)
}

// twice tries once more: of a large datagram, the first try may serve to learn the path's MTU.
func twice(try func() error) error {
	if try() == nil {
		return nil
	}
	return try()
}

// oneToAll is a local port that talks to several addresses and ports of the outside.
func oneToAll(n *harness.EgressNet, family int) string {
	other := map[int]netip.Addr{4: netip.MustParseAddr("203.0.113.9"), 6: netip.MustParseAddr("2001:db8:cafe::9")}[family]
	var words []string
	for _, network := range []string{"tcp", "udp"} {
		for _, to := range []netip.Addr{harness.OutsideAddr(family), other} {
			for port := uint16(harness.MirrorPort); port <= harness.MirrorPort+1; port++ {
				as, err := harness.Mirrored(n.Red1.Host, network, 41000, netip.AddrPortFrom(to, port))
				words = append(words, fmt.Sprintf("%s port %d, %s", network, as.Port(), cause(err)))
			}
		}
	}
	return strings.Join(words, "; ")
}

// oneOfTwo is the same local port of two guests, to one destination: both are served.
func oneOfTwo(n *harness.EgressNet, family int) string {
	to := netip.AddrPortFrom(harness.OutsideAddr(family), portEcho)
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			harness.CloseNow(c)
		}
	}()
	for _, g := range []harness.Guest{n.Red1, n.Red2} {
		c, err := harness.DialFrom(g.Host, "tcp", 42000, to)
		if err != nil {
			return g.Name + ": " + err.Error()
		}
		conns = append(conns, c)
	}
	for range 3 {
		for i, c := range conns {
			if err := harness.ExchangeLine(c, harness.Patience); err != nil {
				return fmt.Sprintf("guest %d: %v", i+1, err)
			}
		}
	}
	return "both are served"
}

// againAndAgain is a local port whose connections follow each other at once.
func againAndAgain(n *harness.EgressNet, family int) string {
	err := n.Red1.Do(func() error {
		for i := range 20 {
			abort, port := i%2 == 0, portEcho // this end resets
			if !abort {
				port = portHangsUp // the other end says goodbye first
			}
			from, to := netip.AddrPortFrom(n.Red1.Addr(family), 43000), netip.AddrPortFrom(harness.OutsideAddr(family), uint16(port))
			var err error
			// The last acknowledgement of the same addresses' connection may wait in a busy processor's backlog: until it is there, the guest's
			// kernel does not give the addresses again.
			free := await.That(n.Ctx, "addresses that the guest's kernel gives again", func() error {
				if err = harness.FromPort(from, to, abort); errors.Is(err, unix.EADDRNOTAVAIL) {
					return err
				}
				return nil
			})
			if err := errors.Join(free, err); err != nil {
				return fmt.Errorf("connection %d: %w", i+1, err)
			}
		}
		return nil
	})
	return said(err)
}
