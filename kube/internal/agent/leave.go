package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/cni"
	"github.com/selvage/selvage/kube/internal/hold"
	"github.com/selvage/selvage/kube/internal/password"
	"github.com/selvage/selvage/kube/internal/plan"
	"github.com/selvage/selvage/kube/internal/steer"
)

// Traces are what an agent and the CNI plugin make of a node, beside its edge.
type Traces struct {
	Plugin cni.Place
	Files  hold.Files
	Steer  steer.Steerer
	// Passwords are removed where the edge has ended.
	Passwords password.Folder
}

// Remove leaves none of them in the network namespace that it is called in. Pods pass the plugin as soon as its list and its files are
// changed, so that none is held by what nobody releases.
func (t Traces) Remove(ctx context.Context) error {
	errs := []error{t.Plugin.Unchain()}
	if t.Files.Folder != "" {
		errs = append(errs, t.Files.Remove())
	}
	if t.Passwords != "" {
		errs = append(errs, t.Passwords.Keep(nil))
	}
	return errors.Join(append(errs, t.Steer.Remove(ctx), t.Plugin.Uninstall())...)
}

// leaves has the node be without Selvage while its EgressNode says leave, and reports whether there is nothing more to do for now. An agent
// that has left does not come back because the object is gone: who uninstalls deletes it while agents still run.
func (a *agent) leaves(ctx context.Context) (bool, error) {
	var n v1alpha1.EgressNode
	err := a.client.Get(ctx, client.ObjectKey{Name: a.Name}, &n)
	switch {
	case apierrors.IsNotFound(err):
		return a.left, nil
	case err != nil:
		return false, fmt.Errorf("EgressNode %s: %w", a.Name, err)
	case n.Spec.Leave:
		a.here, a.left = false, true
		failed := a.leave(ctx)
		return true, errors.Join(failed, a.writeLeft(ctx, &n, failed))
	}
	return false, a.comeBack()
}

// leave takes all away; it is done again and again, as long as the node is to be without.
func (a *agent) leave(ctx context.Context) error {
	a.attachments.leave()
	a.secrets.Want(ctx, nil)
	traces := Traces{Plugin: a.Plugin, Files: a.attachments.files, Steer: a.Node.Steer}
	return errors.Join(a.Node.Within(func() error { return traces.Remove(ctx) }), a.empty(ctx))
}

// empty has the edge have no policy and no password, and remove its data path when it ends.
func (a *agent) empty(ctx context.Context) error {
	if err := write(a.Node.leaveFile(), nil); err != nil {
		return err
	}
	own, err := a.address(ctx)
	if err != nil {
		return err
	}
	host, err := a.Host(own)
	if err != nil {
		return err
	}
	p, err := nothing(a.Name, own, host)
	if err != nil {
		return err
	}
	return a.Node.file(ctx, p)
}

// leaveFile is there while the edge is to remove its data path at its end: selvage edge --remove-at-exit-if.
func (n *Node) leaveFile() string { return n.File + ".leave" }

// address is the node's own.
func (a *agent) address(ctx context.Context) (netip.Addr, error) {
	var node corev1.Node
	if err := a.client.Get(ctx, client.ObjectKey{Name: a.Name}, &node); err != nil {
		return netip.Addr{}, fmt.Errorf("node %s: %w", a.Name, err)
	}
	own := plan.NodeOf(&node).Addresses
	if len(own) == 0 {
		return netip.Addr{}, fmt.Errorf("node %s: it has no InternalIP", a.Name)
	}
	return own[0], nil
}

// comeBack is the start of an agent, and of one that has left.
func (a *agent) comeBack() error {
	if a.here {
		return nil
	}
	if err := os.Remove(a.Node.leaveFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := a.Plugin.Install(); err != nil { // before a list has it
		return err
	}
	a.Node.applied, a.Node.wanted, a.Node.last = "", "", plan.Plan{}
	a.attachments.comeBack()
	a.here, a.left = true, false
	return nil
}

// writeLeft writes that the node has left, or what is in the way.
func (a *agent) writeLeft(ctx context.Context, n *v1alpha1.EgressNode, failed error) error {
	was := n.DeepCopy()
	n.Status.Policies, n.Status.Gateways = nil, nil
	c := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonLeft, ObservedGeneration: n.Generation,
		Message: "nothing leads pods to the edge, until spec.leave is false",
	}
	if failed != nil {
		c.Reason, c.Message = v1alpha1.ReasonLeaving, failed.Error()
	}
	meta.SetStatusCondition(&n.Status.Conditions, c)
	if equality.Semantic.DeepEqual(was.Status, n.Status) {
		return nil
	}
	err := a.client.Status().Patch(ctx, n, client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsConflict(err) { // what the cache lacks is a reason to look again
		return fmt.Errorf("EgressNode %s: %w", a.Name, err)
	}
	return nil
}

// errLeft is that no pod is waited for.
var errLeft = errors.New("the node has left")

// leave ends all waiting, and has none begin.
func (r *attachments) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = true
	for id, one := range r.list {
		if !one.made {
			close(one.ready)
		}
		delete(r.list, id)
	}
}

func (r *attachments) comeBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = false
}

func (r *attachments) hasLeft() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left
}
