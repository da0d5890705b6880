package adopt

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/internal/importing"
)

// reasons are those of events about notes.
var reasons = map[importing.Kind]string{importing.NotCarried: "NotCarried", importing.Changed: "Changed", importing.Differs: "Differs"}

// tell logs notes, and writes events of those about an object, once until they no longer hold.
func (a *adopter) tell(ctx context.Context, theirs []*unstructured.Unstructured, notes []importing.Note) error {
	of := map[string]*unstructured.Unstructured{}
	for _, u := range theirs {
		of[nameOf(u)] = u
	}
	said := map[importing.Note]bool{}
	var errs []error
	for _, n := range notes {
		if !said[n] && !a.said[n] {
			slog.Info(n.String())
			kind := corev1.EventTypeNormal
			if n.Kind == importing.NotCarried {
				kind = corev1.EventTypeWarning
			}
			if u := of[n.Object]; u != nil {
				errs = append(errs, event(ctx, a.client, u, kind, reasons[n.Kind], strings.TrimPrefix(n.String(), n.Object+": ")))
			}
		}
		said[n] = true
	}
	a.said = said
	return errors.Join(errs...)
}

// event writes an event of one of theirs, one of each text while that is kept. A recorder would take texts with the same reason for one.
func event(ctx context.Context, c client.Client, u *unstructured.Unstructured, kind, reason, note string) error {
	sum := fnv.New64a()
	sum.Write([]byte(string(u.GetUID()) + reason + note))
	e := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%.200s.%016x", u.GetName(), sum.Sum64())},
		EventTime:  metav1.NowMicro(), ReportingController: "selvage-kube", ReportingInstance: "selvage-kube",
		Type: kind, Reason: reason, Action: "Adopt", Note: controller.Note(note, "..."),
		Regarding: corev1.ObjectReference{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), UID: u.GetUID()},
	}
	if u.GetNamespace() != "" {
		e.Namespace = u.GetNamespace()
	}
	if err := c.Create(ctx, e); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("event of %s: %w", nameOf(u), err)
	}
	return nil
}
