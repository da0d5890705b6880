package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// What a user asks an edge with routers, while it works: the addresses of hosts,
// the routes, and what would become of a packet.

func TestGatewayCommands(t *testing.T) {
	n := newUnderlay(t, uplinkPicture, 2, 4)
	red1 := n.guest("red1", 0, 1, n.hosts[0], "r0", 1450)
	red2 := n.guest("red2", 0, 2, n.hosts[1], "r0", 1450)
	out := n.outside(n.hosts[0], "up0")
	n.record()
	n.edgesUp(uplinkSpec, `
  segments:
  - {name: red, vni: 100, remotes: REMOTES}
  ports:
  - {name: r0, interface: r0, segment: red}
`)
	n.pings(ways(red1, red2)...)
	n.pings(direction{"red2 to outside", red2.Host, out, outside4})
	n.quiet()
	t.Run("Neighbors", func(t *testing.T) { n.sub(t).commandNeighbors() })
	t.Run("Routes", func(t *testing.T) { n.sub(t).commandRoutes() })
	t.Run("Trace", func(t *testing.T) { n.sub(t).commandTrace() })
}

func (n *hub) sub(t *testing.T) *hub {
	sub := *n
	sub.network = n.in(t)
	return &sub
}

// asks runs a command about the edge on edge1.
func (n *hub) asks(args ...string) (string, error) {
	argv := append(append([]string{program}, args...), "--edge", n.edges["edge1"].Name)
	text, err := n.hosts[0].Output(n.ctx, argv...)
	return string(text), err
}

// prints is a fact: a command prints lines with all these words in this order.
func (n *hub) prints(command []string, lines ...string) {
	n.t.Helper()
	n.fact(strings.Join(command, " ")+" prints", func() error {
		text, err := n.asks(command...)
		words := strings.Join(strings.Fields(text), " ")
		for _, line := range lines {
			if !strings.Contains(words, line) {
				err = errors.Join(err, fmt.Errorf("no %q in\n%s", line, text))
			}
		}
		return err
	})
}

func (n *hub) commandNeighbors() {
	n.prints([]string{"neighbors"}, "SEGMENT ADDRESS MAC PORT REMOTE TYPE AGE",
		"red 10.0.0.1 02:00:00:00:00:01 r0 - learned", "red fd00::2 02:00:00:00:00:02 - 192.0.2.2 learned", "wan 198.51.100.1")
	n.prints([]string{"neighbors", "--segment", "red"}, "red 10.0.0.2 02:00:00:00:00:02 - 192.0.2.2 learned")
	n.once("the API has both hosts on both families", func() error {
		neighbours, err := n.ask("edge1").Neighbours(n.ctx)
		found := 0
		for _, e := range neighbours {
			if e.Segment == "red" && e.Address.IsGlobalUnicast() && !e.Static && e.Age < 60 {
				found++
			}
		}
		if err == nil && found != 4 {
			err = fmt.Errorf("neighbours %+v", neighbours)
		}
		return err
	})
}

func (n *hub) commandRoutes() {
	n.prints([]string{"routes"}, "ROUTER PREFIX TYPE ORIGIN VIA SEGMENT MAC STATE",
		"tenant 0.0.0.0/0 unicast static 198.51.100.1 wan", "tenant 10.0.0.0/24 unicast connected - red - connected",
		"tenant 10.66.0.0/16 blackhole static", "tenant 198.51.100.0/24 unicast connected - wan - connected", "tenant fd00:77::/64 unreachable static")
	n.once("the default route's next hop is resolved, as packets have used it", func() error { return n.hopResolved("edge1", "wan") })
}

func (n *hub) commandTrace() {
	before, err := n.ask("edge1").Status(n.ctx)
	n.must(err)
	for _, c := range []struct {
		args  []string
		lines []string
	}{
		{[]string{"--port", "r0", "tcp 10.0.0.1:1000 > 203.0.113.1:80 syn"},
			[]string{"guard from port r0, segment red", "route router tenant", "TTL 64", "decision deliver to port wan", "verdict: sent", "TTL 63"}},
		{[]string{"--port", "r0", "udp 10.0.0.1:1000 > 10.0.0.2:53"},
			[]string{"verdict: sent", "IPv4 192.0.2.1 > 192.0.2.2", "VXLAN VNI 100"}},
		{[]string{"--port", "r0", "icmp 10.0.0.1 > 10.66.0.1"}, []string{"drop blackhole", "verdict: dropped"}},
		{[]string{"--port", "r0", "--ttl", "1", "icmp 10.0.0.1 > 203.0.113.1"}, []string{"ttl-exceeded", "icmp"}},
		{[]string{"--port", "r0", "arp 10.0.0.1 ? 10.0.0.254"}, []string{"02:00:5e:00:01:01"}},
		{[]string{"--remote", "192.0.2.2", "--segment", "red", "tcp 10.0.0.2:1000 > 10.0.0.1:80 syn"},
			[]string{"guard from remote 192.0.2.2, segment red", "decision deliver to port r0", "verdict: sent"}},
	} {
		n.prints(append([]string{"trace"}, c.args...), c.lines...)
	}
	n.once("traces count and learn nothing", func() error {
		after, err := n.ask("edge1").Status(n.ctx)
		if err == nil && (after.Dropped != before.Dropped || after.FDB.Used != before.FDB.Used) {
			err = fmt.Errorf("%+v, before it was %+v", after, before)
		}
		return err
	})
	n.once("a port that is not there is named", func() error {
		if text, err := n.asks("trace", "--port", "nowhere", "arp 10.0.0.1 ? 10.0.0.2"); err == nil || !strings.Contains(err.Error(), "nowhere") {
			return fmt.Errorf("%w: %s", err, text)
		}
		return nil
	})
}
