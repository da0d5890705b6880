package nodes

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/kube/internal/hold"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/test/tier"
)

// manyAtOnce: all pods of a node ask at once, as when it comes back. Each is in the tables, those
// that were not within the plugin's patience when they ask again.
func (r *kubelet) manyAtOnce(t *testing.T) {
	count := 110 // the kubelet's default
	if tier.IsLong() {
		count = hold.Most - 20
	}
	var pods []*corev1.Pod
	var asks []hold.Attachment
	for i := range count {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("many%d", i), Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{NodeName: dut.EdgeName(r.node), Containers: []corev1.Container{{Name: "app", Image: "none"}}},
		}
		r.Must(r.c.Create(r.Ctx, pod))
		pods = append(pods, pod)
		address := netip.MustParseAddr(fmt.Sprintf("fd00:1:0:0:8000::%x", 0x1000+i))
		asks = append(asks, hold.Attachment{ID: pod.Name, Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Addresses: []netip.Addr{address}})
	}
	agent := r.agents[r.node.Name]
	defer func() { // as the plugin's DEL and the kubelet do
		zero := int64(0)
		for _, pod := range pods {
			r.Must(hold.Files{Folder: agent.State}.Drop(pod.Name))
			r.Must(client.IgnoreNotFound(r.c.Delete(r.Ctx, pod, &client.DeleteOptions{GracePeriodSeconds: &zero})))
		}
	}()
	var wait sync.WaitGroup
	took, late := make([]time.Duration, count), make([]error, count)
	began := time.Now()
	for i, a := range asks {
		wait.Go(func() {
			late[i] = r.askUntilProgrammed(agent.Socket, a)
			took[i] = time.Since(began)
		})
	}
	wait.Wait()
	if err := errors.Join(late...); err != nil {
		t.Fatal(err)
	}
	slices.Sort(took)
	t.Logf("%d questions at once: the tables had the pod after %s in the median, %s at most", count, took[count/2].Round(time.Millisecond), took[count-1].Round(time.Millisecond))
}

// askUntilProgrammed asks as the plugin does, again when there was no answer in time.
func (r *kubelet) askUntilProgrammed(socket string, a hold.Attachment) error {
	return await.Within(r.Ctx, time.Minute, a.Name+" in the tables", func() error {
		ctx, cancel := context.WithTimeout(r.Ctx, hold.Patience)
		defer cancel()
		answer, err := hold.Ask(ctx, socket, a)
		if err == nil && answer.State != hold.Programmed {
			err = fmt.Errorf("%s: %s", answer.State, answer.Message)
		}
		return err
	})
}
