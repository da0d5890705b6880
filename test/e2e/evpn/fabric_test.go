package evpn

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/lab/dut/evpn"
	"github.com/selvage/selvage/test/e2e/harness"
)

// fabric is edges that BGP feeds, by reflectors of FRR. Its edges are numbered from 1, and
// so are guests as everywhere: guest G of the segment with index S is 10.S.0.G.
type fabric struct {
	*harness.Network
	*evpn.Fabric
	o      fabricOptions
	guests map[string]harness.Guest
}

// fabricOptions say what a fabric is made of.
type fabricOptions struct {
	evpn.Options
	edges    string // what each is: s of Selvage, k of Linux and FRR
	liveness string // of edges of Selvage with each other
	more     string // of the configuration of Selvage's edges, in lines of spec
	// change has the last word on the configuration of an edge of Selvage, by its number.
	change func(number int, config string) string
	kernel evpn.Kernel
}

// newFabric starts everything; nothing is waited for.
func newFabric(t *testing.T, picture string, o fabricOptions) *fabric {
	t.Helper()
	n := &fabric{Network: harness.NewNetwork(t, picture), o: o, guests: map[string]harness.Guest{}}
	for _, kind := range o.edges {
		n.o.Edges = append(n.o.Edges, n.path(kind))
	}
	var err error
	if n.Fabric, err = evpn.New(n.Ctx, n.Topo, n.o.Options); err != nil {
		n.Fail("edges and reflectors start", err)
	}
	for _, g := range n.Guests {
		n.guests[g.Name] = harness.Guest{Host: g.Host, Subnet: g.Segment, Number: g.Number}
	}
	n.Record()
	return n
}

func (n *fabric) path(kind rune) evpn.Path {
	if kind == 'k' {
		return n.o.kernel
	}
	return evpn.Selvage{Binary: harness.Program, Liveness: n.o.liveness, More: n.o.more, Started: n.Started, Change: func(e *evpn.Edge, config string) string {
		if n.o.change == nil {
			return config
		}
		return n.o.change(e.Index+1, config)
	}}
}

// sub is the fabric in a subtest.
func (n *fabric) sub(t *testing.T) *fabric {
	sub := *n
	sub.Network = n.In(t)
	return &sub
}

// dumpOnFailure shows, of a test that failed, what all speakers think: to be deferred, while they
// live.
func (n *fabric) dumpOnFailure() {
	if !n.T.Failed() {
		return
	}
	for _, e := range n.Fabric.Edges {
		if e.FRR != nil {
			text, err := e.FRR.Do(n.Ctx, "show bgp l2vpn evpn")
			n.T.Logf("FRR of %s: %v\n%s", e.Name, err, text)
			continue
		}
		for _, command := range [][]string{{"bgp"}, {"bgp", "routes"}} {
			text, err := e.Output(n.Ctx, append(append([]string{harness.Program}, command...), "--edge", e.Edge.Name)...)
			n.T.Logf("%s of %s: %v\n%s", strings.Join(command, " "), e.Name, err, text)
		}
	}
	for _, r := range n.Reflectors {
		text, err := r.FRR.Do(n.Ctx, "show bgp l2vpn evpn summary")
		log, _ := r.FRR.Log("bgpd")
		n.T.Logf("%s: %v\n%s\nits log:\n%s", r.Name, err, text, harness.Tail(log, 20))
	}
}

// edge is the one of that number.
func (n *fabric) edge(number int) *evpn.Edge { return n.Fabric.Edges[number-1] }

// api is that of an edge of Selvage.
func (n *fabric) api(number int) *api.Client { return n.Ask(n.edge(number).Name) }

func (n *fabric) ours(number int) bool { return n.edge(number).FRR == nil }

// up is the facts in order until the edges know each other.
func (n *fabric) up() {
	n.T.Helper()
	for _, r := range n.Reflectors {
		n.session(r.Addr)
	}
	for from := range n.Fabric.Edges {
		for to := range n.Fabric.Edges {
			if from != to && n.shares(from+1, to+1) {
				n.multicast(from+1, to+1)
			}
		}
	}
	for number := range n.Fabric.Edges {
		if number++; n.ours(number) && len(n.Fabric.Edges) > 1 {
			n.Resolved(n.edge(number).Name)
		}
	}
}

// shares: both edges have a segment.
func (n *fabric) shares(a, b int) bool {
	for segment := range n.Options.Segments {
		if n.has(a, segment) && n.has(b, segment) {
			return true
		}
	}
	return false
}

// has: an edge has a segment, since a guest of it can be there or every edge has every segment.
func (n *fabric) has(number, segment int) bool {
	for _, g := range n.Options.Guests {
		if g.Segment == segment && slices.Contains(g.Edges, number-1) {
			return true
		}
	}
	return n.Options.L3VNI == 0
}

// speak has guests say something to their gateways or to each other, so that their edges
// know them.
func (n *fabric) speak(guests ...harness.Guest) {
	n.T.Helper()
	for _, g := range n.Guests {
		for _, want := range guests {
			if g.Host == want.Host {
				n.Must(g.Announce())
			}
		}
	}
}

// moves a guest to an edge.
func (n *fabric) moves(name string, to int) {
	n.T.Helper()
	for _, g := range n.Guests {
		if g.Name == name {
			n.Once(fmt.Sprintf("%s moves to %s", name, n.edge(to).Name), func() error { return g.Move(n.Ctx, n.edge(to)) })
		}
	}
}

// all is every guest, in order.
func (n *fabric) all() []harness.Guest {
	var all []harness.Guest
	for _, g := range n.Guests {
		all = append(all, n.guests[g.Name])
	}
	return all
}

// everyWay is the fact that each guest reaches each other, on both families.
func (n *fabric) everyWay() {
	n.T.Helper()
	var all []harness.Direction
	guests := n.all()
	for i, a := range guests {
		for _, b := range guests[i+1:] {
			all = append(all, harness.Ways(a, b)...)
		}
	}
	n.Fact("every guest reaches every other", func() error {
		const together = 8
		failed := make(chan error, len(all))
		for some := range slices.Chunk(all, together) {
			var pings sync.WaitGroup
			for _, d := range some {
				pings.Go(func() {
					if err := harness.Ping(n.Ctx, d.From, d.Addr); err != nil {
						failed <- fmt.Errorf("%s: %w", d.Name, err)
					}
				})
			}
			pings.Wait()
		}
		close(failed)
		var errs []error
		for err := range failed {
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// restart starts an edge of Selvage that was killed.
func (n *fabric) restart(number int) {
	n.T.Helper()
	e := n.edge(number)
	<-e.Edge.Command.Done()
	n.Once(e.Name+" starts again", func() error { return e.Path.Up(n.Ctx, e) })
}

// rewritten changes the configuration of a running edge.
func (n *fabric) rewritten(number int, pairs ...string) {
	n.T.Helper()
	n.Rewrite(n.edge(number).Name, pairs...)
}
