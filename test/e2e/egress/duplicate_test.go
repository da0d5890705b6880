package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
)

// spare is an address of a policy that has no sources: the host outside has it before the gateways do.
var spare = netip.MustParsePrefix("198.51.100.40/32")

// An egress address that another host has already is not answered for. One that a host takes later is defended. Either is said
// with the other's MAC address until it is over. Two gateways that both answered for an address agree again: the one that stays
// tells the network, whose routers ask seldom.
func TestEgressAddressOfAnother(t *testing.T) {
	t.Parallel()
	n := harness.NewEgressNet(t, harness.EgressOptions{Policies: []string{
		"name: web, vni: 9001", "name: spare, vni: 9002, from: [192.168.77.0/24], pool: [198.51.100.40]",
	}})
	n.Patience = 3 * await.Patience // an address that another has is asked for each 10 s
	n.Must(n.Out.SysctlSet("net/ipv4/neigh/lan0/base_reachable_time_ms", "3600000"))
	n.Must(n.Out.AddAddr("lan0", spare))
	mac, err := n.Out.MAC("lan0")
	n.Must(err)
	n.Up()
	n.Fact("the address is withheld", func() error {
		return n.Problem("edge2", fmt.Sprintf("egress address 198.51.100.40 at uplink wan: the host with MAC address %s has it, so this edge does not answer for it", mac))
	})
	owners(n, "the other host alone answers for it", spare.Addr(), 0)
	n.Must(n.Out.DelAddr("lan0", spare))

	taken := netip.MustParsePrefix("198.51.100.20/32")
	n.Must(n.Out.AddAddr("lan0", taken))
	out, err := harness.OpenFrames(n.Out, "lan0", false)
	n.Must(err)
	defer out.Close()
	n.Must(out.Send(pkttest.Frame(mac.String(), harness.BroadcastMAC.String(), "arp 198.51.100.20 ? 198.51.100.20")))
	n.Fact("the address is defended", func() error {
		return n.Problem("edge2", fmt.Sprintf("egress address 198.51.100.20 at uplink wan: the host with MAC address %s has it too, and gets packets for it", mac))
	})
	n.Must(n.Out.DelAddr("lan0", taken))
	owners(n, "the gateway answers for what is free", spare.Addr(), 1)
	n.Fact("no address is another's", func() error {
		if n.Problem("edge2", "the host with MAC address") == nil {
			return errors.New("the problem is there still")
		}
		return nil
	})
	twoOwners(n, taken.Addr())
	n.Reached(n.Red1)
}

// owners is a fact: so many gateways answer for an address.
func owners(n *harness.EgressNet, what string, addr netip.Addr, want int) {
	n.T.Helper()
	n.Fact(what, func() error {
		macs, err := whoHas(n, addr)
		if err == nil && len(macs) != want {
			err = fmt.Errorf("%v answer", macs)
		}
		return err
	})
}

// twoOwners parts the gateways, and has them agree again.
func twoOwners(n *harness.EgressNet, addr netip.Addr) {
	n.T.Helper()
	_, err := n.Sw.Output(n.Ctx, "nft", "table bridge part { chain forward { type filter hook forward priority 0; iifname e2 oifname e3 drop; iifname e3 oifname e2 drop; }; }")
	n.Must(err)
	owners(n, "both gateways answer", addr, 2)
	_, err = n.Sw.Output(n.Ctx, "nft", "delete table bridge part")
	n.Must(err)
	_, err = n.Out.Output(n.Ctx, "ip", "neigh", "replace", addr.String(), "lladdr", harness.UplinkMAC(3), "nud", "reachable", "dev", "lan0")
	n.Must(err)
	n.LearnedMAC(n.Out, addr, harness.UplinkMAC(2))
	owners(n, "one gateway answers", addr, 1)
	n.LearnedMAC(n.Out, addr, harness.UplinkMAC(2))
}
