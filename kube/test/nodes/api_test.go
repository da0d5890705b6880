package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/agent"
	"github.com/selvage/selvage/kube/internal/controller"
	"github.com/selvage/selvage/kube/internal/plan"
	"github.com/selvage/selvage/kube/test/apiserver"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// managed is a cluster with an API server, the controller, and an agent on each node.
type managed struct {
	*cluster
	server *apiserver.Server
	c      client.Client
	agents map[string]agent.Options
	stops  map[string]func() // of agents that run
	// kubelets are those of nodes, by the name of the host.
	kubelets map[string]*apiserver.Kubelet
}

// Of the chart: Helm installs it, and the controller and agents reach the API server as its service accounts.
const (
	chart     = "../../chart/selvage"
	release   = "egress"
	namespace = "selvage-system"
)

// newManaged has no gateway and no policy yet.
func newManaged(t *testing.T) *managed {
	t.Helper()
	return newManagedWith(t, func(context.Context, *rest.Config) ([]func(manager.Manager) error, error) { return nil, nil })
}

// newManagedWith has a controller with more, for which the chart has values.
func newManagedWith(t *testing.T, also func(context.Context, *rest.Config) ([]func(manager.Manager) error, error), values ...string) *managed {
	t.Helper()
	return manage(newCluster(t), also, values...)
}

// manage has a cluster have an API server, the chart, a controller and agents.
func manage(of *cluster, also func(context.Context, *rest.Config) ([]func(manager.Manager) error, error), values ...string) *managed {
	t := of.T
	t.Helper()
	b := &managed{cluster: of, agents: map[string]agent.Options{}, stops: map[string]func(){}, kubelets: map[string]*apiserver.Kubelet{}}
	harness.Confine(b.Hub.Network, "../../..") // as in the chart
	b.Hub.Patience = time.Minute
	var err error
	b.server, err = apiserver.Start(b.Ctx)
	b.Must(err)
	t.TempDir() // made before what follows is to be ended, so that agents have ended when all such folders are removed
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Ctx))
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
		for _, stop := range b.stops {
			stop()
		}
		if err := b.server.Close(); err != nil {
			t.Error(err)
		}
	})
	argv := []string{"upgrade", "--install", release, chart, "--namespace", namespace, "--create-namespace"}
	for _, v := range values {
		argv = append(argv, "--set-json", v)
	}
	_, err = b.server.Run(b.Ctx, "helm", argv...)
	b.Must(err)
	scheme, err := controller.Scheme()
	b.Must(err)
	b.c, err = client.New(b.server.Admin(), client.Options{Scheme: scheme})
	b.Must(err)
	b.create()
	config := b.as("controller", nil)
	running.Go(func() {
		for ctx.Err() == nil { // it ends when it loses its lease, as with the API server, and is started again, as by a kubelet
			more, err := also(ctx, config)
			if err == nil {
				err = controller.Run(ctx, config, controller.Options{LeaseNamespace: namespace, Also: more})
			}
			switch {
			case err == nil || strings.Contains(err.Error(), "leader election lost"):
			case utilnet.IsConnectionRefused(err) || strings.Contains(err.Error(), "failed to get server groups"): // the API server is stopped, or starts
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			default:
				b.ends(err)
				return
			}
		}
	})
	for _, h := range b.Hosts {
		b.agents[h.Name] = b.agent(h)
		b.Must(b.c.Create(b.Ctx, b.agentPod(h)))
		b.start(h)
	}
	return b
}

// as is how a service account of the chart reaches the API server.
func (b *managed) as(account string, pod *corev1.Pod) *rest.Config {
	config, err := b.server.As(b.Ctx, namespace, release+"-"+account, pod)
	if err != nil {
		b.T.Error(err)
	}
	return config
}

// agentPod is the pod that a node's agent would be in, as the chart's DaemonSet has it.
func (b *managed) agentPod(h *topo.Host) *corev1.Pod {
	b.T.Helper()
	of, name := &appsv1.DaemonSet{}, dut.EdgeName(h)
	b.Must(b.c.Get(b.Ctx, client.ObjectKey{Namespace: namespace, Name: release + "-agent"}, of))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "agent-" + name, Namespace: namespace, Labels: of.Spec.Template.Labels}, Spec: of.Spec.Template.Spec}
	pod.Spec.NodeName = name
	return pod
}

// start has the agent of a node run.
func (b *managed) start(h *topo.Host) {
	b.T.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Ctx))
	done := make(chan struct{})
	o := b.agents[h.Name]
	node := *o.Node // it knows nothing of what the one before did
	o.Node = &node
	pod := b.agentPod(h)
	b.Must(b.c.Get(b.Ctx, client.ObjectKeyFromObject(pod), pod))
	config := b.as("agent", pod)
	go func() {
		defer close(done)
		b.ends(agent.Run(ctx, config, o))
	}()
	b.stops[h.Name] = sync.OnceFunc(func() { cancel(); <-done })
}

// ends is called when the controller or an agent does.
func (b *managed) ends(err error) {
	if err != nil {
		b.T.Error(err)
	}
}

// agent is that of a node, whose edge runs with a file of nothing.
func (b *managed) agent(h *topo.Host) agent.Options {
	b.T.Helper()
	name := dut.EdgeName(h)
	settings := b.input.Settings
	settings.Cluster = nil // agents find it
	file := filepath.Join(b.T.TempDir(), "edge.yaml")
	b.Must(h.Do(b.steerer().Setup))
	b.Must(h.Do(func() error { return agent.First(file, name, b.Tep(slices.Index(b.Hosts, h)+1)) }))
	text, err := os.ReadFile(file)
	b.Must(err)
	edge := b.Start(h, name, string(text))
	ports, err := apiserver.FreePorts(1)
	b.Must(err)
	return agent.Options{
		Health: fmt.Sprintf("127.0.0.1:%d", ports[0]),
		Name:   name, Settings: settings,
		Socket: filepath.Join(b.T.TempDir(), "agent.sock"), State: filepath.Join(b.T.TempDir(), "state"),
		Node: &agent.Node{Edge: b.Ask(h.Name), File: edge.Config, Steer: b.steerer(), Within: h.Do},
		Host: func(endpoint netip.Addr) (host plan.Host, err error) {
			err = h.Do(func() (err error) { host, err = agent.Host(endpoint); return err })
			return host, err
		},
	}
}

// create makes the objects: nodes and pods.
func (b *managed) create() {
	b.T.Helper()
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}
	for i, h := range b.Hosts {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: dut.EdgeName(h)}, Spec: podNetworks(i + 1), Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: b.Tep(i + 1).String()}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}}
		if i >= 2 {
			for _, a := range b.uplinks[h.Name] { // the node's own, as its administrator gave them
				b.Must(h.AddAddrs("eth1", a))
			}
		}
		b.kubelet(h).Describe(&n.Status)
		objects = append(objects, n)
		for _, p := range b.pods[h.Name] {
			o := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels},
				Spec:       corev1.PodSpec{NodeName: n.Name, Containers: []corev1.Container{{Name: "c", Image: "none"}}}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
			}
			for _, a := range p.Addresses {
				o.Status.PodIPs = append(o.Status.PodIPs, corev1.PodIP{IP: a.String()})
			}
			o.Status.PodIP = o.Status.PodIPs[0].IP
			objects = append(objects, o)
		}
	}
	for _, o := range objects {
		status := o.DeepCopyObject().(client.Object)
		b.Must(b.c.Create(b.Ctx, o))
		switch o := o.(type) {
		case *corev1.Node:
			o.Status = status.(*corev1.Node).Status
			b.Must(b.c.Status().Update(b.Ctx, o))
		case *corev1.Pod:
			o.Status = status.(*corev1.Pod).Status
			b.Must(b.c.Status().Update(b.Ctx, o))
		}
	}
}

// kubelet is that of a node, whose containers are the node itself.
func (b *managed) kubelet(h *topo.Host) *apiserver.Kubelet {
	k := apiserver.NewKubelet(func(ctx context.Context, container string, argv []string, stdout, stderr io.Writer) error {
		if container != "edge" || argv[0] != "selvage" {
			return fmt.Errorf("container %s has no program %s", container, argv[0])
		}
		out, err := h.Output(ctx, append([]string{harness.Program}, argv[1:]...)...)
		if err != nil {
			fmt.Fprintln(stderr, err)
			return err
		}
		_, err = stdout.Write(out)
		return err
	})
	b.T.Cleanup(k.Close)
	b.kubelets[h.Name] = k
	return k
}

// podNetworks are those of a node.
func podNetworks(number int) corev1.NodeSpec {
	own := netip.PrefixFrom(harness.SubnetAddr(number, 0, 4), 24)
	return corev1.NodeSpec{PodCIDR: own.String(), PodCIDRs: []string{own.String(), netip.PrefixFrom(harness.SubnetAddr(number, 0, 6), 64).Masked().String()}}
}

// gateway makes the one of the cluster, with the last two nodes.
func (b *managed) gateway() {
	b.T.Helper()
	b.label()
	g := &v1alpha1.EgressGateway{ObjectMeta: metav1.ObjectMeta{Name: "out"}, Spec: *b.input.Gateways[0].Spec.DeepCopy()}
	g.Spec.Nodes, g.Spec.Addresses = metav1.LabelSelector{MatchLabels: map[string]string{"example.org/egress": "out"}}, []v1alpha1.AddressRange{v1alpha1.AddressRange(egress4.String()), v1alpha1.AddressRange(egress6.String())}
	b.Must(b.c.Create(b.Ctx, g))
}

// label has the last two nodes be selected.
func (b *managed) label() {
	b.T.Helper()
	for _, h := range b.Hosts[2:] {
		b.kubectl("label", "node", dut.EdgeName(h), "example.org/egress=out")
	}
}

// kubectl is what it says.
func (b *managed) kubectl(argv ...string) string {
	b.T.Helper()
	out, err := b.server.Run(b.Ctx, "kubectl", argv...)
	b.Must(err)
	return out
}

// policy is the one of the cluster, made where it is not there.
func (b *managed) policy() *v1alpha1.EgressPolicy {
	b.T.Helper()
	p := &v1alpha1.EgressPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	if err := b.c.Get(b.Ctx, client.ObjectKeyFromObject(p), p); err == nil {
		return p
	}
	p.Spec = *b.input.Policies[0].Spec.DeepCopy()
	b.Must(b.c.Create(b.Ctx, p))
	return p
}

// programmed is a fact: the policy is, with so many pods on so many nodes.
func (b *managed) programmed(pods int, nodes string) {
	b.T.Helper()
	b.Fact(fmt.Sprintf("the policy is programmed, %d pods on %s nodes", pods, nodes), func() error {
		s := b.policy().Status
		if !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionProgrammed) || int(s.Pods) != pods || s.Nodes != nodes {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// An API server, the controller and agents make it so; what forwards needs none of them; and what agents say is what the tables have.
func TestCluster(t *testing.T) {
	t.Parallel()
	built := buildPlugin(t)
	b := newManaged(t)
	defer b.dump()
	b.untouched()
	b.gateway()
	b.policy()
	b.programmed(2, "4/4")
	if list := b.policy().Status.Addresses; !slices.Equal(list, []string{egress4.String(), egress6.String()}) {
		t.Fatalf("addresses %v", list)
	}
	b.serving(3, 4)
	b.ready(1, 2, 3, 4)
	b.leaves(b.web1, "tcp", harness.Outside4, egress4)
	b.leaves(b.web2, "udp", harness.Outside6, egress6)
	b.leaves(b.db1, "tcp", harness.Outside4, b.Tep(1))

	p := b.plugin(built())
	t.Run("asked why", p.asked)
	t.Run("a label changes", b.labelled)
	t.Run("behind the agent's back", b.behindTheBack)
	t.Run("beside Cilium", b.besideCilium)
	t.Run("at rest", func(*testing.T) { b.silent(2 * agent.VerifyEach) })
	t.Run("without an API server", b.without)
	t.Run("asked why, without a gateway", p.killed)
}

// labelled has one more pod be the policy's: that is no time in which nodes say that something is amiss.
func (b *managed) labelled(t *testing.T) {
	w, err := b.watch()
	b.Must(err)
	defer w.Stop()
	began := time.Now()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db1"}}
	b.Must(b.c.Patch(b.Ctx, p, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"app":"web"}}}`))))
	ctx, cancel := context.WithTimeout(b.Ctx, harness.Patience)
	defer cancel()
	for done := false; !done; {
		select {
		case <-ctx.Done():
			t.Fatal("no node tells of two pods")
		case e := <-w.ResultChan():
			n, ok := e.Object.(*v1alpha1.EgressNode)
			if !ok || e.Type != watch.Modified || len(n.Status.Policies) == 0 {
				continue
			}
			if own := n.Status.Policies[0]; !own.Programmed {
				t.Errorf("%s, after %s: %s", n.Name, time.Since(began).Round(time.Millisecond), own.Message)
			} else if done = own.Pods == 2; done {
				t.Logf("told after %s", time.Since(began).Round(time.Millisecond))
			}
		}
	}
	b.programmed(3, "4/4")
	b.leaves(b.db1, "tcp", harness.Outside4, egress4)
}

// behindTheBack takes a pod out of the edge's group: the policy is not programmed then, and is again soon.
func (b *managed) behindTheBack(t *testing.T) {
	group := api.LiveOperation{Op: api.LiveRemoveMembers, Kind: "group", Key: "p_shop_web", Members: []json.RawMessage{json.RawMessage(`"` + b.web1.Addr(4).String() + `"`)}}
	w, err := b.watch()
	b.Must(err)
	defer w.Stop()
	_, err = b.Ask("edge1").Live().Change(b.Ctx, api.LiveQuery{Operations: []api.LiveOperation{group}})
	b.Must(err)
	began := time.Now()
	said := false
	ctx, cancel := context.WithTimeout(b.Ctx, harness.Patience)
	defer cancel()
	var last v1alpha1.EgressNodeStatus
	for back := false; !back && ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case e := <-w.ResultChan():
			n, ok := e.Object.(*v1alpha1.EgressNode)
			if !ok || e.Type != watch.Modified || n.Name != dut.EdgeName(b.Hosts[0]) || len(n.Status.Policies) == 0 {
				continue
			}
			last = n.Status
			if p := n.Status.Policies[0]; !p.Programmed {
				said = true
				t.Logf("after %s: %s", time.Since(began).Round(time.Millisecond), p.Message)
			} else if said {
				back = true
				t.Logf("put back after %s", time.Since(began).Round(time.Millisecond))
			}
		}
	}
	if !said {
		t.Fatalf("nobody noticed: %+v", last)
	}
	b.programmed(3, "4/4")
	b.leaves(b.web1, "tcp", harness.Outside4, egress4)
}

// watch tells of changes of nodes' objects.
func (b *managed) watch() (watch.Interface, error) {
	scheme, err := controller.Scheme()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(b.server.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	return c.Watch(b.Ctx, &v1alpha1.EgressNodeList{})
}

func wait(d time.Duration) { <-time.After(d) }

// returns starts the API server again, and waits for what its clients make of it. They come back late: client-go waits longer and longer
// between two tries, up to a minute.
func (b *managed) returns(what string, try func() error) {
	b.T.Helper()
	b.Must(b.server.StartAPI(b.Ctx))
	b.Must(await.Within(b.Ctx, time.Minute+await.Patience, what, try))
}

// without ends the API server, then a gateway: an open connection goes on, and the status tells of it when there is a server again.
func (b *managed) without(t *testing.T) {
	open := b.open(b.web1)
	b.server.StopAPI()
	b.kill(3)
	b.serving(4)
	b.Once("the connection goes on", open)
	b.ready(1, 2, 4)
	b.leaves(b.web1, "tcp", harness.Outside4, egress4)
	_, err := b.Hosts[0].Output(b.Ctx, "nft", "delete", "table", "inet", "selvage_egress")
	b.Must(err)
	b.Fact("the agent puts back what steers", func() error {
		_, err := b.Hosts[0].Output(b.Ctx, "nft", "list", "table", "inet", "selvage_egress")
		return err
	})
	b.returns("the gateway's status tells of it", func() error {
		g := &v1alpha1.EgressGateway{}
		if err := b.c.Get(b.Ctx, client.ObjectKey{Name: "out"}, g); err != nil {
			return err
		}
		if g.Status.Serving != "1/2" || g.Status.Nodes[0].State != v1alpha1.Gone || g.Status.LastFailover == nil || g.Status.LastFailover.Node != dut.EdgeName(b.Hosts[2]) {
			return fmt.Errorf("%+v", g.Status)
		}
		return nil
	})
	t.Logf("%+v", *func() *v1alpha1.Failover {
		g := &v1alpha1.EgressGateway{}
		b.Must(b.c.Get(b.Ctx, client.ObjectKey{Name: "out"}, g))
		return g.Status.LastFailover
	}())
}
