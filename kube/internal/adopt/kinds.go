package adopt

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/selvage/selvage/kube/internal/controller"
)

// Group is that of the kinds that are followed.
const Group = "egressgateway.spidernet.io"

const version = "v1beta1"

// resources of their kinds. What their agents need among themselves (EgressTunnel, slices of endpoints) nobody here does.
var resources = map[string]string{
	"EgressGateway": "egressgateways", "EgressPolicy": "egresspolicies", "EgressClusterPolicy": "egressclusterpolicies", "EgressClusterInfo": "egressclusterinfos",
}

func resourceOf(kind string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: version, Resource: resources[kind]}
}

// absentFor is how long a kind that the cluster does not have is not asked for again.
const absentFor = 3 * time.Second

// kinds are their objects, also of kinds that the cluster gets later. It is a source of controller-runtime.
type kinds struct {
	by dynamic.Interface

	mu     sync.Mutex
	wake   func()
	stores map[string]*store
}

// store is the objects of a kind, as client-go's Reflector fills it.
type store struct {
	toolscache.Store
	of     *kinds
	kind   string
	synced bool
	absent bool // by the last list
	none   bool // the list that comes next is that of a kind that the cluster does not have
}

func newKinds(by dynamic.Interface) *kinds {
	k := &kinds{by: by, wake: func() {}, stores: map[string]*store{}}
	for kind := range resources {
		k.stores[kind] = &store{Store: toolscache.NewStore(toolscache.MetaNamespaceKeyFunc), of: k, kind: kind}
	}
	return k
}

// all are the objects of all kinds, which are not to be changed, and the kinds that the cluster does not have; it is not ok while some
// are not known yet.
func (k *kinds) all() (list []*unstructured.Unstructured, absent map[string]bool, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	absent = map[string]bool{}
	for _, s := range k.stores {
		if !s.synced {
			return nil, nil, false
		}
		if s.absent {
			absent[s.kind] = true
		}
		for _, o := range s.List() {
			if u, is := o.(*unstructured.Unstructured); is {
				list = append(list, u)
			}
		}
	}
	return list, absent, true
}

// Start implements source.Source.
func (k *kinds) Start(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wake = func() { q.Add(controller.Everything) }
	k.wake()
	return nil
}

// follow keeps the stores up to date until ctx ends.
func (k *kinds) follow(ctx context.Context) error {
	var running sync.WaitGroup
	for kind, s := range k.stores {
		expected := &unstructured.Unstructured{}
		expected.SetGroupVersionKind(schema.GroupVersionKind{Group: Group, Version: version, Kind: kind})
		r := toolscache.NewReflectorWithOptions(s.source(k.by.Resource(resourceOf(kind))), expected, s, toolscache.ReflectorOptions{Name: kind + "." + Group})
		running.Go(func() { r.RunWithContext(ctx) })
	}
	running.Wait()
	return nil
}

// source lists and watches a kind. One that the cluster does not have has no objects, and is listed when the cluster has it: a watch alone
// would have one object after the other, and of those that come later nothing is known meanwhile.
func (s *store) source(of dynamic.NamespaceableResourceInterface) *toolscache.ListWatch {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := of.List(ctx, o)
			none := apierrors.IsNotFound(err)
			s.of.mu.Lock()
			s.none = none
			s.of.mu.Unlock()
			if none {
				return &unstructured.UnstructuredList{}, nil
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := of.Watch(ctx, o)
			s.of.mu.Lock()
			absent := s.absent
			s.of.mu.Unlock()
			switch none := apierrors.IsNotFound(err); {
			case o.SendInitialEvents != nil, err != nil && !none: // it is a list, or no answer
			case absent && none:
				return silent(ctx, absentFor), nil
			case absent || none: // this error has it listed at once, and is in no log
				if w != nil {
					w.Stop()
				}
				return nil, apierrors.NewResourceExpired("the cluster has the kind now, or no longer")
			}
			return w, err
		},
	}
}

// absence logs that the cluster does not have a kind, or has it now.
func (s *store) absence() {
	if s.absent == s.none {
		return
	}
	if s.absent = s.none; s.absent {
		slog.Warn("the cluster does not have the kind, and is asked again", "kind", s.kind+"."+Group, "every", absentFor)
	} else {
		slog.Info("the cluster has the kind now", "kind", s.kind+"."+Group)
	}
}

// silent is a watch in which nothing happens for some time.
func silent(ctx context.Context, d time.Duration) watch.Interface {
	events := make(chan watch.Event)
	w := watch.NewProxyWatcher(events)
	go func() {
		defer close(events)
		select {
		case <-ctx.Done():
		case <-w.StopChan():
		case <-time.After(d):
		}
	}()
	return w
}

// Add implements toolscache.ReflectorStore.
func (s *store) Add(o any) error { return s.change(func() error { return s.Store.Add(o) }) }

// Update implements it.
func (s *store) Update(o any) error { return s.change(func() error { return s.Store.Update(o) }) }

// Delete implements it.
func (s *store) Delete(o any) error { return s.change(func() error { return s.Store.Delete(o) }) }

// Replace implements it.
func (s *store) Replace(list []any, version string) error {
	return s.change(func() error {
		s.absence()
		s.synced, s.none = true, false
		return s.Store.Replace(list, version)
	})
}

func (s *store) change(do func() error) error {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	err := do()
	s.of.wake()
	return err
}
