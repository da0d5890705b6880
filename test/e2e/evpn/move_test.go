package evpn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/dut/evpn"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

const movePicture = `
      rr1 (FRR)
       |
     switch
    /      \
 edge1    edge2     Linux and FRR; edge2 becomes Selvage, then Linux and FRR again
  red1     red2     10.0.0.0/24, VNI 100`

// A host of a fabric of Linux and FRR moves to an edge and back. While both speakers change, the
// kernel's devices forward, then static remotes do: of what guests say to each other, no more is
// lost than while the programs change.
func TestMoveFromFRR(t *testing.T) {
	t.Parallel()
	n := newFabric(t, movePicture, fabricOptions{
		edges: "kk",
		Options: evpn.Options{
			Segments: []evpn.Segment{{Name: "red"}},
			Guests:   []evpn.GuestOptions{{Name: "red1", Number: 1, Edges: []int{0}}, {Name: "red2", Number: 2, Edges: []int{1}}},
		},
	})
	defer n.dumpOnFailure()
	n.up()
	n.speak(n.all()...)
	n.everyWay()

	e, red2 := n.edge(2), n.guests["red2"]
	n.Once("edge2 stops FRR", func() error { return e.Path.Down(n.Ctx, e) })
	e.FRR = nil
	edge := evpn.Selvage{Binary: harness.Program, Started: n.Started, Change: func(_ *evpn.Edge, config string) string {
		return strings.Replace(config, "    evpn: {}\n", fmt.Sprintf("    evpn: {}\n    remotes: [%s]\n", n.edge(1).TEP), 1)
	}}
	n.Once("edge2 starts as Selvage, beside its devices", func() error { return edge.Up(n.Ctx, e) })
	n.everyWay()
	n.session(n.Reflectors[0].Addr)
	n.speak(red2)
	n.knows(1, red2, 2)
	n.knows(2, n.guests["red1"], 1)
	vni := n.Options.Segments[0].VNI
	devices := []string{evpn.BridgeOf(vni), fmt.Sprintf("vx%d", vni)}
	n.Once("the devices of edge2 go", func() error { return remove(n, e.Host, devices...) })
	n.everyWay()

	n.Once("edge2 stops Selvage, and removes it", func() error { return edge.Down(n.Ctx, e) })
	e.Edge = nil
	delete(n.Network.Edges, e.Name)
	n.Once("edge2 starts devices and FRR", func() error { return e.Path.Up(n.Ctx, e) })
	n.session(n.Reflectors[0].Addr)
	n.speak(red2)
	n.everyWay()
}

// remove deletes interfaces.
func remove(n *fabric, h *topo.Host, names ...string) error {
	for _, name := range names {
		if err := h.Command(n.Ctx, "ip", "link", "del", name).Run(); err != nil {
			return err
		}
	}
	return nil
}
