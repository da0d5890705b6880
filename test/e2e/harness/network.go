package harness

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

// Network is a lab under test and what a failure shows of it.
type Network struct {
	T        *testing.T
	Ctx      context.Context
	Topo     *topo.Lab
	Topology string
	Dir      string       // of the captures
	stop     func() error // ends the captures, nil while none is made
	Edges    map[string]*dut.Edge
	confined string // program that Start runs in the place of the edge's, "" for that
	// Patience is how long Fact waits, await.Patience by default. What goes by an API server, its controller and agents takes
	// longer on two cores that other tests have too.
	Patience time.Duration
}

// NewNetwork makes an empty network, which goes with the test.
func NewNetwork(t *testing.T, picture string) *Network {
	t.Helper()
	tier.Root(t)
	dir, err := os.MkdirTemp("", "selvage-e2e-capture-") //nolint:usetesting // what failed is kept
	if err != nil {
		t.Fatal(err)
	}
	lab, err := topo.New(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	n := &Network{T: t, Ctx: t.Context(), Topo: lab, Topology: picture, Dir: dir, Edges: map[string]*dut.Edge{}}
	t.Cleanup(func() {
		n.StopCaptures()
		if err := lab.Close(); err != nil {
			t.Errorf("close the lab: %v", err)
		}
		if !t.Failed() {
			os.RemoveAll(dir)
		}
	})
	return n
}

// In is the network in a subtest, with captures of its own.
func (n *Network) In(t *testing.T) *Network {
	sub := *n
	sub.T, sub.Dir = t, filepath.Join(n.Dir, filepath.Base(t.Name()))
	return &sub
}

// Must ends the test when something could not be set up.
func (n *Network) Must(err error) {
	n.T.Helper()
	if err != nil {
		n.Fail("set up", err)
	}
}

// Fact waits until try returns nil.
func (n *Network) Fact(what string, try func() error) {
	n.T.Helper()
	if err := await.Within(n.Ctx, cmp.Or(n.Patience, await.Patience), what, try); err != nil {
		n.again(try)
		n.Fail(what, err)
	}
}

// Once is a fact that cannot be waited for: it holds at the first try.
func (n *Network) Once(what string, try func() error) {
	n.T.Helper()
	if err := try(); err != nil {
		n.again(try)
		n.Fail(what, err)
	}
}

// again does what failed while nobody watched once more, for the captures. A test's own are
// what failed: they stay.
func (n *Network) again(try func() error) {
	if own, _ := filepath.Glob(filepath.Join(n.Dir, "*.pcap")); len(own) > 0 || n.stop != nil || n.Ctx.Err() != nil {
		return
	}
	n.record()
	_ = try()
}

// captureEnv has networks captured from the start when it is not empty.
const captureEnv = "SELVAGE_TEST_CAPTURE"

// Record starts to capture every link that there is now, where SELVAGE_TEST_CAPTURE asks
// for it: without, what fails is done once more under captures. They cost time and have
// the kernel share packets, so transfers go on without them.
func (n *Network) Record() {
	n.T.Helper()
	if os.Getenv(captureEnv) != "" {
		n.record()
	}
}

func (n *Network) record() {
	n.T.Helper()
	stop, err := n.Topo.Capture(n.Ctx, n.Dir, topo.CaptureOptions{Snaplen: 256})
	if err != nil {
		n.T.Errorf("capture: %v", err)
		return
	}
	n.stop = stop
}

// StopCaptures ends the captures.
func (n *Network) StopCaptures() {
	if n.stop == nil {
		return
	}
	if err := n.stop(); err != nil {
		n.T.Errorf("end the captures: %v", err)
	}
	n.stop = nil
}

// Fail ends the test with what is known of the network.
func (n *Network) Fail(what string, err error) {
	n.T.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v\n%s\n%s", what, err, n.Topology, n.Topo.Picture())
	for host, e := range n.Edges {
		drops, err := n.Drops(host)
		fmt.Fprintf(&b, "edge on %s drops %v (%v)\n", host, drops, err)
		if log, err := os.ReadFile(filepath.Join(n.Topo.Dir, e.Name+".log")); err == nil {
			fmt.Fprintf(&b, "its log:\n%s", Tail(string(log), 20))
		}
	}
	fmt.Fprintf(&b, "the kernel lost:\n%s", n.Topo.Lost(n.Ctx))
	n.StopCaptures()
	files, _ := filepath.Glob(filepath.Join(n.Dir, "*.pcap"))
	fmt.Fprintf(&b, "captures: %s", strings.Join(files, " "))
	n.T.Error(b.String())
	n.T.FailNow()
}

// Tail is the last lines of a text.
func Tail(text string, lines int) string {
	all := strings.SplitAfter(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}
