package nodes

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

// While no gateway serves, new pods of a policy with whenNoGateway: Drop send nothing to the outside from their first moment on, by their
// node or by a gateway; with Node they leave by their node. When gateways are back all leave by these alone.
func TestNewPodsWithoutGateway(t *testing.T) {
	t.Parallel()
	tier.Root(t)
	b := newManaged(t)
	defer b.dump()
	b.gateway()
	b.policy()
	b.programmed(2, "4/4")
	b.serving(3, 4)
	r := newKubelet(b)
	uplinks := []*leaks{watchLeaks(b.cluster, b.wan, "g3", false), watchLeaks(b.cluster, b.wan, "g4", false)}
	b.leaves(b.web1, "udp", harness.Outside4, egress4) // what the captures see
	uplinks[0].only(t, "the gateway's uplink", egress4)
	for _, h := range b.Hosts[2:] {
		b.Edges[h.Name].Kill()
	}
	b.serving()
	uplinks[0].forget()
	quiet := func(l ...*leaks) {
		t.Helper()
		for _, l := range l {
			l.only(t, "an uplink on which nothing may leave")
		}
	}

	dropped, count := r.guest("drop"), 5
	if tier.IsLong() {
		count = 50
	}
	for left := count; left > 0; left-- {
		r.first(dropped)
		if left > 1 {
			r.Must(dropped.end())
		}
	}
	b.stays(harness.Guest{Host: dropped.Host}, harness.Outside4)
	quiet(r.leaks, uplinks[0], uplinks[1])

	r.whenNoGateway(v1alpha1.NoGatewayNode)
	b.leaves(harness.Guest{Host: dropped.Host}, "udp", harness.Outside4, b.Tep(1))
	node := r.guest("node")
	r.first(node)
	r.leaks.only(t, "the node's uplink", b.Tep(1))
	b.leaves(harness.Guest{Host: node.Host}, "tcp", harness.Outside4, b.Tep(1))
	quiet(uplinks...)

	for _, h := range b.Hosts[2:] {
		text, err := os.ReadFile(b.agents[h.Name].Node.File)
		b.Must(err)
		b.Start(h, dut.EdgeName(h), string(text))
	}
	b.serving(3, 4)
	for _, g := range []*guest{dropped, node} { // the agent has noticed
		b.leaves(harness.Guest{Host: g.Host}, "udp", harness.Outside4, egress4)
		b.leaves(harness.Guest{Host: g.Host}, "udp", harness.Outside6, egress6)
	}
	r.leaks.forget()
	uplinks[0].forget()
	back := r.guest("back")
	r.first(back)
	b.leaves(harness.Guest{Host: back.Host}, "tcp", harness.Outside4, egress4)
	quiet(r.leaks)
	uplinks[0].only(t, "the gateway's uplink", egress4, egress6)
	r.Must(errors.Join(dropped.end(), node.end(), back.end()))
}

// first starts a pod that sends from its first moment on, and goes on when its address is known.
func (r *kubelet) first(g *guest) {
	r.T.Helper()
	g.create("shop", "web")
	r.Must(g.add())
	r.Must(errors.Join(g.send(50*time.Millisecond), g.report(), g.send(50*time.Millisecond)))
}

// whenNoGateway changes the policy, until the first node has it.
func (r *kubelet) whenNoGateway(to v1alpha1.NoGateway) {
	r.T.Helper()
	p := r.policy()
	p.Spec.WhenNoGateway = to
	r.Must(r.c.Update(r.Ctx, p))
	r.Fact("the pods' node has the policy anew", func() error {
		n := &v1alpha1.EgressNode{}
		if err := r.c.Get(r.Ctx, client.ObjectKey{Name: dut.EdgeName(r.node)}, n); err != nil {
			return err
		}
		if !slices.ContainsFunc(n.Status.Policies, func(has v1alpha1.NodePolicy) bool { return has.Generation == p.Generation && has.Programmed }) {
			return fmt.Errorf("%+v", n.Status.Policies)
		}
		return nil
	})
}

// only fails the test unless packets came of these sources, of each that is named first, and of no others.
func (l *leaks) only(t *testing.T, where string, want ...netip.Addr) {
	t.Helper()
	if len(want) > 0 {
		if err := await.That(t.Context(), "a packet of "+want[0].String(), func() error {
			if _, is := l.sources.Load(want[0]); !is {
				return errors.New("there is none")
			}
			return nil
		}); err != nil {
			t.Errorf("%s: %v", where, err)
		}
	}
	var got []netip.Addr
	l.sources.Range(func(a, _ any) bool { got = append(got, a.(netip.Addr)); return true })
	for _, a := range got {
		if !slices.Contains(want, a) {
			t.Errorf("%s: %d packets, of %v, and of %v alone may be", where, l.count.Load(), got, want)
			return
		}
	}
}

// forget begins anew.
func (l *leaks) forget() {
	l.count.Store(0)
	l.sources.Clear()
}
