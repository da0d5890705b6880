package adopt

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/internal/importing"
	"github.com/selvage/selvage/kube/internal/importing/source"
)

var update = flag.Bool("update", false, "write what is expected anew")

// world is a cluster: their objects, and those of Selvage, of which the controller and a node's agent say what they would.
type world struct {
	t       *testing.T
	theirs  []*unstructured.Unstructured
	have    []client.Object
	spaces  []corev1.Namespace
	options importing.Options
	absent  map[string]bool // kinds
	notes   []importing.Note
	writes  int // of the last step
	totals  map[string][2]int64
}

func newWorld(t *testing.T, files ...string) *world {
	t.Helper()
	w := &world{t: t, options: importing.Options{
		Interfaces: []importing.Setting{{Value: "eth1"}}, NextHops: []importing.Setting{{Value: "203.0.113.1"}}, Addresses: []importing.Setting{{Gateway: "nodes", Value: "203.0.113.80/31"}},
	}}
	given, err := source.Files(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range given {
		u := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal(o.JSON, &u.Object); err != nil {
			t.Fatal(err)
		}
		if resources[u.GetKind()] != "" {
			w.theirs = append(w.theirs, u)
		}
	}
	return w
}

// step is one round of adoption, the controller and the agents.
func (w *world) step() {
	w.t.Helper()
	out, err := translate(input{theirs: w.theirs, namespaces: w.spaces, have: w.have, options: w.options})
	if err != nil {
		w.t.Fatal(err)
	}
	gone, left := stale(w.have, out.objects, w.theirs, w.absent)
	w.notes, w.writes = slices.Concat(out.notes, left), len(gone)
	w.have = slices.DeleteFunc(w.have, func(h client.Object) bool { return slices.Contains(gone, h) })
	w.take(out.objects)
	w.assess()
	for name, status := range statuses(w.theirs, w.have, w.totals) {
		u := w.their(name)
		was, _, _ := unstructured.NestedMap(u.Object, "status")
		if len(was)+len(status) > 0 && !reflect.DeepEqual(was, status) {
			w.writes++
			u.Object["status"] = status
		}
	}
}

// take makes objects and changes them, as keep does.
func (w *world) take(objects []client.Object) {
	for _, o := range objects {
		at := slices.IndexFunc(w.have, func(h client.Object) bool { return nameOf(h) == nameOf(o) })
		switch {
		case at < 0:
			w.writes++
			w.have = append(w.have, o)
		case changed(w.have[at], o) != nil:
			w.writes++
			w.have[at] = changed(w.have[at], o)
		}
	}
}

// assess has the first of two nodes of each gateway answer for all its addresses.
func (w *world) assess() {
	o := &controller.Objects{Pods: controller.NewPods()}
	for _, name := range []string{"n1", "n2"} {
		o.Nodes = append(o.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"example.org/egress": "partners"}}})
	}
	of := map[string][]string{}
	for _, h := range w.have {
		switch h := h.(type) {
		case *v1alpha1.EgressGateway:
			o.Gateways = append(o.Gateways, *h)
		case *v1alpha1.EgressPolicy:
			o.Policies = append(o.Policies, *h)
		case *v1alpha1.ClusterEgressPolicy:
			o.ClusterPolicies = append(o.ClusterPolicies, *h)
		}
		if spec := policySpec(h); spec != nil {
			of[spec.Gateway] = append(of[spec.Gateway], policyStatus(h).Addresses...)
		}
	}
	report := v1alpha1.EgressNode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	for _, gateway := range slices.Sorted(maps.Keys(of)) {
		report.Status.Gateways = append(report.Status.Gateways, v1alpha1.NodeGateway{
			Gateway: gateway, State: v1alpha1.Serving, Addresses: of[gateway], Others: []v1alpha1.GatewayNode{{Name: "n2", State: v1alpha1.Gone}},
		})
	}
	o.Nodes = append(o.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n3", Labels: map[string]string{"example.org/egress": "plain"}}})
	other := v1alpha1.EgressNode{ObjectMeta: metav1.ObjectMeta{Name: "n3"}, Status: v1alpha1.EgressNodeStatus{Gateways: []v1alpha1.NodeGateway{
		{Gateway: "nodes", State: v1alpha1.Serving, OwnAddresses: []string{"203.0.113.3"}},
	}}}
	o.EgressNodes = []v1alpha1.EgressNode{report, other}
	controller.Assess(o)
	w.totals, w.have = controller.Totals(o), nil
	for i := range o.Gateways {
		o.Gateways[i].Status.ObservedGeneration = 1
		w.have = append(w.have, &o.Gateways[i])
	}
	for i := range o.Policies {
		w.have = append(w.have, &o.Policies[i])
	}
	for i := range o.ClusterPolicies {
		w.have = append(w.have, &o.ClusterPolicies[i])
	}
}

// settles is the fact that nothing is written after some steps.
func (w *world) settles() {
	w.t.Helper()
	for range 6 {
		if w.step(); w.writes == 0 {
			return
		}
	}
	w.t.Fatal("it does not come to rest")
}

func (w *world) their(name string) *unstructured.Unstructured {
	w.t.Helper()
	for _, u := range w.theirs {
		if nameOf(u) == name {
			return u
		}
	}
	w.t.Fatalf("there is no %s", name)
	return nil
}

func (w *world) add(text string) {
	w.t.Helper()
	u := &unstructured.Unstructured{}
	out, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = utiljson.Unmarshal(out, &u.Object)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.theirs = append(w.theirs, u)
}

// eips are the addresses that the status of policies has.
func (w *world) eips() map[string]string {
	all := map[string]string{}
	for _, u := range w.theirs {
		if ip, _, _ := unstructured.NestedString(u.Object, "status", "eip", "ipv4"); ip != "" {
			all[nameOf(u)] = ip
		}
	}
	return all
}

// says looks for a note.
func (w *world) says(object, text string) {
	w.t.Helper()
	if !slices.ContainsFunc(w.notes, func(n importing.Note) bool { return n.Object == object && strings.Contains(n.String(), text) }) {
		w.t.Errorf("no note of %s says %q: %v", object, text, w.notes)
	}
}

const spidernet = "../importing/testdata/spidernet/in"

// What is made of their objects, and what their status is then.
func TestGolden(t *testing.T) {
	w := newWorld(t, spidernet)
	w.settles()
	var b strings.Builder
	for _, h := range w.have {
		spec := any(nil)
		switch h := h.(type) {
		case *v1alpha1.EgressGateway:
			spec = h.Spec
		case *v1alpha1.EgressPolicy:
			spec = h.Spec
		case *v1alpha1.ClusterEgressPolicy:
			spec = h.Spec
		}
		document(t, &b, nameOf(h), map[string]any{"labels": h.GetLabels(), "annotations": h.GetAnnotations(), "spec": spec})
	}
	for _, u := range w.theirs {
		document(t, &b, nameOf(u)+" of spidernet", map[string]any{"status": u.Object["status"]})
	}
	for _, n := range w.notes {
		fmt.Fprintf(&b, "# %s\n", n)
	}
	const file = "testdata/served.yaml"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil { //nolint:gosec // no secret
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != b.String() {
		t.Errorf("%v; with -update it is written anew:\n%s", err, b.String())
	}
}

func document(t *testing.T, b *strings.Builder, title string, o any) {
	t.Helper()
	text, err := json.Marshal(o)
	if err == nil {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(b, "---\n# %s\n%s", title, text)
}

// Addresses stay where they are, and so do policies, whatever is added, left out or changed later.
func TestAddressesStay(t *testing.T) {
	const added = `{apiVersion: egressgateway.spidernet.io/v1beta1, kind: EgressPolicy, metadata: {namespace: shop, name: aaa},
spec: {egressGatewayName: partners, appliedTo: {podSelector: {matchLabels: {app: aaa}}}%s}}`
	for name, c := range map[string]struct {
		change func(*world)
		want   map[string]string // of those that change
	}{
		"nothing": {func(*world) {}, nil},
		// It may share what it gets by default, and then it is one policy with those that have it, which keeps its name.
		"a new one with the default address": {func(w *world) { w.add(fmt.Sprintf(added, ", destSubnet: [198.51.100.0/24]")) }, map[string]string{"EgressPolicy shop/aaa": "203.0.113.50"}},
		"one that cannot share it":           {func(w *world) { w.add(fmt.Sprintf(added, "")) }, map[string]string{"EgressPolicy shop/aaa": "203.0.113.52"}},
		"one that shares what another has":   {func(w *world) { w.add(fmt.Sprintf(added, ", egressIP: {ipv4: 203.0.113.51}")) }, map[string]string{"EgressPolicy shop/aaa": "203.0.113.51"}},
		"another address is asked for": {func(w *world) {
			_ = unstructured.SetNestedField(w.their("EgressPolicy shop/billing").Object, "203.0.113.55", "spec", "egressIP", "ipv4")
		}, nil},
		"an interface is no longer named": {func(w *world) { w.options.Interfaces = nil }, nil},
		"the address of the one whose name the policy has": {func(w *world) {
			w.theirs = slices.DeleteFunc(w.theirs, func(u *unstructured.Unstructured) bool { return nameOf(u) == "EgressPolicy shop/web" })
		}, map[string]string{"EgressPolicy shop/web": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, spidernet)
			w.settles()
			want := w.eips()
			c.change(w)
			w.settles()
			maps.Copy(want, c.want)
			maps.DeleteFunc(want, func(_, ip string) bool { return ip == "" })
			if got := w.eips(); !maps.Equal(got, want) {
				t.Errorf("addresses are %v, want %v", got, want)
			}
		})
	}
}

// A policy that joins others does not take their place: the edge's segment of a policy is that of its object.
func TestNameStays(t *testing.T) {
	w := newWorld(t, spidernet)
	w.settles()
	w.add(`{apiVersion: egressgateway.spidernet.io/v1beta1, kind: EgressPolicy, metadata: {namespace: shop, name: aaa},
spec: {egressGatewayName: partners, appliedTo: {podSelector: {matchLabels: {app: aaa}}}, destSubnet: [198.51.100.0/24]}}`)
	w.settles()
	var with []string
	for _, h := range w.have {
		if from := originsOf(h); slices.Contains(from, "EgressPolicy shop/aaa") {
			with = append(with, nameOf(h)+": "+strings.Join(from, ", "))
		}
	}
	if want := []string{"EgressPolicy shop/web: EgressPolicy shop/web, EgressPolicy shop/aaa, EgressPolicy shop/worker"}; !slices.Equal(with, want) {
		t.Errorf("%v, want %v", with, want)
	}
}

// A policy that changes to another gateway leaves its address at the former one.
func TestAnotherGateway(t *testing.T) {
	w := newWorld(t, spidernet)
	w.settles()
	billing := w.their("EgressPolicy shop/billing")
	if err := unstructured.SetNestedField(billing.Object, "nodes", "spec", "egressGatewayName"); err != nil {
		t.Fatal(err)
	}
	w.settles()
	if got := w.eips()[nameOf(billing)]; got != "203.0.113.80" {
		t.Errorf("it has %s", got)
	}
}

// A gateway that lacks something does not keep others from being served, and nothing that serves is said of it.
func TestOneLacks(t *testing.T) {
	w := newWorld(t, spidernet)
	w.options.Interfaces[0].Gateway = "partners"
	w.settles()
	w.says("EgressGateway nodes", "it lacks the interface by which packets leave its nodes; name it in adopt.uplinkInterfaces of the chart")
	w.says("EgressClusterPolicy updates", "its gateway nodes is not among the objects, or is not carried")
	if got := w.eips()["EgressPolicy shop/billing"]; got != "203.0.113.51" {
		t.Errorf("billing has %s", got)
	}

	w = newWorld(t, spidernet)
	w.options.Interfaces[0].Gateway = "nodes"
	w.settles()
	w.says("EgressGateway partners", "it lacks the interface")
	nodes, _, _ := unstructured.NestedSlice(w.their("EgressGateway partners").Object, "status", "nodeList")
	for _, n := range nodes {
		if n.(map[string]any)["status"] != "Pending" {
			t.Errorf("%v", n)
		}
	}
	if node, _, _ := unstructured.NestedString(w.their("EgressPolicy shop/web").Object, "status", "node"); node != "" || len(nodes) == 0 {
		t.Errorf("policy of node %q, gateway of %v", node, nodes)
	}
	if got := w.eips()["EgressPolicy shop/web"]; got != "203.0.113.50" {
		t.Errorf("web has %s", got)
	}
}

// What was made stays while what it was made of is there, or may be: a mistake does not have packets leave by their nodes.
func TestMistakesKeep(t *testing.T) {
	names := func(w *world) (all []string) {
		for _, h := range w.have {
			all = append(all, nameOf(h))
		}
		slices.Sort(all)
		return all
	}
	for name, change := range map[string]func(*world){
		"a value of the chart": func(w *world) { w.options.Interfaces = nil },
		"a destination": func(w *world) {
			_ = unstructured.SetNestedStringSlice(w.their("EgressPolicy shop/billing").Object, []string{"everywhere"}, "spec", "destSubnet")
		},
		"the name of a gateway": func(w *world) {
			_ = unstructured.SetNestedField(w.their("EgressPolicy shop/billing").Object, "partner", "spec", "egressGatewayName")
		},
		"kinds are not served": func(w *world) {
			w.theirs, w.absent = nil, map[string]bool{"EgressGateway": true, "EgressPolicy": true, "EgressClusterPolicy": true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, spidernet)
			w.settles()
			want := names(w)
			change(w)
			w.settles()
			if got := names(w); !slices.Equal(got, want) {
				t.Errorf("there are %v, want %v", got, want)
			}
			if len(w.theirs) > 0 {
				w.says("EgressPolicy shop/billing", "what was made of it before stays as it is")
			}
		})
	}
	w := newWorld(t, spidernet)
	w.settles()
	w.theirs = nil
	if w.settles(); len(w.have) > 0 {
		t.Errorf("without theirs there are %v", names(w))
	}
}

// A namespace names the gateway of its policies that name none.
func TestNamespaceDefault(t *testing.T) {
	w := newWorld(t, spidernet)
	w.spaces = []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{importing.DefaultGatewayLabel: "nodes"}}}}
	w.settles()
	for _, h := range w.have {
		if nameOf(h) == "EgressPolicy shop/billing" && policySpec(h).Gateway != "nodes" {
			t.Errorf("%+v", policySpec(h))
		}
	}
}

// What users set of what theirs do not say stays.
func TestOwnFieldsStay(t *testing.T) {
	priority := int32(5)
	h := &v1alpha1.EgressPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"note": "mine"}}, Spec: v1alpha1.EgressPolicySpec{
		Gateway: "a", Priority: &priority, Mapping: v1alpha1.EndpointIndependent,
	}}
	w := &v1alpha1.EgressPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{Origins: "x"}}, Spec: v1alpha1.EgressPolicySpec{Gateway: "b"}}
	n := changed(h, w).(*v1alpha1.EgressPolicy)
	if *n.Spec.Priority != 5 || n.Spec.Mapping != v1alpha1.EndpointIndependent || n.Spec.Gateway != "b" || n.Annotations["note"] != "mine" || n.Annotations[Origins] != "x" {
		t.Errorf("%+v", n)
	}
	if again := changed(n, w); again != nil {
		t.Errorf("it changes again: %+v", again)
	}
}

// A thousand policies, of which a fifth shares the default address as far as one policy can say it.
func BenchmarkTranslate(b *testing.B) {
	var theirs []*unstructured.Unstructured
	add := func(kind, namespace, name string, spec map[string]any) {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": Group + "/" + version, "kind": kind, "spec": spec}}
		u.SetNamespace(namespace)
		u.SetName(name)
		theirs = append(theirs, u)
	}
	add("EgressGateway", "", "g", map[string]any{
		"ippools": map[string]any{"ipv4": []any{"10.9.0.0/16"}, "ipv4DefaultEIP": "10.9.0.1"}, "nodeSelector": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"e": "g"}}},
	})
	for i := range 1000 {
		ip := map[string]any{}
		if i%5 > 0 {
			ip["ipv4"] = fmt.Sprintf("10.9.%d.%d", 1+i/250, 1+i%250)
		}
		add("EgressPolicy", fmt.Sprint("ns", i%50), fmt.Sprint("p", i), map[string]any{
			"egressGatewayName": "g", "egressIP": ip, "appliedTo": map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": fmt.Sprint("app", i)}}},
		})
	}
	o := importing.Options{Interfaces: []importing.Setting{{Value: "eth1"}}, NextHops: []importing.Setting{{Value: "203.0.113.1"}}}
	for b.Loop() {
		if _, err := translate(input{theirs: theirs, options: o}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestDifference(t *testing.T) {
	was := map[string]any{"eip": map[string]any{"ipv4": "1", "ipv6": "2"}, "node": "a", "more": "x"}
	now := map[string]any{"eip": map[string]any{"ipv4": "3"}, "more": "x"}
	want := map[string]any{"eip": map[string]any{"ipv4": "3", "ipv6": nil}, "node": nil, "more": "x"}
	if got := difference(was, now); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestCheckOptions(t *testing.T) {
	set := func(gateway, value string) []importing.Setting {
		return []importing.Setting{{Gateway: gateway, Value: value}}
	}
	for want, o := range map[string]importing.Options{
		"":           {Interfaces: set("", "eth1"), NextHops: set("partners", "198.51.100.1"), VLANs: set("", "30"), Nodes: set("x", "a in (b)"), Addresses: set("", "198.51.100.0/24")},
		"VLAN":       {VLANs: set("partners", "5000")},
		"next hop":   {NextHops: set("partners", "router")},
		"nodes":      {Nodes: set("", "a in")},
		"address":    {Addresses: set("", "198.51.100")},
		"exception":  {Except: []string{"all"}},
		"interface ": {Interfaces: set("", "a-name-that-is-too-long")},
	} {
		err := CheckOptions(o)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || errors.As(err, new(importing.Needed)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
