package adopt

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// A kind that the API server does not have for a while is absent, and then all its objects are there at once.
func TestKindsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := map[schema.GroupVersionResource]string{}
		for kind := range resources {
			lists[resourceOf(kind)] = kind + "List"
		}
		var objects []runtime.Object
		for i := range 3 {
			u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": Group + "/" + version, "kind": "EgressClusterPolicy"}}
			u.SetName(fmt.Sprint("p", i))
			objects = append(objects, u)
		}
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...)
		var none atomic.Bool
		none.Store(true)
		missing := func(a clienttesting.Action) error {
			return apierrors.NewNotFound(a.GetResource().GroupResource(), "")
		}
		client.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) { return none.Load(), nil, missing(a) })
		client.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
			switch {
			case none.Load():
				return true, nil, missing(a)
			case a.(clienttesting.WatchActionImpl).ListOptions.SendInitialEvents != nil:
				return true, nil, apierrors.NewBadRequest("lists are not streamed")
			}
			return true, silent(t.Context(), 2*absentFor), nil // watches end, so that it is noticed when the kind goes
		})
		k := newKinds(client)
		seen := map[string]bool{}
		k.wake = func() { // with the lock held
			s := k.stores["EgressClusterPolicy"]
			if !s.synced {
				return
			}
			seen[fmt.Sprintf("%d objects, absent %t", len(s.List()), s.absent)] = true
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- k.follow(ctx) }()
		is := func(objects int, absent bool) {
			t.Helper()
			list, kinds, ok := k.all()
			if !ok || len(list) != objects || len(kinds) != map[bool]int{true: len(resources)}[absent] {
				t.Errorf("%d objects, absent %v, known %t", len(list), kinds, ok)
			}
		}
		const long = 5 * time.Minute
		<-time.After(long)
		is(0, true)
		none.Store(false)
		<-time.After(long)
		is(3, false)
		none.Store(true)
		<-time.After(long)
		is(0, true)
		none.Store(false)
		<-time.After(long)
		is(3, false)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for state := range seen {
			if state != "3 objects, absent false" && state != "0 objects, absent true" {
				t.Errorf("for a while there were %s", state)
			}
		}
	})
}
