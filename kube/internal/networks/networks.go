// Package networks finds the networks of a cluster, which pods reach as themselves: of nodes and their pods, of services, and those that
// CNI plugins have objects for. Agents steer nothing that is for them.
package networks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync"
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
	// lookAgain is how often kinds are asked for that the API server did not have, and lookSoon while no network of pods is known.
	lookAgain = time.Minute
	lookSoon  = 2 * time.Second
	// listMost is how long a list of a kind may take, whose first one waits for the cache.
	listMost = 10 * time.Second
)

// Finder finds them.
type Finder struct {
	mapper meta.RESTMapper
	reader client.Reader

	mu      sync.Mutex
	kinds   map[schema.GroupKind]schema.GroupVersionKind // that the API server has; nil before it was asked. Replaced, never changed
	unknown bool                                         // no network of pods was found last
}

// New finds kinds by m, and their objects by r.
func New(m meta.RESTMapper, r client.Reader) *Finder { return &Finder{mapper: m, reader: r} }

// Follow finds kinds that come later, until ctx ends: CNI plugins may bring theirs after the agent has started. Who asks for networks does not wait
// for an API server that is away.
func (n *Finder) Follow(ctx context.Context) error {
	tick := time.NewTicker(lookSoon)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			n.mu.Lock()
			due := n.unknown || now.Sub(last) >= lookAgain
			n.mu.Unlock()
			if due {
				last = now
				_ = n.look(ctx) // done again
			}
		}
	}
}

// look asks which kinds there are. One whose objects cannot be read yet is none.
func (n *Finder) look(ctx context.Context) error {
	n.mu.Lock()
	kinds := map[schema.GroupKind]schema.GroupVersionKind{}
	maps.Copy(kinds, n.kinds)
	n.mu.Unlock()
	for _, s := range sources {
		if _, has := kinds[s.GroupKind]; has {
			continue
		}
		m, err := n.mapper.RESTMapping(s.GroupKind)
		switch {
		case meta.IsNoMatchError(err):
			continue
		case err != nil:
			return fmt.Errorf("find out whether the API server has %s: %w", s.GroupKind, err)
		}
		if _, err := n.list(ctx, m.GroupVersionKind); err != nil {
			return err
		}
		kinds[s.GroupKind] = m.GroupVersionKind
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.kinds = kinds
	return nil
}

// known are the kinds that the API server has.
func (n *Finder) known(ctx context.Context) (map[schema.GroupKind]schema.GroupVersionKind, error) {
	n.mu.Lock()
	kinds := n.kinds
	n.mu.Unlock()
	if kinds != nil {
		return kinds, nil
	}
	if err := n.look(ctx); err != nil {
		return nil, err
	}
	return n.known(ctx)
}

// HasCilium reports whether Cilium says that it is on a node.
func (n *Finder) HasCilium(ctx context.Context, node string) (bool, error) {
	kinds, err := n.known(ctx)
	kind, has := kinds[ciliumNode]
	if !has {
		return false, err
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	err = n.reader.Get(ctx, client.ObjectKey{Name: node}, u)
	return err == nil, client.IgnoreNotFound(err)
}

// Find has as few networks as tell the same. Where no network of pods is known it has the others, and ErrUnknown.
func (n *Finder) Find(ctx context.Context, nodes []corev1.Node) ([]netip.Prefix, error) {
	kinds, err := n.known(ctx)
	if err != nil {
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
		objects, err := n.list(ctx, kinds[s.GroupKind])
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
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.unknown = !known; !known {
		return set.Prefixes(), ErrUnknown
	}
	return set.Prefixes(), nil
}

// list is the objects of a kind, none of the zero one.
func (n *Finder) list(ctx context.Context, kind schema.GroupVersionKind) ([]unstructured.Unstructured, error) {
	if kind.Empty() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, listMost)
	defer cancel()
	objects := &unstructured.UnstructuredList{}
	objects.SetGroupVersionKind(kind)
	if err := n.reader.List(ctx, objects, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list %s: %w", kind.GroupKind(), err)
	}
	return objects.Items, nil
}
