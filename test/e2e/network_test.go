package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/edge"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

// network is a lab under test and what a failure shows of it.
type network struct {
	t       *testing.T
	ctx     context.Context
	lab     *topo.Lab
	picture string
	dir     string       // of the captures
	stop    func() error // ends the captures, nil while none is made
	edges   map[string]*topo.Edge
}

func newNetwork(t *testing.T, picture string) *network {
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
	n := &network{t: t, ctx: t.Context(), lab: lab, picture: picture, dir: dir, edges: map[string]*topo.Edge{}}
	t.Cleanup(func() {
		n.quiet()
		if err := lab.Close(); err != nil {
			t.Errorf("close the lab: %v", err)
		}
		if !t.Failed() {
			os.RemoveAll(dir)
		}
	})
	return n
}

// in is the network in a subtest, with captures of its own.
func (n *network) in(t *testing.T) *network {
	sub := *n
	sub.t, sub.dir = t, filepath.Join(n.dir, filepath.Base(t.Name()))
	return &sub
}

func (n *network) must(err error) {
	n.t.Helper()
	if err != nil {
		n.fail("set up", err)
	}
}

// fact waits until try returns nil.
func (n *network) fact(what string, try func() error) {
	n.t.Helper()
	if err := await.That(n.ctx, what, try); err != nil {
		n.again(try)
		n.fail(what, err)
	}
}

// once is a fact that cannot be waited for: it holds at the first try.
func (n *network) once(what string, try func() error) {
	n.t.Helper()
	if err := try(); err != nil {
		n.again(try)
		n.fail(what, err)
	}
}

// again does what failed while nobody watched once more, for the captures.
func (n *network) again(try func() error) {
	if n.stop == nil && n.ctx.Err() == nil {
		n.record()
		_ = try()
	}
}

// record starts to capture every link that there is now. It costs time and has
// the kernel share packets, so transfers go on without it.
func (n *network) record() {
	n.t.Helper()
	stop, err := n.lab.Capture(n.ctx, n.dir, topo.CaptureOptions{Snaplen: 256})
	if err != nil {
		n.t.Errorf("capture: %v", err)
		return
	}
	n.stop = stop
}

// quiet ends the captures.
func (n *network) quiet() {
	if n.stop == nil {
		return
	}
	if err := n.stop(); err != nil {
		n.t.Errorf("end the captures: %v", err)
	}
	n.stop = nil
}

// fail ends the test with what is known of the network.
func (n *network) fail(what string, err error) {
	n.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v\n%s\n%s", what, err, n.picture, n.lab.Picture())
	for host, e := range n.edges {
		fmt.Fprintf(&b, "edge on %s drops %v\n", host, n.dropsOrError(host))
		if log, err := os.ReadFile(filepath.Join(n.lab.Dir, e.Name+".log")); err == nil {
			fmt.Fprintf(&b, "its log:\n%s", tail(string(log), 20))
		}
	}
	n.quiet()
	files, _ := filepath.Glob(filepath.Join(n.dir, "*.pcap"))
	fmt.Fprintf(&b, "captures: %s", strings.Join(files, " "))
	n.t.Error(b.String())
	n.t.FailNow()
}

func tail(text string, lines int) string {
	all := strings.SplitAfter(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// started is told of every edge.
func (n *network) started(h *topo.Host, e *topo.Edge) { n.edges[h.Name] = e }

// start runs an edge on a host.
func (n *network) start(h *topo.Host, name, config string) *topo.Edge {
	n.t.Helper()
	e, err := h.StartEdge(n.ctx, program, name, config)
	if err != nil {
		n.fail("edge on "+h.Name+" answers", err)
	}
	n.started(h, e)
	return e
}

// ask is the API of the edge on a host.
func (n *network) ask(host string) *edge.Client { return edge.Dial("", n.edges[host].Name) }

// drops are the reasons that the edge on a host has dropped packets for.
func (n *network) drops(host string) (map[string]uint64, error) {
	all, err := n.ask(host).Drops(context.WithoutCancel(n.ctx))
	if err != nil {
		return nil, err
	}
	happened := map[string]uint64{}
	for _, d := range all {
		if d.Packets > 0 {
			happened[d.Reason] = d.Packets
		}
	}
	return happened, nil
}

func (n *network) dropsOrError(host string) any {
	drops, err := n.drops(host)
	if err != nil {
		return err
	}
	return drops
}

// noDrops is a fact: the edges dropped nothing, but for the reasons named.
func (n *network) noDrops(but ...string) {
	n.t.Helper()
	for host := range n.edges {
		n.once("edge on "+host+" drops nothing", func() error {
			drops, err := n.drops(host)
			for reason, packets := range drops {
				if !slices.Contains(but, reason) {
					err = errors.Join(err, fmt.Errorf("%d packets for %s", packets, reason))
				}
			}
			return err
		})
	}
}

// resolved is the fact that an edge knows the way to its remotes.
func (n *network) resolved(host string) {
	n.t.Helper()
	n.fact("edge on "+host+" answers", func() error {
		_, err := n.ask(host).Status(n.ctx)
		return err
	})
	n.fact("edge on "+host+" has its remotes resolved", func() error {
		teps, err := n.ask(host).TEPs(n.ctx)
		if err == nil && len(teps) == 0 {
			err = errors.New("it has none")
		}
		for _, tep := range teps {
			if tep.State != "resolved" {
				err = errors.Join(err, fmt.Errorf("%s is %s", tep.Address, tep.State))
			}
		}
		return err
	})
}

// twoHosts is the standard topology.
type twoHosts struct {
	*network
	*topo.TwoHosts
}

const twoHostsPicture = `
  client ---- hosta ====== underlay ====== hostb ---- server
  eth0      p0    u0                    u0    p0      eth0
  10.0.0.1  the halves: an edge, the kernel's  10.0.0.2
  fd00::1   vxlan device or Open vSwitch        fd00::2`

func newTwoHosts(t *testing.T, o topo.TwoHostsOptions) *twoHosts {
	t.Helper()
	n := newNetwork(t, twoHostsPicture)
	two, err := topo.NewTwoHosts(n.ctx, n.lab, o)
	if err != nil {
		t.Fatal(err)
	}
	return &twoHosts{n, two}
}

func (n *twoHosts) sub(t *testing.T) *twoHosts { return &twoHosts{n.network.in(t), n.TwoHosts} }

// selvage is our half of a topology.
func (n *twoHosts) selvage() topo.SelvageHalf {
	return topo.SelvageHalf{Binary: program, Started: n.started}
}

// build starts both halves, with captures running.
func (n *twoHosts) build(a, b topo.Half) *topo.Path {
	n.t.Helper()
	n.record()
	path, err := n.Build(n.ctx, a, b)
	if err != nil {
		n.fail("server answers client", err)
	}
	return path
}

// directions are both ways between client and server on an address family.
type direction struct {
	name     string
	from, to *topo.Host
	addr     netip.Addr // of to
}

func (n *twoHosts) directions(family int) []direction {
	return []direction{
		{fmt.Sprintf("client to server, IPv%d", family), n.Client, n.Server, n.ServerAddr(family)},
		{fmt.Sprintf("server to client, IPv%d", family), n.Server, n.Client, n.ClientAddr(family)},
	}
}
