// Package networks finds the networks of a cluster, which pods reach as themselves: of nodes and their pods, of services, and those that
// CNI plugins have objects for. Agents steer nothing that is for them.
package networks

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrUnknown is that no network of pods is known: packets between pods would leave the cluster.
var ErrUnknown = errors.New("no network of pods is known: no node has spec.podCIDRs, and there is no pool of Calico or Cilium; " +
	"name the networks of pods and services: agent.clusterNetworks in the values of the chart, which is --cluster-cidr of the agent")

// source is a kind whose objects tell of networks of a cluster.
type source struct {
	schema.GroupKind
	paths [][]string // of the fields
	pods  bool       // its networks are those of pods
}

// Services have addresses that no pod has, and since Kubernetes 1.33 each cluster has a ServiceCIDR.
var sources = []source{
	{schema.GroupKind{Group: "networking.k8s.io", Kind: "ServiceCIDR"}, [][]string{{"spec", "cidrs"}}, false},
	{schema.GroupKind{Group: "crd.projectcalico.org", Kind: "IPPool"}, [][]string{{"spec", "cidr"}}, true},
	{schema.GroupKind{Group: "cilium.io", Kind: "CiliumPodIPPool"}, [][]string{{"spec", "ipv4", "cidrs"}, {"spec", "ipv6", "cidrs"}}, true},
	{ciliumNode, [][]string{{"spec", "ipam", "podCIDRs"}}, true},
}

var ciliumNode = schema.GroupKind{Group: "cilium.io", Kind: "CiliumNode"}

const (
	// lookAgain is how often kinds are asked for that the API server did not have. While no network of pods is known it is each time.
	lookAgain = time.Minute
	// listMost is how long a list of a kind may take, whose first one waits for the cache.
	listMost = 10 * time.Second
)

// Finder finds them. It is for one goroutine.
type Finder struct {
	mapper meta.RESTMapper
	reader client.Reader
	kinds  map[schema.GroupKind]schema.GroupVersionKind // those that the API server has
	looked time.Time                                    // for the others; zero: do so at once
}

// New finds kinds by m, and their objects by r.
func New(m meta.RESTMapper, r client.Reader) *Finder {
	return &Finder{mapper: m, reader: r, kinds: map[schema.GroupKind]schema.GroupVersionKind{}}
}

// look asks which kinds there are: CNI plugins may bring theirs after the agent has started.
func (n *Finder) look() error {
	if time.Since(n.looked) < lookAgain {
		return nil
	}
	for _, s := range sources {
		if _, has := n.kinds[s.GroupKind]; has {
			continue
		}
		switch m, err := n.mapper.RESTMapping(s.GroupKind); {
		case meta.IsNoMatchError(err):
		case err != nil:
			return fmt.Errorf("find out whether the API server has %s: %w", s.GroupKind, err)
		default:
			n.kinds[s.GroupKind] = m.GroupVersionKind
		}
	}
	n.looked = time.Now()
	return nil
}

// HasCilium reports whether Cilium says that it is on a node.
func (n *Finder) HasCilium(ctx context.Context, node string) (bool, error) {
	if err := n.look(); err != nil {
		return false, err
	}
	kind, has := n.kinds[ciliumNode]
	if !has {
		return false, nil
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	err := n.reader.Get(ctx, client.ObjectKey{Name: node}, u)
	return err == nil, client.IgnoreNotFound(err)
}

// Find has as few networks as tell the same. Where no network of pods is known it has the others, and ErrUnknown.
func (n *Finder) Find(ctx context.Context, nodes []corev1.Node) ([]netip.Prefix, error) {
	if err := n.look(); err != nil {
		return nil, err
	}
	var all netipx.IPSetBuilder
	known := false
	add := func(pods bool, texts ...string) {
		for _, text := range texts {
			// What is no network counts as little as one that would have all destinations be the cluster's.
			if p, err := netip.ParsePrefix(text); err == nil && p.Bits() > 0 {
				all.AddPrefix(p)
				known = known || pods
			}
		}
	}
	for i := range nodes {
		add(true, nodes[i].Spec.PodCIDRs...)
		for _, a := range nodes[i].Status.Addresses {
			if addr, err := netip.ParseAddr(a.Address); err == nil {
				all.Add(addr)
			}
		}
	}
	for _, s := range sources {
		objects, err := n.list(ctx, s.GroupKind)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			for _, path := range s.paths {
				one, _, _ := unstructured.NestedString(o.Object, path...) // one or the other
				several, _, _ := unstructured.NestedStringSlice(o.Object, path...)
				add(s.pods, append(several, one)...)
			}
		}
	}
	set, err := all.IPSet()
	if err != nil {
		return nil, err
	}
	if !known {
		n.looked = time.Time{}
		return set.Prefixes(), ErrUnknown
	}
	return set.Prefixes(), nil
}

// list is the objects of a kind, none where the API server does not have it.
func (n *Finder) list(ctx context.Context, of schema.GroupKind) ([]unstructured.Unstructured, error) {
	kind, has := n.kinds[of]
	if !has {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, listMost)
	defer cancel()
	objects := &unstructured.UnstructuredList{}
	objects.SetGroupVersionKind(kind)
	if err := n.reader.List(ctx, objects, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list %s: %w", of, err)
	}
	return objects.Items, nil
}
