package chart

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/test/tier"
)

// Helm uninstalls when the agents of all nodes that are ready have left, and leaves nothing but the kinds. The test runs the hook's program
// with the rights of its account, and is a node's agent.
func TestUninstall(t *testing.T) {
	tier.Slow(t)
	ctx, program := t.Context(), build(t)
	objects(t)
	leaver := readyNode(t, "leaver")
	create(t, &v1alpha1.EgressNode{ObjectMeta: metav1.ObjectMeta{Name: "lost"}}) // of a node that is not ready
	if _, err := server.Run(ctx, "kubectl", "delete", "egresspolicies,clusteregresspolicies", "--all", "-A"); err != nil {
		t.Error(err)
	}

	before := asked(t)
	ended := helmUninstall(ctx)
	job := uninstallJob(t)
	out, err := runPod(t, program, "uninstall", nil, job.Spec.Template.Spec, "--timeout=3s")
	if want := "selvage-kube: node leaver: its agent does not answer"; err == nil || !strings.Contains(out, want) {
		t.Errorf("it says %q %v, want %q", out, err, want)
	}
	finishJob(t, job, batchv1.JobFailureTarget, batchv1.JobFailed)
	if err := <-ended; err == nil || !strings.Contains(installed(t), "daemonset.apps/"+release+"-agent") {
		t.Errorf("helm uninstalls what has not left: %v, %s", err, installed(t))
	}

	ended = helmUninstall(ctx)
	job = uninstallJob(t, job.UID)
	runs(t, func(ctx context.Context) error { return leaves(ctx, leaver) })
	out, err = runPod(t, program, "uninstall", nil, job.Spec.Template.Spec)
	if err != nil || !strings.Contains(out, "nothing is left on 1 nodes\n") || !strings.Contains(out, "node lost is not ready, and keeps what is on it") {
		t.Errorf("it says %q %v", out, err)
	}
	used(t, before, "uninstall")
	_, own := as(t, "uninstall", nil)
	refuses(t, map[string]error{
		"reads secrets":       own.List(ctx, &corev1.SecretList{}),
		"deletes a policy":    own.DeleteAllOf(ctx, &v1alpha1.ClusterEgressPolicy{}),
		"makes a node":        own.Create(ctx, &v1alpha1.EgressNode{ObjectMeta: metav1.ObjectMeta{Name: "more"}}),
		"says it is an agent": own.Status().Patch(ctx, leaver.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"status":{"version":"1"}}`))),
	})
	finishJob(t, job, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if out := installed(t); out != "" {
		t.Errorf("left: %s", out)
	}
	if out, err := server.Run(ctx, "kubectl", "get", "egresspolicies,clusteregresspolicies,egressnodes", "-A", "-o", "name"); err != nil || out != "" {
		t.Errorf("left: %s %v", out, err)
	}
	if _, err := upgrade(ctx); err != nil {
		t.Error(err)
	}
}

// installed is what is there of the chart.
func installed(t *testing.T) string {
	t.Helper()
	kinds := "deployments,daemonsets,jobs,secrets,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
	out, err := server.Run(t.Context(), "kubectl", "get", kinds, "-A", "-l", "app.kubernetes.io/instance="+release, "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// readyNode makes a node, and the object that its agent would.
func readyNode(t *testing.T, name string) *v1alpha1.EgressNode {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	create(t, n)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if err := admin.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	e := &v1alpha1.EgressNode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	create(t, e)
	return e
}

// leaves says of a node that it has left, once it is to.
func leaves(ctx context.Context, of *v1alpha1.EgressNode) error {
	return await.Within(ctx, patience, "leave", func() error {
		var n v1alpha1.EgressNode
		if err := admin.Get(ctx, client.ObjectKeyFromObject(of), &n); err != nil {
			return err
		}
		if !n.Spec.Leave {
			return errors.New("it is not to leave")
		}
		meta.SetStatusCondition(&n.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonLeft, ObservedGeneration: n.Generation})
		return admin.Status().Update(ctx, &n)
	})
}

func helmUninstall(ctx context.Context) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := server.Run(ctx, "helm", "uninstall", release, "--namespace", namespace, "--timeout", "3m")
		ended <- err
	}()
	return ended
}

// uninstallJob is the one that helm makes, not one of before.
func uninstallJob(t *testing.T, not ...types.UID) *batchv1.Job {
	t.Helper()
	j := &batchv1.Job{}
	if err := await.Within(t.Context(), patience, "helm's job", func() error {
		err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: release + "-uninstall"}, j)
		if err == nil && slices.Contains(not, j.UID) {
			err = fmt.Errorf("it is the one of before")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return j
}

// finishJob is what the controller of jobs says of one that ended.
func finishJob(t *testing.T, j *batchv1.Job, how ...batchv1.JobConditionType) {
	t.Helper()
	now := metav1.Now()
	j.Status.StartTime = &now
	for _, c := range how {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, Reason: "Test", LastTransitionTime: now})
	}
	if slices.Contains(how, batchv1.JobComplete) {
		j.Status.Succeeded, j.Status.CompletionTime = 1, &now
	}
	if err := admin.Status().Update(t.Context(), j); err != nil {
		t.Fatal(err)
	}
}
