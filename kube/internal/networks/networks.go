// Package networks finds the networks of a cluster, which pods reach as themselves: of nodes and their pods, of services, and those that
// CNI plugins have objects for. Agents steer nothing that is for them.
package networks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kinds are objects that tell of networks of a cluster, and the field that has them.
var kinds = map[schema.GroupVersionKind][]string{
	{Group: "networking.k8s.io", Version: "v1", Kind: "ServiceCIDR"}: {"spec", "cidrs"},
	{Group: "crd.projectcalico.org", Version: "v1", Kind: "IPPool"}:  {"spec", "cidr"},
	ciliumNode: {"spec", "ipam", "podCIDRs"},
}

var ciliumNode = schema.GroupVersionKind{Group: "cilium.io", Version: "v2", Kind: "CiliumNode"}

// Finder finds them.
type Finder struct {
	kinds  []schema.GroupVersionKind // those that the API server has
	reader client.Reader
}

// New asks which kinds there are. Their objects are read by r.
func New(m meta.RESTMapper, r client.Reader) (Finder, error) {
	n := Finder{reader: r}
	for kind := range kinds {
		switch _, err := m.RESTMapping(kind.GroupKind(), kind.Version); {
		case meta.IsNoMatchError(err):
		case err != nil:
			return n, fmt.Errorf("find out whether the API server has %s: %w", kind.GroupKind(), err)
		default:
			n.kinds = append(n.kinds, kind)
		}
	}
	return n, nil
}

// HasCilium reports whether Cilium says that it is on a node.
func (n Finder) HasCilium(ctx context.Context, node string) (bool, error) {
	if !slices.Contains(n.kinds, ciliumNode) {
		return false, nil
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(ciliumNode)
	err := n.reader.Get(ctx, client.ObjectKey{Name: node}, u)
	return err == nil, client.IgnoreNotFound(err)
}

// Watched are objects of the kinds.
func (n Finder) Watched() (list []client.Object) {
	for _, kind := range n.kinds {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(kind)
		list = append(list, u)
	}
	return list
}

// Find has as few networks as tell the same, and fails where none is known: packets between pods would leave the cluster.
func (n Finder) Find(ctx context.Context, nodes []corev1.Node) ([]netip.Prefix, error) {
	var all netipx.IPSetBuilder
	known := 0
	add := func(texts ...string) {
		for _, text := range texts {
			// What is no network counts as little as one that would have all destinations be the cluster's.
			if p, err := netip.ParsePrefix(text); err == nil && p.Bits() > 0 {
				all.AddPrefix(p)
				known++
			}
		}
	}
	for i := range nodes {
		add(nodes[i].Spec.PodCIDRs...)
	}
	for _, kind := range n.kinds {
		objects := &unstructured.UnstructuredList{}
		objects.SetGroupVersionKind(kind)
		if err := n.reader.List(ctx, objects, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
		}
		for _, o := range objects.Items {
			path := kinds[kind]
			one, _, _ := unstructured.NestedString(o.Object, path...) // one or the other
			several, _, _ := unstructured.NestedStringSlice(o.Object, path...)
			add(append(several, one)...)
		}
	}
	if known == 0 {
		return nil, errors.New("no network of the cluster is known: no node has spec.podCIDRs, and there is no ServiceCIDR and no pool of Calico or Cilium; name them by --cluster-cidr")
	}
	for i := range nodes {
		for _, a := range nodes[i].Status.Addresses {
			if addr, err := netip.ParseAddr(a.Address); err == nil {
				all.Add(addr)
			}
		}
	}
	set, err := all.IPSet()
	if err != nil {
		return nil, err
	}
	return set.Prefixes(), nil
}
