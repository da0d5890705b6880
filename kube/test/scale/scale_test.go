package scale

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/test/apiserver"
	"github.com/selvage/selvage/test/tier"
)

// The controller stays small, also while pods come and go and when it starts with all there; it is quick to say what became of a
// change; and writes nothing while nothing changes.
func TestController(t *testing.T) {
	tier.Slow(t)
	s, rest, changes, most := size{nodes: 50, namespaces: 10, pods: 2000, gateways: 4, clusterPolicies: 2}, 2*time.Second, 5, int64(90e6)
	if tier.IsLong() {
		s, rest, changes, most = size{nodes: 1000, namespaces: 100, pods: 50_000, gateways: 20, clusterPolicies: 20}, 30*time.Second, 50, int64(300e6)
	}
	server, w := newWorld(t, s)
	program := build(t)

	began := time.Now()
	p := run(t, program, server)
	w.fact("all policies have addresses", w.allocated)
	t.Logf("addresses after %s: %s", since(began), p.use(t))
	w.agents()
	w.fact("all is programmed", w.programmed)
	t.Logf("programmed after %s: %s", since(began), p.use(t))

	w.rests(server, p, rest)
	w.replace()
	w.widen()
	w.agents()
	w.fact("all is programmed after a tenth of the pods was replaced", w.programmed)
	t.Logf("a tenth of the pods replaced: %s", p.use(t))
	w.labelled(changes)
	t.Logf("labels of %d pods changed: %s", changes, p.use(t))
	last := p.use(t)
	p.stop()

	w.label(w.unselected(1)[0], app(0))
	began = time.Now()
	p = run(t, program, server)
	w.fact("what changed while there was no controller", w.counted)
	w.agents()
	w.fact("all is programmed again", w.programmed)
	t.Logf("with all there after %s: %s", since(began), p.use(t))
	for _, u := range []use{last, p.use(t)} {
		if u.most > most {
			t.Errorf("the controller had %s, want %s at most", mb(u.most), mb(most))
		}
	}
	p.stop()
	w.agentIsSmall(server)
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }

// newWorld is a cluster with the chart and all objects.
func newWorld(t *testing.T, s size) (*apiserver.Server, *world) {
	t.Helper()
	server, err := apiserver.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := server.Run(t.Context(), "helm", "upgrade", "--install", release, chart, "--namespace", namespace, "--create-namespace"); err != nil {
		t.Fatal(err)
	}
	scheme, err := controller.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	by := server.Admin()
	by.QPS = -1 // as many as the server answers
	c, err := client.NewWithWatch(by, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{size: s, t: t, c: c}
	began := time.Now()
	w.fill()
	t.Logf("%d nodes, %d pods in %d namespaces, %d policies and %d gateways, made in %s",
		s.nodes, s.pods, s.namespaces, 2*s.namespaces+s.clusterPolicies, s.gateways, since(began))
	return server, w
}

// fact waits for something, a machine being busy.
func (w *world) fact(what string, try func() error) {
	w.t.Helper()
	if err := await.Within(w.t.Context(), 2*time.Minute, what, try); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) list(lists ...client.ObjectList) {
	w.t.Helper()
	for _, l := range lists {
		if err := w.c.List(w.t.Context(), l); err != nil {
			w.t.Fatal(err)
		}
	}
}

// policy is one of either kind, and what it selects.
type policy struct {
	client.Object
	spec   v1alpha1.EgressPolicySpec
	status v1alpha1.EgressPolicyStatus
	pods   int32 // that it has to have
}

func (w *world) all() (list []policy) {
	w.t.Helper()
	policies, cluster, namespaces := &v1alpha1.EgressPolicyList{}, &v1alpha1.ClusterEgressPolicyList{}, &corev1.NamespaceList{}
	w.list(policies, cluster, namespaces)
	labelled := map[string]string{}
	for _, n := range namespaces.Items {
		labelled[n.Name] = n.Labels["team"]
	}
	count := w.count()
	for i := range policies.Items {
		p := &policies.Items[i]
		one := policy{Object: p, spec: p.Spec, status: p.Status}
		for _, app := range p.Spec.Pods.MatchExpressions[0].Values {
			one.pods += count[p.Namespace+" "+app]
		}
		list = append(list, one)
	}
	for i := range cluster.Items {
		p := &cluster.Items[i]
		one := policy{Object: p, spec: p.Spec.EgressPolicySpec, status: p.Status}
		for namespace, label := range labelled {
			if label == p.Spec.Namespaces.MatchLabels["team"] {
				one.pods += count[namespace+" "+p.Spec.Pods.MatchExpressions[0].Values[0]]
			}
		}
		list = append(list, one)
	}
	return list
}

// count is how many pods a namespace's apps have.
func (w *world) count() map[string]int32 {
	count := map[string]int32{}
	for _, pods := range w.pods {
		for _, p := range pods {
			count[p.Namespace+" "+p.Labels["app"]]++
		}
	}
	return count
}

func (w *world) allocated() error {
	for _, p := range w.all() {
		if len(p.status.Addresses) == 0 || p.status.VNI == 0 {
			return fmt.Errorf("%s: %+v", client.ObjectKeyFromObject(p), p.status)
		}
	}
	return w.counted()
}

func (w *world) counted() error {
	for _, p := range w.all() {
		if p.status.Pods != p.pods {
			return fmt.Errorf("%s: it has %d pods, want %d", client.ObjectKeyFromObject(p), p.status.Pods, p.pods)
		}
	}
	return nil
}

func (w *world) programmed() error {
	for _, p := range w.all() {
		for _, c := range []string{v1alpha1.ConditionProgrammed, v1alpha1.ConditionServing} {
			if s := p.status; s.ObservedGeneration != p.GetGeneration() || !meta.IsStatusConditionTrue(s.Conditions, c) {
				return fmt.Errorf("%s is not %s: %+v", client.ObjectKeyFromObject(p), c, s)
			}
		}
	}
	return w.counted()
}

// rests is a time in which nothing changes: the controller writes nothing then but its lease.
func (w *world) rests(server *apiserver.Server, p *process, rest time.Duration) {
	w.t.Helper()
	writes := func(since time.Time) error {
		written, err := server.Writes(namespace, since)
		if len(written) > 0 {
			err = errors.Join(err, fmt.Errorf("written: %v", written))
		}
		return err
	}
	w.fact("the controller comes to rest", func() error {
		began := time.Now()
		<-time.After(time.Second)
		return writes(began)
	})
	began, before := time.Now(), p.use(w.t).cpu
	<-time.After(rest)
	after := p.use(w.t)
	w.t.Logf("at rest for %s: %s of CPU time, %s", rest, after.cpu-before, after)
	if err := writes(began); err != nil {
		w.t.Error(err)
	}
}

// widen has a policy select one more app.
func (w *world) widen() {
	w.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error { // the controller writes to it too
		p := &v1alpha1.EgressPolicy{}
		if err := w.c.Get(w.t.Context(), client.ObjectKey{Namespace: name("ns", 0), Name: name("policy", 1)}, p); err != nil {
			return err
		}
		p.Spec.Pods.MatchExpressions[0].Values = append(p.Spec.Pods.MatchExpressions[0].Values, app(6))
		return w.c.Update(w.t.Context(), p)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// unselected are pods that no policy has.
func (w *world) unselected(count int) (list []*corev1.Pod) {
	for _, pods := range w.pods {
		for _, p := range pods {
			if len(list) < count && p.Labels["app"] == app(pending) {
				list = append(list, &p)
			}
		}
	}
	return list
}

// label has a pod be of another app.
func (w *world) label(p *corev1.Pod, to string) {
	w.t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{"app":%q}}}`, to))
	if err := w.c.Patch(w.t.Context(), p, patch); err != nil {
		w.t.Fatal(err)
	}
	w.keep(p)
}

// labelled measures how long it takes from a pod's label to the status of its policy.
func (w *world) labelled(count int) {
	w.t.Helper()
	var took []time.Duration
	for _, pod := range w.unselected(count) {
		p := &v1alpha1.EgressPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: name("policy", 0)}}
		if err := w.c.Get(w.t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			w.t.Fatal(err)
		}
		was := p.Status.Pods
		watch, err := w.c.Watch(w.t.Context(), &v1alpha1.EgressPolicyList{}, client.InNamespace(pod.Namespace))
		if err != nil {
			w.t.Fatal(err)
		}
		w.label(pod, app(0))
		began := time.Now()
		for done := false; !done; {
			select {
			case e := <-watch.ResultChan():
				p, ok := e.Object.(*v1alpha1.EgressPolicy)
				done = ok && p.Name == name("policy", 0) && p.Status.Pods == was+1
			case <-time.After(await.Patience):
				w.t.Fatal(errors.New("the policy's status does not say that it has one more pod"))
			}
		}
		took = append(took, time.Since(began))
		watch.Stop()
	}
	slices.Sort(took)
	w.t.Logf("%d labels: the status says so after %s in the median, %s at most", len(took), took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
	if took[len(took)/2] > time.Second {
		w.t.Error("that is more than a second")
	}
}
