package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/selvage/selvage/kube/internal/hold"
	"github.com/selvage/selvage/kube/internal/plan"
)

const (
	// attachmentMost is how long a pod may be without addresses in its own status.
	attachmentMost = 5 * time.Minute
	// findMost is how long a look asks the API server for pods that the cache does not have.
	findMost = 500 * time.Millisecond
	// waitEach is how often is looked while a pod waits.
	waitEach = 100 * time.Millisecond
)

// attachments are pods of which the CNI plugin says that they have addresses, and the API server does not yet. Their files are what
// counts: the plugin removes one with its pod, and an agent that starts finds those of the one before.
type attachments struct {
	files hold.Files
	wake  chan event.GenericEvent

	mu   sync.Mutex
	list map[string]*attachment // by container
	left bool                   // nobody waits
}

// attachment is such a pod. What the lock guards of it is all but the attachment.
type attachment struct {
	hold.Attachment
	since     time.Time
	pod       *plan.Pod  // nil while the API server has not said
	uid       types.UID  // its own
	namespace labels.Set // of its namespace
	seen      bool       // the cache has had it
	made      bool
	ready     chan struct{} // closed when it is made
}

func newAttachments(state string) *attachments {
	return &attachments{files: hold.Files{Folder: state}, wake: make(chan event.GenericEvent, 1), list: map[string]*attachment{}}
}

// serve has questions be answered once the cache is filled, and attachments be a reason to look.
func (r *attachments) serve(m manager.Manager, b *builder.Builder, a *agent) error {
	if a.Socket == "" {
		return nil
	}
	b.WatchesRawSource(source.Channel(r.wake, handler.EnqueueRequestsFromMapFunc(a.request)))
	return m.Add(manager.RunnableFunc(func(ctx context.Context) error { return hold.Serve(ctx, a.Socket, a.admit) }))
}

// admit answers the plugin: when the pod is in the tables, or at once when no policy selects it.
func (a *agent) admit(ctx context.Context, at hold.Attachment) hold.Answer {
	if a.attachments.hasLeft() {
		return hold.Answer{State: hold.Unselected}
	}
	r := &attachment{Attachment: at, since: time.Now(), ready: make(chan struct{})}
	selected, err := a.selected(ctx, r)
	if err == nil && !selected {
		err = a.Node.Within(func() error { return a.Node.Steer.Release(at.Addresses) })
		if err == nil {
			return hold.Answer{State: hold.Unselected}
		}
	}
	if err == nil {
		err = a.attachments.add(r)
	}
	if errors.Is(err, errLeft) {
		return hold.Answer{State: hold.Unselected}
	}
	if err != nil {
		return hold.Answer{State: hold.Failed, Message: err.Error()}
	}
	select {
	case <-r.ready:
		return hold.Answer{State: hold.Programmed}
	case <-ctx.Done():
		return hold.Answer{State: hold.Failed, Message: "the node's tables do not have the pod yet"}
	}
}

// selected finds the pod, and reports whether the tables have to change for it: a policy selects it, or they have its addresses as
// those of another.
func (a *agent) selected(ctx context.Context, r *attachment) (bool, error) {
	if err := a.find(ctx, r); err != nil {
		return false, err
	}
	in, err := a.input(ctx)
	if err != nil {
		return false, err
	}
	a.attachments.join(&in)
	taken := slices.ContainsFunc(in.Pods, func(p plan.Pod) bool {
		return !r.is(p) && slices.ContainsFunc(p.Addresses, r.has)
	})
	r.into(&in)
	pod := *r.pod
	pod.Addresses = r.Addresses
	return taken || plan.Selected(in, pod), nil
}

// add has a pod be part of the node's plan.
func (r *attachments) add(one *attachment) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left {
		return errLeft
	}
	if len(r.list) >= hold.Most {
		return fmt.Errorf("%d pods are waited for on this node already", len(r.list))
	}
	if err := r.files.Put(one.Attachment); err != nil {
		return err
	}
	r.list[one.ID] = one
	select {
	case r.wake <- event.GenericEvent{Object: &corev1.Pod{}}:
	default: // one is under way
	}
	return nil
}

// find asks the cache for a pod, then the API server. A pod of a file of the kubelet's has another UID there than here.
func (a *agent) find(ctx context.Context, r *attachment) error {
	var pod corev1.Pod
	key := client.ObjectKey{Namespace: r.Namespace, Name: r.Name}
	err := a.client.Get(ctx, key, &pod)
	if apierrors.IsNotFound(err) || err == nil && r.UID != "" && string(pod.UID) != r.UID {
		pod = corev1.Pod{}
		err = a.live.Get(ctx, key, &pod)
	}
	if err != nil {
		return fmt.Errorf("pod %s: %w", key, err)
	}
	var namespace corev1.Namespace
	if err := a.client.Get(ctx, client.ObjectKey{Name: r.Namespace}, &namespace); apierrors.IsNotFound(err) {
		err = a.live.Get(ctx, client.ObjectKey{Name: r.Namespace}, &namespace)
		if err != nil {
			return fmt.Errorf("namespace %s: %w", r.Namespace, err)
		}
	} else if err != nil {
		return fmt.Errorf("namespace %s: %w", r.Namespace, err)
	}
	p := plan.PodOf(&pod)
	r.pod, r.uid, r.namespace = &p, pod.UID, namespace.Labels
	return nil
}

func (r *attachment) has(a netip.Addr) bool { return slices.Contains(r.Addresses, a) }
