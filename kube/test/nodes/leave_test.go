package nodes

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/agent"
	"github.com/selvage/selvage/kube/internal/cni"
	"github.com/selvage/selvage/kube/internal/hold"
	"github.com/selvage/selvage/kube/internal/uninstall"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/test/e2e/harness"
)

// leave has a node be without Selvage, its edge's data path too when the edge ends, and with it again.
func (r *kubelet) leave(t *testing.T) {
	r.chained()
	edge := r.restart("SELVAGE_REMOVE_AT_EXIT=false", "SELVAGE_REMOVE_AT_EXIT_IF="+r.Edges[r.node.Name].Config+".leave")
	r.ready("Ready")

	r.setLeave(true)
	r.ready(v1alpha1.ReasonLeft)
	r.Once("nothing is left", func() error { return errors.Join(r.nothing(r.node), r.plugin(false)) })
	r.leaves(r.web1, "udp", harness.Outside4, r.Tep(1))
	answer, err := hold.Ask(r.Ctx, r.agents[r.node.Name].Socket, hold.Attachment{ID: "c", Namespace: "shop", Name: "late", Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.140")}})
	if err != nil || answer.State != hold.Unselected {
		t.Errorf("a pod that comes late waits: %+v, %v", answer, err)
	}
	if info, err := r.Ask(r.node.Name).Egress().Info(r.Ctx); err == nil || !strings.Contains(err.Error(), "this edge translates nothing") {
		t.Errorf("the edge has %+v, %v", info, err)
	}
	pins := filepath.Join("/sys/fs/bpf/selvage", edge.Name)
	if _, err := os.Stat(pins); err != nil {
		t.Errorf("a data path that runs: %v", err)
	}
	r.Must(edge.Stop(r.Ctx))
	if _, err := os.Stat(pins); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", pins, err)
	}

	r.restart()
	r.setLeave(false)
	r.ready("Ready")
	r.leaves(r.web1, "udp", harness.Outside4, egress4)
	r.Once("the plugin is back", func() error { return r.plugin(true) })
}

// chained has the node's agent be the one that keeps the plugin.
func (r *kubelet) chained() {
	r.T.Helper()
	r.stops[r.node.Name]()
	o := r.agents[r.node.Name]
	o.Plugin = cni.Place{Program: r.program, Plugins: r.plugins[1], Configurations: r.folder}
	r.agents[r.node.Name] = o
	r.start(r.node)
}

// restart starts another edge on the node with the file of the one before.
func (r *kubelet) restart(env ...string) *dut.Edge {
	r.T.Helper()
	config := r.Config(r.node.Name)
	r.Must(r.Edges[r.node.Name].Stop(r.Ctx))
	e, err := dut.StartEdge(r.Ctx, r.node, harness.Program, dut.EdgeName(r.node), config, env...)
	r.Must(err)
	r.Started(r.node, e)
	return e
}

func (r *kubelet) setLeave(leave bool) {
	r.T.Helper()
	r.kubectl("patch", "egressnode", dut.EdgeName(r.node), "--type=merge", "-p", fmt.Sprintf(`{"spec":{"leave":%t}}`, leave))
}

// ready is a fact: the node's object gives this reason, of the spec that it has.
func (r *kubelet) ready(reason string) {
	r.T.Helper()
	r.Fact("the node is "+reason, func() error {
		n := &v1alpha1.EgressNode{}
		if err := r.c.Get(r.Ctx, client.ObjectKey{Name: dut.EdgeName(r.node)}, n); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Reason != reason {
			return fmt.Errorf("%+v", n.Status.Conditions)
		}
		return nil
	})
}

// plugin is what is wrong with the CNI plugin's place.
func (r *kubelet) plugin(there bool) error {
	list, err := libcni.NetworkConfFromFile(filepath.Join(r.folder, "10-pods.conflist"))
	if err != nil {
		return err
	}
	if is := len(list.Plugins) == 2; is != there {
		err = fmt.Errorf("the list has %d plugins", len(list.Plugins))
	}
	for _, path := range []string{filepath.Join(r.plugins[1], cni.Name), r.agents[r.node.Name].State} {
		if _, unseen := os.Stat(path); (unseen == nil) != there {
			err = errors.Join(err, fmt.Errorf("%s: there %t, wanted %t", path, unseen == nil, there))
		}
	}
	return err
}

// uninstalled has all nodes leave; agents that still run do not come back.
func (r *kubelet) uninstalled(t *testing.T) {
	r.chained()
	r.ready("Ready")
	nodes, err := uninstall.Run(r.Ctx, r.c)
	if err != nil || len(nodes.Left) != len(r.Hosts) || len(nodes.NotReady) > 0 {
		t.Fatalf("%+v, %v", nodes, err)
	}
	wait(agent.VerifyEach + agent.VerifyEach/10)
	for _, h := range r.Hosts {
		r.Once("nothing is left on "+h.Name, func() error { return r.nothing(h) })
	}
	r.Once("the plugin is gone", func() error { return r.plugin(false) })
	var list v1alpha1.EgressNodeList
	if err := r.c.List(r.Ctx, &list); err != nil || len(list.Items) > 0 {
		t.Errorf("there is %+v, %v", list.Items, err)
	}
	r.leaves(r.web2, "udp", harness.Outside4, r.Tep(2))
}
