package chart

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/test/apiserver"
	"github.com/selvage/selvage/test/tier"
)

// checked is a node of TestCheck alone.
const checked = "checked"

// helm test runs the chart's pod, which says what is not ready, with few rights that go with it. The test is the kubelet of that pod, and
// writes what an agent and the DaemonSet's controller would.
func TestCheck(t *testing.T) {
	tier.Slow(t)
	ctx := t.Context()
	program := build(t)
	ownLease(t)
	config, _ := as(t, "controller", nil)
	ports, err := apiserver.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	health := fmt.Sprintf("127.0.0.1:%d", ports[0])
	runs(t, func(ctx context.Context) error {
		return controller.Run(ctx, config, controller.Options{LeaseNamespace: namespace, Health: health})
	})
	probed(t, health)
	before := asked(t)
	ready := agentOf(t)

	mend := older(t, "egressnodes", `{"op": "remove", "path": "%s/status/properties/version"}`)
	ended := helmTest(ctx)
	p := checkPod(t)
	ready(metav1.ConditionFalse, "the edge does not answer")
	out, err := runPod(t, program, "check", p, p.Spec, "--timeout=10s")
	for _, want := range []string{"selvage-kube: node " + checked + ": the edge does not answer\n", "selvage-kube: the API server has older kinds, without EgressNode.status.version: "} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("it says %q %v, want %q", out, err, want)
		}
	}
	mend()
	finish(t, p, corev1.PodFailed)
	if out := <-ended; !strings.Contains(out, "egress-check") || !strings.Contains(out, "failed") {
		t.Errorf("helm says of a pod that fails: %s", out)
	}

	ready(metav1.ConditionTrue, "the edge runs")
	ended = helmTest(ctx)
	p = checkPod(t, p.UID)
	out, err = runPod(t, program, "check", p, p.Spec)
	if err != nil || !strings.HasSuffix(out, " holds the lease; 1 nodes are ready: ["+checked+"]\n") {
		t.Errorf("it says %s %v", out, err)
	}
	used(t, before, "check")
	_, own := as(t, "check", p)
	refuses(t, map[string]error{
		"reads policies":       own.List(ctx, &v1alpha1.EgressPolicyList{}),
		"reads secrets":        own.List(ctx, &corev1.SecretList{}, client.InNamespace(namespace)),
		"lists pods elsewhere": own.List(ctx, &corev1.PodList{}),
		"deletes a pod":        own.Delete(ctx, p),
	})
	finish(t, p, corev1.PodSucceeded)
	if out := <-ended; !strings.Contains(out, "Phase:") || strings.Contains(out, "Failed") {
		t.Errorf("helm says of a pod that succeeds: %s", out)
	}
	left, err := server.Run(ctx, "kubectl", "get", "pods,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings", "-A", "-l", "app.kubernetes.io/component=check", "-o", "name")
	if err != nil || left != "" {
		t.Errorf("left: %s %v", left, err)
	}
}

// probed is a fact: a controller that serves its health there is alive to the chart's probe, which restarts it otherwise.
func probed(t *testing.T, health string) {
	t.Helper()
	var d appsv1.Deployment
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: release + "-controller"}, &d); err != nil {
		t.Fatal(err)
	}
	c := d.Spec.Template.Spec.Containers[0]
	probe := c.LivenessProbe.HTTPGet
	if want := "--health=:" + probe.Port.String(); !slices.Contains(c.Args, want) {
		t.Errorf("the probe asks port %s, and the controller has %v", probe.Port.String(), c.Args)
	}
	if err := await.Within(t.Context(), patience, "the controller's health", func() error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+health+probe.Path, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// agentOf has the DaemonSet want one pod, which there is; its node is what ready says.
func agentOf(t *testing.T) (ready func(status metav1.ConditionStatus, message string)) {
	t.Helper()
	var agents appsv1.DaemonSet
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: release + "-agent"}, &agents); err != nil {
		t.Fatal(err)
	}
	agents.Status.DesiredNumberScheduled = 1
	one := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "checked-agent", Namespace: namespace, Labels: agents.Spec.Selector.MatchLabels},
		Spec:       corev1.PodSpec{NodeName: checked, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	create(t, one)
	one.Status.Phase, one.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	node := &v1alpha1.EgressNode{ObjectMeta: metav1.ObjectMeta{Name: checked}}
	create(t, node)
	if err := errors.Join(admin.Status().Update(t.Context(), &agents), admin.Status().Update(t.Context(), one)); err != nil {
		t.Fatal(err)
	}
	return func(status metav1.ConditionStatus, message string) {
		meta.SetStatusCondition(&node.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: "Test", Message: message})
		if err := admin.Status().Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
}

// helmTest starts helm test; its answer follows.
func helmTest(ctx context.Context) <-chan string {
	ended := make(chan string, 1)
	go func() {
		out, err := server.Run(ctx, "helm", "test", release, "--namespace", namespace, "--timeout", "3m")
		if err != nil {
			out += "\nfailed: " + err.Error()
		}
		ended <- out
	}()
	return ended
}

// checkPod is the pod that helm test makes, not one of before.
func checkPod(t *testing.T, not ...types.UID) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	if err := await.Within(t.Context(), patience, "helm's pod", func() error {
		err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: release + "-check"}, p)
		if err == nil && slices.Contains(not, p.UID) {
			err = errors.New("it is the one of before")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.Delete(context.WithoutCancel(t.Context()), p, client.GracePeriodSeconds(0)); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			t.Error(err)
		}
	})
	return p
}

// build makes the program of the pods.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "selvage-kube")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/selvage-kube").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// ownLease takes the lease of the test's controllers away when it ends, so that those of other tests make their own.
func ownLease(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: controller.Lease}}
		if err := admin.Delete(context.WithoutCancel(t.Context()), lease); err != nil {
			t.Error(err)
		}
	})
}

// runPod runs what a pod of this specification would, as its account; p may be nil.
func runPod(t *testing.T, program, account string, p *corev1.Pod, of corev1.PodSpec, more ...string) (string, error) {
	t.Helper()
	if of.ServiceAccountName != release+"-"+account {
		t.Errorf("it runs as %s", of.ServiceAccountName)
	}
	config, _ := as(t, account, p)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
"clusters": [{"name": "c", "cluster": {"server": %q, "insecure-skip-tls-verify": true}}], "users": [{"name": "u", "user": {"token": %q}}]}`, config.Host, config.BearerToken)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := of.Containers[0]
	if c.Command[0] != "selvage-kube" {
		t.Errorf("it runs %v", c.Command)
	}
	cmd := exec.CommandContext(t.Context(), program, slices.Concat(c.Command[1:], c.Args, more)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+file)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// finish is what the kubelet says of a pod that ended.
func finish(t *testing.T, p *corev1.Pod, how corev1.PodPhase) {
	t.Helper()
	p.Status.Phase = how
	if err := admin.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}
