package nodes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/agent"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

const (
	podsOfNode = 110 // the kubelet's usual maximum
	firstExtra = 10  // number of the first pod that is an object only
	// labelMost is how long the tables may take, of 99 in 100 labels.
	labelMost = time.Second
)

// A label of a pod is soon in the tables of its node, and one of a namespace in those of all nodes, in a cluster with many pods. Packets
// of other pods do not notice.
func TestLabels(t *testing.T) {
	nodes, ofPods, ofNamespace, rest := 10, 10, 2, 2*agent.VerifyEach
	if tier.IsLong() { // and nothing else meanwhile, for the sake of the figures
		nodes, ofPods, ofNamespace, rest = 91, 200, 50, 30*time.Second
	} else {
		t.Parallel()
	}
	b := newManaged(t)
	defer b.dump()
	began := time.Now()
	pods, idle := b.crowd(nodes)
	t.Logf("%d pods on %d nodes, made in %s", nodes*podsOfNode, nodes, time.Since(began).Round(time.Millisecond))
	b.gateway()
	b.policy()
	b.programmed(2+len(pods)/2, "4/4")
	b.namespaces()
	b.serving(3, 4)
	b.own()
	var monitors []*steered
	for _, h := range b.Hosts {
		monitors = append(monitors, monitor(b, h))
	}
	streams := map[netip.Addr]*harness.Stream{
		egress4:  b.StartStream(harness.Direction{Name: "web1", From: b.web1.Host, To: b.out, Addr: harness.Outside4}),
		b.Tep(1): b.StartStream(harness.Direction{Name: "db1", From: b.db1.Host, To: b.out, Addr: harness.Outside4}),
	}
	b.GoOn(slices.Collect(maps.Values(streams)))
	b.soon("labels of pods", ofPods, func(i int) time.Duration {
		p, to := pods[i%len(pods)], map[string]string{"web": "db", "db": "web"}
		return b.relabel(p, "app", to[p.Labels["app"]], func() bool { return b.is(monitors[0], "p_shop_web", p, p.Labels["app"] == "web") })
	})
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	b.soon("labels of a namespace", ofNamespace, func(i int) time.Duration {
		is := i%2 == 0
		return b.relabel(shop, "team", map[bool]string{true: "a", false: "b"}[is], func() bool {
			return !slices.ContainsFunc(monitors, func(m *steered) bool { return !b.is(m, "c_teams", idle[m.node], is) })
		})
	})
	b.GoOn(slices.Collect(maps.Values(streams)))
	for as, s := range streams {
		b.Lost(s, 0)
		if from := s.From(); len(from) != 1 || from[as] == 0 {
			t.Errorf("they came from %v, want %s", from, as)
		}
	}
	b.silent(rest)
}

// soon makes so many changes, at any time of the agents' own.
func (b *managed) soon(what string, count int, change func(i int) time.Duration) {
	b.T.Helper()
	var took []time.Duration
	for i := range count {
		wait(rand.N(200 * time.Millisecond))
		took = append(took, change(i))
	}
	slices.Sort(took)
	at := func(part float64) time.Duration { return took[int(part*float64(count-1)+0.5)].Round(time.Millisecond) }
	b.T.Logf("%d %s: in the tables after %s in the median, %s of 99 in 100, %s at most", count, what, at(0.5), at(0.99), at(1))
	if tier.IsLong() && at(0.99) > labelMost {
		b.T.Errorf("want %s", labelMost)
	}
}

// namespaces makes a policy of namespaces, of idle pods, with an address of its own.
func (b *managed) namespaces() {
	b.T.Helper()
	g := &v1alpha1.EgressGateway{ObjectMeta: metav1.ObjectMeta{Name: "out"}}
	b.Must(b.c.Get(b.Ctx, client.ObjectKeyFromObject(g), g))
	was := g.DeepCopy()
	g.Spec.Addresses = append(g.Spec.Addresses, v1alpha1.AddressRange(egress4.Next().String()), v1alpha1.AddressRange(egress6.Next().String()))
	b.Must(b.c.Patch(b.Ctx, g, client.MergeFrom(was)))
	p := &v1alpha1.ClusterEgressPolicy{ObjectMeta: metav1.ObjectMeta{Name: "teams"}, Spec: v1alpha1.ClusterEgressPolicySpec{
		Namespaces:       &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}},
		EgressPolicySpec: v1alpha1.EgressPolicySpec{Gateway: "out", Pods: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "idle"}}},
	}}
	b.Must(b.c.Create(b.Ctx, p))
	b.Fact("the policy of namespaces is programmed", func() error {
		err := b.c.Get(b.Ctx, client.ObjectKeyFromObject(p), p)
		if err == nil && !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionProgrammed) {
			err = fmt.Errorf("%+v", p.Status)
		}
		return err
	})
}

// crowd has so many nodes, of which four are real, and as many pods on them as there may be. own are those of the first node, of which every
// other one is of the policy, and idle one more of each real node; the real nodes' others are idle too.
func (b *managed) crowd(nodes int) (own []*corev1.Pod, idle map[*topo.Host]*corev1.Pod) {
	b.T.Helper()
	idle = map[*topo.Host]*corev1.Pod{}
	var list []client.Object
	for i := len(b.Hosts); i < nodes; i++ {
		address := netip.AddrFrom4([4]byte{10, 6, byte(i), 1})
		list = append(list, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}, Spec: corev1.NodeSpec{PodCIDR: netip.PrefixFrom(address, 24).Masked().String()},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address.String()}}},
		})
		list[len(list)-1].(*corev1.Node).Spec.PodCIDRs = []string{list[len(list)-1].(*corev1.Node).Spec.PodCIDR}
		for number := range podsOfNode {
			ip := netip.AddrFrom4([4]byte{10, 6, byte(i), byte(number + 2)})
			list = append(list, extra("crowd", fmt.Sprintf("node-%d-%d", i, number), fmt.Sprintf("node-%d", i), "crowd", ip))
		}
	}
	for i, h := range b.Hosts {
		for number := range podsOfNode - len(b.pods[h.Name]) {
			ip := harness.SubnetAddr(i+1, firstExtra+number, 4)
			p := extra("shop", fmt.Sprintf("%s-%d", h.Name, number), dut.EdgeName(h), "idle", ip)
			list = append(list, p)
			if i == 0 && number > 1 {
				p.Labels["app"] = []string{"web", "db"}[number%2]
				own = append(own, p)
			} else {
				idle[h] = p
			}
		}
	}
	b.Must(b.c.Create(b.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "crowd"}}))
	b.make(list)
	return own, idle
}

func extra(namespace, name, node, label string, ip netip.Addr) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": label}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "none"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip.String(), PodIPs: []corev1.PodIP{{IP: ip.String()}}},
	}
}

// make makes objects with their status, many at a time.
func (b *managed) make(list []client.Object) {
	b.T.Helper()
	const side = 16
	var (
		wait sync.WaitGroup
		errs = make([]error, side)
	)
	for s := range side {
		wait.Go(func() {
			for i := s; i < len(list) && errs[s] == nil; i += side {
				errs[s] = b.makeOne(list[i])
			}
		})
	}
	wait.Wait()
	b.Must(errors.Join(errs...))
}

// makeOne makes an object with its status, if it is one that has.
func (b *managed) makeOne(o client.Object) error {
	was := o.DeepCopyObject()
	if err := b.c.Create(b.Ctx, o); err != nil {
		return err
	}
	switch o := o.(type) {
	case *corev1.Node:
		o.Status = was.(*corev1.Node).Status
	case *corev1.Pod:
		o.Status = was.(*corev1.Pod).Status
	default:
		return nil
	}
	return b.c.Status().Update(b.Ctx, o)
}

// own is that agents ask for pods of their own nodes alone.
func (b *managed) own() {
	b.T.Helper()
	requests, err := b.server.Requests()
	b.Must(err)
	asked := 0
	for _, r := range requests {
		if r.User.Username != "system:serviceaccount:"+namespace+":"+release+"-agent" || r.ObjectRef.Resource != "pods" {
			continue
		}
		asked++
		if !strings.Contains(r.RequestURI, "fieldSelector=spec.nodeName%3D") {
			b.T.Errorf("an agent asks for %s %s", r.Verb, r.RequestURI)
		}
	}
	if asked == 0 {
		b.T.Error("no agent asks for pods")
	}
}

// silent is a time in which nobody writes to the API server.
func (b *managed) silent(rest time.Duration) {
	b.T.Helper()
	written := func(since time.Time) error {
		list, err := b.server.Writes(namespace, since)
		if len(list) > 0 {
			err = errors.Join(err, fmt.Errorf("written: %v", list))
		}
		return err
	}
	b.Fact("agents and the controller come to rest", func() error {
		began := time.Now()
		wait(time.Second)
		return written(began)
	})
	began := time.Now()
	wait(rest)
	b.Once("nobody writes", func() error { return written(began) })
}

// relabel gives an object another label, and is how long it takes after that until something is so.
func (b *managed) relabel(o client.Object, key, value string, done func() bool) time.Duration {
	b.T.Helper()
	b.Must(b.c.Patch(b.Ctx, o, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value))))
	began := time.Now()
	ctx, cancel := context.WithTimeout(b.Ctx, harness.Patience)
	defer cancel()
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			b.T.Fatalf("the tables do not have %s=%s of %s", key, value, o.GetName())
		case <-pace.C:
		}
	}
	return time.Since(began)
}

// is reports whether a node's table and its edge's group both have a pod, or both have not.
func (b *managed) is(m *steered, group string, p *corev1.Pod, in bool) bool {
	b.T.Helper()
	ip := netip.MustParseAddr(p.Status.PodIP)
	if m.has(ip) != in {
		return false
	}
	list, err := b.Ask(m.node.Name).Live().List(b.Ctx)
	b.Must(err)
	grouped := slices.ContainsFunc(list.Objects, func(o api.LiveObject) bool {
		return o.Kind == "group" && o.Key == group && o.NotInForce == "" && strings.Contains(string(o.Object), `"`+ip.String()+`"`)
	})
	return grouped == in
}

// steered is the pods that a node's table steers, as the kernel tells of its changes.
type steered struct {
	node *topo.Host

	mu   sync.Mutex
	pods map[netip.Addr]bool
}

func (s *steered) has(ip netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[ip]
}

// monitor follows a node's table from what it is now.
func monitor(b *managed, h *topo.Host) *steered {
	b.T.Helper()
	m := &steered{node: h, pods: map[netip.Addr]bool{}}
	cmd := h.Command(b.Ctx, "nft", "monitor")
	read, write := io.Pipe()
	cmd.Stdout = write
	b.Must(cmd.Start())
	// All tables, as there is none of ours where no policy selects a pod.
	text, err := h.Output(b.Ctx, "nft", "list", "ruleset")
	b.Must(err)
	for _, word := range fields(strings.ReplaceAll(string(text), ",", " ")) {
		if ip, err := netip.ParseAddr(word); err == nil {
			m.pods[ip] = true
		}
	}
	var done sync.WaitGroup
	done.Go(func() { m.follow(bufio.NewScanner(read)) })
	b.T.Cleanup(func() {
		cmd.Kill()
		write.Close()
		done.Wait()
	})
	return m
}

// follow takes a change in when all of it has been read: the table is replaced in one.
func (s *steered) follow(lines *bufio.Scanner) {
	lines.Buffer(nil, 1<<20)
	next := map[netip.Addr]bool{}
	for lines.Scan() {
		words := strings.Fields(strings.ReplaceAll(lines.Text(), ",", " "))
		switch {
		case len(words) > 1 && words[0] == "#": // # new generation 7 by process 1234 (nft)
			s.mu.Lock()
			s.pods = maps.Clone(next)
			s.mu.Unlock()
		case len(words) > 1 && words[1] == "table":
			clear(next)
		case len(words) > 5 && words[1] == "element" && strings.HasPrefix(words[4], "pods"):
			for _, word := range words[5:] {
				if ip, err := netip.ParseAddr(word); err == nil {
					next[ip] = words[0] == "add"
				}
			}
		}
	}
}
