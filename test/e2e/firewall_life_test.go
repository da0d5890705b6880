package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/edge"
	"github.com/selvage/selvage/lab/topo"
)

// What else of an edge changes while its firewall stands.

// turned is the fact that the edge has a firewall, or none.
func (n *policed) turned(host string, on bool) {
	n.t.Helper()
	n.fact(fmt.Sprintf("firewall of %s: %t", host, on), func() error {
		status, err := n.ask(host).Status(n.ctx)
		if err == nil && (status.Firewall != nil) != on {
			err = errors.New("it is otherwise")
		}
		return err
	})
}

// Turning a firewall on and off loses nothing that it allows.
func TestFirewallOnOff(t *testing.T) {
	n := newPoliced(t, 4, none, none)
	n.serve(n.red3, portAllowed, portDropped)
	streams := n.streamsOver()
	conn := n.connect(n.red1, n.red3, 4, portAllowed)
	some := policy{options: "default: allow", rules: []string{"name: not-7002, action: drop, services: [tcp/7002]"}}
	for range 2 {
		n.gets(n.red1, "tcp", n.red3, portDropped, answered)
		n.enforce(1, some, "p1", "p2")
		n.turned("edge1", true)
		n.goOn(streams)
		n.gets(n.red1, "tcp", n.red3, portDropped, silent)
		n.once("the connection works", func() error { return exchangeLine(conn, patience) })
		n.must(n.reload("edge1", n.yaml(1, policedSpec(none, "p1", "p2"))))
		n.turned("edge1", false)
		n.goOn(streams)
		n.once("the connection works without", func() error { return exchangeLine(conn, patience) })
	}
	n.lostNothing(streams)
}

// Other sizes of tables are other tables: connections move.
func TestFirewallSizes(t *testing.T) {
	n := newPoliced(t, 4, strictOut, none)
	n.serve(n.red3, portAllowed)
	var conns []*net.TCPConn
	for i := range 20 {
		conns = append(conns, n.connect([]guest{n.red1, n.red2}[i%2], n.red3, []int{4, 6}[i/2%2], portAllowed))
	}
	streamed := policy{strictOut.options, append(strictOut.rules[:1:1], "name: streams, action: allow, from: [{segment: red}], services: [udp/8000-65535]")}
	n.enforce(1, streamed, "p1", "p2")
	streams := n.streamsOver()
	for _, sizes := range []string{", connections: 2048, halfOpen: 1024", ", connections: 262144", ""} {
		p := streamed
		p.options += sizes
		n.enforce(1, p, "p1", "p2")
		n.goOn(streams)
		for i, conn := range conns {
			n.once(fmt.Sprintf("connection %d works with sizes %q", i+1, sizes), func() error { return exchangeLine(conn, patience) })
		}
		n.gets(n.red1, "tcp", n.red3, portAllowed, answered)
		n.gets(n.red3, "tcp", n.red1, portAllowed, silent)
	}
	n.lostNothing(streams)
	n.once("all of them are known", func() error {
		list, err := n.sessions("edge1", edge.SessionQuery{State: "established"})
		if err == nil && list.Matched != len(conns) {
			err = fmt.Errorf("%d are", list.Matched)
		}
		return err
	})
}

// A port that is unplugged and plugged in again is never open, and one that takes another's place
// does not inherit what that one's workload had.
func TestFirewallPorts(t *testing.T) {
	n := newPoliced(t, 4, strictOut, none)
	n.serve(n.red3, portAllowed, portDropped)
	n.connect(n.red1, n.red3, 4, portAllowed)
	n.gets(n.red1, "tcp", n.red3, portDropped, silent)
	n.must(n.hosts[0].Delete("p1"))
	n.fact("port p1 is absent", func() error { return n.portState("edge1", "p1", "absent") })
	n.must(n.lab.Link(n.ctx, n.red1.end(true), topo.LinkEnd{Host: n.hosts[0], Name: "p1"}, 1430))
	n.fact("port p1 is up", func() error { return n.portState("edge1", "p1", "up") })
	n.fact("red1 reaches what it may", func() error { return meets(n.red1, "tcp", n.red3.addr(4), portAllowed, answered) })
	n.gets(n.red1, "tcp", n.red3, portDropped, silent)

	// Another port, with the same guest behind it, that may do nothing.
	n.connect(n.red1, n.red3, 4, portAllowed)
	n.must(n.hosts[0].Delete("p1"))
	n.must(n.lab.Link(n.ctx, n.red1.end(true), topo.LinkEnd{Host: n.hosts[0], Name: "p9"}, 1430))
	p := strictOut
	p.rules = []string{strings.Replace(strictOut.rules[0], "direction: out", "direction: out, appliedTo: [{port: p2}]", 1)}
	n.enforce(1, p, "p9", "p2")
	n.fact("port p9 is up", func() error { return n.portState("edge1", "p9", "up") })
	n.gets(n.red1, "tcp", n.red3, portAllowed, silent)
	n.gets(n.red2, "tcp", n.red3, portAllowed, answered)
	n.once("no session is of a port that is gone, nor of the one that has nothing", func() error {
		list, err := n.sessions("edge1", edge.SessionQuery{})
		if i := slices.IndexFunc(list.Sessions, func(s edge.SessionInfo) bool { return s.Port != "p2" && s.Answered }); err == nil && i >= 0 {
			err = fmt.Errorf("%+v", list.Sessions[i])
		}
		return err
	})
}

// Without the flow cache each packet is asked about, and the answers are the same.
func TestFirewallWithoutCache(t *testing.T) {
	n := newPoliced(t, 4, strictOut, none)
	n.serve(n.red3, portAllowed, portDropped)
	n.changes(1, func(mark string) string {
		return "  flowCache: {enabled: false}\n" + policedSpec(strictOut.with(mark), "p1", "p2")
	})
	for _, network := range []string{"tcp", "udp"} {
		n.gets(n.red1, network, n.red3, portAllowed, answered)
		n.gets(n.red1, network, n.red3, portDropped, silent)
		n.gets(n.red3, network, n.red1, portAllowed, silent)
	}
	n.enforce(1, open, "p1", "p2")
	n.transfers(2_000_000, ways(n.red1, n.red3)...)
}

// What the edge itself answers gets through: a packet that is too big is refused by name, also
// where next to nothing is allowed.
func TestFirewallTooBig(t *testing.T) {
	n := newTwoHosts(t, tight(4))
	n.build(n.selvage(), n.selvage())
	n.quiet()
	p := policy{options: "default: drop, strict: true", rules: []string{"name: ping, action: allow, direction: out, services: [icmp/8, icmpv6/128]", "name: pong, action: allow, direction: in, services: [icmp/8, icmpv6/128]"}}
	for _, host := range []string{"hosta", "hostb"} {
		n.must(n.reload(host, n.config(host)+p.yaml()))
		n.fact("the policy is in force on "+host, func() error { return n.hasRule(host, "pong") })
	}
	for _, family := range []int{4, 6} {
		for _, d := range n.directions(family) {
			n.fact("ping from "+d.name, func() error { return ping(n.ctx, d.from, d.addr) })
			n.fact("a large ping is refused", func() error { return tooBigPing(n.network, d, 1500, 1450, d.addr) })
		}
	}
}

// A firewall stands between a router's uplink and its guests too.
func TestFirewallUplink(t *testing.T) {
	n := newUnderlay(t, uplinkPicture, 2, 4)
	red1 := n.guest("red1", 0, 1, n.hosts[0], "r0", 1450)
	red2 := n.guest("red2", 0, 2, n.hosts[1], "r0", 1450)
	out := n.outside(n.hosts[0], "up0")
	p := policy{options: "default: drop, strict: true", rules: []string{
		"name: out, action: allow, direction: out, services: [tcp/7001, icmp/8, icmpv6/128]",
		`name: from-outside, action: allow, from: [203.0.113.0/24, "2001:db8:cafe::/64"], services: [tcp/7002]`,
		`name: from-wan, action: reject, from: [{segment: wan}], services: [tcp/7003]`,
	}}
	n.edgesUp(uplinkSpec+p.yaml(), `
  segments:
  - {name: red, vni: 100, remotes: REMOTES}
  ports:
  - {name: r0, interface: r0, segment: red}
`+policy{p.options, p.rules[:2]}.yaml()) // there is no uplink
	n.serve(guest{Host: out}, portAllowed, portDropped)
	n.serve(red1, portAllowed, portDropped, portRejected)
	n.serve(red2, portAllowed, portDropped, portRejected)
	world := guest{Host: out}
	asks := func(from guest, to netip.Addr, port int, want outcome) {
		n.t.Helper()
		n.fact(fmt.Sprintf("%s port %d is %s to %s", to, port, want, from.Name), func() error { return meets(from, "tcp", to, port, want) })
	}
	for _, inner := range []int{4, 6} {
		n.fact("red1 pings the outside", func() error { return ping(n.ctx, red1.Host, outsideAddr(inner)) })
		asks(red1, outsideAddr(inner), portAllowed, answered)
		asks(red1, outsideAddr(inner), portDropped, silent)
		asks(world, red1.addr(inner), portAllowed, silent)
		asks(world, red1.addr(inner), portRejected, refused)
		asks(world, red2.addr(inner), portRejected, silent)
	}
}

// One source port, again and again: what is over, by a reset or by both ends' FIN, makes room for
// the next connection at once.
func TestFirewallPortReuse(t *testing.T) {
	p := policy{options: "default: drop, strict: true", rules: []string{"name: inside, action: allow, from: [10.0.0.1, \"fd00::1\"], services: [tcp/7001-7002]"}}
	n := newPoliced(t, 4, p, p)
	n.serve(n.red2, portAllowed)
	n.serve(n.red3, portAllowed)
	for _, to := range []guest{n.red2, n.red3} {
		n.must(to.Do(func() error {
			l, err := net.Listen("tcp", fmt.Sprintf(":%d", portDropped))
			if err == nil {
				n.t.Cleanup(func() { l.Close() })
				go closeFirst(l)
			}
			return err
		}))
		for _, family := range []int{4, 6} {
			for i := range 40 {
				port, abort := portAllowed, true // this end resets
				if i%2 == 1 {
					port, abort = portDropped, false // the other end says goodbye first, and keeps TIME_WAIT
				}
				n.once(fmt.Sprintf("connection %d from one port to %s, IPv%d", i+1, to.Name, family), func() error {
					return n.red1.Do(func() error {
						return fromPort(netip.AddrPortFrom(n.red1.addr(family), 40000), netip.AddrPortFrom(to.addr(family), uint16(port)), abort)
					})
				})
			}
		}
	}
	n.noDrops("denied") // which is what guests send unasked
}

// closeFirst sends one line on each connection and closes it.
func closeFirst(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // closed
		}
		_, _ = conn.Write([]byte("goodbye")) // the client misses it
		conn.Close()
	}
}

// fromPort exchanges a line over a connection that begins at one port, and resets it; or reads until
// the other end closes it.
func fromPort(from, to netip.AddrPort, abort bool) error {
	reuse := func(_, _ string, raw syscall.RawConn) (err error) {
		control := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
		return errors.Join(control, err)
	}
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(from), Control: reuse, Timeout: 900 * time.Millisecond} // before a SYN is sent again
	c, err := dialer.Dial("tcp", to.String())
	if err != nil {
		return err
	}
	conn := c.(*net.TCPConn)
	defer conn.Close()
	if abort {
		return errors.Join(exchangeLine(conn, patience), conn.SetLinger(0))
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	said, err := io.ReadAll(conn)
	if err == nil && string(said) != "goodbye" {
		err = fmt.Errorf("it said %q", said)
	}
	return err
}
