package adopt

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/selvage/selvage/kube/internal/controller"
)

func cluster(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme, err := controller.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	byName := func(o client.Object) []string { return []string{o.GetName()} }
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithIndex(&coordinationv1.Lease{}, "metadata.name", byName).Build()
}

func lease(name string, renewed time.Time) *coordinationv1.Lease {
	who, lasts := "controller-x", int32(15)
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &who, LeaseDurationSeconds: &lasts, RenewTime: &metav1.MicroTime{Time: renewed},
	}}
}

// renew renews a lease each two seconds, as its holder does.
func renew(ctx context.Context, c client.Client, l *coordinationv1.Lease) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(2 * time.Second):
		}
		l.Spec.RenewTime = &metav1.MicroTime{Time: l.Spec.RenewTime.Add(2 * time.Second)} // by its own clock
		if c.Update(ctx, l) != nil {
			return
		}
	}
}

// Who runs there, and how long it takes to know: a lease that nobody renews is not held, whatever the clocks say.
func TestAlone(t *testing.T) {
	pod := func(phase corev1.PodPhase, name string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "p", Labels: map[string]string{theirPodLabel: name}}, Status: corev1.PodStatus{Phase: phase},
		}
	}
	for name, c := range map[string]struct {
		object  func() client.Object
		renewed bool
		refused string
		after   time.Duration
	}{
		"nobody":                     {func() client.Object { return &corev1.Node{} }, false, "", 0},
		"a pod":                      {func() client.Object { return pod(corev1.PodRunning, theirPodName) }, false, "pod kube-system/p", 0},
		"a pod that has ended":       {func() client.Object { return pod(corev1.PodSucceeded, theirPodName) }, false, "", 0},
		"somebody else's pod":        {func() client.Object { return pod(corev1.PodRunning, "selvage") }, false, "", 0},
		"a lease that is left":       {func() client.Object { return lease(theirLease, time.Now().Add(-2*time.Hour)) }, false, "", 15 * time.Second},
		"one of a clock behind":      {func() client.Object { return lease(theirLease, time.Now().Add(-2*time.Hour)) }, true, "its controller controller-x", 3 * time.Second},
		"one that may be held":       {func() client.Object { return lease(theirLease, time.Now().Add(-time.Minute)) }, false, "", 15 * time.Second},
		"one that is held":           {func() client.Object { return lease(theirLease, time.Now()) }, true, "its controller controller-x, which holds lease kube-system/" + theirLease, 3 * time.Second},
		"one of a clock that is off": {func() client.Object { return lease(theirLease, time.Now().Add(time.Hour)) }, true, "its controller controller-x", 3 * time.Second},
		"another lease":              {func() client.Object { return lease("kube-scheduler", time.Now()) }, true, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				o := c.object()
				o.SetName(nameOr(o, "n"))
				by := cluster(t, o)
				if l, is := o.(*coordinationv1.Lease); is && c.renewed {
					if err := by.Get(ctx, client.ObjectKeyFromObject(l), l); err != nil {
						t.Fatal(err)
					}
					go renew(ctx, by, l)
				}
				began := time.Now()
				_, err := alone(ctx, by)
				if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), "refused: of that project run "+c.refused) {
					t.Errorf("%v, want %q", err, c.refused)
				}
				if took := time.Since(began); took > c.after {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func nameOr(o client.Object, name string) string {
	if o.GetName() != "" {
		return o.GetName()
	}
	return name
}

// One that starts later is noticed.
func TestStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := cluster(t)
		n, err := alone(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- n.stays(ctx) }()
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(time.Minute):
		}
		l := lease(theirLease, time.Now())
		if err := c.Create(ctx, l); err != nil {
			t.Fatal(err)
		}
		go renew(ctx, c, l)
		began := time.Now()
		if err := <-ended; !errors.As(err, new(RefusedError)) || time.Since(began) > 2*lookAgain {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
