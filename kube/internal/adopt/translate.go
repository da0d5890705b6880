package adopt

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/importing"
)

const (
	// Label is of objects that are kept here, with the group of those that they were made of. Without it they are anybody's.
	Label = "selvage.dev/adopted-from"
	// Origins is an annotation of them: the objects that one was made of, as KIND [NAMESPACE/]NAME, the first one first.
	Origins = "selvage.dev/origins"
)

// wanted is what theirs are here.
type wanted struct {
	objects []client.Object // of Selvage's kinds
	notes   []importing.Note
}

// input is all that it is made of.
type input struct {
	theirs     []*unstructured.Unstructured
	namespaces []corev1.Namespace
	have       []client.Object // that were made of theirs before
	options    importing.Options
}

// translate makes Selvage's objects of theirs. A gateway that lacks something is left out with its policies, and a note says so.
func translate(in input) (w wanted, err error) {
	o := in.options
	o.ExtraCIDRs, o.First = true, map[string]bool{}
	gateways := map[string]string{} // of policies that there are, by what they were made of
	for _, h := range in.have {
		if from := originsOf(h); len(from) > 0 && kindOf(h) != "EgressGateway" {
			o.First[from[0]] = true
			for _, object := range from {
				gateways[object] = policySpec(h).Gateway
			}
		}
	}
	left := slices.Clone(in.theirs)
	for i, u := range left {
		left[i] = withoutFormer(u, gateways[nameOf(u)])
	}
	for {
		given, err := objects(left, in.namespaces)
		if err != nil {
			return w, err
		}
		r, err := importing.Convert(given, settingsOf(o, left))
		var needed importing.Needed
		if errors.As(err, &needed) && len(needed) > 0 {
			left = w.leaveOut(left, needed)
			continue
		}
		if err != nil {
			return w, err
		}
		w.add(r)
		return w, nil
	}
}

// withoutFormer is a policy without the status that it has of another gateway than the one that it names: an address of there is none of here.
func withoutFormer(u *unstructured.Unstructured, gateway string) *unstructured.Unstructured {
	names, _, _ := unstructured.NestedString(u.Object, "spec", "egressGatewayName")
	if gateway == "" || names == "" || names == gateway {
		return u
	}
	u = u.DeepCopy()
	delete(u.Object, "status")
	return u
}

// leaveOut takes gateways out that lack something.
func (w *wanted) leaveOut(theirs []*unstructured.Unstructured, needed importing.Needed) []*unstructured.Unstructured {
	flags := map[string]string{"Interfaces": "uplinkInterfaces", "NextHops": "nextHops", "Nodes": "nodes", "Addresses": "addresses"}
	lacks := map[string]bool{}
	for _, n := range needed {
		lacks[n.Gateway] = true
		w.notes = append(w.notes, importing.Note{
			Kind: importing.NotCarried, Object: "EgressGateway " + n.Gateway, Reason: "it lacks " + n.Why, Do: "name it in adopt." + flags[n.Option] + " of the chart",
		})
	}
	return slices.DeleteFunc(slices.Clone(theirs), func(u *unstructured.Unstructured) bool {
		return u.GetKind() == "EgressGateway" && lacks[u.GetName()]
	})
}

// objects are theirs, and the namespaces that name a gateway, as importing reads them.
func objects(theirs []*unstructured.Unstructured, namespaces []corev1.Namespace) (all []importing.Object, err error) {
	add := func(name string, o any) error {
		text, err := json.Marshal(o)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, importing.Object{Source: "the cluster", JSON: text})
		return nil
	}
	for _, u := range theirs {
		if err := add(nameOf(u), u.Object); err != nil {
			return nil, err
		}
	}
	for i := range namespaces {
		if n := &namespaces[i]; n.Labels[importing.DefaultGatewayLabel] != "" {
			o := metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
				ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{importing.DefaultGatewayLabel: n.Labels[importing.DefaultGatewayLabel]}},
			}
			if err := add("Namespace "+n.Name, o); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// settingsOf are those for all gateways, and for those that there are.
func settingsOf(o importing.Options, theirs []*unstructured.Unstructured) importing.Options {
	names := map[string]bool{"": true}
	for _, u := range theirs {
		if u.GetKind() == "EgressGateway" {
			names[u.GetName()] = true
		}
	}
	for _, list := range []*[]importing.Setting{&o.Interfaces, &o.VLANs, &o.NextHops, &o.Nodes, &o.Addresses} {
		*list = slices.DeleteFunc(slices.Clone(*list), func(s importing.Setting) bool { return !names[s.Gateway] })
	}
	return o
}

// CheckOptions says what of options no gateway could have.
func CheckOptions(o importing.Options) error {
	names := map[string]bool{"any": true}
	for _, list := range [][]importing.Setting{o.Interfaces, o.VLANs, o.NextHops, o.Nodes, o.Addresses} {
		for _, s := range list {
			names[cmp.Or(s.Gateway, "any")] = true
		}
	}
	var gateways []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(names)) {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": Group + "/" + version, "kind": "EgressGateway"}}
		u.SetName(name)
		gateways = append(gateways, u)
	}
	given, err := objects(gateways, nil)
	if err == nil {
		_, err = importing.Convert(given, o)
	}
	if errors.As(err, new(importing.Needed)) {
		return nil
	}
	return err
}

// add takes over what became of theirs. Tools that own them by labels go on, and a gateway for policies without one is asked for each time.
func (w *wanted) add(r importing.Result) {
	for i := range r.Gateways {
		w.object(r, &r.Gateways[i])
	}
	for i := range r.Policies {
		w.object(r, &r.Policies[i])
	}
	for i := range r.ClusterPolicies {
		w.object(r, &r.ClusterPolicies[i])
	}
	for _, n := range r.Notes {
		if !strings.HasPrefix(n.Field, "metadata.") && n.Field != "clusterDefault" {
			w.notes = append(w.notes, n)
		}
	}
}

func (w *wanted) object(r importing.Result, o client.Object) {
	from := r.Origins(kindOf(o), metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()})
	o.SetLabels(map[string]string{Label: Group})
	o.SetAnnotations(map[string]string{Origins: strings.Join(from, ", ")})
	w.objects = append(w.objects, o)
}

// stale are objects that were made and are not wanted any more. One stays as it is while an object that it was made of is there and
// cannot be carried, or may be there: without it packets would leave by their nodes for a mistake in a field or a value of the chart.
func stale(have, objects []client.Object, theirs []*unstructured.Unstructured, absent map[string]bool) (gone []client.Object, left []importing.Note) {
	wanted, carried, there := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, w := range objects {
		wanted[nameOf(w)] = true
		for _, object := range originsOf(w) {
			carried[object] = true
		}
	}
	for _, u := range theirs {
		there[nameOf(u)] = u.GetDeletionTimestamp() == nil
	}
	for _, h := range have {
		if h.GetLabels()[Label] != Group || wanted[nameOf(h)] {
			continue
		}
		stays := false
		for _, object := range originsOf(h) {
			kind, _, _ := strings.Cut(object, " ")
			if there[object] && !carried[object] {
				left = append(left, importing.Note{Kind: importing.Differs, Object: object, Reason: "what was made of it before stays as it is"})
			}
			stays = stays || absent[kind] || there[object] && !carried[object]
		}
		if !stays {
			gone = append(gone, h)
		}
	}
	return gone, left
}

func originsOf(o client.Object) []string {
	text := o.GetAnnotations()[Origins]
	if o.GetLabels()[Label] != Group || text == "" {
		return nil
	}
	return strings.Split(text, ", ")
}

func kindOf(o client.Object) string {
	switch o := o.(type) {
	case *v1alpha1.EgressGateway:
		return "EgressGateway"
	case *v1alpha1.EgressPolicy:
		return "EgressPolicy"
	case *v1alpha1.ClusterEgressPolicy:
		return "ClusterEgressPolicy"
	case *unstructured.Unstructured:
		return o.GetKind()
	}
	return ""
}

// nameOf is an object as notes name it.
func nameOf(o client.Object) string {
	if o.GetNamespace() != "" {
		return kindOf(o) + " " + o.GetNamespace() + "/" + o.GetName()
	}
	return kindOf(o) + " " + o.GetName()
}

// policySpec is what policies of both kinds have, nil of others.
func policySpec(o client.Object) *v1alpha1.EgressPolicySpec {
	switch o := o.(type) {
	case *v1alpha1.EgressPolicy:
		return &o.Spec
	case *v1alpha1.ClusterEgressPolicy:
		return &o.Spec.EgressPolicySpec
	}
	return nil
}

func policyStatus(o client.Object) *v1alpha1.EgressPolicyStatus {
	switch o := o.(type) {
	case *v1alpha1.EgressPolicy:
		return &o.Status
	case *v1alpha1.ClusterEgressPolicy:
		return &o.Status
	}
	return nil
}
