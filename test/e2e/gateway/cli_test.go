package gateway

import (
	"fmt"

	"github.com/selvage/selvage/test/e2e/harness"
)

// commands is a step of TestUplink: what a user asks an edge with routers, while it works.
func commands(n *harness.Hub) {
	n.Prints([]string{"neighbors", "--segment", "red"}, "SEGMENT ADDRESS MAC PORT REMOTE TYPE AGE",
		"red 10.0.0.1 02:00:00:00:00:01 r0 - learned", "red fd00::2 02:00:00:00:00:02 - 192.0.2.2 learned")
	n.Prints([]string{"routes"}, "ROUTER PREFIX TYPE ORIGIN VIA SEGMENT MAC STATE",
		"tenant 0.0.0.0/0 unicast static 198.51.100.1 wan", "tenant 10.0.0.0/24 unicast connected - red - connected",
		"tenant 10.66.0.0/16 blackhole static", "tenant fd00:77::/64 unreachable static")
	n.Once("the default route's next hop is resolved, as packets have used it", func() error { return hopResolved(n.Network, "edge1", "wan") })
	commandTrace(n)
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
}
