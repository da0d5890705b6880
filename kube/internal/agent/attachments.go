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
	asked chan question

	mu     sync.Mutex
	list   map[string]*attachment // by container
	adding int                    // more that are about to be in it
	left   bool                   // nobody waits
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
	return &attachments{
		files: hold.Files{Folder: state}, wake: make(chan event.GenericEvent, 1), asked: make(chan question, hold.Most), list: map[string]*attachment{},
	}
}

// serve has questions be answered once the cache is filled, and attachments be a reason to look.
func (r *attachments) serve(m manager.Manager, b *builder.Builder, a *agent) error {
	if a.Socket == "" {
		return nil
	}
	b.WatchesRawSource(source.Channel(r.wake, handler.EnqueueRequestsFromMapFunc(a.request)))
	return errors.Join(
		m.Add(manager.RunnableFunc(a.decide)),
		m.Add(manager.RunnableFunc(func(ctx context.Context) error { return hold.Serve(ctx, a.Socket, a.admit) })),
	)
}

// question is an attachment of which somebody waits to hear.
type question struct {
	*attachment
	gone   <-chan struct{}  // closed when nobody waits any more
	answer chan hold.Answer // an answer other than that the tables have it
}

// admit answers the plugin: when the pod is in the tables, or at once when no policy selects it.
func (a *agent) admit(ctx context.Context, at hold.Attachment) hold.Answer {
	if a.attachments.hasLeft() {
		return hold.Answer{State: hold.Unselected}
	}
	r := &attachment{Attachment: at, since: time.Now(), ready: make(chan struct{})}
	if err := a.find(ctx, r); err != nil {
		return hold.Answer{State: hold.Failed, Message: err.Error()}
	}
	q := question{attachment: r, gone: ctx.Done(), answer: make(chan hold.Answer, 1)}
	select {
	case a.attachments.asked <- q:
	case <-ctx.Done():
	}
	select {
	case answer := <-q.answer:
		return answer
	case <-r.ready:
		return hold.Answer{State: hold.Programmed}
	case <-ctx.Done():
		return hold.Answer{State: hold.Failed, Message: "the node's tables do not have the pod yet"}
	}
}

// decide takes questions until ctx ends, as many at a time as there are: a node that comes back asks for all of its pods at once, and
// what a decision needs of the cluster is read once for all.
func (a *agent) decide(ctx context.Context) error {
	for {
		var list []question
		select {
		case <-ctx.Done():
			return nil
		case q := <-a.attachments.asked:
			list = append(list, q)
		}
		for range len(a.attachments.asked) {
			list = append(list, <-a.attachments.asked)
		}
		a.decideOn(ctx, list)
	}
}

// decideOn answers questions about pods that no policy selects, and has the others be part of the node's plan.
func (a *agent) decideOn(ctx context.Context, list []question) {
	list = slices.DeleteFunc(list, question.isAbandoned)
	if len(list) == 0 {
		return
	}
	selected, free, err := a.selected(ctx, list)
	if err == nil && len(free) > 0 {
		var addresses []netip.Addr
		for _, q := range free {
			addresses = append(addresses, q.Addresses...)
		}
		err = a.Node.Within(func() error { return a.Node.Steer.Release(addresses) })
	}
	if err != nil {
		for _, q := range list {
			q.answer <- hold.Answer{State: hold.Failed, Message: err.Error()}
		}
		return
	}
	for _, q := range free {
		q.answer <- hold.Answer{State: hold.Unselected}
	}
	var wait sync.WaitGroup
	for _, q := range selected {
		wait.Go(func() { // each has its file on disk, which many together take hardly longer for
			switch err := a.attachments.add(q.attachment); {
			case errors.Is(err, errLeft):
				q.answer <- hold.Answer{State: hold.Unselected}
			case err != nil:
				q.answer <- hold.Answer{State: hold.Failed, Message: err.Error()}
			}
		})
	}
	wait.Wait()
	if len(selected) > 0 {
		a.attachments.hasten()
	}
}

// isAbandoned reports whether nobody waits for an answer.
func (q question) isAbandoned() bool {
	select {
	case <-q.gone:
		return true
	default:
		return false
	}
}

// selected are the pods for which the tables have to change: a policy selects them, or the tables have their addresses as those of
// others. free are the rest.
func (a *agent) selected(ctx context.Context, list []question) (selected, free []question, err error) {
	in, err := a.input(ctx)
	if err != nil {
		return nil, nil, err
	}
	a.attachments.join(&in)
	for _, q := range list {
		taken := slices.ContainsFunc(in.Pods, func(p plan.Pod) bool {
			return !q.is(p) && slices.ContainsFunc(p.Addresses, q.has)
		})
		q.into(&in)
		pod := *q.pod
		pod.Addresses = q.Addresses
		if taken || plan.Selected(in, pod) {
			selected = append(selected, q)
		} else {
			free = append(free, q)
		}
	}
	return selected, free, nil
}

// add has a pod be part of the node's plan. Its file is there first.
func (r *attachments) add(one *attachment) error {
	if err := r.reserve(one.ID); err != nil {
		return err
	}
	err := r.files.Put(one.Attachment)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.adding--
	switch {
	case err != nil:
		return err
	case r.left: // meanwhile
		return errors.Join(errLeft, r.files.Drop(one.ID))
	}
	r.list[one.ID] = one
	return nil
}

// reserve keeps a place for a container, which may have one.
func (r *attachments) reserve(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left {
		return errLeft
	}
	if r.list[id] == nil && len(r.list)+r.adding >= hold.Most {
		return fmt.Errorf("%d pods are waited for on this node already", hold.Most)
	}
	r.adding++
	return nil
}

// hasten has the node's plan be made anew.
func (r *attachments) hasten() {
	select {
	case r.wake <- event.GenericEvent{Object: &corev1.Pod{}}:
	default: // one is under way
	}
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
