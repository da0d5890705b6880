package kubelets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/test/apiserver"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

const picture = `
   pods of node1                              outside  203.0.113.1
        |                                       | lan0 198.51.100.1    | u0 192.0.2.9: the nodes' own way out
      cni0                                     wan (bridge)            |
      node1      node2      node3          uplinks eth1 of node2 and   |
        |          |          |            node3, of gateway "out"     |
        +----------+----------+------------ switch -------------------+`

const (
	chart         = "../../chart/selvage"
	release       = "egress"
	namespace     = "selvage-system"
	outsideNumber = 9
	// patience is for kubelets and pods on a busy machine.
	patience = 4 * time.Minute
)

var egress4 = netip.MustParseAddr("198.51.100.20")

// cluster is three nodes with kubelets, and what is outside.
type cluster struct {
	*harness.Hub
	server   *apiserver.Server
	c        client.Client
	nodes    []*node
	out, wan *topo.Host
}

// newCluster has nodes that are ready, and know these images.
func newCluster(t *testing.T, images []string) *cluster {
	t.Helper()
	b := &cluster{Hub: harness.NewUnderlay(t, picture, 3, 4)}
	b.outside()
	var err error
	b.server, err = apiserver.StartCluster(b.Ctx)
	b.Must(err)
	t.Cleanup(func() {
		if err := b.server.Close(); err != nil {
			t.Error(err)
		}
	})
	scheme, err := controller.Scheme()
	b.Must(err)
	b.c, err = client.New(b.server.Admin(), client.Options{Scheme: scheme})
	b.Must(err)
	for i, h := range b.Hosts {
		n := &node{Host: h, name: fmt.Sprintf("node%d", i+1), number: i + 1, dir: t.TempDir(), group: fmt.Sprintf("selvage-test-%d-%d", os.Getpid(), i+1)}
		b.nodes = append(b.nodes, n)
		b.Must(b.c.Create(b.Ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.name},
			Spec:       corev1.NodeSpec{PodCIDR: podNetwork(i+1, 4).String(), PodCIDRs: []string{podNetwork(i+1, 4).String(), podNetwork(i+1, 6).Masked().String()}},
		}))
		t.Cleanup(func() { n.remove(b) })
		b.Must(n.prepare())
		b.start(n, images)
	}
	t.Cleanup(b.dump)
	b.eventually("all nodes are ready", func() error {
		var list corev1.NodeList
		errs := []error{b.c.List(b.Ctx, &list)}
		for _, n := range list.Items {
			errs = append(errs, isReady(n.Name, n.Status.Conditions))
		}
		return errors.Join(errs...)
	})
	return b
}

func isReady(name string, conditions []corev1.NodeCondition) error {
	for _, c := range conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not ready: %+v", name, conditions)
}

// outside is a host behind the uplinks, which is the nodes' router too.
func (b *cluster) outside() {
	b.T.Helper()
	b.out, b.wan = b.Host("outside"), b.Host("wan")
	ports := []string{"out"}
	b.Must(b.Topo.Link(b.Ctx, topo.LinkEnd{Host: b.out, Name: "lan0", Addrs: []netip.Prefix{netip.MustParsePrefix("198.51.100.1/24")}}, topo.LinkEnd{Host: b.wan, Name: "out"}, 1500))
	for number := 2; number <= 3; number++ {
		h, port := b.Hosts[number-1], fmt.Sprintf("g%d", number)
		b.Must(b.Topo.Link(b.Ctx, topo.LinkEnd{Host: h, Name: "eth1", Addrs: []netip.Prefix{netip.PrefixFrom(harness.WanAddr(number, 4), 24)}}, topo.LinkEnd{Host: b.wan, Name: port}, 1500))
		ports = append(ports, port)
	}
	b.Must(b.wan.Bridge(b.Ctx, "br0", 1500, ports...))
	b.Join(b.out, outsideNumber)
	b.Must(b.Sw.Enslave(fmt.Sprintf("e%d", outsideNumber), "br0"))
	b.Must(b.out.AddAddrs("lo", netip.PrefixFrom(harness.Outside4, 32)))
	b.Mirror(b.out)
	b.Serve(harness.Guest{Host: b.out}, harness.PortAllowed)
	for i, h := range b.Hosts {
		_, err := h.Forward()
		b.Must(err)
		b.Must(h.AddRoute(topo.UnderlayName, netip.MustParsePrefix("0.0.0.0/0"), b.Tep(outsideNumber)))
		for other := 1; other <= len(b.Hosts); other++ {
			if other != i+1 {
				b.Must(h.AddRoute(topo.UnderlayName, podNetwork(other, 4), b.Tep(other)))
			}
		}
	}
}

// eventually is a fact that takes as long as pods take.
func (b *cluster) eventually(what string, try func() error) {
	b.T.Helper()
	if err := await.Within(b.Ctx, patience, what, try); err != nil {
		b.Fail(what, err)
	}
}

// do runs kubectl or helm.
func (b *cluster) do(name string, argv ...string) string {
	b.T.Helper()
	out, err := b.server.Run(b.Ctx, name, argv...)
	b.Must(err)
	return out
}

// install is of a version, and waits until all that it has is ready.
func (b *cluster) install(version string) {
	b.T.Helper()
	b.do("helm", "upgrade", "--install", release, chart, "--namespace", namespace, "--create-namespace", "--wait", "--timeout", "5m",
		"--set-json", fmt.Sprintf(`images={"edge":{"tag":%q},"kube":{"tag":%q},"pullPolicy":"Never"}`, version, version),
		"--set-json", `node={"cniPlugins":"/var/lib/cni-bin","cniConfigurations":"/var/lib/cni-conf"}`)
}

// pod runs on a node; its program gets these arguments.
func (b *cluster) pod(name string, on *node, app string, argv ...string) *corev1.Pod {
	b.T.Helper()
	grace := int64(0)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{NodeName: on.name, TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{
			{Name: "c", Image: pauseImage, ImagePullPolicy: corev1.PullNever, Args: argv},
		}},
	}
	b.Must(b.c.Create(b.Ctx, p))
	return p
}

// running is a fact: a pod runs.
func (b *cluster) running(p *corev1.Pod) {
	b.T.Helper()
	b.eventually("pod "+p.Name+" runs", func() error {
		err := b.c.Get(b.Ctx, client.ObjectKeyFromObject(p), p)
		if err == nil && p.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s", p.Status.Phase)
		}
		return err
	})
}

// seenAs is what a pod's connection is outside.
func (n *node) seenAs(p *corev1.Pod) (as netip.Addr, err error) {
	err = n.within(string(p.UID), func() error {
		c, err := net.DialTimeout("tcp", netip.AddrPortFrom(harness.Outside4, harness.MirrorPort).String(), 3*time.Second)
		if err != nil {
			return err
		}
		defer harness.CloseNow(c)
		if err := c.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
			return err
		}
		text := make([]byte, 100)
		size, err := c.Read(text)
		if err != nil {
			return err
		}
		from, err := netip.ParseAddrPort(string(text[:size]))
		as = from.Addr().Unmap()
		return err
	})
	return as, err
}

// leaves is a fact: a pod is seen outside with this address.
func (b *cluster) leaves(p *corev1.Pod, on *node, as netip.Addr) {
	b.T.Helper()
	b.eventually(fmt.Sprintf("pod %s leaves as %s", p.Name, as), func() error {
		got, err := on.seenAs(p)
		if err == nil && got != as {
			err = fmt.Errorf("as %s", got)
		}
		return err
	})
}

// connect opens connections of a pod to the outside; the function exchanges a line over each, and says which could not.
func (b *cluster) connect(p *corev1.Pod, on *node, count int) (exchange func() error) {
	b.T.Helper()
	var list []net.Conn
	b.Must(on.within(string(p.UID), func() error {
		for range count {
			c, err := net.DialTimeout("tcp", netip.AddrPortFrom(harness.Outside4, harness.PortAllowed).String(), 10*time.Second)
			if err != nil {
				return err
			}
			b.T.Cleanup(func() { c.Close() })
			list = append(list, c)
		}
		return nil
	}))
	exchange = func() error {
		var errs []error
		for _, c := range list {
			if err := harness.ExchangeLine(c, harness.Patience); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", c.LocalAddr(), err))
			}
		}
		return errors.Join(errs...)
	}
	b.Must(exchange())
	return exchange
}

// dump shows, of a test that failed, what nodes and pods say.
func (b *cluster) dump() {
	if !b.T.Failed() {
		return
	}
	ctx := context.WithoutCancel(b.Ctx)
	for _, argv := range [][]string{{"get", "nodes,pods,egressnodes,egressgateways,egresspolicies", "-A", "-o", "wide"}, {"describe", "pods", "-A"}, {"get", "events", "-A"}} {
		out, err := b.server.Run(ctx, "kubectl", argv...)
		b.T.Logf("kubectl %v: %v\n%s", argv, err, out)
	}
	var files []string
	for _, n := range b.nodes {
		logs, _ := filepath.Glob(filepath.Join(n.dir, "log/pods/*/*/*.log")) // the pattern is right
		files = append(append(files, filepath.Join(n.dir, "node.log"), filepath.Join(n.dir, "images.log"), filepath.Join(n.dir, "kubelet.log"), filepath.Join(n.dir, "containerd.log")), logs...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		b.T.Logf("%s: %v\n%s", strings.TrimPrefix(file, os.TempDir()), err, text[max(0, len(text)-3000):])
	}
}

// longTier is what the test is part of.
func longTier(t *testing.T) {
	t.Helper()
	tier.Root(t)
	tier.Long(t, "TestCluster and TestNewPods of kube/test/nodes, without kubelets")
}
