package nat

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/test/e2e/harness"
)

// kernelNAT makes a router of Linux out of the first edge's host, with nftables' masquerade.
func kernelNAT(n *harness.EgressNet) {
	n.T.Helper()
	h := n.Hosts[0]
	(&harness.Hub{Network: n.Network, Sw: h}).BridgeOnly()
	n.Must(h.Bridge(n.Ctx, "br1", 1450, "r0", "r1"))
	_, err := h.Output(n.Ctx, "sysctl", "-q", "net.ipv6.conf.br1.disable_ipv6=0", "net.ipv6.conf.up0.disable_ipv6=0")
	n.Must(err)
	for dev, addrs := range map[string][]string{
		"br1": {"10.0.0.254/24", "fd00::fe/64"},
		"up0": {harness.WanAddr(4, 4).String() + "/24", harness.WanAddr(4, 6).String() + "/64"},
	} {
		for _, a := range addrs {
			n.Must(h.AddAddr(dev, netip.MustParsePrefix(a)))
		}
	}
	for _, key := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"} {
		n.Must(h.SysctlSet(key, "1"))
	}
	for _, family := range []int{4, 6} {
		_, err := h.Output(n.Ctx, "ip", fmt.Sprintf("-%d", family), "route", "add", "default", "via", harness.WanAddr(1, family).String(), "dev", "up0")
		n.Must(err)
	}
	_, err = h.Output(n.Ctx, "nft", `table inet nat {
		chain post { type nat hook postrouting priority 100;
			oifname up0 masquerade
			ip saddr 10.0.0.0/24 oifname br1 ct status dnat snat ip to 198.51.100.4
			ip6 saddr fd00::/64 oifname br1 ct status dnat snat ip6 to 2001:db8:51::4
		}
		chain pre { type nat hook prerouting priority -100;
			ip daddr 198.51.100.4 meta l4proto { tcp, udp } th dport 8100 dnat ip to 10.0.0.1:7100
			ip daddr 198.51.100.4 meta l4proto { tcp, udp } th dport 8101 dnat ip to 10.0.0.1:7101
			ip6 daddr 2001:db8:51::4 meta l4proto { tcp, udp } th dport 8100 dnat ip6 to [fd00::1]:7100
			ip6 daddr 2001:db8:51::4 meta l4proto { tcp, udp } th dport 8101 dnat ip6 to [fd00::1]:7101
		}
	}`)
	n.Must(err)
	n.Reached(n.Red1, n.Red2)
}

// converse has conversations with an outside that behaves, and says what came of them.
func converse(n *harness.EgressNet, list []conversation) map[string]string {
	n.T.Helper()
	behave(n)
	n.Mirror(n.Red1.Host)
	return results(n, list)
}

// results of conversations, by name and family.
func results(n *harness.EgressNet, list []conversation) map[string]string {
	n.T.Helper()
	results := map[string]string{}
	for _, c := range list {
		for _, family := range []int{4, 6} {
			results[fmt.Sprintf("%s, IPv%d", c.name, family)] = c.does(n, family)
		}
	}
	return results
}

// A client cannot tell our translation from the kernel's, whatever it tries. Forwards and hairpins are the kernel's too,
// with the source of who asks from outside.
func TestNATConversations(t *testing.T) {
	reference, forwarded := kernelResults(t)
	t.Run("Masquerade", func(t *testing.T) {
		t.Parallel()
		n := harness.NewEgressNet(t, harness.EgressOptions{Uplink: "nat: {masquerade: true}", Policies: []string{}})
		defer n.DumpOnFailure()
		masquerading(n)
		alike(n, converse(n, conversations(1)), reference)
		forwards(n)
		alike(n, results(n, forwardTalks()), forwarded)
		forwardsEnd(n)
		n.NoProblems("edge1")
		n.HeldTogether()
	})
	t.Run("Gateway", func(t *testing.T) {
		t.Parallel()
		n := harness.NewEgressNet(t, harness.EgressOptions{})
		defer n.DumpOnFailure()
		n.Up()
		alike(n, converse(n, conversations(2)), reference)
		n.HeldTogether()
	})
}

// kernelResults are those of the kernel in the same place.
func kernelResults(t *testing.T) (reference, forwarded map[string]string) {
	t.Helper()
	t.Run("Kernel", func(t *testing.T) {
		n := harness.NewEgressNet(t, harness.EgressOptions{})
		defer n.DumpOnFailure()
		kernelNAT(n)
		reference, forwarded = converse(n, conversations(1)), results(n, forwardTalks())
		for name, result := range reference {
			t.Logf("%s: %s", name, result)
		}
	})
	return reference, forwarded
}

// alike is the fact that results are those of the reference.
func alike(n *harness.EgressNet, got, reference map[string]string) {
	n.T.Helper()
	if len(reference) == 0 {
		n.T.Fatal("there is no reference: the kernel's translation failed")
	}
	for name, want := range reference {
		if got[name] != want {
			n.T.Errorf("%s: %s; by the kernel: %s", name, got[name], want)
		}
	}
	if n.T.Failed() {
		n.Fail("our translation is like the kernel's", fmt.Errorf("it is not"))
	}
}
