package agent

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/internal/hold"
	"github.com/selvage/selvage/kube/internal/plan"
)

// arrived brings the list of attachments up to date, and is the addresses that the node holds. Those first: a pod that is held has a
// file by then.
func (a *agent) arrived(ctx context.Context) (held []netip.Addr, err error) {
	if a.Socket == "" {
		return nil, nil
	}
	if err := a.Node.Within(func() (err error) { held, err = a.Node.Steer.Held(); return err }); err != nil {
		return nil, err
	}
	if err := a.attachments.read(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, findMost)
	defer cancel()
	for _, r := range a.attachments.all() {
		if r.pod == nil {
			if err := a.find(ctx, &r); err == nil {
				a.attachments.found(r)
			} else if !apierrors.IsNotFound(err) || time.Since(r.since) < attachmentMost {
				continue // it is held
			}
		}
		if a.over(ctx, &r) && (r.made || time.Since(r.since) > hold.Patience) { // who waits is answered first
			if err := a.attachments.drop(r.ID); err != nil {
				return nil, err
			}
		}
	}
	return held, nil
}

// read has the list be that of the files.
func (r *attachments) read() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids, err := r.files.List()
	if err != nil {
		return err
	}
	maps.DeleteFunc(r.list, func(id string, _ *attachment) bool { return !slices.Contains(ids, id) })
	for _, id := range ids {
		if r.list[id] != nil {
			continue
		}
		one, since, err := r.files.Get(id)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			slog.Warn("a pod that is held cannot be read", "err", err)
			if err := r.files.Drop(id); err != nil {
				return err
			}
		default:
			r.list[id] = &attachment{Attachment: one, since: since, ready: make(chan struct{})}
		}
	}
	return nil
}

// all are copies of the attachments, the oldest first.
func (r *attachments) all() (list []attachment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.list {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(a, b attachment) int { return a.since.Compare(b.since) })
	return list
}

// found notes what the API server says of a pod.
func (r *attachments) found(of attachment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.list[of.ID]; one != nil {
		one.pod, one.uid, one.namespace, one.seen = of.pod, of.uid, of.namespace, of.seen
	}
}

func (r *attachments) drop(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.list, id)
	return r.files.Drop(id)
}

// over reports whether an attachment has come to its end: the API server has the addresses, or the pod is gone. What it says of labels
// meanwhile counts.
func (a *agent) over(ctx context.Context, r *attachment) bool {
	late := time.Since(r.since) > attachmentMost
	if r.pod == nil {
		return late
	}
	var pod corev1.Pod
	err := a.client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, &pod)
	switch {
	case err == nil && pod.UID == r.uid:
		p := plan.PodOf(&pod)
		r.pod, r.seen = &p, true
		a.attachments.found(*r)
		return late || slices.ContainsFunc(p.Addresses, r.has) || p.Phase == corev1.PodSucceeded || p.Phase == corev1.PodFailed
	case err == nil || apierrors.IsNotFound(err):
		return late || r.seen
	}
	return false
}

// join adds the attachments to a plan's input, and is those that the API server knows. Addresses are of the latest that has them.
func (r *attachments) join(in *plan.Input) (list []attachment) {
	for _, one := range r.all() {
		if one.pod != nil {
			one.into(in)
			list = append(list, one)
		}
	}
	return list
}

func (r *attachment) into(in *plan.Input) {
	if _, known := in.Namespaces[r.Namespace]; !known {
		in.Namespaces[r.Namespace] = r.namespace
	}
	own := *r.pod
	own.Addresses = slices.Clone(r.Addresses)
	in.Pods = slices.DeleteFunc(in.Pods, r.is)
	for i := range in.Pods {
		in.Pods[i].Addresses = slices.DeleteFunc(in.Pods[i].Addresses, r.has)
	}
	in.Pods = append(in.Pods, own)
}

// is reports whether a pod is the attachment's, as a name goes.
func (r *attachment) is(p plan.Pod) bool { return p.Namespace == r.Namespace && p.Name == r.Name }

// selects writes what the plugin has to know while nobody answers it, and has it be called.
func (a *agent) selects(in plan.Input) error {
	if a.Socket == "" {
		return nil
	}
	verdicts, others := plan.Verdicts(in)
	s := hold.Selects{Namespaces: map[string]string{}, Others: string(others), Rule: a.Node.Steer.Rule, Table: a.Node.Steer.Table, Cluster: in.Settings.Cluster}
	if len(a.Node.others.list) > 0 {
		s.Rule, s.Table = 0, 0 // they are another program's, or it has the pods elsewhere
	}
	for name, verdict := range verdicts {
		s.Namespaces[name] = string(verdict)
	}
	err := a.attachments.files.WriteSelects(s)
	return errors.Join(err, a.Plugin.Chain())
}

// admitted lets go of attachments that the tables have, and of addresses that are held for them or for nobody. waits is that some are not in the tables.
func (a *agent) admitted(planned []attachment, held []netip.Addr, p plan.Plan, f Found) (waits bool, err error) {
	if a.Socket == "" {
		return false, nil
	}
	for _, one := range planned {
		switch {
		case one.made:
		case f.has(p, one.Addresses):
			a.attachments.made(one.ID)
		default:
			waits = waits || time.Since(one.since) < hold.Patience
		}
	}
	if !f.Steered {
		return waits, nil
	}
	unknown := func(address netip.Addr) bool {
		return slices.ContainsFunc(a.attachments.all(), func(r attachment) bool {
			return r.has(address) && !slices.ContainsFunc(planned, func(one attachment) bool { return one.ID == r.ID })
		})
	}
	return waits, a.Node.Within(func() error { return a.Node.Steer.Release(slices.DeleteFunc(held, unknown)) })
}

// made ends the wait for an attachment.
func (r *attachments) made(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.list[id]; one != nil && !one.made {
		one.made = true
		close(one.ready)
	}
}

// has reports whether the tables have addresses where the plan has them.
func (f Found) has(p plan.Plan, addresses []netip.Addr) bool {
	for name, members := range p.Groups {
		for _, address := range addresses {
			if slices.Contains(members, address) && !slices.Contains(f.Members[name], address) {
				return false
			}
		}
	}
	return f.Steered
}
