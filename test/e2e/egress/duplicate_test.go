package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/await"
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
