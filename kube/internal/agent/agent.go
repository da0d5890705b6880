package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/cni"
	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/internal/networks"
	"github.com/selvage/selvage/kube/internal/password"
	"github.com/selvage/selvage/kube/internal/plan"
)

// VerifyEach is how often the tables are looked at, also when nothing has changed.
const VerifyEach = 2 * time.Second

// Options are how an agent runs.
type Options struct {
	Name     string // of the node
	Settings plan.Settings
	Node     *Node
	// Host looks at the node's interfaces.
	Host func(endpoint netip.Addr) (plan.Host, error)
	// Socket and State are where the CNI plugin asks, and finds files while nobody answers; there is no plugin without.
	Socket, State string
	// Namespace is that of the release, where passwords of BGP are; none may be used without.
	Namespace string
	// Plugin is where the CNI plugin is kept; nowhere leaves that to others.
	Plugin cni.Place
	// Cilium is where Cilium's agent has its socket; it is not asked without.
	Cilium string
	// Metrics and Health are addresses to serve at; none without.
	Metrics, Health string
}

// Run has a node be what the API server says, until ctx ends.
func Run(ctx context.Context, by *rest.Config, o Options) error {
	scheme, err := controller.Scheme()
	if err != nil {
		return err
	}
	one := true
	own := func(field string) fields.Selector { return fields.OneTermEqualSelector(field, o.Name) }
	m, err := ctrl.NewManager(by, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: controller.OrNone(o.Metrics)},
		Cache: cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {Field: own("spec.nodeName"), Transform: controller.Slim}, &corev1.Node{}: {Transform: controller.Slim}, &v1alpha1.EgressNode{}: {Field: own("metadata.name")},
		}},
		Controller: config.Controller{SkipNameValidation: &one},
	})
	if err != nil {
		return fmt.Errorf("set the agent up: %w", err)
	}
	found := networks.New(m.GetRESTMapper(), m.GetCache())
	if o.Node.Bypass == nil {
		routing := &hostRouting{socket: o.Cilium, unasked: func(ctx context.Context) (bool, error) { return found.HasCilium(ctx, o.Name) }}
		o.Node.Bypass = routing.problem
	}
	a := &agent{Options: o, client: m.GetClient(), live: m.GetAPIReader(), networks: found, attachments: newAttachments(o.State)}
	// Without an API server the node is looked at as often as with one.
	b := builder.ControllerManagedBy(m).Named("node").WithOptions(ctrlcontroller.Options{
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, VerifyEach),
	})
	for _, object := range append(controller.Watched(), &corev1.Pod{}) {
		b = b.Watches(object, handler.EnqueueRequestsFromMapFunc(a.request), builder.WithPredicates(controller.Changed()))
	}
	if err := errors.Join(m.Add(manager.RunnableFunc(a.serveHealth)), m.Add(manager.RunnableFunc(found.Follow)), a.readPasswords(by, b), a.attachments.serve(m, b, a), b.Complete(a)); err != nil {
		return fmt.Errorf("set the agent up: %w", err)
	}
	defer a.secrets.Close()
	return m.Start(ctx)
}

type agent struct {
	Options
	client      client.Client
	live        client.Reader // past the cache
	here, left  bool          // it has come, or has left; neither at its start
	networks    *networks.Finder
	attachments *attachments
	secrets     *password.Secrets
	readiness   readiness
}

// request is the one that there is.
func (a *agent) request(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: a.Name}}}
}

// Reconcile implements reconcile.Reconciler.
func (a *agent) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	again := reconcile.Result{RequeueAfter: VerifyEach}
	if leaves, err := a.leaves(ctx); leaves || err != nil {
		a.readiness.set(err) // there is nothing to serve
		return again, err
	}
	held, unread := a.arrived(ctx)
	in, err := a.input(ctx)
	if err != nil {
		return reconcile.Result{}, errors.Join(unread, err)
	}
	planned := a.attachments.join(&in)
	lingering := a.Node.lingering(ctx, &in)
	unread = errors.Join(unread, a.selects(in)) // the node's tables do not wait for files of the plugin
	unread = errors.Join(unread, a.passwords(ctx, &in))
	p, err := plan.Make(in)
	if err != nil {
		return reconcile.Result{}, errors.Join(unread, err)
	}
	if lingering != nil { // the node stays as it is: pods that still run would leave by it
		a.readiness.set(lingering)
		return again, errors.Join(unread, lingering, a.write(ctx, p, Found{Failed: lingering.Error()}))
	}
	found := a.Node.Make(ctx, p)
	a.readiness.set(unserved(p, found))
	found.Conflicts = append(found.Conflicts, a.readiness.conflicts()...)
	waits, err := a.admitted(planned, held, p, found)
	if waits {
		again.RequeueAfter = waitEach
	}
	return again, errors.Join(unread, err, a.write(ctx, p, found))
}

// input is what the node's plan is made of.
func (a *agent) input(ctx context.Context) (plan.Input, error) {
	var (
		nodes      corev1.NodeList
		pods       corev1.PodList
		namespaces corev1.NamespaceList
		gateways   v1alpha1.EgressGatewayList
		policies   v1alpha1.EgressPolicyList
		cluster    v1alpha1.ClusterEgressPolicyList
	)
	for _, list := range []client.ObjectList{&nodes, &pods, &namespaces, &gateways, &policies, &cluster} {
		if err := a.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return plan.Input{}, fmt.Errorf("list %T: %w", list, err)
		}
	}
	in := Input(a.Name, pods.Items, &controller.Objects{
		Nodes: nodes.Items, Namespaces: namespaces.Items, Gateways: gateways.Items, Policies: policies.Items, ClusterPolicies: cluster.Items,
	})
	in.Settings = a.Settings
	var err error
	if len(in.Settings.Cluster) == 0 {
		in.Settings.Cluster, err = a.networks.Find(ctx, nodes.Items)
		switch {
		case errors.Is(err, networks.ErrUnknown):
			in.NetworksUnknown = err.Error()
		case err != nil:
			return in, err
		}
	}
	in.Host, err = a.Host(ownAddress(in))
	return in, err
}

// Input is what of a node's plan comes from objects: its own pods, and what is the same to all nodes.
func Input(node string, pods []corev1.Pod, o *controller.Objects) plan.Input {
	in := plan.Input{Node: node, Gateways: o.Gateways, Policies: o.Policies, ClusterPolicies: o.ClusterPolicies, Namespaces: map[string]labels.Set{}}
	for i := range o.Nodes {
		in.Nodes = append(in.Nodes, plan.NodeOf(&o.Nodes[i]))
	}
	for i := range o.Namespaces {
		in.Namespaces[o.Namespaces[i].Name] = o.Namespaces[i].Labels
	}
	for i := range pods {
		in.Pods = append(in.Pods, plan.PodOf(&pods[i]))
	}
	return in
}

// ownAddress is the node's first, the zero one when it has none.
func ownAddress(in plan.Input) netip.Addr {
	for _, n := range in.Nodes {
		if n.Name == in.Node && len(n.Addresses) > 0 {
			return n.Addresses[0]
		}
	}
	return netip.Addr{}
}

// write writes the node's object, if what it says has changed. What the cache has may be older than what this agent has written itself:
// then the object is fetched, so that nothing that was found goes untold.
func (a *agent) write(ctx context.Context, p plan.Plan, f Found) error {
	err := a.writeTo(ctx, a.client, p, f)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		err = a.writeTo(ctx, a.live, p, f)
	}
	if err != nil {
		return fmt.Errorf("EgressNode %s: %w", a.Name, err)
	}
	return nil
}

func (a *agent) writeTo(ctx context.Context, from client.Reader, p plan.Plan, f Found) error {
	var n v1alpha1.EgressNode
	err := from.Get(ctx, client.ObjectKey{Name: a.Name}, &n)
	if apierrors.IsNotFound(err) {
		if n, err = a.fresh(ctx); err == nil {
			err = a.client.Create(ctx, &n)
		}
	}
	if err != nil {
		return err
	}
	was := n.DeepCopy()
	n.Status = Report(a.Name, was.Status, p, f)
	if equality.Semantic.DeepEqual(was.Status, n.Status) {
		return nil
	}
	return a.client.Status().Patch(ctx, &n, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}))
}

// fresh goes with its node, by Kubernetes' garbage collector.
func (a *agent) fresh(ctx context.Context) (v1alpha1.EgressNode, error) {
	var node corev1.Node
	if err := a.client.Get(ctx, client.ObjectKey{Name: a.Name}, &node); err != nil {
		return v1alpha1.EgressNode{}, err
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	return v1alpha1.EgressNode{ObjectMeta: metav1.ObjectMeta{Name: a.Name, OwnerReferences: []metav1.OwnerReference{owner}}}, nil
}
