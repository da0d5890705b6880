package monitoring

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/dut/evpn"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// outside is edges with guests, a firewall and two gateways to the outside, as in the picture of harness.EgressNet.
// Tables and limits are small.
func outside(t *testing.T) (*harness.EgressNet, *listener) {
	t.Helper()
	n := harness.NewEgressNet(t, harness.EgressOptions{
		Fails: true, Interval: "500ms", Replication: true, // alerts are no matter of milliseconds
		Policies: []string{`name: web, vni: 9001, ports: 40000-40009, pool: [198.51.100.20, "2001:db8:51::20"]`},
		Egress:   "    log: {enabled: true, rate: 10}\n",
		Firewall: `  fdb: {size: 32}
  limits: {port: {macs: 0, broadcast: 20}, segment: {macs: 0}}
  firewall:
    sections:
    - name: main
      rules:
      - {name: no-discard, action: drop, services: [udp/9]}
      - {name: the-rest, action: allow, services: [any]}
`,
	})
	l := newListener(n)
	for i, h := range n.Hosts {
		config := n.Text(i + 1)
		if i == 0 {
			config = guarded(config) + l.spec()
		}
		n.Start(h, dut.EdgeName(h), config)
	}
	for _, h := range n.Hosts {
		n.Resolved(h.Name)
	}
	n.Serving(2, 3)
	n.Reached(n.Red1, n.Red2)
	n.Mirror(n.Out)
	return n, l
}

// guarded has port r1 take the addresses of its guest alone.
func guarded(config string) string {
	return strings.Replace(config, "{name: r1, interface: r1, segment: red}", `{name: r1, interface: r1, segment: red, allowed: {macs: ["02:00:00:00:00:02"]}}`, 1)
}

const fabricPicture = `
        rr1 (FRR)
         |
       switch
       /    \
    edge1   edge2     Selvage, with BGP
    red1    red2      10.0.0.0/24, VNI 100
        restless      behind either`

// fabric is two edges that BGP feeds.
func fabric(t *testing.T) (*harness.Network, *evpn.Fabric) {
	t.Helper()
	n := harness.NewNetwork(t, fabricPicture)
	ours := evpn.Selvage{Binary: harness.Program, Started: n.Started, Change: func(e *evpn.Edge, config string) string {
		config = strings.Replace(config, "  bgp:\n", "  bgp:\n    duplicates: {moves: 2, within: 60s}\n", 1)
		if e.Index == 1 {
			config = strings.Replace(config, ", timers:", ", maximumPrefixes: 0, timers:", 1)
		}
		return config
	}}
	f, err := evpn.New(n.Ctx, n.Topo, evpn.Options{Edges: []evpn.Path{ours, ours}, Guests: []evpn.GuestOptions{
		{Name: "red1", Number: 1, Edges: []int{0}}, {Name: "red2", Number: 2, Edges: []int{1}}, {Name: "restless", Number: 3, Edges: []int{0, 1}},
	}})
	n.Must(err)
	n.Must(f.Ready(n.Ctx))
	for _, g := range f.Guests {
		n.Must(g.Announce())
	}
	n.Fact("red1 reaches red2", func() error { return harness.Ping(n.Ctx, f.Guests[0].Host, f.Guests[1].Addr(4)) })
	return n, f
}

// bySocket is an edge that is asked at its unix socket.
func bySocket(instance string, e *dut.Edge) target {
	return target{instance, func() (net.Conn, error) { return net.Dial("unix", e.Socket) }, ""}
}

// goesOn calls something a hundred times a second until the test ends. What it sends may be refused.
func goesOn(n *harness.Network, send func(round int)) {
	n.T.Helper()
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for round := 0; ; round++ {
			select {
			case <-n.Ctx.Done():
				return
			case <-ticker.C:
				send(round)
			}
		}
	})
	n.T.Cleanup(group.Wait)
}

// datagrams opens a socket of a host to an address.
func datagrams(n *harness.Network, h *topo.Host, to string) *net.UDPConn {
	n.T.Helper()
	addr, err := net.ResolveUDPAddr("udp", to)
	n.Must(err)
	conn, err := harness.DialUDP(h, addr)
	n.Must(err)
	n.T.Cleanup(func() { conn.Close() })
	return conn
}
