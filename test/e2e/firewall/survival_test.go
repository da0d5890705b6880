package firewall

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
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

var (
	limitedOut = policy{strictOut.options + ", halfOpen: 2048", strictOut.rules}
	smallOut   = policy{strictOut.options + ", connections: 1024, halfOpen: 1024", strictOut.rules}
)

func TestFirewallKilled(t *testing.T) {
	t.Parallel()
	inSteps(t,
		step{"KilledEdge", strictOut, strictOut, killedEdge},
		step{"ChangedWhileDead", strictOut, none, changedWhileDead},
	)
}

func TestFirewallSYNFlood(t *testing.T) {
	t.Parallel()
	synFlood(newPoliced(t, 4, limitedOut, none))
}

func TestFirewallFullShare(t *testing.T) {
	t.Parallel()
	fullShare(newPoliced(t, 4, smallOut, none))
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

// fullShare: a port that has its share of answered connections loses dialogues of its own; what
// begins then still works, and so does what was there.
func fullShare(n *policed) {
	n.T.Helper()
	n.Serve(n.red3, harness.PortAllowed)
	first := n.connect(n.red1, n.red3, 4, harness.PortAllowed)
	const most = 1500
	n.Once("1500 connections are made", func() error {
		for i := 0; i < most; i += 100 { // in small batches, so that each is answered while it is there
			for _, way := range []struct {
				from, to harness.Guest
				words    string
			}{{n.red1, n.red3, "udp A:N > B:7001 20"}, {n.red3, n.red1, "udp A:7001 > B:N 20"}} {
				if err := n.batch(way.from, way.to, way.words, i, 100); err != nil {
					return err
				}
			}
		}
		return nil
	})
	const share = 1024 / 4 // of a port
	swept(n.Hub.Network, "the port has its share, and no more", func() error {
		info, err := n.Ask("edge1").Firewall(n.Ctx)
		if err != nil {
			return err
		}
		for _, table := range info.Tables {
			if table.Name == "connections" && table.Used != nil && *table.Used > share/2 && *table.Used <= share {
				return nil
			}
		}
		return fmt.Errorf("%+v", info)
	})
	n.Once("the first connection works", func() error { return harness.ExchangeLine(first, harness.Patience) })
	for range 10 {
		gets(n.Hub.Network, n.red1, "tcp", n.red3, harness.PortAllowed, harness.Answered)
	}
	n.connect(n.red2, n.red3, 6, harness.PortAllowed)
	n.Once("the first connection still works", func() error { return harness.ExchangeLine(first, harness.Patience) })
	swept(n.Hub.Network, "the edge names the problem", func() error { return n.Problem("edge1", "raise limits.connections") })
}

// swept is a fact that the next sweep over the connections finds, which is later where the
// machine is busy.
func swept(n *harness.Network, what string, try func() error) {
	n.T.Helper()
	var err error
	for range 4 {
		if err = await.That(n.Ctx, what, try); err == nil {
			return
		}
	}
	n.Fail(what, err)
}

// batch sends datagrams, and waits until the last has arrived.
func (n *policed) batch(from, to harness.Guest, words string, begin, count int) error {
	in, err := harness.OpenFrames(to.Host, topo.EndName, false)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := harness.OpenFrames(from.Host, topo.EndName, false)
	if err != nil {
		return err
	}
	defer out.Close()
	var last []byte
	for i := range count {
		last = n.frame(sends{from: from, to: to, words: strings.ReplaceAll(words, "N", fmt.Sprint(10000+begin+i))}, 4)
		if err := out.Send(last); err != nil {
			return err
		}
	}
	_, err = in.Until(func([]byte) bool { return false }, func(b []byte) bool { return carries(b, last) })
	return err
}

// synFlood: a port that floods the network with connections that nobody answers reaches its limit,
// and the others do not feel it.
func synFlood(n *policed) {
	n.T.Helper()
	limited := limitedOut
	n.Serve(n.red3, harness.PortAllowed)
	mine, theirs := n.connect(n.red1, n.red3, 4, harness.PortAllowed), n.connect(n.red2, n.red3, 4, harness.PortAllowed)
	n.enforce(1, policy{limited.options, append(limited.rules[:1:1], "name: streams, action: allow, from: [10.0.0.2], services: [udp/1024-65535]")}, "p1", "p2")
	streams := []*harness.Stream{n.StartStream(harness.Way(n.red2, n.red3, 4))}
	n.GoOn(streams)
	before, err := n.Drops("edge1")
	n.Must(err)
	n.Once("red1 sends 5000 SYNs that nobody answers", func() error {
		out, err := harness.OpenFrames(n.red1.Host, topo.EndName, false)
		if err != nil {
			return err
		}
		defer out.Close()
		for i := range 5000 {
			words := fmt.Sprintf("tcp %s:%d > %s:7001 syn", harness.SubnetAddr(0, n.strangers+1+i%50, 4), 1024+i, n.stranger(n.red3, 4))
			if err := out.Send(pkttest.Frame(n.red1.Ether().String(), n.red3.Ether().String(), words)); err != nil {
				return err
			}
			if i%500 == 499 {
				gets(n.Hub.Network, n.red2, "tcp", n.red3, harness.PortAllowed, harness.Answered)
			}
		}
		return nil
	})
	n.Fact("red1 loses its own oldest connections, and none is refused", func() error {
		after, err := n.Drops("edge1")
		if more := after["half-open-limit"] - before["half-open-limit"]; err == nil && more > 0 {
			err = fmt.Errorf("%d were dropped as half-open", more)
		}
		return err
	})
	gets(n.Hub.Network, n.red1, "tcp", n.red3, harness.PortAllowed, harness.Answered)
	for _, conn := range []*net.TCPConn{mine, theirs} {
		n.Once("the connections from before work", func() error { return harness.ExchangeLine(conn, harness.Patience) })
	}
	n.GoOn(streams)
	n.Lost(streams[0], 0)
	n.Fact("sessions name the port", func() error {
		list, err := sessions(n.Hub.Network, "edge1", api.ConnectionQuery{Top: "ports"})
		if err != nil {
			return err
		}
		for _, top := range list.Top {
			if top.What == "p1" && top.HalfOpen >= 500 && top.HalfOpen <= 520 {
				return nil
			}
		}
		return fmt.Errorf("%+v", list.Top)
	})
	swept(n.Hub.Network, "the edge names the problem", func() error { return n.Problem("edge1", "port p1 has") })
}
