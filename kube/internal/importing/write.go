package importing

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// write makes the objects of the result, in the order of their names.
func (i *importer) write() {
	for _, g := range i.gateways {
		out := v1alpha1.EgressGateway{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "EgressGateway"}, ObjectMeta: metav1.ObjectMeta{Name: g.name},
			Spec: v1alpha1.EgressGatewaySpec{Nodes: *g.nodes, Mode: g.mode, Uplink: v1alpha1.Uplink{Interface: g.uplink, VLAN: g.vlan}},
		}
		for _, a := range g.hops {
			out.Spec.Uplink.NextHops = append(out.Spec.Uplink.NextHops, a.String())
		}
		for _, s := range g.addresses {
			out.Spec.Addresses = append(out.Spec.Addresses, v1alpha1.AddressRange(s.String()))
		}
		i.result.Gateways = append(i.result.Gateways, out)
		i.result.origins[key(out.TypeMeta, out.ObjectMeta)] = g.origins
	}
	slices.SortStableFunc(i.policies, func(a, b *policy) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name), cmp.Compare(a.object(), b.object()))
	})
	for _, p := range i.policies {
		i.writePolicy(p)
	}
}

func (i *importer) writePolicy(p *policy) {
	p.normalize()
	kind := "ClusterEgressPolicy"
	if p.namespace != "" {
		kind = "EgressPolicy"
	}
	t := metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind}
	o := metav1.ObjectMeta{Namespace: p.namespace, Name: i.unique(kind, p.namespace, p.name, p.project)}
	spec := v1alpha1.EgressPolicySpec{
		Pods: p.pods, ServiceAccounts: p.accounts, Gateway: p.gateway.name, Priority: p.priority, WhenNoGateway: i.WhenNoGateway,
		Address: v1alpha1.PolicyAddress{Type: v1alpha1.AddressPool},
	}
	for _, n := range p.to {
		spec.To = append(spec.To, v1alpha1.Network(n.String()))
	}
	for _, n := range p.except {
		spec.Except = append(spec.Except, v1alpha1.Network(n.String()))
	}
	switch {
	case p.ofNode:
		spec.Address.Type = v1alpha1.AddressNode
	case len(p.fixed) > 0:
		spec.Address.Type = v1alpha1.AddressFixed
	}
	for _, a := range p.fixed {
		spec.Address.Fixed = append(spec.Address.Fixed, a.String())
	}
	i.result.origins[key(t, o)] = p.origins
	if p.namespace != "" {
		i.result.Policies = append(i.result.Policies, v1alpha1.EgressPolicy{TypeMeta: t, ObjectMeta: o, Spec: spec})
		return
	}
	i.result.ClusterPolicies = append(i.result.ClusterPolicies, v1alpha1.ClusterEgressPolicy{
		TypeMeta: t, ObjectMeta: o, Spec: v1alpha1.ClusterEgressPolicySpec{Namespaces: p.namespaces, EgressPolicySpec: spec},
	})
}

func key(t metav1.TypeMeta, o metav1.ObjectMeta) string {
	return t.Kind + " " + o.Namespace + "/" + o.Name
}

// YAML is the objects as documents, each after a comment that says of what it was made, and what of that it lacks.
func (r Result) YAML() ([]byte, error) {
	var b bytes.Buffer
	add := func(t metav1.TypeMeta, o metav1.ObjectMeta, spec any) error {
		doc, err := manifestOf(t, o, spec)
		if err != nil {
			return fmt.Errorf("%s %s: %w", t.Kind, o.Name, err)
		}
		b.WriteString("---\n")
		r.comment(&b, t.Kind, r.origins[key(t, o)])
		b.Write(doc)
		return nil
	}
	for _, o := range r.Gateways {
		if err := add(o.TypeMeta, o.ObjectMeta, o.Spec); err != nil {
			return nil, err
		}
	}
	for _, o := range r.Policies {
		if err := add(o.TypeMeta, o.ObjectMeta, o.Spec); err != nil {
			return nil, err
		}
	}
	for _, o := range r.ClusterPolicies {
		if err := add(o.TypeMeta, o.ObjectMeta, o.Spec); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// comment says of what an object was made. Notes about a policy stand at what became of it, not at its gateway.
func (r Result) comment(b *bytes.Buffer, kind string, origins []string) {
	for _, object := range origins {
		fmt.Fprintf(b, "# From %s.\n", object)
		if kind == "EgressGateway" && r.hasPolicy(object) {
			continue
		}
		for _, n := range r.Notes {
			if n.Object == object {
				fmt.Fprintf(b, "#   %s\n", strings.TrimPrefix(n.String(), n.Object+": "))
			}
		}
	}
}

// hasPolicy says whether a policy was made of an object.
func (r Result) hasPolicy(object string) bool {
	for made, origins := range r.origins {
		if !strings.HasPrefix(made, "EgressGateway ") && slices.Contains(origins, object) {
			return true
		}
	}
	return false
}

// manifestOf is an object without what the API server fills in.
func manifestOf(t metav1.TypeMeta, o metav1.ObjectMeta, spec any) ([]byte, error) {
	out, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(out, &fields); err != nil {
		return nil, err
	}
	delete(fields, "liveness") // the defaults
	metadata := map[string]string{"name": o.Name}
	if o.Namespace != "" {
		metadata["namespace"] = o.Namespace
	}
	return yaml.Marshal(map[string]any{"apiVersion": t.APIVersion, "kind": t.Kind, "metadata": metadata, "spec": fields})
}
