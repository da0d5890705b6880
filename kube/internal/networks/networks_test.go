package networks

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// listed is a reader with one object of each kind.
type listed struct {
	client.Reader
	objects map[string]map[string]any
}

func (l listed) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	u := list.(*unstructured.UnstructuredList)
	if spec, has := l.objects[u.GroupVersionKind().Kind]; has {
		u.Items = []unstructured.Unstructured{{Object: map[string]any{"spec": spec}}}
	}
	return nil
}

func TestNetworks(t *testing.T) {
	node := func(address string, networks ...string) corev1.Node {
		return corev1.Node{Spec: corev1.NodeSpec{PodCIDRs: networks}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeHostName, Address: "n1"},
		}}}
	}
	for name, c := range map[string]struct {
		nodes   []corev1.Node
		objects map[string]map[string]any
		want    string
	}{
		"nodes' networks side by side": {
			[]corev1.Node{node("192.0.2.1", "10.244.0.0/24", "fd00:0:0:1::/64"), node("192.0.2.2", "10.244.1.0/24")}, nil,
			"[10.244.0.0/23 192.0.2.1/32 192.0.2.2/32 fd00:0:0:1::/64]",
		},
		"services, Calico and Cilium": {[]corev1.Node{node("192.0.2.1")}, map[string]map[string]any{
			"ServiceCIDR": {"cidrs": []any{"10.96.0.0/16", "fd00:1::/112"}}, "IPPool": {"cidr": "10.16.0.0/12"}, "CiliumNode": {"ipam": map[string]any{"podCIDRs": []any{"10.17.0.0/24", "10.32.0.0/24"}}},
		}, "[10.16.0.0/12 10.32.0.0/24 10.96.0.0/16 192.0.2.1/32 fd00:1::/112]"},
		"nothing is known":                 {[]corev1.Node{node("192.0.2.1")}, nil, "no network of the cluster is known"},
		"all destinations, and no network": {[]corev1.Node{node("192.0.2.1")}, map[string]map[string]any{"IPPool": {"cidr": "0.0.0.0/0"}, "CiliumNode": {"ipam": "none"}}, "no network of the cluster is known"},
	} {
		t.Run(name, func(t *testing.T) {
			n := Finder{reader: listed{objects: c.objects}}
			for kind := range kinds {
				n.kinds = append(n.kinds, kind)
			}
			got, err := n.Find(t.Context(), c.nodes)
			if text := fmt.Sprint(got); err == nil && text != c.want || err != nil && err.Error()[:min(len(c.want), len(err.Error()))] != c.want {
				t.Errorf("%s %v, want %s", text, err, c.want)
			}
		})
	}
}
