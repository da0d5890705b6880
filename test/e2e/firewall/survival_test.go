package firewall

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/test/e2e/harness"
)

// connect is a TCP connection to an echo, closed with the test.
func (n *policed) connect(from, to harness.Guest, family, port int) *net.TCPConn {
	n.T.Helper()
	conn, err := harness.DialTCP(from.Host, netip.AddrPortFrom(to.Addr(family), uint16(port)).String())
	if err != nil {
		n.Fail(fmt.Sprintf("%s connects to %s", from.Name, to.Name), err)
	}
	n.T.Cleanup(func() { conn.Close() })
	n.Once("the connection works", func() error { return harness.ExchangeLine(conn, harness.Patience) })
	return conn
}

// killedEdge: its successor knows the connections. Where only a SYN opens one, those that were
// there go on.
func killedEdge(n *policed) {
	n.T.Helper()
	n.enforce(2, policy{options: "default: drop, strict: true", rules: []string{"name: in, action: allow, direction: in, services: [tcp/7001, udp/7001]"}}, "p3")
	n.Serve(n.red3, harness.PortAllowed)
	conns := []*net.TCPConn{n.connect(n.red1, n.red3, 4, harness.PortAllowed), n.connect(n.red2, n.red3, 6, harness.PortAllowed)}
	works := func(when string) {
		n.T.Helper()
		for i, conn := range conns {
			n.Once(fmt.Sprintf("connection %d works %s", i+1, when), func() error { return harness.ExchangeLine(conn, harness.Patience) })
		}
		gets(n.Hub.Network, n.red1, "tcp", n.red3, harness.PortAllowed, harness.Answered)
		gets(n.Hub.Network, n.red1, "tcp", n.red3, harness.PortDropped, harness.Silent)
		gets(n.Hub.Network, n.red3, "tcp", n.red1, harness.PortAllowed, harness.Silent)
	}
	for i, host := range []string{"edge1", "edge2"} {
		config, name := n.Config(host), n.Edges[host].Name
		before, err := sessions(n.Hub.Network, host, api.ConnectionQuery{State: "established"})
		n.Must(err)
		n.Edges[host].Kill()
		works("without " + host)
		n.Start(n.Hosts[i], name, config)
		n.Fact("the next "+host+" has taken over", func() error {
			status, err := n.Ask(host).Status(n.Ctx)
			if err == nil && !status.Adopted {
				err = errors.New("it has not")
			}
			return err
		})
		works("with the next " + host)
		n.Once(host+" still has the connections, and their age", func() error { return stillThere(n.Hub.Network, host, before.Sessions) })
	}
}

// changedWhileDead: what was forbidden while no edge ran ends with the next one, and is not open
// until then.
func changedWhileDead(n *policed) {
	n.T.Helper()
	n.Serve(n.red3, harness.PortAllowed, harness.PortDropped)
	kept, cut := n.connect(n.red2, n.red3, 4, harness.PortAllowed), n.connect(n.red1, n.red3, 4, harness.PortAllowed)
	next := policy{strictOut.options, append([]string{"name: not-red1, action: drop, from: [10.0.0.1]"}, strictOut.rules...)}
	name := n.Edges["edge1"].Name
	n.Edges["edge1"].Kill()
	n.Once("both work without an edge", func() error {
		return errors.Join(harness.ExchangeLine(kept, harness.Patience), harness.ExchangeLine(cut, harness.Patience))
	})
	n.Start(n.Hosts[0], name, n.Yaml(1, policedSpec(next, "p1", "p2")))
	n.Fact("the next edge has its policy in force", func() error { return hasRule(n.Hub.Network, "edge1", "not-red1") })
	n.Once("what is still allowed works", func() error { return harness.ExchangeLine(kept, harness.Patience) })
	n.Once("the other hangs", func() error {
		if err := harness.ExchangeLine(cut, harness.QuietTime); !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("it is answered, or %w", err)
		}
		return nil
	})
	gets(n.Hub.Network, n.red2, "tcp", n.red3, harness.PortDropped, harness.Silent)
}

func sessions(n *harness.Network, host string, q api.ConnectionQuery) (api.SessionList, error) {
	return n.Ask(host).Sessions(n.Ctx, q)
}

// stillThere is nil when all sessions are there, of the rule that they had, and not younger.
func stillThere(n *harness.Network, host string, before []api.SessionInfo) error {
	if len(before) == 0 {
		return errors.New("there were none")
	}
	now, err := sessions(n, host, api.ConnectionQuery{})
	if err != nil {
		return err
	}
	for _, was := range before {
		if !slices.ContainsFunc(now.Sessions, func(is api.SessionInfo) bool {
			return is.Port == was.Port && is.Src == was.Src && is.SrcPort == was.SrcPort && is.DstPort == was.DstPort &&
				is.Age >= was.Age && is.Rule == was.Rule && is.OrigPackets >= was.OrigPackets
		}) {
			return fmt.Errorf("of %+v there is nothing in %+v", was, now.Sessions)
		}
	}
	return nil
}
