package proxmox

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/test/debian"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

const vrfPicture = `
               switch  192.0.2.0/24
            /     |       \
        edge1   pve2      pve3      Selvage; nodes as virtual machines, with VRF devices that ifupdown2 makes
       web1 db1 web2 db2    |       pve3 is the exit node: import vrf, SNAT by iptables
                         outside 198.51.100.1, 203.0.113.1`

// Nodes have kernels with VRFs, ifupdown2 and FRR, and run both files that Proxmox writes, unchanged. An exit node takes
// the zone's routes into its main table (import vrf).
func TestNodesWithVRFs(t *testing.T) {
	for _, suite := range []string{"bookworm"} { // which Proxmox VE 8 is made of
		t.Run(suite, func(t *testing.T) {
			tier.Long(t, "TestMember, but for import vrf and ifupdown2")
			tier.Root(t)
			nodesWithVRFs(t, nodeOf(suite))
		})
	}
}

func nodesWithVRFs(t *testing.T, recipe debian.Recipe) {
	b := &cluster{Hub: harness.NewUnderlay(t, vrfPicture, 1, 4), guests: map[string]harness.Guest{}}
	b.Teps = append(b.Teps, b.Tep(2), b.Tep(3))
	for _, v := range vnets {
		name := v.name + "1"
		b.guests[name] = b.Guest(name, v.subnet, 1, b.Hosts[0], name, innerMTU)
	}
	outside := b.Host("outside")
	member := &machine{name: "pve2", number: 2}
	exit := &machine{name: "pve3", number: 3, role: role{exit: true, primary: true}, out: harness.WanAddr(3, 4)}
	b.onBridge(outside)
	b.boot(recipe, member)
	b.boot(recipe, exit)
	defer b.dump()
	defer b.dumpMachines(member, exit)
	b.imported(nil, "--peer", b.Tep(1).String(), "--peer", b.Tep(2).String(), "--peer", b.Tep(3).String())
	b.slowly("the edge has sessions", func() error { return b.established(2) })
	for _, m := range []*machine{member, exit} {
		b.slowly(m.name+" has a BFD session with the edge", func() error {
			out, err := b.run(m, "vtysh -c 'show bfd peers brief'")
			for line := range strings.Lines(out) {
				if strings.Contains(line, b.Teps[0].String()) && strings.Contains(line, " up") {
					return err
				}
			}
			return errors.Join(errors.New(out), err)
		})
	}
	b.greet()
	b.greetIn(member)
	for _, g := range b.guests {
		for _, v := range vnets {
			for _, family := range []int{4, 6} {
				to := harness.SubnetAddr(v.subnet, 2, family)
				b.slowly(fmt.Sprintf("%s pings %s of pve2", g.Name, to), func() error { return harness.Ping(b.Ctx, g.Host, to) })
			}
		}
	}
	b.defaultBy(3)
	b.slowly("the exit node has the guests' routes in its main table", func() error {
		out, err := b.run(exit, "ip route show table main")
		for _, g := range b.guests {
			if err == nil && !strings.Contains(out, g.Addr(4).String()+" ") {
				err = fmt.Errorf("no %s in %s", g.Addr(4), out)
			}
		}
		return err
	})
}

// slowly is a fact of machines that are emulated.
func (b *cluster) slowly(what string, try func() error) {
	b.T.Helper()
	if err := await.Within(b.Ctx, 2*time.Minute, what, try); err != nil {
		b.Fail(what, err)
	}
}

// greetIn has the machine's guests say something.
func (b *cluster) greetIn(m *machine) {
	b.T.Helper()
	for _, v := range vnets {
		for _, family := range []int{4, 6} {
			b.slowly(fmt.Sprintf("%s2 of %s pings its gateway, IPv%d", v.name, m.name, family), func() error {
				_, err := b.run(m, fmt.Sprintf("ip netns exec %s2 ping -c 1 -W 1 %s", v.name, v.gateway(family).Addr()))
				return err
			})
		}
	}
}

func (b *cluster) dumpMachines(machines ...*machine) {
	if !b.T.Failed() {
		return
	}
	for _, m := range machines {
		for _, line := range []string{
			"ip -br link", "ip -br address", "vtysh -c 'show bgp summary'", "vtysh -c 'show evpn vni'", "vtysh -c 'show bgp l2vpn evpn'",
			"vtysh -c 'show ip route vrf all'", "ip route show vrf vrf_" + zone, "cat /var/log/frr/frr.log | tail -20", "ip route",
		} {
			out, err := b.run(m, line)
			b.T.Logf("%s: %s: %v\n%s", m.name, line, err, out)
		}
	}
}
