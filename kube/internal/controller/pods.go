package controller

import (
	"context"
	"maps"
	"net/netip"
	"sync"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metainternal "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/selvage/selvage/kube/internal/plan"
)

// settle is how long a change of what there is much of waits for others, which are then looked at with it.
const settle = 50 * time.Millisecond

// Pods are those of a cluster that have a network of their own. A cache of objects would have a kilobyte and more of each; here those that
// are alike to policies, as a ReplicaSet's are, share all but their name and node, and are looked at once.
//
// It is the store of a client-go Reflector, and a source of controller-runtime.
type Pods struct {
	synced  chan struct{}
	syncing sync.Once

	mu    sync.RWMutex
	wake  func()                                     // who waits for changes of what counts
	alike map[string]map[unique.Handle[class]]*alike // by namespace
	of    map[types.NamespacedName]*alike
}

// class is what pods have in common that are alike.
type class struct {
	namespace, account, labels string
	families                   plan.Families // of their addresses
}

// alike are the pods of a class.
type alike struct {
	class  unique.Handle[class]
	labels labels.Set
	on     map[string]int // pods by node
	nodes  map[string]unique.Handle[string]
}

// brief is what is kept of a pod.
type brief struct {
	name   string
	class  unique.Handle[class]
	node   unique.Handle[string]
	leaves bool
}

// NewPods has none yet.
func NewPods() *Pods {
	return &Pods{synced: make(chan struct{}), wake: func() {}, alike: map[string]map[unique.Handle[class]]*alike{}, of: map[types.NamespacedName]*alike{}}
}

func briefOf(p *corev1.Pod) *brief {
	var has plan.Families
	for _, ip := range p.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			has[plan.Family(a)] = true
		}
	}
	// Labels have no comma and no "=", so that the text is those of one set alone.
	return &brief{
		name: p.Name, node: unique.Make(p.Spec.NodeName), leaves: leaves(p),
		class: unique.Make(class{p.Namespace, p.Spec.ServiceAccountName, labels.Set(p.Labels).String(), has}),
	}
}

// GetObjectMeta implements metav1.ObjectMetaAccessor.
func (b *brief) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: b.class.Value().namespace, Name: b.name}
}

// GetObjectKind implements runtime.Object.
func (b *brief) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements it.
func (b *brief) DeepCopyObject() runtime.Object { c := *b; return &c }

// transform makes pods brief.
func transform(o any) (any, error) {
	if p, is := o.(*corev1.Pod); is {
		return briefOf(p), nil
	}
	return o, nil
}

// Transformer implements toolscache.TransformingStore: nothing has all pods of the cluster as they are, also at the start.
func (s *Pods) Transformer() toolscache.TransformFunc { return transform }

// Add implements toolscache.ReflectorStore.
func (s *Pods) Add(o any) error { return s.Update(o) }

// Update implements it.
func (s *Pods) Update(o any) error {
	s.change(o, func(b *brief) bool { return s.put(b) })
	return nil
}

// Delete implements it.
func (s *Pods) Delete(o any) error {
	s.change(o, func(b *brief) bool {
		return s.remove(types.NamespacedName{Namespace: b.class.Value().namespace, Name: b.name})
	})
	return nil
}

// change wakes only when a change is one.
func (s *Pods) change(o any, do func(*brief) bool) {
	o, _ = transform(o)
	b, is := o.(*brief)
	if !is {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if do(b) {
		s.wake()
	}
}

// Replace implements it.
func (s *Pods) Replace(list []any, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.alike)
	clear(s.of)
	for _, o := range list {
		o, _ := transform(o)
		if b, is := o.(*brief); is {
			s.put(b)
		}
	}
	s.syncing.Do(func() { close(s.synced) })
	s.wake()
	return nil
}

// Resync implements it.
func (s *Pods) Resync() error { return nil }

func (s *Pods) put(b *brief) (changed bool) {
	of := b.class.Value()
	key := types.NamespacedName{Namespace: of.namespace, Name: b.name}
	if !b.leaves {
		return s.remove(key)
	}
	if a := s.of[key]; a != nil && a.class == b.class && a.nodes[b.name] == b.node {
		return false
	}
	s.remove(key)
	within := s.alike[of.namespace]
	if within == nil {
		within = map[unique.Handle[class]]*alike{}
		s.alike[of.namespace] = within
	}
	a := within[b.class]
	if a == nil {
		set, err := labels.ConvertSelectorToLabelsMap(of.labels)
		if err != nil {
			return false // it is what String said of a set, which the API server has let in
		}
		a = &alike{class: b.class, labels: set, on: map[string]int{}, nodes: map[string]unique.Handle[string]{}}
		within[b.class] = a
	}
	s.of[key] = a
	a.nodes[b.name] = b.node
	a.on[b.node.Value()]++
	return true
}

func (s *Pods) remove(key types.NamespacedName) bool {
	a := s.of[key]
	if a == nil {
		return false
	}
	delete(s.of, key)
	node := a.nodes[key.Name].Value()
	delete(a.nodes, key.Name)
	if a.on[node]--; a.on[node] == 0 {
		delete(a.on, node)
	}
	if within := s.alike[key.Namespace]; len(a.nodes) == 0 {
		if delete(within, a.class); len(within) == 0 {
			delete(s.alike, key.Namespace)
		}
	}
	return true
}

// first is the first by name.
func (a *alike) first() string {
	first := ""
	for name := range maps.Keys(a.nodes) {
		if first == "" || name < first {
			first = name
		}
	}
	return a.class.Value().namespace + "/" + first
}

// reflect keeps the store up to date until ctx ends.
func (s *Pods) reflect(by *rest.Config) (func(context.Context) error, error) {
	config := rest.CopyConfig(by)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	cs, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	all := cs.CoreV1().Pods(metav1.NamespaceAll)
	from := &toolscache.ListWatch{
		// An API server that does not stream its list has it in pages of its own, since none of all pods would be small.
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.ResourceVersion == "0" {
				o.ResourceVersion = ""
			}
			page, err := all.List(ctx, o)
			if err != nil {
				return nil, err
			}
			out := &metainternal.List{ListMeta: page.ListMeta}
			for i := range page.Items {
				out.Items = append(out.Items, briefOf(&page.Items[i]))
			}
			return out, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return all.Watch(ctx, o) },
	}
	r := toolscache.NewReflectorWithOptions(from, &corev1.Pod{}, s, toolscache.ReflectorOptions{Name: "pods"})
	return func(ctx context.Context) error { r.RunWithContext(ctx); return nil }, nil
}

// Start implements source.Source.
func (s *Pods) Start(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake = func() { q.AddAfter(Everything, settle) }
	s.wake() // what came before
	return nil
}

// WaitForSync implements source.SyncingSource.
func (s *Pods) WaitForSync(ctx context.Context) error {
	select {
	case <-s.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
