package adopt

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/internal/importing"
)

// finalizer is one that their controller takes off a gateway that no policy names any more.
const finalizer = Group + "/egressgateway"

// Setup looks whether the other project runs, which is a RefusedError, and is what a controller runs besides. That ends with a RefusedError,
// too, when the other project starts later.
func Setup(ctx context.Context, by *rest.Config, o importing.Options) (func(manager.Manager) error, error) {
	scheme, err := controller.Scheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(by, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("set adoption up: %w", err)
	}
	dyn, err := dynamic.NewForConfig(by)
	if err != nil {
		return nil, fmt.Errorf("set adoption up: %w", err)
	}
	refuse := func(ctx context.Context, err error) error {
		var refused RefusedError
		if errors.As(err, &refused) {
			if failed := tellRefusal(ctx, c, dyn, refused); failed != nil {
				slog.Warn("no event says that adoption is refused", "err", failed)
			}
		}
		return err
	}
	n, err := alone(ctx, c)
	if err != nil {
		return nil, refuse(ctx, err)
	}
	return func(m manager.Manager) error {
		a := &adopter{client: m.GetClient(), by: dyn, kinds: newKinds(dyn), options: o}
		b := builder.ControllerManagedBy(m).Named("adopt").WatchesRawSource(a.kinds)
		for _, o := range []client.Object{&v1alpha1.EgressGateway{}, &v1alpha1.EgressPolicy{}, &v1alpha1.ClusterEgressPolicy{}, &corev1.Namespace{}} {
			b = b.Watches(o, controller.Enqueue(o), builder.WithPredicates(controller.Changed()))
		}
		err := errors.Join(m.Add(manager.RunnableFunc(a.kinds.follow)), m.Add(always(func(ctx context.Context) error { return refuse(ctx, n.stays(ctx)) })), b.Complete(a))
		if err != nil {
			return fmt.Errorf("set adoption up: %w", err)
		}
		return nil
	}, nil
}

// always runs also in a controller that does not hold the lease.
type always func(context.Context) error

// Start implements manager.Runnable.
func (f always) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (always) NeedLeaderElection() bool { return false }

type adopter struct {
	client  client.Client
	by      dynamic.Interface
	kinds   *kinds
	options importing.Options

	made string // of what, wanted was made
	wanted
	said map[importing.Note]bool
}

// Reconcile implements reconcile.Reconciler.
func (a *adopter) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	theirs, absent, ok := a.kinds.all()
	if !ok {
		return reconcile.Result{}, nil // Start or a store wakes it
	}
	have, namespaces, err := a.have(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := a.translate(theirs, namespaces, have); err != nil {
		return reconcile.Result{}, err
	}
	left, err := a.keep(ctx, theirs, have, absent)
	if err == nil {
		err = a.write(ctx, theirs, have)
	}
	return reconcile.Result{}, errors.Join(err, a.tell(ctx, theirs, slices.Concat(a.notes, left, refusals(have))))
}

// have are all objects of Selvage's kinds, in the order of their names, and the namespaces, out of the cache.
func (a *adopter) have(ctx context.Context) (all []client.Object, namespaces []corev1.Namespace, err error) {
	var (
		spaces   corev1.NamespaceList
		gateways v1alpha1.EgressGatewayList
		policies v1alpha1.EgressPolicyList
		cluster  v1alpha1.ClusterEgressPolicyList
	)
	for _, list := range []client.ObjectList{&spaces, &gateways, &policies, &cluster} {
		if err := a.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	for i := range gateways.Items {
		all = append(all, &gateways.Items[i])
	}
	for i := range policies.Items {
		all = append(all, &policies.Items[i])
	}
	for i := range cluster.Items {
		all = append(all, &cluster.Items[i])
	}
	slices.SortFunc(all, func(a, b client.Object) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return all, spaces.Items, nil
}

// translate makes what is wanted, if what it is made of has changed.
func (a *adopter) translate(theirs []*unstructured.Unstructured, namespaces []corev1.Namespace, have []client.Object) error {
	var from []string
	for _, u := range theirs {
		from = append(from, string(u.GetUID())+"@"+u.GetResourceVersion())
	}
	for i := range namespaces {
		if gateway := namespaces[i].Labels[importing.DefaultGatewayLabel]; gateway != "" {
			from = append(from, namespaces[i].Name+"="+gateway)
		}
	}
	for _, h := range have {
		if spec := policySpec(h); spec != nil && originsOf(h) != nil {
			from = append(from, nameOf(h)+">"+spec.Gateway+"<"+h.GetAnnotations()[Origins])
		}
	}
	slices.Sort(from)
	key := strings.Join(from, "\n")
	if key == a.made && a.made != "" {
		return nil
	}
	w, err := translate(input{theirs: theirs, namespaces: namespaces, have: have, options: a.options})
	if err != nil {
		return fmt.Errorf("objects of %s: %w", Group, err)
	}
	a.made, a.wanted = key, w
	return nil
}

// keep has the objects that were made be those that are wanted. Notes say what stays as it is: somebody's own, and what is stale but for
// an object that cannot be carried.
func (a *adopter) keep(ctx context.Context, theirs []*unstructured.Unstructured, have []client.Object, absent map[string]bool) (left []importing.Note, err error) {
	known := map[string]client.Object{}
	for _, h := range have {
		known[nameOf(h)] = h
	}
	gone, left := stale(have, a.objects, theirs, absent)
	var errs []error
	for _, h := range gone { // first, so that their addresses are free
		errs = append(errs, a.done("delete", h, a.client.Delete(ctx, h)))
	}
	for _, w := range a.objects {
		h := known[nameOf(w)]
		switch {
		case h == nil:
			o := w.DeepCopyObject().(client.Object) // the answer is written into it
			errs = append(errs, a.done("create", w, a.client.Create(ctx, o)))
		case h.GetLabels()[Label] != Group:
			for _, object := range originsOf(w) {
				left = append(left, importing.Note{
					Kind: importing.NotCarried, Object: object, Reason: "there is a " + nameOf(w) + " of selvage.dev that was not made of it",
					Do: "delete one of the two, or give that the label " + Label + "=" + Group,
				})
			}
		default:
			if now := changed(h, w); now != nil {
				lock := client.MergeFromWithOptions(h, client.MergeFromWithOptimisticLock{})
				errs = append(errs, a.done("change", h, a.client.Patch(ctx, now, lock)))
			}
		}
	}
	for _, u := range theirs {
		errs = append(errs, a.release(ctx, u, theirs))
	}
	return left, errors.Join(errs...)
}

// done is the error of a write. What is not as the cache has it comes by the watch.
func (a *adopter) done(what string, o client.Object, err error) error {
	switch {
	case err == nil:
		slog.Info(what+" an object that is adopted", "object", nameOf(o), "from", o.GetAnnotations()[Origins])
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
	default:
		return fmt.Errorf("%s %s: %w", what, nameOf(o), err)
	}
	return nil
}

// changed is an object as it has to be, nil when it is. What theirs do not say is as somebody has set it.
func changed(h, w client.Object) client.Object {
	n := h.DeepCopyObject().(client.Object)
	n.SetAnnotations(with(h.GetAnnotations(), w.GetAnnotations()))
	switch n := n.(type) {
	case *v1alpha1.EgressGateway:
		was := n.Spec
		n.Spec = *w.(*v1alpha1.EgressGateway).Spec.DeepCopy()
		n.Spec.Liveness, n.Spec.Replication = was.Liveness, was.Replication
	case *v1alpha1.ClusterEgressPolicy:
		n.Spec.Namespaces = w.(*v1alpha1.ClusterEgressPolicy).DeepCopy().Spec.Namespaces
	}
	if spec := policySpec(n); spec != nil {
		was := *spec
		*spec = *policySpec(w).DeepCopy()
		spec.Priority, spec.Mapping, spec.Limit = was.Priority, was.Mapping, was.Limit
	}
	if equality.Semantic.DeepEqual(h, n) {
		return nil
	}
	return n
}

func with(a, b map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range []map[string]string{a, b} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// release lets a gateway of theirs go that is deleted and that no policy names.
func (a *adopter) release(ctx context.Context, u *unstructured.Unstructured, theirs []*unstructured.Unstructured) error {
	if u.GetKind() != "EgressGateway" || u.GetDeletionTimestamp() == nil || !slices.Contains(u.GetFinalizers(), finalizer) {
		return nil
	}
	for _, p := range theirs {
		if name, _, _ := unstructured.NestedString(p.Object, "spec", "egressGatewayName"); name == u.GetName() {
			return nil
		}
	}
	left := slices.DeleteFunc(u.GetFinalizers(), func(f string) bool { return f == finalizer })
	return a.patch(ctx, u, map[string]any{"metadata": map[string]any{"finalizers": left}})
}

// write writes their status where it is another. Policies come first: an address that only a gateway's status has is then in theirs.
func (a *adopter) write(ctx context.Context, theirs []*unstructured.Unstructured, have []client.Object) error {
	theirs = slices.Clone(theirs)
	slices.SortFunc(theirs, func(x, y *unstructured.Unstructured) int {
		return cmp.Or(-cmp.Compare(x.GetKind(), y.GetKind()), strings.Compare(nameOf(x), nameOf(y))) // EgressPolicy, EgressGateway
	})
	totals, err := a.totals(ctx, have)
	if err != nil {
		return err
	}
	want, coming := statuses(theirs, have, totals), a.coming(have)
	for _, u := range theirs {
		now, is := want[nameOf(u)]
		is = is && !coming[nameOf(u)]
		was, _, _ := unstructured.NestedMap(u.Object, "status")
		if !is || len(was) == 0 && len(now) == 0 || equality.Semantic.DeepEqual(was, now) {
			continue
		}
		if err := a.patch(ctx, u, map[string]any{"status": difference(was, now)}, "status"); err != nil {
			return err
		}
	}
	return nil
}

// totals are how many addresses gateways can give out, by family.
func (a *adopter) totals(ctx context.Context, have []client.Object) (map[string][2]int64, error) {
	var (
		nodes   corev1.NodeList
		reports v1alpha1.EgressNodeList
	)
	for _, list := range []client.ObjectList{&nodes, &reports} {
		if err := a.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	o := controller.Objects{Nodes: nodes.Items, EgressNodes: reports.Items}
	for _, h := range have {
		if g, is := h.(*v1alpha1.EgressGateway); is {
			o.Gateways = append(o.Gateways, *g)
		}
	}
	return controller.Totals(&o), nil
}

// coming are those of theirs of which something is made that the cache does not have yet: nothing can be said of them.
func (a *adopter) coming(have []client.Object) map[string]bool {
	known, coming := map[string]bool{}, map[string]bool{}
	for _, h := range have {
		known[nameOf(h)] = true
	}
	for _, w := range a.objects {
		if known[nameOf(w)] {
			continue
		}
		for _, object := range originsOf(w) {
			coming[object] = true
		}
		if spec := policySpec(w); spec != nil {
			coming["EgressGateway "+spec.Gateway] = true
		}
	}
	return coming
}

// difference is what makes one the other (RFC 7396).
func difference(was, now map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range now {
		before, both := was[k].(map[string]any)
		if after, is := v.(map[string]any); is && both {
			v = difference(before, after)
		}
		out[k] = v
	}
	for k := range was {
		if _, stays := now[k]; !stays {
			out[k] = nil
		}
	}
	return out
}

// patch changes one of theirs, if it is still as it was seen.
func (a *adopter) patch(ctx context.Context, u *unstructured.Unstructured, change map[string]any, subresource ...string) error {
	m, _ := change["metadata"].(map[string]any)
	if m == nil {
		m = map[string]any{}
		change["metadata"] = m
	}
	m["resourceVersion"] = u.GetResourceVersion()
	text, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("%s: %w", nameOf(u), err)
	}
	_, err = a.by.Resource(resourceOf(u.GetKind())).Namespace(u.GetNamespace()).Patch(ctx, u.GetName(), types.MergePatchType, text, metav1.PatchOptions{}, subresource...)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the change comes by the watch
	}
	if err != nil {
		return fmt.Errorf("%s of %s: %w", nameOf(u), Group, err)
	}
	return nil
}

// refusals are the policies and gateways that were made of theirs and are not accepted.
func refusals(have []client.Object) (notes []importing.Note) {
	for _, h := range have {
		var conditions []metav1.Condition
		if g, is := h.(*v1alpha1.EgressGateway); is {
			conditions = g.Status.Conditions
		} else {
			conditions = policyStatus(h).Conditions
		}
		if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionAccepted); c != nil && c.Status == metav1.ConditionFalse {
			for _, object := range originsOf(h) {
				notes = append(notes, importing.Note{Kind: importing.NotCarried, Object: object, Reason: c.Reason + ": " + c.Message})
			}
		}
	}
	return notes
}
