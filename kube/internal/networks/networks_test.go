package networks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

func (l listed) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
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
			"CiliumPodIPPool": {"ipv4": map[string]any{"cidrs": []any{"10.33.0.0/24"}, "maskSize": int64(27)}},
		}, "[10.16.0.0/12 10.32.0.0/24 10.33.0.0/24 10.96.0.0/16 192.0.2.1/32 fd00:1::/112]"},
		"nothing but services and nodes":   {[]corev1.Node{node("192.0.2.1")}, map[string]map[string]any{"ServiceCIDR": {"cidrs": []any{"10.96.0.0/16"}}}, "[10.96.0.0/16 192.0.2.1/32] unknown"},
		"all destinations, and no network": {[]corev1.Node{node("192.0.2.1")}, map[string]map[string]any{"IPPool": {"cidr": "0.0.0.0/0"}, "CiliumNode": {"ipam": "none"}}, "[192.0.2.1/32] unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			var all served
			for _, s := range sources {
				all.GroupKinds = append(all.GroupKinds, s.GroupKind)
			}
			got, err := New(&all, listed{objects: c.objects}).Find(t.Context(), c.nodes)
			text := fmt.Sprint(got)
			if errors.Is(err, ErrUnknown) {
				text, err = text+" unknown", nil
			}
			if err != nil || text != c.want {
				t.Errorf("%s %v, want %s", text, err, c.want)
			}
		})
	}
}

// served are the kinds that an API server has.
type served struct {
	meta.RESTMapper
	GroupKinds []schema.GroupKind
	away       error
}

func (s *served) RESTMapping(k schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	if s.away != nil {
		return nil, s.away
	}
	if !slices.Contains(s.GroupKinds, k) {
		return nil, &meta.NoKindMatchError{GroupKind: k}
	}
	return &meta.RESTMapping{GroupVersionKind: k.WithVersion("v1")}, nil
}

// Kinds that the API server gets later are found: soon while nothing tells of pods, otherwise a minute later. What was found stays while it is away.
func TestKindsThatComeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kinds := served{GroupKinds: []schema.GroupKind{{Group: "networking.k8s.io", Kind: "ServiceCIDR"}}}
		n := New(&kinds, listed{objects: map[string]map[string]any{"ServiceCIDR": {"cidrs": []any{"10.96.0.0/16"}}, "IPPool": {"cidr": "10.16.0.0/12"}}})
		if _, err := n.Find(t.Context(), nil); !errors.Is(err, ErrUnknown) {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = n.Follow(ctx) }()
		kinds.GroupKinds = append(kinds.GroupKinds, schema.GroupKind{Group: "crd.projectcalico.org", Kind: "IPPool"})
		<-time.After(lookSoon + time.Second)
		if got, err := n.Find(t.Context(), nil); err != nil || len(got) != 2 {
			t.Errorf("%v %v", got, err)
		}
		kinds.GroupKinds = append(kinds.GroupKinds, ciliumNode)
		for _, want := range []bool{false, true} {
			if has, err := n.HasCilium(t.Context(), "n1"); err != nil || has != want {
				t.Errorf("Cilium is there: %t %v, want %t", has, err, want)
			}
			<-time.After(lookAgain + lookSoon)
		}
		kinds.away = errors.New("connection refused")
		<-time.After(2 * lookAgain)
		if got, err := n.Find(t.Context(), nil); err != nil || len(got) != 2 {
			t.Errorf("without an API server %v %v", got, err)
		}
	})
}
