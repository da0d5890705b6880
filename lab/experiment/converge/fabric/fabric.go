// Package fabric is the network of the experiment converge: three edges that BGP feeds, in which hosts move and
// things fail, and a wire tap that hears what speakers say of it.
//
// Its one invariant: a fault is undone, and the fabric whole again, before the next. Do not use it where nothing
// fails: that is lab/dut/evpn.
package fabric

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/dut/evpn"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/topo"
)

// Fabric is a fabric of three edges that BGP feeds, in which hosts move and things fail.
//
//	a, mobile, s1 --- edge1 ==\
//	b, mobile, s2 --- edge2 ====== switch ==== rr1 …
//	c             --- edge3 ==/
//
// a, b, c and the mobile guest are of one segment. s1 and s2 are of another one and have the
// same service address, to which edge1 and edge2 announce a prefix each.
type Fabric struct {
	*evpn.Fabric
	Options Options // with the defaults filled in
	// Description is one line for reports.
	Description string

	lab  *topo.Lab
	path path
	cuts int // of links so far
}

// Options are of that fabric; zero fields get their defaults.
type Options struct {
	Path       string // "selvage" (default) or "kernel"
	Binary     string // path of selvage; default: EdgeProgram
	Reflectors int    // default 1
	// Liveness is the interval of BFD with the reflectors, and between edges of Selvage; three
	// packets may go missing. Default 50 ms.
	Liveness time.Duration
	// Uplinks is how many links to the underlay an edge has: 1 (default), or 2 with a router
	// between all edges, which shares what goes to an edge between both of its links. Then BFD
	// is between edges alone.
	Uplinks int
}

// Way is a flow's: from a guest to an address that another answers for.
type Way struct {
	Name           string // "from A"
	Client, Server *topo.Host
	Addr           netip.Addr
}

// path is what of a fabric differs by what its edges are.
type path interface {
	evpn.Path
	// serve has an edge lead to the service address by a guest of its own, also after its
	// speaker was started again.
	serve(ctx context.Context, e *evpn.Edge, by netip.Addr) error
	// kill ends all that runs of an edge, so that nothing of it is left but devices, and
	// again starts it.
	kill(e *evpn.Edge) error
	again(ctx context.Context, e *evpn.Edge) error
	// paths is by how many edges one leads to the service address.
	paths(ctx context.Context, e *evpn.Edge) (int, error)
	// noticed is when the first path of an edge died since a time, zero where nobody tells.
	noticed(ctx context.Context, e *evpn.Edge, since time.Time) (time.Time, error)
	// whole says what of an edge is not as it was at the start.
	whole(ctx context.Context, e *evpn.Edge) error
}

// serviceAddr is the address that two guests have.
var serviceAddr = netip.MustParseAddr("203.0.113.1")

// Guests by their place among the fabric's.
const (
	guestA = iota
	guestB
	guestC
	guestMobile
	guestS1
	guestS2
)

// Edges by their place.
const (
	edgeA = iota
	edgeB
	edgeC
)

const edges = 3

// l3VNI is the VNI between routers.
const l3VNI = 5000

func (o *Options) fill() error {
	if o.Path == "" {
		o.Path = "selvage"
	}
	if o.Reflectors == 0 {
		o.Reflectors = 1
	}
	if o.Liveness == 0 {
		o.Liveness = 50 * time.Millisecond
	}
	if o.Uplinks == 0 {
		o.Uplinks = 1
	}
	if o.Path != "selvage" && o.Path != "kernel" || o.Uplinks > 2 {
		return fmt.Errorf("fabric of %q with %d uplinks: choose selvage or kernel, and 1 or 2", o.Path, o.Uplinks)
	}
	return nil
}

// New builds the fabric and waits until all of its routes are in place.
func New(ctx context.Context, l *topo.Lab, o Options) (*Fabric, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	n := &Fabric{Options: o, lab: l}
	if o.Path == "kernel" {
		n.path = &kernel{Fabric: n}
	} else {
		n.path = &selvage{Fabric: n}
	}
	if err := n.build(ctx); err != nil {
		return nil, err
	}
	n.Description = n.path.Describe()
	for i, by := range []int{guestS1, guestS2} {
		s := n.Guests[by]
		if err := errors.Join(s.AddAddr("lo", netip.PrefixFrom(serviceAddr, 32)), n.path.serve(ctx, n.Edges[i], s.Addr(4))); err != nil {
			return nil, err
		}
	}
	return n, n.Ready(ctx)
}

func (n *Fabric) build(ctx context.Context) (err error) {
	for _, name := range n.speakers() {
		h, err := n.lab.Host(name)
		if err != nil {
			return err
		}
		if err := h.PreferProcesses(); err != nil {
			return fmt.Errorf("priority of speakers in %s: %w", name, err)
		}
	}
	for _, name := range []string{"switch", "mobile-patch"} {
		if err := n.renumber(ctx, name); err != nil {
			return err
		}
	}
	o := evpn.Options{
		Reflectors: n.Options.Reflectors, Liveness: n.Options.Liveness.String(), L3VNI: l3VNI,
		Segments: []evpn.Segment{{Name: "work", VNI: 100, Gateway: true}, {Name: "service", VNI: 101, Gateway: true}},
		Guests: []evpn.GuestOptions{
			{Name: "a", Number: 1, Edges: []int{edgeA}}, {Name: "b", Number: 2, Edges: []int{edgeB}}, {Name: "c", Number: 3, Edges: []int{edgeC}},
			{Name: "mobile", Number: 10, Edges: []int{edgeA, edgeB}},
			{Name: "s1", Segment: 1, Number: 1, Edges: []int{edgeA}}, {Name: "s2", Segment: 1, Number: 2, Edges: []int{edgeB}},
		},
	}
	var path evpn.Path = n.path
	if n.Options.Uplinks > 1 {
		o.Liveness = "" // it is not a neighbour's any more
		path = twoUplinks{n.path}
	}
	for range edges {
		o.Edges = append(o.Edges, path)
	}
	n.Fabric, err = evpn.New(ctx, n.lab, o)
	return err
}

// renumber has a host's interfaces get other indices than those of edges: of a veth whose
// two ends happen to have the same one, in namespaces of their own, Linux tells a change of
// the carrier up to a second late (net/core/link_watch.c), as if it were one of hardware.
func (n *Fabric) renumber(ctx context.Context, name string) error {
	h, err := n.lab.Host(name)
	if err != nil {
		return err
	}
	const most = 24 // interfaces of an edge
	for range most {
		if err := errors.Join(h.Bridge(ctx, "spare", 1500), h.Delete("spare")); err != nil {
			return err
		}
	}
	return nil
}

// speakers are the hosts whose processes must not wait for those of others.
func (n *Fabric) speakers() []string {
	var names []string
	for i := range edges {
		names = append(names, fmt.Sprintf("edge%d", i+1))
	}
	for i := range n.Options.Reflectors {
		names = append(names, fmt.Sprintf("rr%d", i+1))
	}
	return names
}

// Ways are those of the flows on which something is tried.
func (n *Fabric) Ways(caseName string) []Way {
	g := n.Guests
	way := func(name string, from, to int, addr netip.Addr) Way {
		return Way{"from " + name, g[from].Host, g[to].Host, addr}
	}
	mobile := g[guestMobile].Addr(4)
	switch caseName {
	case "edge-loss": // s2 answers first, so that whatever is for the service is answered
		return []Way{way("B", guestB, guestS2, serviceAddr), way("C", guestC, guestS1, serviceAddr)}
	case "link-loss":
		return []Way{way("B", guestB, guestA, g[guestA].Addr(4)), way("C", guestC, guestA, g[guestA].Addr(4))}
	case "move":
		return []Way{way("A", guestA, guestMobile, mobile), way("B", guestB, guestMobile, mobile), way("C", guestC, guestMobile, mobile)}
	}
	return []Way{
		way("A", guestA, guestC, g[guestC].Addr(4)), way("B", guestB, guestMobile, mobile),
		{"from C, routed", g[guestC].Host, g[guestS2].Host, g[guestS2].Addr(4)},
	}
}

// Ready waits until sessions, routes and ways are as they were at the start.
func (n *Fabric) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, inject.ReadyTime)
	defer cancel()
	for {
		err := await.That(ctx, "the fabric to be whole", func() error { return n.whole(ctx) })
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

func (n *Fabric) whole(ctx context.Context) error {
	for _, r := range n.Reflectors {
		if err := r.FRR.Sessions(ctx, n.teps()...); err != nil {
			return fmt.Errorf("reflector %s: %w", r.Name, err)
		}
	}
	for _, e := range n.Edges {
		if err := n.path.whole(ctx, e); err != nil {
			return fmt.Errorf("edge %s: %w", e.Name, err)
		}
	}
	if found, err := n.path.paths(ctx, n.Edges[edgeC]); err != nil || found != 2 {
		return errors.Join(err, fmt.Errorf("edge %s reaches %s by %d edges, want 2", n.Edges[edgeC].Name, serviceAddr, found))
	}
	for _, caseName := range []string{"move", "link-loss", "rr-loss", "edge-loss"} {
		for _, w := range n.Ways(caseName) {
			if err := w.Client.Knock(w.Addr); err != nil {
				return fmt.Errorf("%s to %s: %w", w.Name, w.Addr, err)
			}
		}
	}
	return nil
}

func (n *Fabric) teps() []netip.Addr {
	var all []netip.Addr
	for _, e := range n.Edges {
		all = append(all, e.TEP)
	}
	return all
}

// Noticed is when the liveness of an edge's paths told edge C of an event since a time, where
// it is asked and says so; else it is zero.
func (n *Fabric) Noticed(ctx context.Context, caseName string, since time.Time) (time.Time, error) {
	if caseName != "edge-loss" {
		return time.Time{}, nil
	}
	return n.path.noticed(ctx, n.Edges[edgeC], since)
}

// plane is how an edge learned its routes, for reports.
func (n *Fabric) plane() string {
	words := []string{fmt.Sprintf("BGP EVPN by %d FRR route reflector", n.Options.Reflectors)}
	if n.Options.Reflectors > 1 {
		words[0] += "s"
	}
	if n.Options.Uplinks > 1 {
		words = append(words, "two links to the underlay")
	} else {
		words = append(words, fmt.Sprintf("BFD with it every %s × 3", n.Options.Liveness))
	}
	return strings.Join(words, ", ")
}
