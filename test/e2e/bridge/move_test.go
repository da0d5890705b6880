package bridge

import (
	"context"
	"testing"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//
// Open vSwitch on both hosts; hosta moves to an edge and back, hostb stays.

// movable is a half that keeps what is needed to take another one's place.
type movable struct {
	topo.Half
	site topo.Site
	stop func(context.Context) error
}

// Up is part of topo.Half.
func (m *movable) Up(ctx context.Context, s topo.Site) (func(context.Context) error, error) {
	var err error
	m.site = s
	m.stop, err = m.Half.Up(ctx, s)
	return func(ctx context.Context) error { return m.stop(ctx) }, err
}

// start has another half take the place of the one that was stopped.
func (m *movable) start(ctx context.Context, next topo.Half) (err error) {
	m.stop, err = next.Up(ctx, m.site)
	return err
}

func TestMoveFromOpenVSwitch(t *testing.T) {
	t.Parallel()
	n := harness.NewTwoHosts(t, roomy(4))
	moving := &movable{Half: dut.OVSHalf{}}
	n.BuildRecorded(moving, dut.OVSHalf{})
	ways := append(n.Directions(4), n.Directions(6)...)
	n.Pings(ways...)

	n.Once("hosta moves to an edge", func() error {
		if err := moving.stop(n.Ctx); err != nil {
			return err
		}
		// The switch's own interface had the TEP's address, and outlives the switch.
		if err := n.A.Delete(dut.OVSUnderlayBridge); err != nil {
			return err
		}
		if err := n.A.AddAddr(topo.UnderlayName, topo.PrefixOf(moving.site.Local)); err != nil {
			return err
		}
		return moving.start(n.Ctx, n.SelvageHalf())
	})
	n.Resolved("hosta")
	n.Pings(ways...)
	n.StopCaptures() // the rest is too much to keep
	n.Streams()
	n.NoDrops()

	n.Once("hosta moves back", func() error {
		if err := moving.stop(n.Ctx); err != nil {
			return err
		}
		return moving.start(n.Ctx, dut.OVSHalf{})
	})
	clear(n.Edges)
	n.Pings(ways...)
}
