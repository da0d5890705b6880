package nodes

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/test/e2e/harness"
)

// A node on which other programs have all that the agent would use goes on as before, holds the pods of policies and says whose is what;
// when they are gone it steers.
func TestEveryConflict(t *testing.T) {
	t.Parallel()
	b := newManaged(t)
	defer b.dump()
	node := b.Hosts[0]
	b.stops[node.Name]()
	theirs := [][]string{
		{"ip rule add pref 90 from 10.9.0.0/16 lookup 100", "ip rule del pref 90 from 10.9.0.0/16"},
		{"ip rule add pref 500 from 10.9.0.0/16 lookup 7789", "ip rule del pref 500"},
		{"ip route add blackhole 10.9.0.0/16 table 7790", "ip route del blackhole 10.9.0.0/16 table 7790"},
		{"iptables -t mangle -A PREROUTING -p tcp --dport 7100 -j MARK --set-xmark 0x1000/0x1000", "iptables -t mangle -F PREROUTING"},
		{"ip addr add 192.0.0.1/24 dev lo", "ip addr del 192.0.0.1/24 dev lo"},
	}
	run := func(command string) {
		_, err := node.Output(b.Ctx, "sh", "-c", command)
		b.Must(err)
	}
	for _, c := range theirs {
		run(c[0])
	}
	taken, err := net.Listen("tcp", b.agents[node.Name].Health)
	b.Must(err)
	b.start(node)
	b.gateway()
	b.policy()
	said := func(want ...string) {
		b.Fact(fmt.Sprintf("the node says %q", want), func() error {
			var n v1alpha1.EgressNode
			if err := b.c.Get(b.Ctx, client.ObjectKey{Name: dut.EdgeName(node)}, &n); err != nil {
				return err
			}
			c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady)
			if c == nil || c.Reason != want[0] {
				return fmt.Errorf("%+v", c)
			}
			for _, w := range want[1:] {
				if !strings.Contains(c.Message, w) {
					return fmt.Errorf("%s", c.Message)
				}
			}
			return nil
		})
	}
	said("Conflict", "agent.rulePriority", "rule 500 of the node leads to table 7789: set agent.routingTable", "table 7790 of the node has another program's routes", "chain PREROUTING of table mangle", "agent.mark", "192.0.0.1/24", "agent.link", "address already in use", "agent.healthPort")
	b.leaves(b.db1, "tcp", harness.Outside4, b.Tep(1))
	b.leaves(b.web2, "tcp", harness.Outside4, egress4)
	b.stays(b.web1, harness.Outside4)
	for _, c := range theirs {
		run(c[1])
	}
	b.Must(taken.Close())
	said("Ready")
	b.programmed(2, "4/4")
	b.leaves(b.web1, "tcp", harness.Outside4, egress4)
	b.leaves(b.db1, "tcp", harness.Outside4, b.Tep(1))
}
