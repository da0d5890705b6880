package nodes

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

// Nodes without podCIDRs have nothing steered, until a CNI plugin's pools come, whose kind agents have not seen at their start. Then an object that
// is left over of a gateway's machine changes nothing, and is named.
func TestUnknownNetworksAndNodesLeftOver(t *testing.T) {
	t.Parallel()
	tier.Root(t)
	b := newManaged(t)
	defer b.dump()
	for i, h := range b.Hosts {
		n := &corev1.Node{}
		b.Must(b.c.Get(b.Ctx, client.ObjectKey{Name: dut.EdgeName(h)}, n))
		b.Must(b.c.Delete(b.Ctx, n))
		b.node(n.Name, i+1, corev1.ConditionTrue)
	}
	b.gateway()
	b.policy()
	b.Fact("nothing tells of networks of pods", func() error {
		n := &v1alpha1.EgressNode{}
		if err := b.c.Get(b.Ctx, client.ObjectKey{Name: dut.EdgeName(b.Hosts[0])}, n); err != nil {
			return err
		}
		c, p := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady), meta.FindStatusCondition(b.policy().Status.Conditions, v1alpha1.ConditionProgrammed)
		if c == nil || c.Reason != v1alpha1.ReasonNetworksUnknown || p == nil || p.Status != metav1.ConditionFalse || !strings.Contains(p.Message, "agent.clusterNetworks") {
			return fmt.Errorf("the node says %+v, the policy %+v", c, p)
		}
		return nil
	})
	b.stays(b.web1, harness.Outside4)
	b.stays(b.web1, b.web2.Addr(4))
	b.leaves(b.db1, "udp", harness.Outside4, b.Tep(1))

	b.Mirror(b.web2.Host)
	for _, o := range []string{`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "ippools.crd.projectcalico.org"}, "spec": {
		"group": "crd.projectcalico.org", "scope": "Cluster", "names": {"kind": "IPPool", "plural": "ippools", "singular": "ippool"}, "versions": [
		{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`,
		`{"apiVersion": "crd.projectcalico.org/v1", "kind": "IPPool", "metadata": {"name": "four"}, "spec": {"cidr": "10.0.0.0/13"}}`,
		`{"apiVersion": "crd.projectcalico.org/v1", "kind": "IPPool", "metadata": {"name": "six"}, "spec": {"cidr": "fd00::/16"}}`,
	} {
		b.Fact("it is created", func() error { // the kind is served a moment after its definition is
			u := &unstructured.Unstructured{}
			b.Must(u.UnmarshalJSON([]byte(o)))
			return b.c.Create(b.Ctx, u)
		})
	}
	b.programmed(2, "4/4")
	b.serving(3, 4)
	b.leaves(b.web1, "udp", harness.Outside4, egress4)
	b.leaves(b.web1, "udp", b.web2.Addr(4), b.web1.Addr(4))

	b.node("aaa-old", 3, corev1.ConditionUnknown)
	b.Fact("the gateway's status names both objects", func() error {
		g := &v1alpha1.EgressGateway{}
		err := b.c.Get(b.Ctx, client.ObjectKey{Name: "out"}, g)
		if err == nil && !strings.Contains(g.Status.Nodes[0].Message, "Node aaa-old has its address "+b.Tep(3).String()+" too") {
			err = fmt.Errorf("%+v", g.Status)
		}
		return err
	})
	b.serving(3, 4)
	b.programmed(2, "4/4")
	b.leaves(b.web2, "tcp", harness.Outside4, egress4)
	for _, number := range []int{3, 4} {
		b.Fact("one node answers for each address", func() error {
			info, err := b.Ask(b.Hosts[number-1].Name).Egress().Info(b.Ctx)
			if err != nil {
				return err
			}
			for _, a := range info.Policies[0].Addresses {
				if a.Owner != b.Tep(3) {
					return fmt.Errorf("%s says that %s answers for %s", b.Hosts[number-1].Name, a.Owner, a.Address)
				}
			}
			return nil
		})
	}
}

// node is an object with the address of a host, and with no network of pods.
func (b *managed) node(name string, number int, ready corev1.ConditionStatus) {
	b.T.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	b.Must(b.c.Create(b.Ctx, n))
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: b.Tep(number).String()}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	b.Must(b.c.Status().Update(b.Ctx, n))
}
