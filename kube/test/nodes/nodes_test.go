package nodes

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/test/e2e/harness"
)

func fields(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \n\t_:@/", r) })
}

// Pods that a policy selects leave with its addresses, by either gateway and also when one is killed; all others, and what stays
// in the cluster, as before. Without a gateway nothing leaves, unless the policy says so.
func TestPodsLeaveByGateway(t *testing.T) {
	t.Parallel()
	b := newCluster(t)
	defer b.dump()
	b.Record()
	b.leaves(b.web1, "tcp", harness.Outside4, b.Tep(1))
	b.up()
	for _, family := range []int{4, 6} {
		for _, network := range []string{"tcp", "udp"} {
			b.leaves(b.web1, network, outsideOf(family), egressOf(family))
			b.leaves(b.web2, network, outsideOf(family), egressOf(family))
		}
	}
	b.leaves(b.db1, "tcp", harness.Outside4, b.Tep(1))
	b.inside()
	b.Fetches(1_000_000, harness.Direction{Name: "web1 from outside", From: b.web1.Host, To: b.out, Addr: harness.Outside4})
	b.Transfers(1_000_000, harness.Direction{Name: "web1 to outside", From: b.web1.Host, To: b.out, Addr: harness.Outside4})

	open := b.open(b.web1)
	b.kill(3)
	b.serving(4)
	b.Once("the connection goes on", open)
	b.leaves(b.web1, "tcp", harness.Outside4, egress4)
	b.kill(4)
	b.serving()
	b.stays(b.web1, harness.Outside4)
	b.leaves(b.db1, "tcp", harness.Outside4, b.Tep(1))

	b.input.Policies[0].Spec.WhenNoGateway = v1alpha1.NoGatewayNode
	b.plan(b.Hosts[0])
	b.steer(b.Hosts[0], map[string]bool{"out": true})
	b.leaves(b.web1, "tcp", harness.Outside4, b.Tep(1))
	b.steer(b.Hosts[0], nil)
	b.stays(b.web1, harness.Outside4)
}

// Steering outlives the agent and the edge, and takes nothing with it when it goes. What is marked while the pair is gone does not
// leave by the node.
func TestSteeringGoes(t *testing.T) {
	t.Parallel()
	b := newCluster(t)
	h := b.Hosts[0]
	before := b.nothing(h)
	b.Must(before)
	b.Must(h.Do(b.steerer().Setup))
	b.Must(h.Do(b.steerer().Setup)) // again
	b.plan(h)
	b.steer(h, nil)
	b.stays(b.web1, harness.Outside4) // there is no edge
	b.Must(h.Delete("selvage0"))
	b.stays(b.web1, harness.Outside4)
	b.Must(h.Do(func() error { return b.steerer().Remove(b.Ctx) }))
	b.Must(h.Do(func() error { return b.steerer().Remove(b.Ctx) }))
	b.Once("nothing is left", func() error { return b.nothing(h) })
	b.leaves(b.web1, "tcp", harness.Outside4, b.Tep(1))
}

// inside is facts: pods reach pods and services with their own addresses.
func (b *cluster) inside() {
	b.T.Helper()
	service := netip.MustParseAddr("10.96.0.10")
	b.Mirror(b.web2.Host)
	b.Must(b.Hosts[0].Nft(b.Ctx, "service", fmt.Sprintf(`table ip service {
	chain nat { type nat hook prerouting priority dstnat; ip daddr %s dnat to %s; }
}`, service, b.web2.Addr(4))))
	for what, to := range map[string]netip.Addr{"a pod": b.web2.Addr(4), "a service": service} {
		b.Fact("web1 reaches "+what+" as itself", func() error {
			got, err := harness.Mirrored(b.web1.Host, "tcp", 0, netip.AddrPortFrom(to, harness.MirrorPort))
			if err == nil && got.Addr().Unmap() != b.web1.Addr(4) {
				err = fmt.Errorf("as %s", got)
			}
			return err
		})
	}
}

// kill is the sudden end of a gateway: of its process and its links.
func (b *cluster) kill(number int) {
	b.T.Helper()
	h := b.Hosts[number-1]
	b.Edges[h.Name].Kill()
	b.Must(b.Sw.Down(fmt.Sprintf("e%d", number)))
	b.Must(h.Down("eth1"))
}

// open is a TCP connection of a pod that both gateways know; the function exchanges a line over it.
func (b *cluster) open(g harness.Guest) (exchange func() error) {
	b.T.Helper()
	b.Serve(harness.Guest{Host: b.out}, harness.PortAllowed)
	conn, err := harness.DialTCP(g.Host, netip.AddrPortFrom(harness.Outside4, harness.PortAllowed).String())
	b.Must(err)
	b.T.Cleanup(func() { conn.Close() })
	exchange = func() error { return harness.ExchangeLine(conn, harness.Patience) }
	b.Must(exchange())
	b.Fact("the other gateway knows the connection", func() error {
		list, err := b.Command(4, "nat", "--proto", "tcp")
		if err == nil && !strings.Contains(list, fmt.Sprint(conn.LocalAddr())) {
			err = fmt.Errorf("%s", list)
		}
		return err
	})
	return exchange
}

// A policy that waits for its addresses lets no pod leave, whatever later policies say; other pods of those leave.
func TestEarlierPolicyHolds(t *testing.T) {
	t.Parallel()
	b := newCluster(t)
	defer b.dump()
	earlier := b.input.Policies[0]
	earlier.Name, earlier.Spec.Pods, earlier.Spec.ServiceAccounts, earlier.Status = "earlier", nil, []string{"waits"}, v1alpha1.EgressPolicyStatus{}
	b.input.Policies = append(b.input.Policies, earlier)
	b.pods[b.Hosts[0].Name][0].ServiceAccount = "waits"
	b.up()
	b.leaves(b.web2, "udp", harness.Outside4, egress4)
	b.stays(b.web1, harness.Outside4)
}

// Who is outside reaches no pod by a gateway's uplink, and a pod there gets its answers.
func TestNobodyComesInByUplink(t *testing.T) {
	t.Parallel()
	b := newCluster(t)
	defer b.dump()
	web3 := b.pod("web3", 3, 1, "app=web")
	b.bridge(3)
	b.Mirror(web3.Host)
	b.up()
	for _, family := range []int{4, 6} {
		b.leaves(web3, "udp", outsideOf(family), egressOf(family))
		b.leaves(web3, "tcp", outsideOf(family), egressOf(family))
	}
	b.Must(b.out.AddRoute("lan0", netip.PrefixFrom(harness.SubnetAddr(3, 0, 4), 24), harness.WanAddr(3, 4)))
	b.Once("the outside does not reach web3", func() error {
		if _, err := harness.Mirrored(b.out, "udp", 0, netip.AddrPortFrom(web3.Addr(4), harness.MirrorPort)); err == nil {
			return fmt.Errorf("it does")
		}
		return nil
	})
}

// Rules of a network policy hold for pods that are steered, in the chain where plugins have them: nothing comes to web1 but answers, and
// it reaches one port outside.
func TestNetworkPolicy(t *testing.T) {
	t.Parallel()
	b := newCluster(t)
	defer b.dump()
	b.up()
	b.leaves(b.web1, "udp", harness.Outside4, egress4)
	h, own := b.Hosts[0], b.web1.Addr(4).String()
	for _, rule := range []string{
		"-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT", "-d " + own + " -j DROP",
		fmt.Sprintf("-s %s -p tcp --dport %d -j ACCEPT", own, harness.MirrorPort), "-s " + own + " -j DROP",
	} {
		_, err := h.Output(b.Ctx, append([]string{"iptables", "-A", "FORWARD"}, strings.Fields(rule)...)...)
		b.Must(err)
	}
	b.leaves(b.web1, "tcp", harness.Outside4, egress4)
	b.stays(b.web1, harness.Outside4)
	b.leaves(b.web2, "udp", harness.Outside4, egress4)
}
