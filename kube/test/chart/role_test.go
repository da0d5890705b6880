package chart

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/agent"
	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/internal/plan"
	"github.com/selvage/selvage/test/tier"
)

// patience is for an API server that takes back, and gives, what others have.
const patience = 40 * time.Second

// runs runs something until the test ends.
func runs(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// as is how a service account of the chart reaches the API server.
func as(t *testing.T, account string, of *corev1.Pod) (*rest.Config, client.Client) {
	t.Helper()
	config, err := server.As(t.Context(), namespace, release+"-"+account, of)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return config, c
}

func create(t *testing.T, o client.Object) {
	t.Helper()
	if err := admin.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(admin.Delete(context.WithoutCancel(t.Context()), o)); err != nil {
			t.Error(err)
		}
	})
}

// objects are a gateway and policies, so that there is something to say of them.
func objects(t *testing.T) (accepted *v1alpha1.EgressPolicy, refused *v1alpha1.ClusterEgressPolicy) {
	t.Helper()
	g := &v1alpha1.EgressGateway{ObjectMeta: metav1.ObjectMeta{Name: "g"}, Spec: v1alpha1.EgressGatewaySpec{
		Addresses: []v1alpha1.AddressRange{"198.51.100.16/28"}, Uplink: v1alpha1.Uplink{Interface: "eth1", NextHops: []string{"198.51.100.1"}},
	}}
	accepted = &v1alpha1.EgressPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: v1alpha1.EgressPolicySpec{Gateway: "g"}}
	refused = &v1alpha1.ClusterEgressPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	refused.Spec.Gateway = "nowhere"
	for _, o := range []client.Object{g, accepted, refused} {
		create(t, o)
	}
	return accepted, refused
}

// The controller runs with the rights that the chart gives it; it is refused nothing, and there is no right that it does not use.
func TestControllerRole(t *testing.T) {
	tier.Slow(t)
	ctx := t.Context()
	before := asked(t)
	config, own := as(t, "controller", nil)
	runs(t, func(ctx context.Context) error {
		return controller.Run(ctx, config, controller.Options{LeaseNamespace: namespace})
	})
	p, cluster := objects(t)
	if err := await.Within(ctx, patience, "the controller's answer", func() error {
		err := errors.Join(admin.Get(ctx, client.ObjectKeyFromObject(p), p), admin.Get(ctx, client.ObjectKeyFromObject(cluster), cluster))
		if err == nil && (len(p.Status.Addresses) == 0 || !meta.IsStatusConditionFalse(cluster.Status.Conditions, v1alpha1.ConditionAccepted)) {
			err = fmt.Errorf("%+v, %+v", p.Status, cluster.Status)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	// Not in each run: an event that repeats itself, a lease that is held longer, an API server that does not stream lists.
	used(t, before, "controller", "patch events.k8s.io/events", "patch /events", "list ")
	refuses(t, map[string]error{
		"makes a node":         own.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}),
		"reads secrets":        own.List(ctx, &corev1.SecretList{}),
		"changes a policy":     own.Update(ctx, p),
		"deletes a policy":     own.Delete(ctx, p),
		"writes for an agent":  own.Create(ctx, &v1alpha1.EgressNode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}),
		"gives itself a role":  own.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "more"}}),
		"reads configurations": own.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "x"}, &corev1.ConfigMap{}),
	})
}

// An agent too, and it writes the EgressNode of its own node alone. It has no edge here, and says so.
func TestAgentRole(t *testing.T) {
	tier.Slow(t)
	ctx := t.Context()
	before := asked(t)
	config, own := as(t, "agent", pod)
	nobody, dir := errors.New("there is no node"), t.TempDir()
	runs(t, func(ctx context.Context) error {
		return agent.Run(ctx, config, agent.Options{
			Name: node,
			Node: &agent.Node{Edge: api.Dial(dir, "nobody"), File: filepath.Join(dir, "edge.yaml"), Within: func(func() error) error { return nobody }},
			Host: func(netip.Addr) (plan.Host, error) { return plan.Host{Underlay: "eth0"}, nil },
		})
	})
	n := &v1alpha1.EgressNode{}
	says := func(reason string) {
		t.Helper()
		if err := await.Within(ctx, patience, "the agent's answer", func() error {
			if err := admin.Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
				return err
			}
			if c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Reason != reason || !strings.Contains(c.Message, nobody.Error()) {
				return fmt.Errorf("%+v", n.Status)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	says("Failed")
	for _, leave := range []bool{true, false} {
		change := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"leave":%t}}`, leave))
		if err := admin.Patch(ctx, n, change); err != nil {
			t.Fatal(err)
		}
		says(map[bool]string{true: v1alpha1.ReasonLeaving, false: "Failed"}[leave])
	}
	if len(n.OwnerReferences) != 1 || n.OwnerReferences[0].Name != node {
		t.Errorf("it stays without its node: %+v", n.OwnerReferences)
	}
	// Calico and Cilium are not here, and no pod starts; the object that the cache has not yet is asked for by itself.
	used(t, before, "agent", "list ", "watch crd.projectcalico.org/ippools", "watch cilium.io/ciliumnodes", "watch cilium.io/ciliumpodippools", "get selvage.dev/egressnodes", "get /pods", "get /namespaces")
	other := &v1alpha1.EgressNode{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}
	if err := await.Within(ctx, patience, "the admission policy to be in force", func() error {
		err := own.Create(ctx, other.DeepCopy(), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "an agent writes the EgressNode of its own node") {
			return fmt.Errorf("%w: the EgressNode of another node may be made", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	create(t, other) // an administrator may
	change := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"version":"1"}}`))
	refuses(t, map[string]error{
		"writes for another node": own.Status().Patch(ctx, other, change),
		"deletes its EgressNode":  own.Delete(ctx, n),
		"changes its spec":        own.Patch(ctx, n.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"leave":true}}`))),
		"makes one with a spec":   own.Create(ctx, &v1alpha1.EgressNode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: v1alpha1.EgressNodeSpec{Leave: true}}),
		"changes its node":        own.Update(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}),
		"reads secrets":           own.List(ctx, &corev1.SecretList{}),
		"makes a policy":          own.Create(ctx, &v1alpha1.EgressPolicy{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default"}}),
		"deletes a pod":           own.Delete(ctx, pod),
	})
}

// refuses is the fact that the API server does.
func refuses(t *testing.T, list map[string]error) {
	t.Helper()
	for what, err := range list {
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("it %s: %v", what, err)
		}
	}
}

// asked is how many requests the API server has had.
func asked(t *testing.T) int {
	t.Helper()
	requests, err := server.Requests()
	if err != nil {
		t.Fatal(err)
	}
	return len(requests)
}

// used waits until an account has used, after so many requests, each right that the chart gives it, but those that begin with one of
// seldom, and fails if it was refused something.
func used(t *testing.T, before int, account string, seldom ...string) {
	t.Helper()
	needed := rights(t, account)
	maps.DeleteFunc(needed, func(right string, _ bool) bool {
		return slices.ContainsFunc(seldom, func(s string) bool { return strings.HasPrefix(right, s) })
	})
	if err := await.Within(t.Context(), patience, "use of all rights", func() error {
		requests, err := server.Requests()
		if err != nil {
			return err
		}
		unused := maps.Clone(needed)
		for _, r := range requests[before:] {
			if r.User.Username != "system:serviceaccount:"+namespace+":"+release+"-"+account || r.ObjectRef.Resource == "" {
				continue
			}
			if r.ResponseStatus.Code == 403 {
				t.Errorf("refused: %s %s", r.Verb, r.RequestURI)
			}
			delete(unused, right(r.Verb, r.ObjectRef.APIGroup, strings.TrimSuffix(r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource, "/")))
		}
		if len(unused) > 0 {
			return fmt.Errorf("unused: %v", slices.Sorted(maps.Keys(unused)))
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func right(verb, group, resource string) string { return verb + " " + group + "/" + resource }

// rights are those of an account's roles.
func rights(t *testing.T, account string) map[string]bool {
	t.Helper()
	var (
		cluster rbacv1.ClusterRole
		role    rbacv1.Role
	)
	if err := errors.Join(
		admin.Get(t.Context(), client.ObjectKey{Name: namespace + "-" + release + "-" + account}, &cluster),
		client.IgnoreNotFound(admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: release + "-" + account}, &role)),
	); err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, rule := range append(cluster.Rules, role.Rules...) {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					out[right(verb, group, resource)] = true
				}
			}
		}
	}
	return out
}
