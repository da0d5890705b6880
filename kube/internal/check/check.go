// Package check says whether an installation works: a controller holds the lease, and the edge of each node that should have one is ready.
//
// Its one invariant: it only reads, with few rights. Clocks are not compared: a lease is held when it is renewed while somebody looks.
package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// Installation is what is looked at.
type Installation struct {
	Namespace string
	Lease     string // of the controllers
	Agents    string // their DaemonSet
}

// interval is between two looks.
const interval = time.Second

// Wait looks until nothing is wrong, and is what it has seen then; when ctx ends before, the error is what is wrong still.
func Wait(ctx context.Context, c client.Reader, i Installation) (now Seen, err error) {
	var first *coordinationv1.LeaseSpec
	for {
		seen, failed := i.look(ctx, c)
		switch {
		case failed != nil && ctx.Err() != nil && err != nil: // this look had no time: what the one before has seen counts
		case failed != nil:
			err = failed
		case first == nil:
			first, err = seen.lease, seen.problems(seen.lease)
		default:
			err = seen.problems(first)
		}
		if now = seen; err == nil {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return now, err
		case <-time.After(interval):
		}
	}
}

// Seen is what the API server has of an installation.
type Seen struct {
	lease  *coordinationv1.LeaseSpec
	agents *appsv1.DaemonSet
	pods   []corev1.Pod
	nodes  map[string]v1alpha1.EgressNode
}

// Controller is the one that holds the lease.
func (s Seen) Controller() string {
	if s.lease.HolderIdentity == nil {
		return "" // nobody does
	}
	return *s.lease.HolderIdentity
}

// Nodes are those with an agent, in order.
func (s Seen) Nodes() (names []string) {
	for _, p := range s.pods {
		names = append(names, p.Spec.NodeName)
	}
	slices.Sort(names)
	return names
}

func (i Installation) look(ctx context.Context, c client.Reader) (s Seen, err error) {
	var lease coordinationv1.Lease
	if err := c.Get(ctx, client.ObjectKey{Namespace: i.Namespace, Name: i.Lease}, &lease); client.IgnoreNotFound(err) != nil {
		return s, fmt.Errorf("lease %s of namespace %s: %w", i.Lease, i.Namespace, err)
	}
	s.lease, s.agents, s.nodes = &lease.Spec, &appsv1.DaemonSet{}, map[string]v1alpha1.EgressNode{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: i.Namespace, Name: i.Agents}, s.agents); err != nil {
		return s, fmt.Errorf("DaemonSet %s of namespace %s: %w", i.Agents, i.Namespace, err)
	}
	selector, err := metav1.LabelSelectorAsSelector(s.agents.Spec.Selector)
	if err != nil {
		return s, fmt.Errorf("DaemonSet %s: %w", i.Agents, err)
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(i.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return s, fmt.Errorf("pods of namespace %s: %w", i.Namespace, err)
	}
	s.pods = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	var nodes v1alpha1.EgressNodeList
	if err := c.List(ctx, &nodes); err != nil {
		return s, fmt.Errorf("EgressNodes: %w", err)
	}
	for _, n := range nodes.Items {
		s.nodes[n.Name] = n
	}
	return s, nil
}

// problems are what is not as it should be, with the lease as it was before.
func (s Seen) problems(before *coordinationv1.LeaseSpec) error {
	var errs []error
	switch {
	case s.Controller() == "":
		errs = append(errs, errors.New("no controller holds the lease"))
	case s.lease.RenewTime.Equal(before.RenewTime):
		errs = append(errs, fmt.Errorf("controller %s does not renew its lease", s.Controller()))
	}
	switch want := int(s.agents.Status.DesiredNumberScheduled); {
	case want == 0:
		errs = append(errs, fmt.Errorf("no node is to have an agent: DaemonSet %s selects none", s.agents.Name))
	case len(s.pods) < want:
		errs = append(errs, fmt.Errorf("%d of %d nodes have a pod of an agent", len(s.pods), want))
	}
	for _, p := range s.pods {
		if message := s.notReady(p); message != "" {
			errs = append(errs, fmt.Errorf("node %s: %s", p.Spec.NodeName, message))
		}
	}
	return errors.Join(errs...)
}

// notReady is why the node of an agent's pod is not, or "".
func (s Seen) notReady(p corev1.Pod) string {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "PodInitializing" {
			return fmt.Sprintf("container %s of pod %s waits: %s %s", c.Name, p.Name, w.Reason, w.Message)
		}
	}
	if !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
		return "pod " + p.Name + " is not ready"
	}
	n, ok := s.nodes[p.Spec.NodeName]
	if !ok {
		return "there is no EgressNode of it, which pod " + p.Name + " should have written"
	}
	switch c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady); {
	case c == nil:
		return "its EgressNode has no condition Ready yet"
	case c.Status != metav1.ConditionTrue:
		return c.Message
	}
	return ""
}
