package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
)

// spare is an address of a policy that has no sources: the host outside has it before the gateways do.
var spare = netip.MustParsePrefix("198.51.100.40/32")

// An egress address that another host has already is not answered for. One that a host takes later is defended. Either is said with the other's MAC
// address until it is over.
func TestEgressAddressOfAnother(t *testing.T) {
	t.Parallel()
	n := harness.NewEgressNet(t, harness.EgressOptions{Policies: []string{
		"name: web, vni: 9001", "name: spare, vni: 9002, from: [192.168.77.0/24], pool: [198.51.100.40]",
	}})
	n.Patience = 3 * await.Patience // an address that another has is asked for each 10 s
	n.Must(n.Out.AddAddr("lan0", spare))
	mac, err := n.Out.MAC("lan0")
	n.Must(err)
	n.Up()
	n.Fact("the address is withheld", func() error {
		return hasProblem(n, fmt.Sprintf("egress address 198.51.100.40 at uplink wan: the host with MAC address %s has it, so this edge does not answer for it", mac))
	})
	n.Fact("the other host alone answers for it", func() error {
		macs, err := whoHas(n, spare.Addr())
		if err == nil && len(macs) > 0 {
			err = fmt.Errorf("%v answers too", macs)
		}
		return err
	})
	n.Must(n.Out.DelAddr("lan0", spare))
	n.Fact("the gateway answers for what is free", func() error {
		macs, err := whoHas(n, spare.Addr())
		if err == nil && len(macs) != 1 {
			err = fmt.Errorf("%v answer", macs)
		}
		return errors.Join(err, noProblem(n))
	})

	taken := netip.MustParsePrefix("198.51.100.20/32")
	n.Must(n.Out.AddAddr("lan0", taken))
	out, err := harness.OpenFrames(n.Out, "lan0", false)
	n.Must(err)
	defer out.Close()
	n.Must(out.Send(pkttest.Frame(mac.String(), harness.BroadcastMAC.String(), "arp 198.51.100.20 ? 198.51.100.20")))
	n.Fact("the address is defended", func() error {
		return hasProblem(n, fmt.Sprintf("egress address 198.51.100.20 at uplink wan: the host with MAC address %s has it too, and gets packets for it", mac))
	})
	n.Must(n.Out.DelAddr("lan0", taken))
	n.Fact("that is over", func() error { return noProblem(n) })
	n.Reached(n.Red1)
}

// hasProblem is nil when the gateway that serves has a problem with these words.
func hasProblem(n *harness.EgressNet, words string) error {
	status, err := n.Ask("edge2").Status(n.Ctx)
	if err != nil {
		return err
	}
	for _, p := range status.Problems {
		if strings.Contains(p.Text, words) {
			return nil
		}
	}
	return fmt.Errorf("problems %q, want %q", status.Problems, words)
}

// noProblem is nil when it has none about addresses of others.
func noProblem(n *harness.EgressNet) error {
	if hasProblem(n, "the host with MAC address") == nil {
		return errors.New("the problem is there still")
	}
	return nil
}

// Two gateways that both answered for an address agree again, or the other has gone: the one that stays tells the network, whose routers ask seldom.
func TestAnnouncedAfterTwoOwners(t *testing.T) {
	t.Parallel()
	n := harness.NewEgressNet(t, harness.EgressOptions{Policies: []string{"name: web, vni: 9001"}})
	n.Must(n.Out.SysctlSet("net/ipv4/neigh/lan0/base_reachable_time_ms", "3600000"))
	n.Up()
	addr, one, two := netip.MustParseAddr("198.51.100.20"), edgeName(n, 2), edgeName(n, 3)
	for _, c := range []struct {
		name        string
		part, agree func()
	}{
		{"the link between gateways", func() {
			_, err := n.Sw.Output(n.Ctx, "nft", "table bridge part { chain forward { type filter hook forward priority 0; iifname e2 oifname e3 drop; iifname e3 oifname e2 drop; }; }")
			n.Must(err)
		}, func() {
			_, err := n.Sw.Output(n.Ctx, "nft", "delete table bridge part")
			n.Must(err)
		}},
		{"the group of each", func() {
			n.Rewrite("edge2", "["+one+", gw2]", "["+one+"]")
			n.Rewrite("edge3", "[gw1, "+two+"]", "["+two+"]")
		}, func() {
			n.Rewrite("edge3", "["+two+"]", "[gw1, "+two+"]")
			n.Rewrite("edge2", "["+one+"]", "["+one+", gw2]")
		}},
	} {
		owners := func(want int) func() error {
			return func() error {
				macs, err := whoHas(n, addr)
				if err == nil && len(macs) != want {
					err = fmt.Errorf("%v answer", macs)
				}
				return err
			}
		}
		c.part()
		n.Fact(c.name+": both answer", owners(2))
		c.agree()
		_, err := n.Out.Output(n.Ctx, "ip", "neigh", "replace", addr.String(), "lladdr", harness.UplinkMAC(3), "nud", "reachable", "dev", "lan0")
		n.Must(err)
		n.LearnedMAC(n.Out, addr, harness.UplinkMAC(2))
		n.Fact(c.name+": one answers", owners(1))
		n.LearnedMAC(n.Out, addr, harness.UplinkMAC(2))
	}
	n.Reached(n.Red1)
}

func edgeName(n *harness.EgressNet, number int) string { return dut.EdgeName(n.Hosts[number-1]) }
