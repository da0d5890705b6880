package underlay

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

const duplicatePicture = `
        edge1
          | u0, the TEP
        switch: br0 has the TEP's address too`

// A tunnel endpoint that another host has is found, and the other is named, until it has it no more.
func TestDuplicateTEP(t *testing.T) {
	t.Parallel()
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			t.Parallel()
			n := harness.NewUnderlay(t, duplicatePicture, 1, family)
			other := netip.PrefixFrom(n.Teps[0], n.Teps[0].BitLen())
			n.Patience = 3 * await.Patience // the other is asked for each 10 s
			n.Must(n.Sw.SysctlSet("net/ipv6/conf/br0/disable_ipv6", "0"))
			n.Must(n.Sw.AddAddr("br0", other))
			mac, err := n.Sw.MAC("br0")
			n.Must(err)
			n.EdgesUp("  segments: [{name: blue, vni: 1}]\n")
			n.Fact("the problem names the other host", func() error {
				return hasProblem(n, fmt.Sprintf("tunnel endpoint %s at interface %s: the host with MAC address %s has it too", n.Teps[0], topo.UnderlayName, mac))
			})
			n.Must(n.Sw.DelAddr("br0", other))
			n.Fact("the problem is over", func() error {
				if hasProblem(n, "has it too") == nil {
					return errors.New("it is there")
				}
				return nil
			})
		})
	}
}

// hasProblem is nil when the first edge has a problem with these words.
func hasProblem(n *harness.Hub, words string) error {
	status, err := n.Ask(n.Hosts[0].Name).Status(n.Ctx)
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
