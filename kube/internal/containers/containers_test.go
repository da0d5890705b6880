package containers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

var options = Options{Namespace: "selvage-system", Image: "lab:1", Command: []string{"selvage-lab", "agent"}, Start: 5 * time.Second, Life: time.Hour}

// started is a cluster whose kubelets say this of each container that they are asked for.
func started(state corev1.ContainerState, pods ...runtime.Object) *fake.Clientset {
	c := fake.NewClientset(pods...)
	c.PrependReactor("get", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		get := a.(clienttesting.GetAction)
		o, err := c.Tracker().Get(get.GetResource(), get.GetNamespace(), get.GetName())
		if err != nil {
			return true, nil, err
		}
		p := o.(*corev1.Pod).DeepCopy()
		for _, own := range p.Spec.Containers {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: own.Name, State: state})
		}
		for _, own := range p.Spec.EphemeralContainers {
			p.Status.EphemeralContainerStatuses = append(p.Status.EphemeralContainerStatuses, corev1.ContainerStatus{Name: own.Name, State: state})
		}
		return true, p, nil
	})
	return c
}

var (
	running = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	web     = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web"}}}}
)

// Containers ask for nothing but their network, end by themselves, and the pods are deleted, also by who was interrupted.
func TestContainers(t *testing.T) {
	c := started(running, web)
	k := New(c, options)
	ctx, interrupt := context.WithCancel(t.Context())
	on, err := k.OnNode(ctx, "n1")
	if err != nil {
		t.Fatal(err)
	}
	in, err := k.InPod(ctx, "shop", "web")
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.CoreV1().Pods(on.Namespace).Get(ctx, on.Pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Spec; s.NodeName != "n1" || !s.HostNetwork || *s.ActiveDeadlineSeconds != 3600 || *s.AutomountServiceAccountToken || s.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("%+v", s)
	}
	w, err := c.CoreV1().Pods("shop").Get(ctx, "web", metav1.GetOptions{})
	if err != nil || len(w.Spec.EphemeralContainers) != 1 {
		t.Fatalf("%v %+v", err, w)
	}
	e := w.Spec.EphemeralContainers[0]
	for _, own := range []struct {
		image       string
		stdin, once bool
		s           *corev1.SecurityContext
	}{{p.Spec.Containers[0].Image, p.Spec.Containers[0].Stdin, p.Spec.Containers[0].StdinOnce, p.Spec.Containers[0].SecurityContext}, {e.Image, e.Stdin, e.StdinOnce, e.SecurityContext}} {
		if own.image != "lab:1" || !own.stdin || !own.once || !*own.s.RunAsNonRoot || *own.s.AllowPrivilegeEscalation || len(own.s.Capabilities.Drop) != 1 {
			t.Errorf("%+v", own)
		}
	}
	if e.Name != in.Container || in.Namespace != "shop" || in.Pod != "web" || e.TargetContainerName != "" {
		t.Errorf("%+v %+v", in, e)
	}
	interrupt()
	if err := k.Close(ctx); err != nil {
		t.Error(err)
	}
	list, err := c.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "web" {
		t.Errorf("%v %+v", err, list)
	}
}

// Why a container does not run is in the error, and nobody waits for one that has ended.
func TestStart(t *testing.T) {
	for _, c := range []struct {
		name, want string
		state      corev1.ContainerState
		took       time.Duration
	}{
		{"no image", "of image lab:1, to run: context deadline exceeded: it waits: ErrImagePull not found", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}, options.Start},
		{"no kubelet", "its node has not started it", corev1.ContainerState{}, options.Start},
		{"ended", "it has ended with status 127: exec: selvage-lab", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 127, Message: "exec: selvage-lab"}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, began := New(started(c.state, web), options), time.Now()
				_, err := k.OnNode(t.Context(), "n1")
				if err == nil || !strings.Contains(err.Error(), c.want) || time.Since(began) != c.took {
					t.Errorf("%v, after %s", err, time.Since(began))
				}
				if len(k.pods) != 1 {
					t.Error("the pod is not known, and would stay")
				}
			})
		})
	}
	if _, err := New(started(running), options).InPod(t.Context(), "shop", "web"); err == nil || !strings.Contains(err.Error(), "pod shop/web") || !strings.Contains(err.Error(), "not found") {
		t.Errorf("%v", err)
	}
}

// All rights that lack are said at once, with what to do.
func TestAllowed(t *testing.T) {
	c := fake.NewClientset()
	var asked []string
	c.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		at := r.Spec.ResourceAttributes
		asked = append(asked, fmt.Sprintf("%s %s/%s %s", at.Verb, at.Resource, at.Subresource, at.Namespace))
		r.Status.Allowed = at.Subresource != "ephemeralcontainers" && (at.Namespace != "selvage-system" || at.Verb != "delete")
		return true, r, nil
	})
	err := New(c, options).Allowed(t.Context(), "shop")
	if want := "this user may not delete pods in namespace selvage-system, update pods/ephemeralcontainers in namespace shop: bind the roles"; err == nil || !strings.HasPrefix(err.Error(), want) || len(asked) != 8 {
		t.Errorf("%v\n%v", err, asked)
	}
}

// What a killed run left goes when it has ended, and nothing else.
func TestTidy(t *testing.T) {
	pod := func(name, label string, phase corev1.PodPhase) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "selvage-system", Name: name}, Status: corev1.PodStatus{Phase: phase}}
		if label != "" {
			p.Labels = map[string]string{Label: label}
		}
		return p
	}
	c := fake.NewClientset(pod("ended", "a", corev1.PodSucceeded), pod("failed", "b", corev1.PodFailed), pod("running", "c", corev1.PodRunning), pod("another", "", corev1.PodFailed))
	if err := New(c, options).Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := c.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	var left []string
	for _, p := range list.Items {
		left = append(left, p.Name)
	}
	if err != nil || strings.Join(left, " ") != "another running" {
		t.Errorf("%v %v", err, left)
	}
}
