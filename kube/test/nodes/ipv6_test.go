package nodes

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/plan"
	"github.com/selvage/selvage/test/e2e/harness"
)

// Nodes and pods with addresses of IPv6 alone, as the chart's agent.tunnelIP=IPv6 has it: pods leave by tunnels of IPv6, and reach each
// other as themselves.
func TestIPv6Only(t *testing.T) {
	t.Parallel()
	c := newClusterOn(t, 6)
	for _, pods := range c.pods {
		for i := range pods {
			pods[i].Addresses = pods[i].Addresses[1:]
		}
	}
	for name, own := range c.uplinks {
		c.uplinks[name] = own[1:]
	}
	c.input.Settings.TunnelIP = plan.IPv6
	c.input.Gateways[0].Spec.Uplink.NextHops = []string{"2001:db8:51::1"}
	b := manage(c, func(context.Context, *rest.Config) ([]func(manager.Manager) error, error) { return nil, nil }, `agent.tunnelIP="IPv6"`)
	defer b.dump()
	b.label()
	g := &v1alpha1.EgressGateway{Spec: *b.input.Gateways[0].Spec.DeepCopy()}
	g.Name, g.Spec.Nodes.MatchLabels, g.Spec.Addresses = "out", map[string]string{"example.org/egress": "out"}, []v1alpha1.AddressRange{v1alpha1.AddressRange(egress6.String())}
	b.Must(b.c.Create(b.Ctx, g))
	b.policy()
	b.programmed(2, "4/4")
	b.serving(3, 4)
	for _, network := range []string{"tcp", "udp"} {
		b.leaves(b.web1, network, harness.Outside6, egress6)
	}
	b.Mirror(b.web2.Host)
	b.Fact("web1 reaches web2 as itself", func() error {
		got, err := harness.Mirrored(b.web1.Host, "tcp", 0, netip.AddrPortFrom(b.web2.Addr(6), harness.MirrorPort))
		if err == nil && got.Addr() != b.web1.Addr(6) {
			err = fmt.Errorf("as %s", got)
		}
		return err
	})
	b.Fetches(1_000_000, harness.Direction{Name: "web1 from outside", From: b.web1.Host, To: b.out, Addr: harness.Outside6})
	b.kill(3)
	b.serving(4)
	b.leaves(b.web1, "tcp", harness.Outside6, egress6)
}
