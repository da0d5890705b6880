package nodes

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/agent"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/ciliumtest"
)

// besideCilium has a node's Cilium say that it forwards past the node's routing: the policy and the node say so, with the way out, and
// no longer when Cilium has another mode.
func (b *managed) besideCilium(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "cilium.sock")
	var mode atomic.Value
	mode.Store("BPF")
	ciliumtest.Serve(t, socket, func() (int, string) {
		return http.StatusOK, fmt.Sprintf(`{"cilium": {"state": "Ok"}, "routing": {"inter-host-routing-mode": "Native", "intra-host-routing-mode": %q}}`, mode.Load())
	})

	h := b.Hosts[0]
	plain := b.agents[h.Name]
	asks := plain
	asks.Cilium = socket
	b.restart(h, asks)
	b.Fact("the policy and the node say that Cilium passes the node's routing by", func() error {
		node := &v1alpha1.EgressNode{}
		if err := b.c.Get(b.Ctx, client.ObjectKey{Name: dut.EdgeName(h)}, node); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(node.Status.Conditions, v1alpha1.ConditionReady)
		programmed := meta.FindStatusCondition(b.policy().Status.Conditions, v1alpha1.ConditionProgrammed)
		for _, c := range []*metav1.Condition{ready, programmed} {
			if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "BPF host routing") || !strings.Contains(c.Message, "bpf.hostLegacyRouting=true") {
				return fmt.Errorf("%+v", c)
			}
		}
		if ready.Reason != v1alpha1.ReasonHostRouting || !strings.Contains(programmed.Message, dut.EdgeName(h)) || b.policy().Status.Nodes != "3/4" {
			return fmt.Errorf("%+v, %+v", ready, b.policy().Status)
		}
		return nil
	})
	mode.Store("Legacy")
	b.restart(h, asks)
	b.programmed(3, "4/4")
	b.restart(h, plain)
	b.programmed(3, "4/4")
}

// restart has a node's agent run with these options.
func (b *managed) restart(h *topo.Host, o agent.Options) {
	b.T.Helper()
	b.stops[h.Name]()
	b.agents[h.Name] = o
	b.start(h)
}
