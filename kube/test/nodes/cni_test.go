package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/kube/internal/cni"
	"github.com/selvage/selvage/kube/internal/hold"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

// debianPlugins is where Debian's package containernetworking-plugins has them.
const debianPlugins = "/usr/lib/cni"

// chain is what a node's CNI configuration has, before selvage-egress comes to it. The range's last address is the node's own.
const chain = `{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods0", "isGateway": true, "ipMasq": true, "ipam": {"type": "host-local", "dataDir": %q,
    "ranges": [[{"subnet": "10.1.0.128/25", "rangeEnd": "10.1.0.253"}], [{"subnet": "fd00:1:0:0:8000::/65"}]], "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}}
]}
`

// kubelet is what of one, and of a container runtime, makes pods' interfaces, on the first node.
type kubelet struct {
	*managed
	node    *topo.Host
	folder  string // of the CNI configuration
	plugins []string
	list    *libcni.NetworkConfigList
	config  *libcni.CNIConfig
	leaks   *leaks
	program string
	count   atomic.Int64
}

// newKubelet has the program install itself, and takes what it has made of the configuration.
func newKubelet(b *managed) *kubelet {
	b.T.Helper()
	r := &kubelet{managed: b, node: b.Hosts[0], folder: b.T.TempDir(), plugins: []string{debianPlugins, b.T.TempDir()}, program: filepath.Join(b.T.TempDir(), "selvage-kube")}
	build := exec.CommandContext(b.Ctx, "go", "build", "-o", r.program, "../../cmd/selvage-kube")
	if out, err := build.CombinedOutput(); err != nil {
		b.T.Fatalf("build selvage-kube: %v\n%s", err, out)
	}
	b.Must(os.WriteFile(filepath.Join(r.folder, "10-pods.conflist"), fmt.Appendf(nil, chain, b.T.TempDir()), 0o644))
	r.run("install", "--node", dut.EdgeName(r.node), "--node-ip", b.Tep(1).String(), "--file", filepath.Join(b.T.TempDir(), "edge.yaml"))
	r.config = libcni.NewCNIConfigWithCacheDir(r.plugins, b.T.TempDir(), r)
	r.load()
	if len(r.list.Plugins) != 2 {
		b.T.Fatalf("the list has %d plugins", len(r.list.Plugins))
	}
	o := b.agents[r.node.Name]
	own, err := libcni.InjectConf(r.list.Plugins[1], map[string]any{"socket": o.Socket, "state": o.State})
	b.Must(err)
	r.list.Plugins[1] = own
	r.leaks = watchLeaks(b.cluster, r.node, topo.UnderlayName, true)
	return r
}

func (r *kubelet) run(command string, more ...string) {
	r.T.Helper()
	argv := append([]string{r.program, command, "--cni-plugins", r.plugins[1], "--cni-configurations", r.folder}, more...)
	_, err := r.node.Output(r.Ctx, argv...)
	r.Must(err)
}

func (r *kubelet) load() {
	r.T.Helper()
	files, err := libcni.ConfFiles(r.folder, []string{".conflist"})
	r.Must(err)
	r.list, err = libcni.NetworkConfFromFile(files[0])
	r.Must(err)
}

// ExecPlugin implements invoke.Exec: plugins run in the node's network namespace.
func (r *kubelet) ExecPlugin(ctx context.Context, path string, stdin []byte, env []string) ([]byte, error) {
	c := r.node.Command(ctx, path)
	c.Stdin, c.Env = strings.NewReader(string(stdin)), env
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return out, err
}

// FindInPath implements it.
func (r *kubelet) FindInPath(plugin string, paths []string) (string, error) {
	return invoke.FindInPath(plugin, paths)
}

// Decode implements it.
func (r *kubelet) Decode(text []byte) (version.PluginInfo, error) {
	return new(version.PluginDecoder).Decode(text)
}

// guest is a network namespace in which pods are, one after the other.
type guest struct {
	*topo.Host
	r    *kubelet
	rt   *libcni.RuntimeConf
	pod  *corev1.Pod
	held time.Duration // how long ADD took
}

func (r *kubelet) guest(name string) *guest { return &guest{Host: r.Host(name), r: r} }

// create makes the pod's object, as the API server has it when the kubelet begins.
func (g *guest) create(namespace, label string) {
	r := g.r
	r.T.Helper()
	name := fmt.Sprintf("%s-%d", g.Name, r.count.Add(1))
	g.pod = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": label}},
		Spec:       corev1.PodSpec{NodeName: dut.EdgeName(r.node), Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}
	r.Must(r.c.Create(r.Ctx, g.pod))
	g.rt = &libcni.RuntimeConf{ContainerID: "c-" + name, NetNS: g.Path(), IfName: "eth0", Args: [][2]string{
		{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", namespace}, {"K8S_POD_NAME", name}, {"K8S_POD_UID", string(g.pod.UID)},
	}}
}

// add makes the pod's interface.
func (g *guest) add() error {
	began := time.Now()
	result, err := g.r.config.AddNetworkList(g.r.Ctx, g.r.list, g.rt)
	g.held = time.Since(began)
	if err != nil {
		return err
	}
	full, err := types100.NewResultFromResult(result)
	if err != nil {
		return err
	}
	if len(full.IPs) != 2 || len(full.Interfaces) == 0 {
		return fmt.Errorf("result %+v", full)
	}
	g.pod.Status.Phase = corev1.PodRunning
	for _, ip := range full.IPs {
		g.pod.Status.PodIPs = append(g.pod.Status.PodIPs, corev1.PodIP{IP: ip.Address.IP.String()})
	}
	g.pod.Status.PodIP = g.pod.Status.PodIPs[0].IP
	return nil
}

// report is what the kubelet says of the pod later.
func (g *guest) report() error {
	status := g.pod.Status
	was := g.pod.DeepCopy()
	was.Status = corev1.PodStatus{Phase: corev1.PodPending}
	g.pod.Status = status
	return g.r.c.Status().Patch(g.r.Ctx, g.pod, client.MergeFrom(was))
}

// send has the pod send datagrams to the outside for a while, each of a connection of its own.
func (g *guest) send(d time.Duration) error {
	return g.Do(func() error {
		pace := time.NewTicker(2 * time.Millisecond)
		defer pace.Stop()
		for until := time.Now().Add(d); time.Now().Before(until); <-pace.C {
			for _, to := range []netip.Addr{harness.Outside4, harness.Outside6} {
				c, err := net.Dial("udp", netip.AddrPortFrom(to, 9).String())
				if err != nil {
					return err
				}
				_, _ = c.Write([]byte("first")) // what is held may be an error
				c.Close()
			}
		}
		return nil
	})
}

// end ends the pod, as the kubelet does.
func (g *guest) end() error {
	err := g.r.config.DelNetworkList(g.r.Ctx, g.r.list, g.rt)
	zero := int64(0)
	return errors.Join(err, client.IgnoreNotFound(g.r.c.Delete(g.r.Ctx, g.pod, &client.DeleteOptions{GracePeriodSeconds: &zero})))
}

// leaks counts packets to the outside that a node sends by its own way, or that come by another interface.
type leaks struct {
	count   atomic.Int64
	sources sync.Map // of netip.Addr
}

func watchLeaks(b *cluster, node *topo.Host, name string, outgoing bool) *leaks {
	b.T.Helper()
	f, err := harness.OpenFrames(node, name, outgoing)
	b.Must(err)
	l, done := &leaks{}, make(chan struct{})
	go func() {
		defer close(done)
		for {
			frame, err := f.Next(time.Time{})
			if err != nil {
				return
			}
			to4, to6 := harness.Outside4.As4(), harness.Outside6.As16()
			switch {
			case len(frame) >= 34 && frame[12] == 8 && frame[13] == 0 && slices.Equal(frame[30:34], to4[:]):
				l.sources.Store(netip.AddrFrom4([4]byte(frame[26:30])), true)
			case len(frame) >= 54 && frame[12] == 0x86 && slices.Equal(frame[38:54], to6[:]):
				l.sources.Store(netip.AddrFrom16([16]byte(frame[22:38])), true)
			default:
				continue
			}
			l.count.Add(1)
		}
	}()
	b.T.Cleanup(func() { f.Close(); <-done })
	return l
}

// starts has pods start, so many in all, in a few namespaces at a time, and is how long their ADD took.
func (r *kubelet) starts(t *testing.T, guests []*guest, count int, start func(g *guest) error) (took []time.Duration) {
	t.Helper()
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		left atomic.Int64
	)
	left.Store(int64(count))
	began := time.Now()
	for _, g := range guests {
		wait.Go(func() {
			for left.Add(-1) >= 0 && !t.Failed() {
				if err := start(g); err != nil {
					t.Errorf("%s: %v", g.Name, err)
				}
				mu.Lock()
				took = append(took, g.held)
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	slices.Sort(took)
	if len(took) > 0 {
		t.Logf("%d starts in %s, %d at a time: ADD took %s in the median, %s at most", len(took), time.Since(began).Round(time.Second), len(guests), took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
	}
	return took
}

// Pods that a CNI plugin makes never leave by their node when a policy selects them, from their first packet on, with an agent and
// without; others start at once.
func TestNewPods(t *testing.T) {
	t.Parallel()
	tier.Root(t)
	b := newManaged(t)
	defer b.dump()
	b.gateway()
	b.policy()
	b.Must(b.c.Create(b.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}))
	b.programmed(2, "4/4")
	b.serving(3, 4)
	r := newKubelet(b)
	guests := []*guest{r.guest("pod1"), r.guest("pod2")}
	with, without := 20, 20
	if tier.IsLong() {
		with, without = 1000, 200
		for i := range 6 { // more at a time, as on a node that has come back
			guests = append(guests, r.guest(fmt.Sprint("more", i)))
		}
	}
	t.Run("with an agent", func(t *testing.T) { r.withAgent(t, guests, with) })
	t.Run("many at once", r.manyAtOnce)
	t.Run("of no policy", func(t *testing.T) { r.unselected(t, guests[0], "shop", "other") })
	t.Run("without an agent", func(t *testing.T) { r.withoutAgent(t, guests, without) })
	t.Run("an agent comes back", func(t *testing.T) { r.back(t, guests[0]) })
	t.Run("leaves", r.leave)
	t.Run("removed", func(t *testing.T) { r.removed(t, guests[0]) })
	t.Run("uninstalled", r.uninstalled)
}

// never fails the test when a packet has left by the node.
func (r *kubelet) never(t *testing.T) {
	t.Helper()
	if n := r.leaks.count.Load(); n != 0 {
		t.Errorf("%d packets left by the node", n)
	}
}

func (r *kubelet) withAgent(t *testing.T, guests []*guest, count int) {
	r.starts(t, guests, count, func(g *guest) error {
		g.create("shop", "web")
		if err := g.add(); err != nil {
			return err
		}
		return errors.Join(g.send(10*time.Millisecond), g.seen(), g.report(), g.send(10*time.Millisecond), g.end())
	})
	r.never(t)
}

// seen has the outside tell as whom it sees the pod. A machine that is busy may lose an answer.
func (g *guest) seen() error {
	var as netip.Addr
	if err := await.That(g.r.Ctx, "an answer from outside", func() error {
		got, err := harness.Mirrored(g.Host, "udp", 0, netip.AddrPortFrom(harness.Outside4, harness.MirrorPort))
		as = got.Addr()
		return err
	}); err != nil {
		return err
	}
	if as != egress4 {
		return fmt.Errorf("it is seen as %s", as)
	}
	return nil
}

// unselected pods leave by the node, which shows that leaks would be seen.
func (r *kubelet) unselected(t *testing.T, g *guest, namespaces ...string) {
	for _, namespace := range namespaces {
		before := r.leaks.count.Load()
		g.create(namespace, "db")
		r.Must(g.add())
		t.Logf("namespace %s: ADD took %s", namespace, g.held.Round(time.Millisecond))
		if g.held > hold.Patience {
			t.Errorf("namespace %s: ADD took %s", namespace, g.held)
		}
		r.leaves(harness.Guest{Host: g.Host}, "udp", harness.Outside4, r.Tep(1))
		r.Must(g.end())
		if r.leaks.count.Load() == before {
			t.Errorf("namespace %s: what leaves by the node is not seen", namespace)
		}
	}
	r.leaks.count.Store(0)
}

func (r *kubelet) withoutAgent(t *testing.T, guests []*guest, count int) {
	r.stops[r.node.Name]()
	r.starts(t, guests, count, func(g *guest) error {
		g.create("shop", "web")
		if err := g.add(); err != nil {
			return err
		}
		err := errors.Join(g.send(10*time.Millisecond), g.report(), g.send(10*time.Millisecond))
		if _, lost := g.Output(r.Ctx, "ping", "-c", "1", "-W", "2", r.web1.Addr(4).String()); lost != nil {
			err = errors.Join(err, fmt.Errorf("it does not reach the cluster: %w", lost))
		}
		return errors.Join(err, g.end())
	})
	r.never(t)
	r.unselected(t, guests[0], "other")
	if held, err := r.held(); err != nil || len(held) > 0 {
		t.Errorf("pods that are gone are held: %v, %v", held, err)
	}
}

func (r *kubelet) held() (list []netip.Addr, err error) {
	err = r.node.Do(func() error { list, err = r.steerer().Held(); return err })
	return list, err
}

// back has an agent find a pod that started without one, and another that started with the one before, of which the API server has
// no address.
func (r *kubelet) back(t *testing.T, g *guest) {
	g.create("shop", "web")
	r.Must(g.add())
	r.Must(g.send(10 * time.Millisecond))
	r.start(r.node)
	r.leaves(harness.Guest{Host: g.Host}, "udp", harness.Outside4, egress4)
	r.stops[r.node.Name]()
	r.Must(g.send(10 * time.Millisecond))
	r.start(r.node)
	next := r.guest("pod3")
	next.create("shop", "web")
	r.Fact("the next agent answers", func() error {
		_, err := hold.Ask(r.Ctx, r.agents[r.node.Name].Socket, hold.Attachment{})
		return err
	})
	r.Must(next.add())
	r.leaves(harness.Guest{Host: g.Host}, "udp", harness.Outside4, egress4)
	r.leaves(harness.Guest{Host: next.Host}, "udp", harness.Outside4, egress4)
	r.never(t)
	r.Must(errors.Join(g.report(), next.report()))
	r.Fact("what is not needed any more goes", func() error {
		ids, err := hold.Files{Folder: r.agents[r.node.Name].State}.List()
		if len(ids) > 0 {
			err = errors.Join(err, fmt.Errorf("there is %v", ids))
		}
		return err
	})
	r.Must(errors.Join(g.end(), next.end()))
	r.never(t)
}

// removed leaves nothing, and pods start and leave as before.
func (r *kubelet) removed(t *testing.T, g *guest) {
	r.stops[r.node.Name]()
	g.create("shop", "web")
	r.Must(g.add())
	state := r.agents[r.node.Name].State
	for range 2 {
		r.run("remove", "--state", state)
	}
	r.Once("nothing is left", func() error { return r.nothing(r.node) })
	if _, err := os.Stat(state); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", state, err)
	}
	if _, err := os.Stat(filepath.Join(r.plugins[1], cni.Name)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the plugin is there: %v", err)
	}
	r.load()
	r.leaves(harness.Guest{Host: g.Host}, "udp", harness.Outside4, r.Tep(1))
	r.Must(g.end())
	g.create("shop", "web")
	r.Must(g.add())
	r.leaves(harness.Guest{Host: g.Host}, "udp", harness.Outside4, r.Tep(1))
	r.Must(g.end())
}
