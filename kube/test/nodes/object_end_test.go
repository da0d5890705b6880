package nodes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/kube/internal/agent"
	"github.com/selvage/selvage/test/e2e/harness"
)

// A pod whose object is gone, or says that it is over, keeps its address while it runs, also when the agent starts anew; then its
// address is free.
func TestObjectsEndBeforePods(t *testing.T) {
	t.Parallel()
	b := newManaged(t)
	defer b.dump()
	b.gateway()
	b.policy()
	b.programmed(2, "4/4")
	b.serving(3, 4)
	leaks := watchLeaks(b.cluster, b.Hosts[0], "u0", true)
	b.leaves(b.web1, "tcp", harness.Outside4, egress4)

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web1"}}
	b.Must(b.c.Get(b.Ctx, client.ObjectKeyFromObject(pod), pod))
	was := pod.DeepCopy()
	pod.Status.Phase = corev1.PodSucceeded
	b.Must(b.c.Status().Patch(b.Ctx, pod, client.MergeFrom(was)))
	b.programmed(1, "3/3")
	b.leaves(b.web1, "tcp", harness.Outside4, egress4)
	b.kubectl("delete", "pod", "-n", "shop", "web1", "--force", "--grace-period=0")
	b.stops[b.Hosts[0].Name]()
	b.start(b.Hosts[0])
	b.ready(1, 2, 3, 4)
	for range 3 {
		b.leaves(b.web1, "udp", harness.Outside4, egress4)
		wait(agent.VerifyEach)
	}
	if n := leaks.count.Load(); n != 0 {
		t.Errorf("%d packets left by the node", n)
	}
	b.Must(b.Hosts[0].Delete("vweb1"))
	b.Must(await.Within(b.Ctx, time.Minute, "the pod is gone", func() error {
		out, err := b.Hosts[0].Output(b.Ctx, "nft", "list", "tables")
		if strings.Contains(string(out), "selvage_egress") {
			return fmt.Errorf("it is steered")
		}
		return err
	}))
}
