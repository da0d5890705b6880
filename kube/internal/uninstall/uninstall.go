// Package uninstall has the agents of all nodes take away what they made of their nodes, before the agents themselves go.
//
// Its one invariant: EgressNodes are deleted only when each agent that can answer has left, so that none comes back.
package uninstall

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// interval is between two looks.
const interval = time.Second

// Nodes are those that had an EgressNode.
type Nodes struct {
	Left     []string // without anything of Selvage's
	NotReady []string // as the API server says: nobody waited for their agents
}

// Run waits until the agents of all nodes that are ready have left, or ctx ends: then the error says which have not, and why.
func Run(ctx context.Context, c client.Client) (Nodes, error) {
	var waits error
	for {
		nodes, again, err := look(ctx, c)
		switch {
		case err == nil && !again:
			if err := c.DeleteAllOf(ctx, &v1alpha1.EgressNode{}); err != nil {
				return nodes, fmt.Errorf("delete EgressNodes: %w", err)
			}
			return nodes, nil
		case err != nil && ctx.Err() == nil || waits == nil: // a look that had no time says less than the one before
			waits = err
		}
		select {
		case <-ctx.Done():
			if waits == nil {
				waits = ctx.Err()
			}
			return nodes, waits
		case <-time.After(interval):
		}
	}
}

// look has all nodes leave, and says which have. again is that some have just heard of it.
func look(ctx context.Context, c client.Client) (found Nodes, again bool, err error) {
	var (
		nodes corev1.NodeList
		list  v1alpha1.EgressNodeList
	)
	if err := errors.Join(c.List(ctx, &nodes), c.List(ctx, &list)); err != nil {
		return found, false, err
	}
	ready := map[string]bool{}
	for i := range nodes.Items {
		ready[nodes.Items[i].Name] = isReady(&nodes.Items[i])
	}
	var errs []error
	for i := range list.Items {
		n := &list.Items[i]
		if !n.Spec.Leave {
			again = true
			leave := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"leave":true}}`))
			if err := client.IgnoreNotFound(c.Patch(ctx, n, leave)); err != nil {
				errs = append(errs, fmt.Errorf("EgressNode %s: %w", n.Name, err))
				continue
			}
		}
		why, left := stands(n)
		switch {
		case left:
			found.Left = append(found.Left, n.Name)
		case !ready[n.Name]:
			found.NotReady = append(found.NotReady, n.Name)
		default:
			errs = append(errs, fmt.Errorf("node %s: %s", n.Name, why))
		}
	}
	return found, again, errors.Join(errs...)
}

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// stands is what an agent says of its node.
func stands(n *v1alpha1.EgressNode) (why string, left bool) {
	c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case c != nil && c.Reason == v1alpha1.ReasonLeft && c.ObservedGeneration == n.Generation:
		return "", true
	case c != nil && c.Reason == v1alpha1.ReasonLeaving:
		return c.Message, false
	}
	return "its agent does not answer: see its log, or run selvage-kube remove there and delete the EgressNode", false
}
