package api

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/agent"
	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/internal/plan"
	"github.com/selvage/selvage/test/tier"
)

// full is a gateway with more policies than its nodes' edges take.
type full struct {
	t     *testing.T
	c     client.Client
	nodes []string
}

const (
	fullName = "full"
	room     = 1022
	tooMany  = 2
)

// More policies than an edge takes are told in those policies' status and events, though the text is longer than an event's may be; the
// others are served.
func TestTooManyPolicies(t *testing.T) {
	tier.Long(t, "TestGatewayIsFull of the plan, TestProgrammed and TestNote of the controller")
	ctrl.SetLogger(logr.Discard())
	f := full{t: t, c: clientBy(t, server.Admin())}
	f.gateway()
	f.policies()
	stop := f.controller()
	f.fact("all policies have addresses", f.allocated)
	f.eventsRest() // of so many at once some are lost
	stop()
	f.report(func(c v1alpha1.NodePolicy) bool { return !c.Programmed }) // the others later, for the same reason
	stop = f.controller()
	defer stop()
	f.fact("the last policies say that they are too many", f.told)
	f.report(func(v1alpha1.NodePolicy) bool { return true })
	f.fact("all others are programmed", f.programmed)
}

func (f *full) fact(what string, try func() error) {
	f.t.Helper()
	if err := await.Within(f.t.Context(), time.Minute, what, try); err != nil {
		f.t.Fatal(err)
	}
}

// create makes an object that goes with the test.
func (f *full) create(o client.Object) {
	f.t.Helper()
	if err := f.c.Create(f.t.Context(), o); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { remove(f.t, f.c, o) })
}

// gateway makes the gateway, with so many nodes that what all of them lack is a long text.
func (f *full) gateway() {
	f.t.Helper()
	role := map[string]string{"example.org/egress": fullName}
	for i := range 6 {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d.example.org", fullName, i), Labels: role}}
		f.create(n)
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", 10+i)}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := f.c.Status().Update(f.t.Context(), n); err != nil {
			f.t.Fatal(err)
		}
		f.create(&v1alpha1.EgressNode{ObjectMeta: metav1.ObjectMeta{Name: n.Name}})
		f.nodes = append(f.nodes, n.Name)
	}
	f.create(&v1alpha1.EgressGateway{ObjectMeta: metav1.ObjectMeta{Name: fullName}, Spec: v1alpha1.EgressGatewaySpec{
		Nodes: metav1.LabelSelector{MatchLabels: role}, Addresses: []v1alpha1.AddressRange{"198.18.0.1-198.18.7.254"},
		Uplink: v1alpha1.Uplink{Interface: "eth1", NextHops: []string{"198.18.15.254"}},
	}})
}

// policies makes them, the last in name and age last.
func (f *full) policies() {
	f.t.Helper()
	f.t.Cleanup(func() {
		err := f.c.DeleteAllOf(context.WithoutCancel(f.t.Context()), &v1alpha1.EgressPolicy{}, client.InNamespace("default"))
		if err != nil {
			f.t.Error(err)
		}
	})
	for i := range room + tooMany {
		err := f.c.Create(f.t.Context(), &v1alpha1.EgressPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%04d", fullName, i)}, Spec: v1alpha1.EgressPolicySpec{Gateway: fullName},
		})
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *full) allocated() error {
	for _, p := range f.list() {
		if len(p.Status.Addresses) == 0 {
			return fmt.Errorf("%s has no address", p.Name)
		}
	}
	return nil
}

// controller runs one until it is stopped.
func (f *full) controller() (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- controller.Run(ctx, server.Admin(), controller.Options{}) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
	})
}

func (f *full) list() []v1alpha1.EgressPolicy {
	f.t.Helper()
	var list v1alpha1.EgressPolicyList
	if err := f.c.List(f.t.Context(), &list, client.InNamespace("default")); err != nil {
		f.t.Fatal(err)
	}
	return list.Items
}

func (f *full) events() []eventsv1.Event {
	f.t.Helper()
	var list eventsv1.EventList
	if err := f.c.List(f.t.Context(), &list, client.InNamespace("default")); err != nil {
		f.t.Fatal(err)
	}
	return list.Items
}

// eventsRest waits until those of new policies are written.
func (f *full) eventsRest() {
	f.t.Helper()
	last, since := -1, time.Now()
	f.fact("no event comes any more", func() error {
		if now := len(f.events()); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < time.Second {
			return fmt.Errorf("%d events", last)
		}
		return nil
	})
}

// report has agents of all nodes report those of a plan's policies that are wanted.
func (f *full) report(wanted func(v1alpha1.NodePolicy) bool) {
	f.t.Helper()
	var nodes corev1.NodeList
	var gateways v1alpha1.EgressGatewayList
	var reports v1alpha1.EgressNodeList
	for _, list := range []client.ObjectList{&nodes, &gateways, &reports} {
		if err := f.c.List(f.t.Context(), list); err != nil {
			f.t.Fatal(err)
		}
	}
	o := &controller.Objects{Nodes: nodes.Items, Gateways: gateways.Items, Policies: f.list()}
	for i, name := range f.nodes {
		in := agent.Input(name, nil, o)
		in.Settings = plan.Settings{Cluster: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}, LinkUp: plan.DefaultLinkPair}
		own := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 15, byte(1 + i)}), 20)
		in.Host = plan.Host{Underlay: "eth0", Uplinks: map[string][]netip.Prefix{"eth1": {own}}}
		p, err := plan.Make(in)
		if err != nil {
			f.t.Fatal(err)
		}
		found := agent.Found{Lacks: map[string]string{}}
		for _, c := range p.Policies {
			found.Lacks[c.Key] = c.Problem
		}
		for _, n := range reports.Items {
			if n.Name != name {
				continue
			}
			n.Status = agent.Report(name, n.Status, p, found)
			var chosen []v1alpha1.NodePolicy
			for _, c := range n.Status.Policies {
				if wanted(c) {
					chosen = append(chosen, c)
				}
			}
			n.Status.Policies = chosen
			if err := f.c.Status().Update(f.t.Context(), &n); err != nil {
				f.t.Fatal(err)
			}
		}
	}
}

// isLast reports whether a policy is one of those that are too many.
func isLast(name string) bool { return name >= fmt.Sprintf("%s-%04d", fullName, room) }

// told is whether the last policies, and no others, say in status and event that they are too many, and where.
func (f *full) told() error {
	const where = "full-0.example.org: node full-0.example.org of EgressGateway full has 1022 policies already"
	var errs []error
	for _, p := range f.list() {
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProgrammed)
		if c == nil {
			return fmt.Errorf("%s has no condition", p.Name)
		}
		is := c.Reason == v1alpha1.ReasonTooManyPolicies && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, where) && strings.Contains(c.Message, "full-4.example.org: ")
		if is != isLast(p.Name) {
			errs = append(errs, fmt.Errorf("%s: %+v", p.Name, c))
		}
	}
	noted := 0
	for _, e := range f.events() {
		if e.Reason == v1alpha1.ReasonTooManyPolicies && isLast(e.Regarding.Name) && strings.Contains(e.Note, where) && strings.Contains(e.Note, "cut here") {
			noted++
		}
	}
	if noted != tooMany {
		errs = append(errs, fmt.Errorf("%d events", noted))
	}
	return errors.Join(errs...)
}

func (f *full) programmed() error {
	for _, p := range f.list() {
		if is := meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionProgrammed); is == isLast(p.Name) {
			return fmt.Errorf("%s: %+v", p.Name, meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProgrammed))
		}
	}
	return nil
}
