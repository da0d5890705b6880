package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/internal/containers"
	"github.com/selvage/selvage/kube/internal/stages"
	"github.com/selvage/selvage/kube/test/guide"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// A pod's way is measured by what a user of the guide's roles may do. Where the pod's node does not lead its packets to the edge, and
// another one is shut for the instruments, the leak is the first line, and the stage that fails the next.
func TestKubectlStages(t *testing.T) {
	t.Parallel()
	built := buildPlugin(t)
	b := newManaged(t)
	defer b.dump()
	b.gateway()
	b.policy()
	b.programmed(2, "4/4")
	b.serving(3, 4)
	b.leaves(b.web1, "tcp", harness.Outside4, egress4)
	p := b.plugin(built())
	argv := []string{"stages", "web1", harness.Outside4.String(), "--server", "ns:" + b.out.Namespace, "--rounds", "1", "--slice", "200ms"}
	p.expect(t, 1, argv, "this user may not update pods/ephemeralcontainers in namespace shop, create pods/attach in namespace shop: bind the roles")
	b.Must(b.c.Create(b.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "stages", Namespace: "shop"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "kubectl-selvage-stages-pod", APIGroup: rbacv1.GroupName},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: release + "-user", Namespace: namespace}},
	}))
	b.runContainers(t)
	t.Run("healthy", func(t *testing.T) { p.healthyStages(t, argv) })
	t.Run("a leak", func(t *testing.T) { p.leakingStages(t, argv) })
	b.Fact("the pods on nodes are deleted", func() error {
		var list corev1.PodList
		if err := b.c.List(b.Ctx, &list, client.InNamespace(namespace), client.HasLabels{containers.Label}); err != nil || len(list.Items) > 0 {
			return errors.Join(err, fmt.Errorf("%d are there", len(list.Items)))
		}
		return nil
	})
}

// healthyStages are as the guide shows them, but for figures.
func (p *plugin) healthyStages(t *testing.T, argv []string) {
	said, status := p.says(argv...)
	t.Logf("status %d\n%s", status, said)
	if status != 0 || strings.Contains(said, "problem: ") || strings.Contains(said, "not known") || strings.Contains(said, "failed") || !strings.Contains(said, "no leak in 16 connections, and no stage fails") {
		t.Errorf("status %d", status)
	}
	shown := 0
	for _, c := range guide.Commands(t, "../../../docs/guide/kubernetes.md") {
		if strings.HasPrefix(c.Line, "kubectl selvage stages ") {
			shown++
			guide.InOrder(t, c.Line, c.Shown, said)
		}
	}
	if shown != 1 {
		t.Errorf("the guide shows %d commands", shown)
	}
}

// leakingStages are where nobody leads the pod's packets to the edge any more, and the port is shut at the gateway's node.
func (p *plugin) leakingStages(t *testing.T, argv []string) {
	h := p.Hosts[0]
	p.stops[h.Name]()
	_, err := h.Output(p.Ctx, "nft", "delete", "table", "inet", "selvage_egress")
	p.Must(err)
	p.Must(p.Hosts[2].Nft(p.Ctx, "shut", "table inet shut {\n\tchain in {\n\t\ttype filter hook input priority 0\n\t\ttcp dport 5300 reject with tcp reset\n\t}\n}"))
	p.leaves(p.web1, "tcp", harness.Outside4, p.Tep(1))
	said, status := p.says(append(argv, "-o", "json")...)
	_, text, _ := strings.Cut(said, "\n{")
	var r stages.Report
	if err := json.Unmarshal([]byte("{"+text), &r); err != nil || status != 1 {
		t.Fatalf("status %d, %v\n%s", status, err, said)
	}
	if want := "a leak: 16 of 16 connections of pod shop/web1 left with " + p.Tep(1).String() + " of the pod's node, which no policy gives it (expected 198.51.100.20)"; r.Summary != want || r.Leaks != 16 {
		t.Errorf("%d leaks: %s, want %s", r.Leaks, r.Summary, want)
	}
	if len(r.Problems) != 3 || r.Loses != stages.Node || !strings.HasPrefix(r.Problems[1], "stage node (node to gateway, "+p.Tep(3).String()+") fails: connect: ") || !strings.Contains(r.Problems[1], "connection refused") {
		t.Errorf("%s: %q", r.Loses, r.Problems)
	}
	for i, name := range []string{stages.Node, stages.Pod, stages.Gateway, stages.Egress} {
		s, fails := r.Stages[i], i < 2
		if s.Name != name || (s.Failed != "") != fails || !fails && (s.Throughput.Median <= 0 || s.RTT.Median <= 0 || s.Sent == 0 || s.Loss.N != 1) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// runContainers has the containers of stages run, as kubelets do, until the test ends.
func (b *managed) runContainers(t *testing.T) {
	for _, h := range b.Hosts {
		b.kubelets[h.Name].Attach = func(ctx context.Context, space, pod, container string, stdin io.Reader, stdout, _ io.Writer) error {
			return b.attached(ctx, h, client.ObjectKey{Namespace: space, Name: pod}, container, stdin, stdout)
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		next := time.NewTicker(50 * time.Millisecond)
		defer next.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-next.C:
				_ = b.sync(ctx) // of a conflict it is tried again
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// sync has containers that are to run be said to, and pods that are to be deleted go.
func (b *managed) sync(ctx context.Context) error {
	var list corev1.PodList
	if err := b.c.List(ctx, &list); err != nil {
		return err
	}
	now := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	for _, pod := range list.Items {
		if pod.Labels[containers.Label] != "" {
			if pod.DeletionTimestamp != nil {
				if err := b.c.Delete(ctx, &pod, client.GracePeriodSeconds(0)); err != nil {
					return err
				}
				continue
			}
			if pod.Status.Phase == corev1.PodRunning {
				continue
			}
			pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodRunning, []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, State: now}}
			if err := b.c.Status().Update(ctx, &pod); err != nil {
				return err
			}
		}
		if len(pod.Status.EphemeralContainerStatuses) < len(pod.Spec.EphemeralContainers) {
			pod.Status.EphemeralContainerStatuses = nil
			for _, c := range pod.Spec.EphemeralContainers {
				pod.Status.EphemeralContainerStatuses = append(pod.Status.EphemeralContainerStatuses, corev1.ContainerStatus{Name: c.Name, State: now})
			}
			if err := b.c.Status().Update(ctx, &pod); err != nil {
				return err
			}
		}
	}
	return nil
}

// attached is the main process of a container: the command that its object has, by this test's own program, in the network that the pod has.
func (b *managed) attached(ctx context.Context, h *topo.Host, key client.ObjectKey, container string, stdin io.Reader, stdout io.Writer) error {
	var pod corev1.Pod
	if err := b.c.Get(ctx, key, &pod); err != nil {
		return err
	}
	var argv []string
	for _, c := range pod.Spec.Containers {
		if c.Name == container {
			argv = c.Command
		}
	}
	for _, c := range pod.Spec.EphemeralContainers {
		if c.Name == container {
			argv = c.Command
		}
	}
	if len(argv) == 0 || argv[0] != "selvage-lab" {
		return fmt.Errorf("container %s has command %v", container, argv)
	}
	if !pod.Spec.HostNetwork {
		if key.Name != b.web1.Name || pod.Spec.NodeName != dut.EdgeName(h) {
			return fmt.Errorf("pod %s is not on node %s", key, h.Name)
		}
		h = b.web1.Host
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := h.Command(ctx, append([]string{self}, argv[1:]...)...)
	c.Stdin, c.Stdout = stdin, stdout
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}
