package adopt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Of that project's chart: the lease by which its controllers agree on who works, wherever it is, and a label of all its pods.
const (
	theirLease    = "spider-egress-gateway"
	theirPodLabel = "app.kubernetes.io/name"
	theirPodName  = "egressgateway"
)

const (
	lookEach  = time.Second // before the start
	lookAgain = 10 * time.Second
	leaseTime = 15 * time.Second // of a lease that does not say
	most      = 5                // pods that are named
)

// RefusedError is that the other project's own controller or agents run.
type RefusedError struct{ Others []string }

// Error says who runs, and what to do.
func (e RefusedError) Error() string {
	return fmt.Sprintf("adoption of %s is refused: of that project run %s; two that answer for one address are worse than none. "+
		"Uninstall it and leave its CustomResourceDefinitions and objects, or set adopt.egressgateway to false", Group, strings.Join(e.Others, ", "))
}

// neighbour looks for the other project. Clocks are not compared: a lease is held when it is renewed while somebody looks.
type neighbour struct {
	c       client.Client
	renewed map[types.NamespacedName]string // when, as the lease says
}

// look is who runs, and how long a lease that may be held has to be looked at.
func (n *neighbour) look(ctx context.Context) (others []string, wait time.Duration, err error) {
	var pods corev1.PodList
	var leases coordinationv1.LeaseList
	cached := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}
	if err := errors.Join(
		n.c.List(ctx, &pods, client.MatchingLabels{theirPodLabel: theirPodName}, cached),
		n.c.List(ctx, &leases, client.MatchingFields{"metadata.name": theirLease}),
	); err != nil {
		return nil, 0, fmt.Errorf("look for the controller of %s: %w", Group, err)
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			others = append(others, "pod "+p.Namespace+"/"+p.Name)
		}
	}
	if all := len(others); all > most {
		others = append(others[:most], fmt.Sprintf("%d more pods", all-most))
	}
	for i := range leases.Items {
		l := &leases.Items[i]
		holder, at, lasts := heldBy(l)
		if holder == "" {
			continue
		}
		key := types.NamespacedName{Namespace: l.Namespace, Name: l.Name}
		if was, is := n.renewed[key]; is && was != at {
			others = append(others, fmt.Sprintf("its controller %s, which holds lease %s", holder, key))
		}
		n.renewed[key] = at
		wait = max(wait, lasts)
	}
	return others, wait, nil
}

// heldBy is who may hold a lease, "" when nobody does; when it was renewed, and for how long it lasts.
func heldBy(l *coordinationv1.Lease) (holder, at string, lasts time.Duration) {
	s := l.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil {
		return "", "", 0
	}
	lasts = leaseTime
	if s.LeaseDurationSeconds != nil {
		lasts = time.Duration(*s.LeaseDurationSeconds) * time.Second
	}
	return *s.HolderIdentity, s.RenewTime.String(), lasts
}

// alone returns when the other project does not run; if it does, the error is a RefusedError.
func alone(ctx context.Context, c client.Client) (*neighbour, error) {
	n := &neighbour{c: c, renewed: map[types.NamespacedName]string{}}
	began := time.Now()
	for {
		others, wait, err := n.look(ctx)
		switch {
		case err != nil:
			return nil, err
		case len(others) > 0:
			return nil, RefusedError{others}
		case time.Since(began) >= wait:
			return n, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookEach):
		}
	}
}

// stays ends when ctx does, or with a RefusedError when the other project starts.
func (n *neighbour) stays(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookAgain):
		}
		others, _, err := n.look(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			slog.Warn("it is not known whether another controller runs", "err", err)
		case len(others) > 0:
			return RefusedError{others}
		}
	}
}

// tellRefusal writes an event for each of their gateways.
func tellRefusal(ctx context.Context, c client.Client, by dynamic.Interface, refused RefusedError) error {
	list, err := by.Resource(resourceOf("EgressGateway")).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for i := range list.Items {
		errs = append(errs, event(ctx, c, &list.Items[i], corev1.EventTypeWarning, "Refused", refused.Error()))
	}
	return errors.Join(errs...)
}
