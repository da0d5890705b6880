package scale

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/agent"
	"github.com/selvage/selvage/kube/internal/plan"
	"github.com/selvage/selvage/kube/test/apiserver"
)

// agentOf names the node of which this program, run again, is the agent; its folder is the working directory.
const agentOf = "SELVAGE_TEST_AGENT"

// agentMetrics are that process's.
const agentMetrics = "127.78.89.1:18090"

// mostOfAgent is a limit of an agent's memory: it had 62 MB with 1,000 nodes and 50,000 pods, and the chart gives it 256 MiB. An agent that
// kept the cluster's pods, or nodes and namespaces as they are, would have more.
const mostOfAgent = 150e6

var errNoEdge = errors.New("the test has no edge")

// beAgent is a real agent but for its edge and its kernel, which there are not.
func beAgent(node string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	by, err := ctrl.GetConfig()
	if err == nil {
		var dir string
		if dir, err = os.MkdirTemp(os.Getenv(agentOf+"_DIR"), "agent"); err == nil {
			err = agent.Run(ctx, by, agent.Options{
				Name: node, Settings: plan.Settings{Cluster: clusterNetworks, LinkUp: plan.DefaultLinkPair}, Metrics: agentMetrics,
				Node: &agent.Node{Edge: api.Dial(dir, "nobody"), File: filepath.Join(dir, "edge.yaml"), Within: func(func() error) error { return errNoEdge }},
				Host: func(netip.Addr) (plan.Host, error) {
					return plan.Host{Underlay: "eth0", Uplinks: map[string][]netip.Prefix{"eth1": (&world{size: size{gateways: 1}}).uplink(0)}}, nil
				},
			})
		}
	}
	if err != nil {
		slog.Error("the agent ended", "err", err)
		return 1
	}
	return 0
}

// agentIsSmall has the agent of the first node, which is a gateway's, run beside all objects.
func (w *world) agentIsSmall(server *apiserver.Server) {
	w.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent-0"}, Spec: corev1.PodSpec{
		NodeName: name("node", 0), ServiceAccountName: release + "-agent", Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}}
	if err := w.c.Create(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
	config, err := server.As(w.t.Context(), namespace, release+"-agent", pod)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Setenv(agentOf, pod.Spec.NodeName)
	w.t.Setenv(agentOf+"_DIR", w.t.TempDir())
	p := start(w.t, config, agentMetrics, os.Args[0])
	w.fact("the agent has looked", func() error {
		n := &v1alpha1.EgressNode{}
		if err := w.c.Get(w.t.Context(), client.ObjectKey{Name: pod.Spec.NodeName}, n); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady); c == nil || !strings.Contains(c.Message, errNoEdge.Error()) {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	before := p.use(w.t)
	<-time.After(3 * agent.VerifyEach)
	u := p.use(w.t)
	w.t.Logf("an agent: %s, after its first look %s", u, before)
	if u.most > mostOfAgent {
		w.t.Errorf("the agent had %s, want %s at most", mb(u.most), mb(mostOfAgent))
	}
	p.stop()
}
