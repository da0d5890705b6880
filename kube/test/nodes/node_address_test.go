package nodes

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/test/e2e/harness"
)

// Pods leave with the address of the node of the gateway that serves, which kubectl names; with that of the next one when it is killed.
// What is not selected leaves by its node, and the gateway's node itself as ever.
func TestAddressOfNode(t *testing.T) {
	t.Parallel()
	folder := buildPlugin(t)
	b := newManaged(t)
	defer b.dump()
	b.label()
	b.Must(b.c.Create(b.Ctx, &v1alpha1.EgressGateway{ObjectMeta: metav1.ObjectMeta{Name: "out"}, Spec: v1alpha1.EgressGatewaySpec{
		Nodes:    metav1.LabelSelector{MatchLabels: map[string]string{"example.org/egress": "out"}},
		Uplink:   v1alpha1.Uplink{Interface: "eth1", NextHops: []string{"198.51.100.1", "2001:db8:51::1"}},
		Liveness: v1alpha1.Liveness{Interval: metav1.Duration{Duration: 100 * time.Millisecond}, Multiplier: 20}, // a busy machine is no loss
	}}))
	b.Must(b.c.Create(b.Ctx, &v1alpha1.EgressPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: v1alpha1.EgressPolicySpec{
		Gateway: "out", Pods: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Address: v1alpha1.PolicyAddress{Type: v1alpha1.AddressNode},
	}}))
	b.serving(3, 4)
	p := b.plugin(folder())
	b.leaveAs(3)
	b.leaves(b.db1, "tcp", harness.Outside4, b.Tep(1))
	b.leaves(harness.Guest{Host: b.Hosts[2]}, "tcp", harness.Outside4, b.Tep(3))
	p.names(3)
	if out := b.kubectl("get", "egresspolicies", "-n", "shop", "--no-headers"); !strings.Contains(out, " Node ") {
		t.Errorf("kubectl says %q", out)
	}
	p.expect(t, 0, []string{"trace", "web1", "203.0.113.1:443"}, "edge of node gw1\n", "it leaves as "+harness.WanAddr(3, 4).String()+"\n")

	b.kill(3)
	b.serving(4)
	b.leaveAs(4)
	p.names(4)
	b.kill(4)
	b.serving()
	b.stays(b.web1, harness.Outside4)
}

// leaveAs is a fact: pods of the policy leave with the address of a node's uplink.
func (b *managed) leaveAs(number int) {
	b.T.Helper()
	for _, family := range []int{4, 6} {
		b.leaves(b.web1, "tcp", outsideOf(family), harness.WanAddr(number, family))
		b.leaves(b.web2, "udp", outsideOf(family), harness.WanAddr(number, family))
	}
}

// names is a fact: kubectl selvage why says as which node a pod leaves.
func (p *plugin) names(number int) {
	p.T.Helper()
	gateway := map[int]string{3: "gw1", 4: "gw2"}[number]
	addrs := []netip.Addr{harness.WanAddr(number, 4), harness.WanAddr(number, 6)}
	p.Fact("kubectl selvage why names "+gateway, func() error {
		said, status := p.says("why", "web1")
		var err error
		for _, word := range []string{fmt.Sprintf("leaves as %s or %s: ", addrs[0], addrs[1]), "which gives the address of its node " + gateway + "\n"} {
			if !strings.Contains(said, word) {
				err = errors.Join(err, fmt.Errorf("it does not say %q", word))
			}
		}
		if status != 0 || err != nil {
			return fmt.Errorf("status %d: %w\n%s", status, err, said)
		}
		return nil
	})
}
