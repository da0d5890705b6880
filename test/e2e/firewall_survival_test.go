package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/edge"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/pkttest"
)

// connect is a TCP connection to an echo, closed with the test.
func (n *policed) connect(from, to guest, family, port int) *net.TCPConn {
	n.t.Helper()
	conn, err := dialTCP(from.Host, netip.AddrPortFrom(to.addr(family), uint16(port)).String())
	if err != nil {
		n.fail(fmt.Sprintf("%s connects to %s", from.Name, to.Name), err)
	}
	n.t.Cleanup(func() { conn.Close() })
	n.once("the connection works", func() error { return exchangeLine(conn, patience) })
	return conn
}

// A killed edge's successor knows the connections: where only a SYN opens one, those that were
// there go on.
func TestFirewallKilledEdge(t *testing.T) {
	n := newPoliced(t, 4, strictOut, strictOut)
	n.enforce(2, policy{options: "default: drop, strict: true", rules: []string{"name: in, action: allow, direction: in, services: [tcp/7001, udp/7001]"}}, "p3")
	n.serve(n.red3, portAllowed)
	conns := []*net.TCPConn{n.connect(n.red1, n.red3, 4, portAllowed), n.connect(n.red2, n.red3, 6, portAllowed)}
	works := func(when string) {
		n.t.Helper()
		for i, conn := range conns {
			n.once(fmt.Sprintf("connection %d works %s", i+1, when), func() error { return exchangeLine(conn, patience) })
		}
		n.gets(n.red1, "tcp", n.red3, portAllowed, answered)
		n.gets(n.red1, "tcp", n.red3, portDropped, silent)
		n.gets(n.red3, "tcp", n.red1, portAllowed, silent)
	}
	for i, host := range []string{"edge1", "edge2"} {
		config, name := n.config(host), n.edges[host].Name
		before, err := n.sessions(host, edge.SessionQuery{State: "established"})
		n.must(err)
		n.edges[host].Kill()
		works("without " + host)
		n.start(n.hosts[i], name, config)
		n.fact("the next "+host+" has taken over", func() error {
			status, err := n.ask(host).Status(n.ctx)
			if err == nil && !status.Adopted {
				err = errors.New("it has not")
			}
			return err
		})
		works("with the next " + host)
		n.once(host+" still has the connections, and their age", func() error { return n.stillThere(host, before.Sessions) })
	}
}

// What was forbidden while no edge ran ends with the next one, and is not open until then.
func TestFirewallChangedWhileDead(t *testing.T) {
	n := newPoliced(t, 4, strictOut, none)
	n.serve(n.red3, portAllowed, portDropped)
	kept, cut := n.connect(n.red2, n.red3, 4, portAllowed), n.connect(n.red1, n.red3, 4, portAllowed)
	next := policy{strictOut.options, append([]string{"name: not-red1, action: drop, from: [10.0.0.1]"}, strictOut.rules...)}
	name := n.edges["edge1"].Name
	n.edges["edge1"].Kill()
	n.once("both work without an edge", func() error { return errors.Join(exchangeLine(kept, patience), exchangeLine(cut, patience)) })
	n.start(n.hosts[0], name, n.yaml(1, policedSpec(next, "p1", "p2")))
	n.fact("the next edge has its policy in force", func() error { return n.hasRule("edge1", "not-red1") })
	n.once("what is still allowed works", func() error { return exchangeLine(kept, patience) })
	n.once("the other hangs", func() error {
		if err := exchangeLine(cut, quietTime); !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("it is answered, or %w", err)
		}
		return nil
	})
	n.gets(n.red2, "tcp", n.red3, portDropped, silent)
}

func (n *network) sessions(host string, q edge.SessionQuery) (edge.SessionList, error) {
	return n.ask(host).Sessions(n.ctx, q)
}

// stillThere is nil when all sessions are there, of the rule that they had, and not younger.
func (n *network) stillThere(host string, before []edge.SessionInfo) error {
	if len(before) == 0 {
		return errors.New("there were none")
	}
	now, err := n.sessions(host, edge.SessionQuery{})
	if err != nil {
		return err
	}
	for _, was := range before {
		if !slices.ContainsFunc(now.Sessions, func(is edge.SessionInfo) bool {
			return is.Port == was.Port && is.Src == was.Src && is.SrcPort == was.SrcPort && is.DstPort == was.DstPort &&
				is.Age >= was.Age && is.Rule == was.Rule && is.ForthPackets >= was.ForthPackets
		}) {
			return fmt.Errorf("of %+v there is nothing in %+v", was, now.Sessions)
		}
	}
	return nil
}

// A table that is full of answered connections keeps them; what begins then still works.
func TestFirewallFullTable(t *testing.T) {
	small := strictOut
	small.options += ", connections: 1024, halfOpen: 1024"
	n := newPoliced(t, 4, small, none)
	n.serve(n.red3, portAllowed)
	first := n.connect(n.red1, n.red3, 4, portAllowed)
	const most = 1500
	n.once("1500 connections are made", func() error {
		for i := 0; i < most; i += 100 { // in small batches, so that each is answered while it is there
			for _, way := range []struct {
				from, to guest
				words    string
			}{{n.red1, n.red3, "udp A:N > B:7001 20"}, {n.red3, n.red1, "udp A:7001 > B:N 20"}} {
				if err := n.batch(way.from, way.to, way.words, i, 100); err != nil {
					return err
				}
			}
		}
		return nil
	})
	n.swept("the table is full, and says so", func() error {
		info, err := n.ask("edge1").Firewall(n.ctx)
		if err != nil {
			return err
		}
		for _, table := range info.Tables {
			if table.Name == "connections" && table.Used != nil && *table.Used == 1024 && len(info.Problems) > 0 {
				return nil
			}
		}
		return fmt.Errorf("%+v", info)
	})
	n.once("the first connection works", func() error { return exchangeLine(first, patience) })
	for range 10 {
		n.gets(n.red1, "tcp", n.red3, portAllowed, answered)
	}
	n.connect(n.red2, n.red3, 6, portAllowed)
	n.once("the first connection still works", func() error { return exchangeLine(first, patience) })
	n.swept("the edge names the problem", func() error { return n.problem("edge1", "spec.firewall.connections") })
}

// swept is a fact that the next sweep over the connections finds, which is later where the
// machine is busy.
func (n *network) swept(what string, try func() error) {
	n.t.Helper()
	var err error
	for range 4 {
		if err = await.That(n.ctx, what, try); err == nil {
			return
		}
	}
	n.fail(what, err)
}

// batch sends datagrams, and waits until the last has arrived.
func (n *policed) batch(from, to guest, words string, begin, count int) error {
	in, err := openFrames(to.Host, topo.EndName, false)
	if err != nil {
		return err
	}
	defer in.close()
	out, err := openFrames(from.Host, topo.EndName, false)
	if err != nil {
		return err
	}
	defer out.close()
	var last []byte
	for i := range count {
		last = n.frame(sends{from: from, to: to, words: strings.ReplaceAll(words, "N", fmt.Sprint(10000+begin+i))}, 4)
		if err := out.send(last); err != nil {
			return err
		}
	}
	_, err = in.until(func([]byte) bool { return false }, func(b []byte) bool { return carries(b, last) })
	return err
}

// A port that floods the network with connections that nobody answers reaches its limit, and
// the others do not feel it.
func TestFirewallSYNFlood(t *testing.T) {
	limited := strictOut
	limited.options += ", halfOpen: 2048, halfOpenPerPort: 512"
	n := newPoliced(t, 4, limited, none)
	n.serve(n.red3, portAllowed)
	mine, theirs := n.connect(n.red1, n.red3, 4, portAllowed), n.connect(n.red2, n.red3, 4, portAllowed)
	n.enforce(1, policy{limited.options, append(limited.rules[:1:1], "name: streams, action: allow, from: [10.0.0.2], services: [udp/1024-65535]")}, "p1", "p2")
	streams := []*stream{n.startStream(way(n.red2, n.red3, 4))}
	n.goOn(streams)
	before, err := n.drops("edge1")
	n.must(err)
	n.once("red1 sends 5000 SYNs that nobody answers", func() error {
		out, err := openFrames(n.red1.Host, topo.EndName, false)
		if err != nil {
			return err
		}
		defer out.close()
		for i := range 5000 {
			words := fmt.Sprintf("tcp %s:%d > %s:7001 syn", subnetAddr(0, 101+i%50, 4), 1024+i, n.red3.stranger(4))
			if err := out.send(pkttest.Frame(n.red1.mac().String(), n.red3.mac().String(), words)); err != nil {
				return err
			}
			if i%500 == 499 {
				n.gets(n.red2, "tcp", n.red3, portAllowed, answered)
			}
		}
		return nil
	})
	n.fact("red1 has reached its limit", func() error {
		after, err := n.drops("edge1")
		if more := after["half-open"] - before["half-open"]; err == nil && more < 4000 {
			err = fmt.Errorf("%d were dropped as half-open", more)
		}
		return err
	})
	n.gets(n.red1, "tcp", n.red3, portAllowed, silent)
	for _, conn := range []*net.TCPConn{mine, theirs} {
		n.once("the connections from before work", func() error { return exchangeLine(conn, patience) })
	}
	n.goOn(streams)
	n.lost(streams[0], 0)
	n.fact("sessions name the port", func() error {
		list, err := n.sessions("edge1", edge.SessionQuery{Top: "ports"})
		if err != nil {
			return err
		}
		for _, top := range list.Top {
			if top.What == "p1" && top.HalfOpen >= 500 && top.HalfOpen <= 512 {
				return nil
			}
		}
		return fmt.Errorf("%+v", list.Top)
	})
	n.swept("the edge names the problem", func() error { return n.problem("edge1", "port p1 has") })
}
