package nodes

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/tier"
)

// Kills of the gateway that serves, with the API server stopped: how long nothing is answered, and which connections go on. How long
// that is when it comes back is measured and not judged: what verifies its programs takes the processors of this one machine from the
// other gateway, which then misses the time that BFD allows.
func TestKills(t *testing.T) {
	tier.Long(t, "TestCluster and TestDemo, which kill one")
	const (
		kills       = 20
		connections = 1000 // of each of two pods: a source may have no more than 1/32 of the ports of an address
		most        = 300 * time.Millisecond
	)
	b := newManaged(t)
	defer b.dump()
	b.input.Gateways[0].Spec.Liveness = v1alpha1.Liveness{Interval: metav1.Duration{Duration: 50 * time.Millisecond}, Multiplier: 3} // the default
	b.gateway()
	b.policy()
	b.programmed(2, "4/4")
	b.serving(3, 4)
	b.echo()
	b.Serve(harness.Guest{Host: b.out}, harness.PortFree)
	first, second := b.connections(b.web1, connections), b.connections(b.web2, connections)
	b.server.StopAPI()
	var gaps, back []time.Duration
	for i := range kills {
		owner := b.owner()
		lost := b.silence(&gaps, func() { b.cut(owner); b.serving(7 - owner) })
		kept := first() + second()
		t.Logf("kill %2d, of edge%d: %s without an answer, %d datagrams lost, %d of %d connections go on", i+1, owner, gaps[i].Round(time.Millisecond), lost, kept, 2*connections)
		if kept != 2*connections || gaps[i] > most {
			t.Error("that is not what a gateway promises")
		}
		lost = b.silence(&back, func() { b.restore(owner); b.serving(3, 4) })
		t.Logf("         %s without an answer while it comes back, %d datagrams lost", back[i].Round(time.Millisecond), lost)
	}
	for what, list := range map[string][]time.Duration{"kills": gaps, "returns": back} {
		slices.Sort(list)
		t.Logf("%s: least %s, median %s, most %s", what, list[0].Round(time.Millisecond), list[kills/2].Round(time.Millisecond), list[kills-1].Round(time.Millisecond))
	}
	b.Must(b.server.StartAPI(b.Ctx))
	b.programmed(2, "4/4")
}

// silence appends the longest time without an answer while something is done, and is how many datagrams had none.
func (b *managed) silence(gaps *[]time.Duration, do func()) (lost int) {
	p := b.probe()
	wait(300 * time.Millisecond)
	do()
	wait(300 * time.Millisecond)
	longest, lost := gap(p.end())
	*gaps = append(*gaps, longest)
	return lost
}

// cut is the sudden end of a gateway, whose host keeps its routes: its process, and what its links are plugged into.
func (b *cluster) cut(number int) {
	b.T.Helper()
	b.Edges[b.Hosts[number-1].Name].Kill()
	b.Must(b.Sw.Down(fmt.Sprintf("e%d", number)))
	b.Must(b.wan.Down(fmt.Sprintf("g%d", number)))
}

// owner is the gateway that has the egress address and gives it to new connections, as the first edge sees it.
func (b *cluster) owner() (number int) {
	b.T.Helper()
	b.Fact("a gateway has the egress address", func() error {
		info, err := b.Ask(b.Hosts[0].Name).Egress().Info(b.Ctx)
		if err != nil {
			return err
		}
		for _, p := range info.Policies {
			for _, a := range p.Addresses {
				for number = 3; number <= 4; number++ {
					if a.Address == egress4 && a.Owner == b.Tep(number) && a.Server == a.Owner {
						return nil
					}
				}
			}
		}
		return fmt.Errorf("%+v", info.Policies)
	})
	return number
}

// restore starts it again, as after a reboot: nothing of its data path is left.
func (b *cluster) restore(number int) {
	b.T.Helper()
	h := b.Hosts[number-1]
	_, err := h.Output(b.Ctx, harness.Program, "remove", dut.EdgeName(h))
	b.Must(err)
	b.Must(b.Sw.Up(fmt.Sprintf("e%d", number)))
	b.Must(b.wan.Up(fmt.Sprintf("g%d", number)))
	b.Start(h, dut.EdgeName(h), b.Config(h.Name))
	b.Resolved(h.Name)
}
