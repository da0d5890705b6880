package fabric_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/experiment/converge/fabric"
	"github.com/selvage/selvage/test/testlab"
)

// Everything that can happen in a fabric of Linux and FRR does, and afterwards it is whole.
// (Selvage's turn is in the experiments' tests, which have an edge.)
func TestConvergeKernel(t *testing.T) {
	t.Parallel()
	n, err := fabric.New(t.Context(), testlab.New(t), fabric.Options{Path: "kernel"})
	if err != nil {
		t.Fatal(err)
	}
	for _, caseName := range []string{"move", "move", "edge-loss", "rr-restart", "rr-loss"} {
		steps := happen(t, n, caseName)
		switch {
		case caseName == "move" && (steps.Advertised.IsZero() || steps.Passed.Before(steps.Advertised)):
			t.Errorf("a move was told at %s and passed on at %s", steps.Advertised, steps.Passed)
		case caseName == "edge-loss" && steps.Passed.IsZero():
			t.Error("nobody was told of the edge's loss")
		}
	}
}

// Edges with two links to the underlay work on with one.
func TestConvergeUplinks(t *testing.T) {
	t.Parallel()
	n, err := fabric.New(t.Context(), testlab.New(t), fabric.Options{Path: "kernel", Uplinks: 2})
	if err != nil {
		t.Fatal(err)
	}
	fault := n.Fault("link-loss")
	if err := fault.Inject(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, w := range n.Ways("link-loss") {
		if err := w.Client.Reach(t.Context(), w.Addr); err != nil {
			t.Errorf("%s with one link: %v", w.Name, err)
		}
	}
	if err := fault.Mend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// happen has a case's fault begin and end, and says what was heard of it.
func happen(t *testing.T, n *fabric.Fabric, caseName string) fabric.WireSteps {
	t.Helper()
	wire, err := n.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	since, fault := time.Now().Round(0), n.Fault(caseName)
	if err := fault.Inject(t.Context()); err != nil {
		t.Fatal(err)
	}
	var steps fabric.WireSteps
	err = await.That(t.Context(), "what the wire says of "+caseName, func() (err error) {
		if steps, err = wire.Steps(since); err == nil && strings.HasPrefix(caseName, "rr-") {
			return nil // it says nothing
		}
		if err == nil && steps.Passed.IsZero() {
			err = errors.New("edge C was told nothing")
		}
		return err
	})
	if err = errors.Join(err, wire.Stop()); err != nil {
		t.Fatal(err)
	}
	if err := fault.Mend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.Ready(t.Context()); err != nil {
		t.Fatalf("after %s: %v", caseName, err)
	}
	return steps
}

func TestConvergeOptions(t *testing.T) {
	for _, o := range []fabric.Options{{Path: "ovs"}, {Uplinks: 3}} {
		if _, err := fabric.New(t.Context(), nil, o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
