package nodes

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/adopt"
	"github.com/selvage/selvage/kube/internal/importing"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/test/e2e/harness"
)

// theirPolicy had the addresses of the picture, which are the last ones of the pool.
const theirPolicy = `
apiVersion: egressgateway.spidernet.io/v1beta1
kind: EgressPolicy
metadata: {namespace: shop, name: web}
spec:
  egressGatewayName: out
  appliedTo: {podSelector: {matchLabels: {app: web}}}
status: {eip: {ipv4: 198.51.100.20, ipv6: "2001:db8:51::20"}, node: gone}
`

const theirGateway = `
apiVersion: egressgateway.spidernet.io/v1beta1
kind: EgressGateway
metadata: {name: out}
spec:
  ippools: {ipv4: [198.51.100.18-198.51.100.20], ipv6: ["2001:db8:51::18-2001:db8:51::20"]}
  nodeSelector: {selector: {matchLabels: {example.org/egress: out}}}
`

// Pods of a policy of EgressGateway (spidernet) leave with the addresses that it had there; another node has them when the gateway is
// killed, connections go on, and the status of the policy names that node.
func TestAdopted(t *testing.T) {
	t.Parallel()
	o := importing.Options{Interfaces: []importing.Setting{{Value: "eth1"}}, NextHops: []importing.Setting{{Value: "198.51.100.1"}, {Value: "2001:db8:51::1"}}}
	b := newManagedWith(t, func(ctx context.Context, by *rest.Config) ([]func(manager.Manager) error, error) {
		add, err := adopt.Setup(ctx, by, o)
		return []func(manager.Manager) error{add}, err
	}, `adopt={"egressgateway":true,"uplinkInterfaces":["eth1"],"nextHops":["198.51.100.1","2001:db8:51::1"]}`)
	defer b.dump()
	b.label()
	b.Must(b.server.Apply(b.Ctx, "../chart/testdata/egressgateway-crds.yaml"))
	b.theirs(theirPolicy)
	b.theirs(theirGateway) // the last one, so that the policy's status is there
	g := &v1alpha1.EgressGateway{ObjectMeta: metav1.ObjectMeta{Name: "out"}}
	b.Fact("a gateway is made of theirs", func() error { return b.c.Get(b.Ctx, client.ObjectKeyFromObject(g), g) })
	b.Must(b.c.Patch(b.Ctx, g, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"liveness":{"interval":"100ms","multiplier":20}}}`)))) // a busy machine is no loss

	b.serving(3, 4)
	for _, family := range []int{4, 6} {
		b.leaves(b.web1, "tcp", outsideOf(family), egressOf(family))
		b.leaves(b.web2, "udp", outsideOf(family), egressOf(family))
	}
	b.leaves(b.db1, "tcp", harness.Outside4, b.Tep(1))
	node := b.egressNode("", 0)
	number := 3
	if node == dut.EdgeName(b.Hosts[3]) {
		number = 4
	}
	open := b.open(b.web1)
	b.kill(number)
	b.serving(7 - number)
	b.Once("the connection goes on", open)
	b.leaves(b.web1, "tcp", harness.Outside4, egress4)
	b.egressNode(dut.EdgeName(b.Hosts[7-number-1]), number)
}

// theirs makes an object with its status.
func (b *managed) theirs(text string) {
	b.T.Helper()
	u := &unstructured.Unstructured{}
	b.Must(yaml.Unmarshal([]byte(text), &u.Object))
	status := u.Object["status"]
	b.Must(b.c.Create(b.Ctx, u))
	if status != nil {
		u.Object["status"] = status
		b.Must(b.c.Status().Update(b.Ctx, u))
	}
}

// egressNode waits until kubectl names the node of the policy, that node if it is given, and the gateway's status says of the killed one
// that it is gone.
func (b *managed) egressNode(want string, killed int) (node string) {
	b.T.Helper()
	b.Fact("kubectl get egp names the node "+want, func() error {
		out := b.kubectl("get", "egp", "-n", "shop", "--no-headers")
		words := strings.Fields(out)
		if len(words) != 5 || !reflect.DeepEqual(words[:4], []string{"web", "out", egress4.String(), egress6.String()}) || words[4] == "gone" || want != "" && words[4] != want {
			return fmt.Errorf("it says %q", out)
		}
		node = words[4]
		if killed == 0 {
			return nil
		}
		name := dut.EdgeName(b.Hosts[killed-1])
		if phase := b.kubectl("get", "egw", "out", "-o", `jsonpath={.status.nodeList[?(@.name=="`+name+`")].status}`); phase != "HeartbeatTimeout" {
			return fmt.Errorf("node %s is %q", name, phase)
		}
		return nil
	})
	return node
}
