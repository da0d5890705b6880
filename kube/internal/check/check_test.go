package check

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

func lease(holder string, second int64) *coordinationv1.LeaseSpec {
	at := metav1.NewMicroTime(time.Unix(second, 0))
	return &coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &at}
}

// works is an installation in which nothing is wrong.
func works() Seen {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "agent-1"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	node := v1alpha1.EgressNode{}
	node.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	return Seen{
		lease: lease("c1", 2), agents: &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agents"}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 1}},
		pods: []corev1.Pod{pod}, nodes: map[string]v1alpha1.EgressNode{"n1": node},
	}
}

// What is wrong is said, with its place, and nothing else is.
func TestProblems(t *testing.T) {
	node := func(status metav1.ConditionStatus) v1alpha1.EgressNode {
		n := v1alpha1.EgressNode{}
		n.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Message: "the edge does not answer"}}
		return n
	}
	for want, change := range map[string]func(*Seen){
		"":                                         func(*Seen) {},
		"no controller holds the lease":            func(s *Seen) { s.lease = lease("", 3) },
		"controller c2 does not renew its lease":   func(s *Seen) { s.lease = lease("c2", 1) },
		"DaemonSet agents selects none":            func(s *Seen) { s.agents.Status.DesiredNumberScheduled, s.pods = 0, nil },
		"1 of 3 nodes have a pod of an agent":      func(s *Seen) { s.agents.Status.DesiredNumberScheduled = 3 },
		"node n1: pod agent-1 is not ready":        func(s *Seen) { s.pods[0].Status.Conditions[0].Status = corev1.ConditionFalse },
		"node n2: there is no EgressNode of it":    func(s *Seen) { s.pods[0].Spec.NodeName = "n2" },
		"node n1: its EgressNode has no condition": func(s *Seen) { s.nodes["n1"] = v1alpha1.EgressNode{} },
		"node n1: the edge does not answer":        func(s *Seen) { s.nodes["n1"] = node(metav1.ConditionFalse) },
		"node n1: container edge of pod agent-1 waits: ImagePullBackOff no such tag": func(s *Seen) {
			s.pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: "edge", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such tag"}}},
			}
		},
	} {
		s := works()
		change(&s)
		err := s.problems(lease("c1", 1))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
