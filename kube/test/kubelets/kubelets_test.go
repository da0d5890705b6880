package kubelets

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/test/e2e/harness"
)

// The chart as users run it, from its installation to its end: what has a policy leaves with its address and by no other, and connections
// go on while agents and edges are replaced, and when a gateway ends.
func TestKubelets(t *testing.T) {
	longTier(t)
	dir := t.TempDir()
	images := built(t, dir)
	b := newCluster(t, images)
	b.install("1.0.0")
	b.do("helm", "test", release, "--namespace", namespace, "--timeout", "3m")
	b.egress()

	first := b.nodes[0]
	web, db := b.pod("web", first, "web"), b.pod("db", first, "db")
	b.running(web)
	b.running(db)
	b.leaves(web, first, egress4)
	b.leaves(db, first, b.Tep(1))

	exchange := b.connect(web, first, 100)
	b.rolls(t, exchange)
	b.upgrades(t, exchange)
	b.drains(t, exchange)
	b.starts(t)
	b.kills(t, web, exchange)
	b.uninstalls()
}

// built are the files of images: two versions of the product, and what pods run.
func built(t *testing.T, dir string) (images []string) {
	t.Helper()
	for _, version := range []string{"1.0.0", "1.0.1"} {
		list, err := product(t.Context(), dir, version)
		if err != nil || len(list) != 2 {
			t.Fatalf("images %v, %v", list, err)
		}
		images = append(images, list...)
	}
	own, err := pause(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return append(images, own)
}

// egress makes the gateway and the policy, and waits until all nodes have it.
func (b *cluster) egress() {
	b.T.Helper()
	b.do("kubectl", "label", "node", "node2", "node3", "example.org/egress=out")
	g := &v1alpha1.EgressGateway{ObjectMeta: metav1.ObjectMeta{Name: "out"}, Spec: v1alpha1.EgressGatewaySpec{
		Nodes: metav1.LabelSelector{MatchLabels: map[string]string{"example.org/egress": "out"}}, Addresses: []v1alpha1.AddressRange{v1alpha1.AddressRange(egress4.String())},
		Uplink:   v1alpha1.Uplink{Interface: "eth1", NextHops: []string{"198.51.100.1"}},
		Liveness: v1alpha1.Liveness{Interval: metav1.Duration{Duration: 100 * time.Millisecond}, Multiplier: 20}, // so that a busy machine is no loss
	}}
	p := &v1alpha1.EgressPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: v1alpha1.EgressPolicySpec{
		Gateway: "out", Pods: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}}
	for _, o := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, g, p} {
		b.Must(b.c.Create(b.Ctx, o))
	}
	b.eventually("the policy is programmed, and both gateways serve", func() error {
		if err := b.c.Get(b.Ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if err := b.c.Get(b.Ctx, client.ObjectKeyFromObject(g), g); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionProgrammed) || g.Status.Serving != "2/2" {
			return fmt.Errorf("%+v, %+v", p.Status, g.Status)
		}
		return nil
	})
}

// rolls has Kubernetes replace the pods of all agents, one after the other.
func (b *cluster) rolls(t *testing.T, exchange func() error) {
	b.do("kubectl", "-n", namespace, "rollout", "restart", "daemonset/"+release+"-agent")
	b.whole(t, "a roll-over", exchange, func() {
		b.do("kubectl", "-n", namespace, "rollout", "status", "daemonset/"+release+"-agent", "--timeout", "5m")
	})
}

// upgrades has Helm install another version.
func (b *cluster) upgrades(t *testing.T, exchange func() error) {
	b.whole(t, "an upgrade", exchange, func() { b.install("1.0.1") })
	out := b.do("kubectl", "-n", namespace, "get", "pods", "-o", "jsonpath={.items[*].spec.containers[*].image}")
	t.Logf("images now: %s", out)
}

// drains has all pods but agents leave a node of the gateway, and then the agent of the pods' node be deleted and made again.
func (b *cluster) drains(t *testing.T, exchange func() error) {
	b.whole(t, "a drain", exchange, func() {
		b.do("kubectl", "drain", "node3", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout", "3m")
		b.do("kubectl", "uncordon", "node3")
	})
	b.whole(t, "the end of an agent's pod", exchange, func() {
		b.do("kubectl", "-n", namespace, "delete", "pod", "-l", "app.kubernetes.io/component=agent", "--field-selector", "spec.nodeName=node1")
		b.do("kubectl", "-n", namespace, "rollout", "status", "daemonset/"+release+"-agent", "--timeout", "5m")
	})
}

// whole is that all connections go on while something is done, and after.
func (b *cluster) whole(t *testing.T, what string, exchange func() error, do func()) {
	t.Helper()
	done := make(chan struct{})
	var running sync.WaitGroup
	rounds := 0
	running.Go(func() {
		pace := time.NewTicker(20 * time.Millisecond)
		defer pace.Stop()
		for ; ; <-pace.C {
			if err := exchange(); err != nil {
				t.Errorf("connections during %s: %v", what, err)
				return
			}
			rounds++
			select {
			case <-done:
				return
			default:
			}
		}
	})
	do()
	close(done)
	running.Wait()
	if err := exchange(); err != nil {
		t.Errorf("connections after %s: %v", what, err)
	}
	t.Logf("during %s each connection exchanged %d lines", what, rounds)
}

// starts has pods start that send at once: nothing of them is seen outside with another address.
func (b *cluster) starts(t *testing.T) {
	const port, pods = 7300, 20
	sources := map[netip.Addr]int{}
	var mu sync.Mutex
	b.Must(b.out.Do(func() error {
		l, err := net.ListenUDP("udp4", &net.UDPAddr{Port: port})
		if err != nil {
			return err
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for buffer := make([]byte, 100); ; {
				_, from, err := l.ReadFromUDPAddrPort(buffer)
				if err != nil {
					return
				}
				mu.Lock()
				sources[from.Addr().Unmap()]++
				mu.Unlock()
			}
		}()
		return nil
	}))
	to := netip.AddrPortFrom(harness.Outside4, port).String()
	for i := range pods {
		b.running(b.pod(fmt.Sprintf("new-%d", i), b.nodes[i%2], "web", to))
	}
	mu.Lock()
	defer mu.Unlock()
	if len(sources) != 1 || sources[egress4] == 0 {
		t.Errorf("new pods leave as %v", sources)
	}
	t.Logf("datagrams of %d new pods: %v", pods, sources)
}

// kills ends all of the node that answers for the address, at once: what is open goes on by the other gateway.
func (b *cluster) kills(t *testing.T, web *corev1.Pod, exchange func() error) {
	g := &v1alpha1.EgressGateway{}
	b.Must(b.c.Get(b.Ctx, client.ObjectKey{Name: "out"}, g))
	gone := b.nodes[1]
	t.Logf("gateways: %+v", g.Status.Nodes)
	b.whole(t, "the end of a gateway", exchange, func() {
		b.Must(b.Sw.Down(fmt.Sprintf("e%d", gone.number)))
		b.Must(gone.Down("eth1"))
		gone.end()
	})
	b.leaves(web, b.nodes[0], egress4)
}

// uninstalls has Helm take the chart away: nothing is left on nodes that are ready.
func (b *cluster) uninstalls() {
	b.eventually("Kubernetes knows that the node is gone", func() error {
		n := &corev1.Node{}
		err := b.c.Get(b.Ctx, client.ObjectKey{Name: b.nodes[1].name}, n)
		if err == nil && isReady(n.Name, n.Status.Conditions) == nil {
			err = fmt.Errorf("it is ready")
		}
		return err
	})
	b.do("helm", "uninstall", release, "--namespace", namespace, "--timeout", "5m")
	for _, n := range []*node{b.nodes[0], b.nodes[2]} {
		b.eventually("nothing is left on "+n.name, func() error { return b.nothing(n) })
	}
}

// nothing is left of what steers, of the plugin, and of the data path.
func (b *cluster) nothing(n *node) error {
	for _, argv := range [][]string{{"nft", "list", "tables"}, {"ip", "rule"}, {"ip", "-br", "link"}, {"ip", "route", "show", "table", "all"}} {
		out, err := n.Output(b.Ctx, argv...)
		if err != nil {
			return err
		}
		if found := ours.Find(out); found != nil {
			return fmt.Errorf("%v says %s", argv, found)
		}
	}
	pins := fmt.Sprintf("/proc/%d/root/sys/fs/bpf/selvage/*", n.run.PID())
	for _, pattern := range []string{filepath.Join(n.dir, "lib/cni-bin/selvage*"), pins} {
		if list, _ := filepath.Glob(pattern); len(list) > 0 { // the pattern is right
			return fmt.Errorf("there are %v", list)
		}
	}
	text, err := os.ReadFile(filepath.Join(n.dir, "lib/cni-conf/10-pods.conflist"))
	if found := ours.Find(text); found != nil {
		err = fmt.Errorf("the configuration of CNI says %s", found)
	}
	return err
}

var ours = regexp.MustCompile(`(?m)^.*(selvage|7789|7790|0x1000).*$`)
