package gateway

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// Guests whose interfaces carry more than a tunnel, and who do not let the path's MTU be found
// out, as DNS servers do: what does not fit the tunnel comes in fragments that the far guest's
// kernel puts together, in both directions.
func TestGatewayFragments(t *testing.T) {
	t.Parallel()
	n := harness.NewUnderlay(t, harness.GatewayPicture, 2, 4)
	red1 := n.Guest("red1", 0, 1, n.Hosts[0], "r0", 1500)
	blue1 := n.Guest("blue1", 1, 1, n.Hosts[0], "b0", 1500)
	red2 := n.Guest("red2", 0, 2, n.Hosts[1], "r0", 1500)
	blue2 := n.Guest("blue2", 1, 2, n.Hosts[1], "b0", 1500)
	guests := []harness.Guest{red1, blue1, red2, blue2}
	for _, g := range guests {
		n.Must(g.SysctlSet("net/ipv4/ip_no_pmtu_disc", "1")) // sockets send without DF
	}
	n.Record()
	n.EdgesUp(harness.GatewaySpec, harness.GatewaySpec)
	for _, pair := range [][2]harness.Guest{{red1, blue2}, {blue2, red1}, {blue1, red2}, {red2, blue1}} {
		d := harness.Way(pair[0], pair[1], 4)
		n.Pings(d)
		before := [2]int{reassembled(n, pair[0].Host), reassembled(n, pair[1].Host)}
		// The sender's kernel fragments the last two already, by its interface.
		n.Once("datagrams come back, "+d.Name, func() error { return harness.Echo(d, 1400, 1422, 1423, 1472, 1473, 8000) })
		n.Once("they came in fragments, "+d.Name, func() error {
			for i, g := range pair {
				if now := reassembled(n, g.Host); now-before[i] != 4 {
					return fmt.Errorf("%s has put together %d of 4 datagrams", g.Name, now-before[i])
				}
			}
			return nil
		})
	}
	n.Transfers(len(harness.Content), harness.Way(red1, blue2, 4), harness.Way(blue2, red1, 4))
	n.NoDrops("no-neighbour")
}

// reassembled is how many datagrams a kernel has put together from fragments.
func reassembled(n *harness.Hub, h *topo.Host) int {
	n.T.Helper()
	out, err := h.Output(n.Ctx, "cat", "/proc/net/snmp")
	n.Must(err)
	var names []string
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if f[0] != "Ip:" {
			continue
		}
		if names == nil {
			names = f
			continue
		}
		for i, name := range names {
			if name == "ReasmOKs" {
				count, err := strconv.Atoi(f[i])
				n.Must(err)
				return count
			}
		}
	}
	n.Must(errors.New("no ReasmOKs in /proc/net/snmp"))
	return 0
}
