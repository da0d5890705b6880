// Package containers makes containers from which the ways of a cluster are measured: pods in the network of nodes, and ephemeral containers
// in the network of a pod. Their main process waits for who attaches to it.
//
// Its one invariant: all of them end by themselves, the ones that nobody attaches to within Wait, the others with the connection; and the
// pods are deleted. An ephemeral container stays in its pod's list, as Kubernetes cannot take one away.
package containers

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/selvage/selvage/internal/await"
)

// Label is that of the pods.
const Label = "selvage.dev/stages"

// name is that of the container in a pod on a node.
const name = "stages"

// Options are of all containers of a run.
type Options struct {
	Namespace   string // of the pods on nodes: one in which pods may be in the nodes' network
	Image       string
	PullSecrets []corev1.LocalObjectReference
	Command     []string
	Start       time.Duration // most that one may take to run
	Life        time.Duration // most that a pod may run
}

// Containers are those of a run.
type Containers struct {
	Options
	client kubernetes.Interface
	run    string // names those of this run
	pods   []string
}

// New has no container yet.
func New(c kubernetes.Interface, o Options) *Containers {
	return &Containers{Options: o, client: c, run: strings.ToLower(rand.Text()[:6])}
}

// Container is one that runs.
type Container struct{ Namespace, Pod, Container string }

// Allowed says which rights a user lacks who wants pods on nodes, and a container in a pod of a namespace.
func (k *Containers) Allowed(ctx context.Context, namespace string) error {
	var lacks []string
	for _, a := range []authorizationv1.ResourceAttributes{
		{Namespace: k.Namespace, Verb: "create", Resource: "pods"}, {Namespace: k.Namespace, Verb: "get", Resource: "pods"},
		{Namespace: k.Namespace, Verb: "list", Resource: "pods"}, {Namespace: k.Namespace, Verb: "delete", Resource: "pods"},
		{Namespace: k.Namespace, Verb: "create", Resource: "pods", Subresource: "attach"}, {Namespace: namespace, Verb: "get", Resource: "pods"},
		{Namespace: namespace, Verb: "update", Resource: "pods", Subresource: "ephemeralcontainers"}, {Namespace: namespace, Verb: "create", Resource: "pods", Subresource: "attach"},
	} {
		review, err := k.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &a},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask for the rights of this user: %w", err)
		}
		if !review.Status.Allowed {
			resource := a.Resource
			if a.Subresource != "" {
				resource += "/" + a.Subresource
			}
			lacks = append(lacks, fmt.Sprintf("%s %s in namespace %s", a.Verb, resource, a.Namespace))
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("this user may not %s: bind the roles kubectl-selvage-stages and kubectl-selvage-stages-pod of kube/examples/kubectl-selvage.yaml", strings.Join(lacks, ", "))
	}
	return nil
}

// Tidy deletes pods of former runs that have ended, and were not deleted because their run was killed.
func (k *Containers) Tidy(ctx context.Context) error {
	list, err := k.client.CoreV1().Pods(k.Namespace).List(ctx, metav1.ListOptions{LabelSelector: Label})
	if err != nil {
		return fmt.Errorf("list pods of former runs: %w", err)
	}
	var errs []error
	for _, p := range list.Items {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			errs = append(errs, k.remove(ctx, p.Name))
		}
	}
	return errors.Join(errs...)
}

// nobody is the user of the containers: measuring needs no root.
const nobody = 65532

func securityContext() *corev1.SecurityContext {
	yes, no, user := true, false, int64(nobody)
	return &corev1.SecurityContext{
		RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, AllowPrivilegeEscalation: &no,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// OnNode runs one in a node's network.
func (k *Containers) OnNode(ctx context.Context, node string) (Container, error) {
	seconds, no, grace := int64(k.Life.Seconds()), false, int64(1)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: fmt.Sprintf("selvage-stages-%s-%d", k.run, len(k.pods)+1), Labels: map[string]string{Label: k.run}},
		Spec: corev1.PodSpec{
			NodeName: node, HostNetwork: true, RestartPolicy: corev1.RestartPolicyNever, ActiveDeadlineSeconds: &seconds, TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken: &no, EnableServiceLinks: &no, ImagePullSecrets: k.PullSecrets, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: name, Image: k.Image, Command: k.Command, Stdin: true, StdinOnce: true, SecurityContext: securityContext()}},
		},
	}
	if _, err := k.client.CoreV1().Pods(k.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return Container{}, fmt.Errorf("make a pod in the network of node %s: %w", node, err)
	}
	k.pods = append(k.pods, pod.Name)
	c := Container{k.Namespace, pod.Name, name}
	return c, k.await(ctx, c, func(s corev1.PodStatus) []corev1.ContainerStatus { return s.ContainerStatuses })
}

// InPod runs one in a pod's network.
func (k *Containers) InPod(ctx context.Context, namespace, pod string) (Container, error) {
	c := Container{namespace, pod, "selvage-stages-" + k.run}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		p, err := k.client.CoreV1().Pods(namespace).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: c.Container, Image: k.Image, Command: k.Command, Stdin: true, StdinOnce: true, SecurityContext: securityContext(),
		}})
		_, err = k.client.CoreV1().Pods(namespace).UpdateEphemeralContainers(ctx, pod, p, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return c, fmt.Errorf("make an ephemeral container in pod %s/%s: %w", namespace, pod, err)
	}
	return c, k.await(ctx, c, func(s corev1.PodStatus) []corev1.ContainerStatus { return s.EphemeralContainerStatuses })
}

// errEnded stops waiting.
var errEnded = errors.New("it has ended")

// await waits until a container runs.
func (k *Containers) await(ctx context.Context, c Container, of func(corev1.PodStatus) []corev1.ContainerStatus) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := time.NewTicker(200 * time.Millisecond)
	defer next.Stop()
	return await.Within(ctx, k.Start, fmt.Sprintf("container %s of pod %s/%s, of image %s, to run", c.Container, c.Namespace, c.Pod, k.Image), func() error {
		p, err := k.client.CoreV1().Pods(c.Namespace).Get(ctx, c.Pod, metav1.GetOptions{})
		if err == nil {
			err = state(p, c.Container, of(p.Status))
		}
		if errors.Is(err, errEnded) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
			stop(err)
		} else if err != nil {
			select { // the API server is not asked at the pace of await
			case <-ctx.Done():
			case <-next.C:
			}
		}
		return err
	})
}

// state says why a container does not run, nil when it does.
func state(p *corev1.Pod, container string, list []corev1.ContainerStatus) error {
	for _, s := range list {
		switch {
		case s.Name != container:
		case s.State.Running != nil:
			return nil
		case s.State.Terminated != nil:
			return fmt.Errorf("%w with status %d: %s", errEnded, s.State.Terminated.ExitCode, cmp.Or(s.State.Terminated.Message, s.State.Terminated.Reason))
		case s.State.Waiting != nil:
			return fmt.Errorf("it waits: %s %s", s.State.Waiting.Reason, s.State.Waiting.Message)
		}
	}
	if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		return fmt.Errorf("%w: the pod is %s %s %s", errEnded, p.Status.Phase, p.Status.Reason, p.Status.Message)
	}
	return fmt.Errorf("its node has not started it (pod %s %s)", p.Status.Phase, p.Status.Message)
}

// removeMost is how long deletion may take, also after an interruption.
const removeMost = 20 * time.Second

// Close deletes the pods. It does so too when ctx has ended.
func (k *Containers) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeMost)
	defer cancel()
	var errs []error
	for _, pod := range k.pods {
		errs = append(errs, k.remove(ctx, pod))
	}
	k.pods = nil
	return errors.Join(errs...)
}

func (k *Containers) remove(ctx context.Context, pod string) error {
	err := k.client.CoreV1().Pods(k.Namespace).Delete(ctx, pod, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s/%s (kubectl delete pod -n %s -l %s does): %w", k.Namespace, pod, k.Namespace, Label, err)
	}
	return nil
}
