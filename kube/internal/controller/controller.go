package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/chart"
)

// Options are how a controller runs.
type Options struct {
	// LeaseNamespace is where controllers agree on who works; without one there is only this one.
	LeaseNamespace string
	// Metrics is an address to serve metrics at; none without.
	Metrics string
	// Health is an address to serve /healthz and /readyz at; none without.
	Health string
	// Also adds what else runs while this controller works.
	Also []func(manager.Manager) error
}

// Scheme knows the kinds that the controller and agents use.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(clientgoscheme.AddToScheme(s), v1alpha1.AddToScheme(s))
}

// Lease is the name of the one by which several controllers agree on who works. The chart's roles have it too.
const Lease = "selvage-kube"

// Run has the status of gateways and policies be what Assess says, until ctx ends.
func Run(ctx context.Context, by *rest.Config, o Options) error {
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	one := true
	m, err := ctrl.NewManager(by, ctrl.Options{
		Scheme: scheme, LeaderElection: o.LeaseNamespace != "", LeaderElectionID: Lease, LeaderElectionNamespace: o.LeaseNamespace, LeaderElectionReleaseOnCancel: true,
		Metrics: server.Options{BindAddress: OrNone(o.Metrics)}, HealthProbeBindAddress: OrNone(o.Health),
		Cache:      cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: map[client.Object]cache.ByObject{&corev1.Node{}: {Transform: Slim}}},
		Controller: config.Controller{SkipNameValidation: &one},
	})
	if err != nil {
		return fmt.Errorf("set the controller up: %w", err)
	}
	pods := NewPods()
	reflect, err := pods.reflect(by)
	if err != nil {
		return fmt.Errorf("set the controller up: %w", err)
	}
	r := &reconciler{client: m.GetClient(), events: m.GetEventRecorder("selvage-kube"), pods: pods}
	b := builder.ControllerManagedBy(m).Named("egress").WatchesRawSource(pods)
	for _, o := range Watched() {
		b = b.Watches(o, Enqueue(o), builder.WithPredicates(Changed()))
	}
	probes := errors.Join(m.AddHealthzCheck("ping", healthz.Ping), m.AddReadyzCheck("ping", healthz.Ping))
	if err := errors.Join(probes, m.Add(manager.RunnableFunc(reflect)), b.Complete(r)); err != nil {
		return fmt.Errorf("set the controller up: %w", err)
	}
	if err := chart.Older(ctx, by); err != nil {
		slog.Error("kinds are not those of this version", "err", err)
	}
	for _, add := range o.Also {
		if err := add(m); err != nil {
			return err
		}
	}
	return m.Start(ctx)
}

// Watched are objects of the kinds by which a plan changes, but pods.
func Watched() []client.Object {
	return []client.Object{
		&v1alpha1.EgressGateway{}, &v1alpha1.EgressPolicy{}, &v1alpha1.ClusterEgressPolicy{}, &v1alpha1.EgressNode{}, &corev1.Node{}, &corev1.Namespace{},
	}
}

// Changed is true of changes that say something new. Much that kubelets write of nodes and pods, as that they still live, is in no cache.
func Changed() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		if e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() {
			return false
		}
		switch was := e.ObjectOld.(type) {
		case *corev1.Node:
			same := *was
			same.ResourceVersion = e.ObjectNew.GetResourceVersion()
			return !equality.Semantic.DeepEqual(&same, e.ObjectNew)
		case *corev1.Pod:
			same := *was
			same.ResourceVersion = e.ObjectNew.GetResourceVersion()
			return !equality.Semantic.DeepEqual(&same, e.ObjectNew)
		}
		return true
	}}
}

// Enqueue has an object's changes be looked at: at once what users write, and with others what there may be much of.
func Enqueue(o client.Object) handler.EventHandler {
	add := func(q workqueue.TypedRateLimitingInterface[reconcile.Request]) { q.AddAfter(Everything, settle) }
	switch o.(type) {
	case *v1alpha1.EgressGateway, *v1alpha1.EgressPolicy, *v1alpha1.ClusterEgressPolicy:
		add = func(q workqueue.TypedRateLimitingInterface[reconcile.Request]) { q.Add(Everything) }
	}
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q queue) { add(q) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q queue) { add(q) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q queue) { add(q) },
	}
}

// OrNone is the address of a listener as controller-runtime has it.
func OrNone(address string) string {
	if address == "" {
		return "0"
	}
	return address
}

// Everything is the one request there is: what changes in the meantime is looked at once.
var Everything = reconcile.Request{NamespacedName: types.NamespacedName{Name: "everything"}}

// Slim leaves of pods and nodes what is looked at, so that many fit into memory.
func Slim(o any) (any, error) {
	switch o := o.(type) {
	case *corev1.Pod:
		return &corev1.Pod{
			ObjectMeta: slimMeta(o.ObjectMeta),
			Spec:       corev1.PodSpec{NodeName: o.Spec.NodeName, ServiceAccountName: o.Spec.ServiceAccountName, HostNetwork: o.Spec.HostNetwork},
			Status:     corev1.PodStatus{Phase: o.Status.Phase, PodIPs: o.Status.PodIPs},
		}, nil
	case *corev1.Node:
		meta := slimMeta(o.ObjectMeta)
		meta.CreationTimestamp = o.CreationTimestamp
		n := &corev1.Node{ObjectMeta: meta, Spec: corev1.NodeSpec{PodCIDRs: o.Spec.PodCIDRs}, Status: corev1.NodeStatus{Addresses: o.Status.Addresses}}
		for _, c := range o.Status.Conditions {
			if c.Type == corev1.NodeReady { // its time of a heartbeat is of no interest
				n.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
			}
		}
		return n, nil
	}
	return o, nil
}

func slimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Labels: m.Labels}
}

type reconciler struct {
	client client.Client
	events events.EventRecorder
	pods   *Pods
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	was, err := r.objects(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	now := was.copied()
	Assess(now)
	var errs []error
	for i := range now.Gateways {
		errs = append(errs, r.write(ctx, &was.Gateways[i], &now.Gateways[i], was.Gateways[i].Status, now.Gateways[i].Status, was.Gateways[i].Status.Conditions, now.Gateways[i].Status.Conditions))
	}
	for i := range now.Policies {
		errs = append(errs, r.write(ctx, &was.Policies[i], &now.Policies[i], was.Policies[i].Status, now.Policies[i].Status, was.Policies[i].Status.Conditions, now.Policies[i].Status.Conditions))
	}
	for i := range now.ClusterPolicies {
		errs = append(errs, r.write(ctx, &was.ClusterPolicies[i], &now.ClusterPolicies[i], was.ClusterPolicies[i].Status, now.ClusterPolicies[i].Status, was.ClusterPolicies[i].Status.Conditions, now.ClusterPolicies[i].Status.Conditions))
	}
	return reconcile.Result{}, errors.Join(errs...)
}

// objects are those of the cache, which are not to be changed.
func (r *reconciler) objects(ctx context.Context) (*Objects, error) {
	var (
		nodes      corev1.NodeList
		namespaces corev1.NamespaceList
		gateways   v1alpha1.EgressGatewayList
		policies   v1alpha1.EgressPolicyList
		cluster    v1alpha1.ClusterEgressPolicyList
		reports    v1alpha1.EgressNodeList
	)
	for _, list := range []client.ObjectList{&nodes, &namespaces, &gateways, &policies, &cluster, &reports} {
		if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	return &Objects{
		Nodes: nodes.Items, Pods: r.pods, Namespaces: namespaces.Items, Gateways: gateways.Items, Policies: policies.Items, ClusterPolicies: cluster.Items, EgressNodes: reports.Items,
	}, nil
}

// copied is the same with copies of what Assess writes to.
func (o *Objects) copied() *Objects {
	c := *o
	c.Gateways, c.Policies, c.ClusterPolicies = copies(o.Gateways), copies(o.Policies), copies(o.ClusterPolicies)
	return &c
}

func copies[T any, P interface {
	*T
	DeepCopy() *T
}](list []T) []T {
	out := make([]T, len(list))
	for i := range list {
		out[i] = *P(&list[i]).DeepCopy()
	}
	return out
}

// write writes the status of an object if it has changed, and tells of conditions that have.
func (r *reconciler) write(ctx context.Context, before, o client.Object, was, now any, had, has []metav1.Condition) error {
	if equality.Semantic.DeepEqual(was, now) {
		return nil
	}
	err := r.client.Status().Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // the change comes by the watch
	case err != nil:
		return fmt.Errorf("status of %T %s: %w", o, client.ObjectKeyFromObject(o), err)
	}
	for _, c := range has {
		if old := meta.FindStatusCondition(had, c.Type); old != nil && old.Status == c.Status && old.Reason == c.Reason {
			continue
		}
		kind := corev1.EventTypeNormal
		if c.Status != metav1.ConditionTrue {
			kind = corev1.EventTypeWarning
		}
		text := c.Type
		if c.Message != "" {
			text += ": " + c.Message
		}
		r.events.Eventf(o, nil, kind, c.Reason, c.Type, "%s", Note(text, cut))
	}
	return nil
}
