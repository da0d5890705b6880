package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/test/e2e/harness"
)

// What a user asks an edge with routers, while it works: the addresses of hosts,
// the routes, and what would become of a packet.

// commands is a step of TestUplink.
func commands(n *harness.Hub) {
	for _, c := range []struct {
		name string
		does func(*harness.Hub)
	}{{"Neighbors", commandNeighbors}, {"Routes", commandRoutes}, {"Trace", commandTrace}} {
		n.T.Run(c.name, func(t *testing.T) { c.does(n.Sub(t)) })
	}
}

func commandNeighbors(n *harness.Hub) {
	n.Prints([]string{"neighbors"}, "SEGMENT ADDRESS MAC PORT REMOTE TYPE AGE",
		"red 10.0.0.1 02:00:00:00:00:01 r0 - learned", "red fd00::2 02:00:00:00:00:02 - 192.0.2.2 learned", "wan 198.51.100.1")
	n.Prints([]string{"neighbors", "--segment", "red"}, "red 10.0.0.2 02:00:00:00:00:02 - 192.0.2.2 learned")
	n.Once("the API has both hosts on both families", func() error {
		neighbours, err := n.Ask("edge1").Neighbours(n.Ctx, api.EntryQuery{Segment: "red"})
		found := 0
		for _, e := range neighbours.List {
			if e.Address.IsGlobalUnicast() && !e.Static && e.Age < 60 {
				found++
			}
		}
		if err == nil && found != 4 {
			err = fmt.Errorf("neighbours %+v", neighbours)
		}
		return err
	})
}

func commandRoutes(n *harness.Hub) {
	n.Prints([]string{"routes"}, "ROUTER PREFIX TYPE ORIGIN VIA SEGMENT MAC STATE",
		"tenant 0.0.0.0/0 unicast static 198.51.100.1 wan", "tenant 10.0.0.0/24 unicast connected - red - connected",
		"tenant 10.66.0.0/16 blackhole static", "tenant 198.51.100.0/24 unicast connected - wan - connected", "tenant fd00:77::/64 unreachable static")
	n.Once("the default route's next hop is resolved, as packets have used it", func() error { return hopResolved(n.Network, "edge1", "wan") })
}

func commandTrace(n *harness.Hub) {
	before, err := n.Ask("edge1").Status(n.Ctx)
	n.Must(err)
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
		n.Prints(append([]string{"trace"}, c.args...), c.lines...)
	}
	n.Once("traces count and learn nothing", func() error {
		after, err := n.Ask("edge1").Status(n.Ctx)
		if err == nil && (after.Dropped != before.Dropped || after.FDB.Used != before.FDB.Used) {
			err = fmt.Errorf("%+v, before it was %+v", after, before)
		}
		return err
	})
	n.Once("a port that is not there is named", func() error {
		if text, err := n.Asks("trace", "--port", "nowhere", "arp 10.0.0.1 ? 10.0.0.2"); err == nil || !strings.Contains(err.Error(), "nowhere") {
			return fmt.Errorf("%w: %s", err, text)
		}
		return nil
	})
}
