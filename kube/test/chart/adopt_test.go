package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/adopt"
	"github.com/selvage/selvage/kube/internal/agent"
	"github.com/selvage/selvage/kube/internal/commandline"
	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/internal/importing"
	"github.com/selvage/selvage/kube/internal/plan"
	"github.com/selvage/selvage/test/tier"
)

const (
	theirKinds   = "testdata/egressgateway-crds.yaml"
	theirObjects = "testdata/egressgateway.yaml"
	adoptValues  = `adopt={"egressgateway":true,"uplinkInterfaces":["eth1"],"nextHops":["198.51.100.1"]}`
)

var adoptOptions = importing.Options{
	Interfaces: []importing.Setting{{Value: "eth1"}}, NextHops: []importing.Setting{{Value: "198.51.100.1"}},
}

// Objects of EgressGateway (spidernet) are served as they are, with the addresses that they had, and their status says so; with the rights
// of the chart, each of which is used. Kinds that the cluster gets later are no failure, and nothing is written at rest.
func TestAdopt(t *testing.T) {
	tier.Slow(t)
	ctx := t.Context()
	adoptChart(t)
	ownLease(t)
	before := asked(t)
	config, _ := as(t, "controller", nil)

	stop := adopts(t, config)
	accepted, _ := objects(t)
	fact(t, "own policies without their kinds", func() error {
		err := admin.Get(ctx, client.ObjectKeyFromObject(accepted), accepted)
		if err == nil && len(accepted.Status.Addresses) == 0 {
			err = fmt.Errorf("%+v", accepted.Status)
		}
		return err
	})
	installKinds(t)
	early := theirs(t)[0]
	create(t, early)
	g := &v1alpha1.EgressGateway{}
	fact(t, "a gateway of a kind that came later", func() error { return admin.Get(ctx, client.ObjectKey{Name: "partners"}, g) })
	if err := admin.Delete(ctx, early); err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{early, g} {
		fact(t, "a gateway that is deleted goes", func() error { return gone(admin.Get(ctx, client.ObjectKeyFromObject(o), o)) })
	}
	stop()

	all := map[string]*unstructured.Unstructured{}
	for _, u := range theirs(t) {
		all[u.GetKind()+" "+u.GetName()] = u
		status := u.Object["status"]
		create(t, u)
		if u.Object["status"] = status; status != nil {
			if err := admin.Status().Update(ctx, u); err != nil {
				t.Fatal(err)
			}
		}
	}
	labelNode(t, "example.org/egress", "partners")
	stop = adopts(t, config)
	defer stop()
	served(t)
	rests(t, 2*time.Second)
	changes(t, all)
	used(t, before, "controller", "patch events.k8s.io/events", "patch /events", "list ")
}

// adoptChart has the chart have the value until the test ends.
func adoptChart(t *testing.T) {
	t.Helper()
	if _, err := upgrade(t.Context(), adoptValues); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := upgrade(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// adopts runs a controller until the test ends or it is to stop.
func adopts(t *testing.T, config *rest.Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	add, err := adopt.Setup(ctx, config, adoptOptions)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- controller.Run(ctx, config, controller.Options{LeaseNamespace: namespace, Also: []func(manager.Manager) error{add}})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// installKinds has the API server know their kinds until the test ends.
func installKinds(t *testing.T) {
	t.Helper()
	if err := server.Apply(t.Context(), theirKinds); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		u := theirs(t)[0] // nobody takes its finalizer off now
		free := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		if err := client.IgnoreNotFound(admin.Patch(ctx, u, free)); err != nil {
			t.Error(err)
		}
		if _, err := server.Run(ctx, "kubectl", "delete", "-f", theirKinds, "--timeout=30s"); err != nil {
			t.Error(err)
		}
	})
}

// theirs are the objects of the file, the gateway first.
func theirs(t *testing.T) (all []*unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile(theirObjects)
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := decoder.Decode(&u.Object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, u)
	}
}

func fact(t *testing.T, what string, try func() error) {
	t.Helper()
	if err := await.Within(t.Context(), patience, what, try); err != nil {
		t.Fatal(err)
	}
}

// gone is no error when an object is not there.
func gone(err error) error {
	if err == nil {
		return errors.New("it is still there")
	}
	return client.IgnoreNotFound(err)
}

// labelNode gives the node of the package a label until the test ends.
func labelNode(t *testing.T, key, value string) {
	t.Helper()
	for _, label := range []string{key + "=" + value, key + "-"} {
		set := func() {
			if _, err := server.Run(context.WithoutCancel(t.Context()), "kubectl", "label", "node", node, label); err != nil {
				t.Error(err)
			}
		}
		if label == key+"-" {
			t.Cleanup(set)
		} else {
			set()
		}
	}
}

// addresses are those that policies have to have: of their own status, of their gateway's, or of the pool.
var addresses = map[string]string{"default/web": "198.51.100.21", "default/billing": "198.51.100.23", "mail": "198.51.100.22", "new": "198.51.100.20"}

// served waits until the plan of the node has all addresses, is its agent, and waits until their status says what that reports.
func served(t *testing.T) {
	t.Helper()
	o := &controller.Objects{}
	fact(t, "a plan with the addresses that they had", func() error {
		o = listed(t)
		p, err := plan.Make(planInput(o))
		for policy, address := range addresses {
			if err == nil && !strings.Contains(string(p.Edge), address) {
				err = fmt.Errorf("policy %s: %s is not in\n%s", policy, address, p.Edge)
			}
		}
		return err
	})
	n := &v1alpha1.EgressNode{ObjectMeta: metav1.ObjectMeta{Name: node}}
	create(t, n)
	n.Status.Gateways = []v1alpha1.NodeGateway{{Gateway: "partners", State: v1alpha1.Serving, Addresses: slices.Sorted(maps.Values(addresses))}}
	if err := admin.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	fact(t, "what kubectl shows of theirs", func() error {
		return errors.Join(
			shows(t, "egp -n default", []string{"NAME", "GATEWAY", "IPV4", "IPV6", "EGRESSNODE"},
				[]string{"billing", "partners", "198.51.100.23", node}, []string{"subnet", "partners", "198.51.100.29"}, []string{"web", "partners", "198.51.100.21", node}),
			shows(t, "egcp", []string{"NAME", "GATEWAY", "IPV4", "IPV6", "EGRESSNODE"},
				[]string{"mail", "partners", "198.51.100.22", node}, []string{"new", "partners", "198.51.100.20", node}),
			shows(t, "egw", []string{"NAME", "CLUSTERDEFAULT", "IPV4TOTAL", "IPV4FREE"}, []string{"partners", "10", "6"}),
		)
	})
	u := theirs(t)[0]
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
		t.Fatal(err)
	}
	eip := func(address, namespace, name string) any {
		policy := map[string]any{"name": name}
		if namespace != "" {
			policy["namespace"] = namespace
		}
		return map[string]any{"ipv4": address, "policies": []any{policy}}
	}
	nodes, _, _ := unstructured.NestedSlice(u.Object, "status", "nodeList")
	want := []any{map[string]any{"name": node, "status": "Ready", "eips": []any{
		eip("198.51.100.22", "", "mail"), eip("198.51.100.20", "", "new"), eip("198.51.100.23", "default", "billing"), eip("198.51.100.21", "default", "web"),
	}}}
	if !reflect.DeepEqual(nodes, want) {
		t.Errorf("nodes of the gateway are\n%v, want\n%v", nodes, want)
	}
	var mail v1alpha1.ClusterEgressPolicy
	if err := admin.Get(t.Context(), client.ObjectKey{Name: "mail"}, &mail); err != nil || !slices.Equal(mail.Spec.Except, []v1alpha1.Network{"192.0.2.128/25"}) {
		t.Errorf("networks of the EgressClusterInfo: %v %+v", err, mail.Spec)
	}
}

// listed is what the API server has for plans.
func listed(t *testing.T) *controller.Objects {
	t.Helper()
	nodes, namespaces := &corev1.NodeList{}, &corev1.NamespaceList{}
	gateways, policies, cluster := &v1alpha1.EgressGatewayList{}, &v1alpha1.EgressPolicyList{}, &v1alpha1.ClusterEgressPolicyList{}
	for _, l := range []client.ObjectList{nodes, namespaces, gateways, policies, cluster} {
		if err := admin.List(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	return &controller.Objects{Nodes: nodes.Items, Namespaces: namespaces.Items, Gateways: gateways.Items, Policies: policies.Items, ClusterPolicies: cluster.Items}
}

func planInput(o *controller.Objects) plan.Input {
	in := agent.Input(node, nil, o)
	in.Settings = plan.Settings{Cluster: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}, LinkUp: plan.DefaultLinkPair}
	in.Host = plan.Host{Underlay: "eth0", Uplinks: map[string][]netip.Prefix{"eth1": {netip.MustParsePrefix("198.51.100.2/24")}}}
	return in
}

// shows compares the words of each line of kubectl get.
func shows(t *testing.T, what string, want ...[]string) error {
	t.Helper()
	out, err := server.Run(t.Context(), "kubectl", append([]string{"get"}, strings.Fields(what)...)...)
	var got [][]string
	for line := range strings.Lines(out) {
		got = append(got, strings.Fields(line))
	}
	if err == nil && !reflect.DeepEqual(got, want) {
		err = fmt.Errorf("kubectl get %s:\n%swant %v", what, out, want)
	}
	return err
}

// rests is the fact that the controller comes to rest and then writes nothing.
func rests(t *testing.T, rest time.Duration) {
	t.Helper()
	writes := func(since time.Time) error {
		written, err := server.Writes(namespace, since)
		if len(written) > 0 {
			err = errors.Join(err, fmt.Errorf("written: %v", written))
		}
		return err
	}
	fact(t, "the controller comes to rest", func() error {
		began := time.Now()
		<-time.After(time.Second)
		return writes(began)
	})
	began := time.Now()
	<-time.After(rest)
	if err := writes(began); err != nil {
		t.Error(err)
	}
}

// changes of theirs are followed, and what cannot be is told of: somebody's own policy stays as it is.
func changes(t *testing.T, all map[string]*unstructured.Unstructured) {
	t.Helper()
	ctx := t.Context()
	web, gateway := all["EgressPolicy web"], all["EgressGateway partners"]
	set(t, web, []string{"203.0.113.0/25"}, "spec", "destSubnet")
	set(t, gateway, []string{"198.51.100.20-198.51.100.28", "198.51.100.40"}, "spec", "ippools", "ipv4")
	made := &v1alpha1.EgressPolicy{}
	fact(t, "a change of a policy", func() error {
		err := admin.Get(ctx, client.ObjectKeyFromObject(web), made)
		if err == nil && (!slices.Equal(made.Spec.To, []v1alpha1.Network{"203.0.113.0/25"}) || made.Status.AddressList != "198.51.100.21") {
			err = fmt.Errorf("%+v %+v", made.Spec, made.Status)
		}
		return err
	})
	g := &v1alpha1.EgressGateway{}
	fact(t, "a change of a gateway", func() error {
		err := admin.Get(ctx, client.ObjectKeyFromObject(gateway), g)
		if err == nil && !slices.Equal(g.Spec.Addresses, []v1alpha1.AddressRange{"198.51.100.20-198.51.100.28", "198.51.100.40"}) {
			err = fmt.Errorf("%+v", g.Spec)
		}
		return err
	})
	for theirs, ours := range map[string]client.Object{"EgressPolicy billing": made, "EgressClusterPolicy new": &v1alpha1.ClusterEgressPolicy{}} {
		u := all[theirs]
		if err := admin.Delete(ctx, u); err != nil {
			t.Fatal(err)
		}
		fact(t, "a policy that is deleted goes", func() error { return gone(admin.Get(ctx, client.ObjectKeyFromObject(u), ours)) })
	}

	own := &v1alpha1.EgressPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "own"}, Spec: v1alpha1.EgressPolicySpec{Gateway: "g"}}
	create(t, own)
	rival := web.DeepCopy()
	rival.SetName("own")
	rival.SetResourceVersion("")
	create(t, rival)
	for object, want := range map[string]string{
		"EgressPolicy own": "of selvage.dev that was not made of it", "EgressPolicy subnet": "it has no podSelector", "EgressPolicy web": "priority 100 is not carried",
	} {
		fact(t, "an event", func() error { return hasEvent(t, object, want) })
	}
	if err := admin.Get(ctx, client.ObjectKeyFromObject(own), own); err != nil || own.Spec.Gateway != "g" {
		t.Errorf("somebody's own policy is %+v %v", own.Spec, err)
	}
}

// set gives one of theirs another list.
func set(t *testing.T, u *unstructured.Unstructured, list []string, path ...string) {
	t.Helper()
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
			return err
		}
		return errors.Join(unstructured.SetNestedStringSlice(u.Object, list, path...), admin.Update(t.Context(), u))
	}); err != nil {
		t.Fatal(err)
	}
}

// hasEvent looks for an event of one of theirs.
func hasEvent(t *testing.T, object, note string) error {
	t.Helper()
	var list eventsv1.EventList
	if err := admin.List(t.Context(), &list); err != nil {
		return err
	}
	for _, e := range list.Items {
		if e.Regarding.Kind+" "+e.Regarding.Name == object && e.Regarding.APIVersion == "egressgateway.spidernet.io/v1beta1" && strings.Contains(e.Note, note) {
			return nil
		}
	}
	return fmt.Errorf("no event of %s says %q", object, note)
}

// Beside the other project's agents, or its controller, which holds a lease, the program refuses, and says so.
func TestAdoptRefused(t *testing.T) {
	tier.Slow(t)
	ctx, program := t.Context(), build(t)
	adoptChart(t)
	installKinds(t)
	gateway := theirs(t)[0]
	gateway.SetFinalizers(nil)
	create(t, gateway)
	var d appsv1.Deployment
	if err := admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: release + "-controller"}, &d); err != nil {
		t.Fatal(err)
	}
	refused := func(by string) {
		t.Helper()
		out, err := runPod(t, program, "controller", nil, d.Spec.Template.Spec, "--health=")
		var status *exec.ExitError
		if !errors.As(err, &status) || status.ExitCode() != commandline.ExitRefused || !strings.Contains(out, "is refused: of that project run "+by) {
			t.Errorf("%v: %s", err, out)
		}
		if err := hasEvent(t, "EgressGateway partners", "is refused: of that project run "+by); err != nil {
			t.Error(err)
		}
	}
	agents := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "egressgateway-agent-x", Labels: map[string]string{"app.kubernetes.io/name": "egressgateway"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	create(t, agents)
	refused("pod default/egressgateway-agent-x")
	if err := admin.Delete(ctx, agents, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}

	who, lasts := "egressgateway-controller-x", int32(15)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "spider-egress-gateway"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &who, LeaseDurationSeconds: &lasts, RenewTime: &metav1.MicroTime{Time: time.Now()}},
	}
	create(t, lease)
	runs(t, func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(300 * time.Millisecond):
			}
			lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
			if err := admin.Update(ctx, lease); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
	})
	refused("its controller egressgateway-controller-x, which holds lease default/spider-egress-gateway")
}
