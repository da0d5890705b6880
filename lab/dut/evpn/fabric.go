// Package evpn has fabrics that BGP EVPN feeds: route reflectors, and edges of Linux with FRR or of Selvage, with
// guests behind them that may move.
//
// Its one invariant: Ready returns when every edge knows the others. Do not use it for the meaning of routes: that
// is internal/evpn.
package evpn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

// Fabric is a fabric that BGP feeds: edges and route reflectors on one underlay switch, and
// guests behind the edges.
//
//	guests --- edge1 ==\              /== rr1
//	guests --- edge2 ====== switch ======= rr2
//	guests --- edge3 ==/
//
// The underlay is 192.0.2.0/24 and 2001:db8::/64: edge N has N, reflector N 200 + N (0xc8 + N).
// Guest G of the segment with index S is 10.S.0.G/24, fd00:S::G/64 and 02:00:00:00:S:G.
// Gateways are 10.S.0.254 and fd00:S::fe, with one MAC address (GatewayMAC) on all edges.
type Fabric struct {
	Lab        *topo.Lab
	Options    Options // with the defaults filled in
	Switch     *topo.Host
	Reflectors []*Reflector
	Edges      []*Edge
	Guests     []*Guest // in the order of the options
}

// Options describe a fabric; zero fields get their defaults.
type Options struct {
	// Family is that of the tunnel endpoints: 4 (default) or 6. FRR has those of IPv4 alone
	// before version 10.6.
	Family int
	// SessionFamily is that of the BGP sessions; default: Family.
	SessionFamily int
	Edges         []Path // what each edge is
	// Reflectors is how many there are; default 1. Each edge has a session with each.
	Reflectors int
	Segments   []Segment // default: one without a gateway
	// L3VNI is that of the segment between routers, with which routing is symmetric
	// (RFC 9135 section 5): an edge then has only the segments of its guests. Without,
	// each edge has all of them.
	L3VNI  uint32
	Guests []GuestOptions
	// Password is that of all sessions (TCP MD5), one word.
	Password string
	// TTLSecurity has speakers refuse what was not sent on their network (RFC 5082).
	TTLSecurity bool
	// Liveness is the interval of BFD on BGP sessions, "100ms", detected after three;
	// "" goes without. Between edges it is the edges' own matter.
	Liveness string
	// Timers are keepalive and hold time in seconds; default 3 and 9.
	Keepalive, Hold int
}

// Segment is one of the fabric.
type Segment struct {
	Name    string // default "seg" and its index
	VNI     uint32 // default 100 and its index
	Gateway bool   // all edges that have the segment have its gateway
}

// GuestOptions describe a guest.
type GuestOptions struct {
	Name    string // of its host and of the port at each edge
	Segment int    // index
	Number  int    // 1 … 253
	// Edges are where it can be, by their index; it begins at the first.
	Edges []int
}

// Path is what an edge forwards with, and what speaks BGP for it.
type Path interface {
	Name() string
	Describe() string
	// Up starts it on an edge that has its links already.
	Up(ctx context.Context, e *Edge) error
	// Down ends it as it is ended in service.
	Down(ctx context.Context, e *Edge) error
}

// Edge is one of the fabric.
type Edge struct {
	*topo.Host
	Fabric *Fabric
	Index  int
	TEP    netip.Addr
	Addr   netip.Addr // of its BGP sessions
	Path   Path
	FRR    *dut.FRR  // that speaks for it, nil on an edge of Selvage
	Edge   *dut.Edge // the process of one of Selvage, else nil
}

// Reflector is a route reflector.
type Reflector struct {
	*topo.Host
	Addr netip.Addr
	FRR  *dut.FRR
}

// EVPNAS is the number of the fabric's one autonomous system.
func (n *Fabric) EVPNAS() uint32 { return dut.AS }

// New builds the fabric and starts reflectors and edges. What BGP says then takes its
// time: see Ready.
func New(ctx context.Context, l *topo.Lab, o Options) (*Fabric, error) {
	n := &Fabric{Lab: l, Options: o}
	if err := n.Options.fill(); err != nil {
		return nil, err
	}
	if err := n.build(ctx); err != nil {
		return nil, err
	}
	l.OnClose("stop the fabric", n.stop)
	for _, r := range n.Reflectors {
		if err := n.startReflector(ctx, r); err != nil {
			return nil, err
		}
	}
	for _, e := range n.Edges {
		if err := e.Path.Up(ctx, e); err != nil {
			return nil, fmt.Errorf("edge %s: %w", e.Name, err)
		}
	}
	return n, nil
}

func (o *Options) fill() error {
	o.Family = cmp.Or(o.Family, 4)
	o.SessionFamily = cmp.Or(o.SessionFamily, o.Family)
	o.Reflectors = cmp.Or(o.Reflectors, 1)
	o.Keepalive, o.Hold = cmp.Or(o.Keepalive, 3), cmp.Or(o.Hold, 9)
	if len(o.Segments) == 0 {
		o.Segments = []Segment{{}}
	}
	o.Segments = slices.Clone(o.Segments)
	for i := range o.Segments {
		s := &o.Segments[i]
		s.Name, s.VNI = cmp.Or(s.Name, fmt.Sprintf("seg%d", i)), cmp.Or(s.VNI, uint32(100+i))
	}
	if o.Liveness != "" {
		if _, err := time.ParseDuration(o.Liveness); err != nil {
			return fmt.Errorf("liveness of BGP sessions: %w", err)
		}
	}
	for _, family := range []int{o.Family, o.SessionFamily} {
		if family != 4 && family != 6 {
			return fmt.Errorf("tunnel endpoints or sessions of family %d: choose 4 or 6", family)
		}
	}
	for _, g := range o.Guests {
		if !o.knows(g) {
			return fmt.Errorf("guest %+v: give it a segment of %d and edges of %d, by their index, and a number up to 253", g, len(o.Segments), len(o.Edges))
		}
	}
	return nil
}

// knows: the guest is of a segment that there is, and behind edges that there are.
func (o *Options) knows(g GuestOptions) bool {
	return g.Segment >= 0 && g.Segment < len(o.Segments) && g.Number >= 1 && g.Number <= 253 &&
		len(g.Edges) > 0 && slices.Min(g.Edges) >= 0 && slices.Max(g.Edges) < len(o.Edges)
}

// build makes hosts and links.
func (n *Fabric) build(ctx context.Context) (err error) {
	if n.Switch, err = n.Lab.Host("switch"); err != nil {
		return err
	}
	var ports []string
	join := func(name string, number int) (*topo.Host, error) {
		h, err := n.Lab.Host(name)
		if err != nil {
			return nil, err
		}
		ports = append(ports, name)
		addrs := []netip.Prefix{netip.PrefixFrom(topo.UnderlayAddr(number, 4), 24), netip.PrefixFrom(topo.UnderlayAddr(number, 6), 64)}
		return h, n.Lab.Link(ctx, topo.LinkEnd{Host: h, Name: topo.UnderlayName, Addrs: addrs}, topo.LinkEnd{Host: n.Switch, Name: name}, 1500)
	}
	for i := range n.Options.Reflectors {
		r := &Reflector{Addr: topo.UnderlayAddr(201+i, n.Options.SessionFamily)}
		if r.Host, err = join(fmt.Sprintf("rr%d", i+1), 201+i); err != nil {
			return err
		}
		n.Reflectors = append(n.Reflectors, r)
	}
	for i, path := range n.Options.Edges {
		e := &Edge{Fabric: n, Index: i, Path: path, TEP: topo.UnderlayAddr(i+1, n.Options.Family), Addr: topo.UnderlayAddr(i+1, n.Options.SessionFamily)}
		if e.Host, err = join(fmt.Sprintf("edge%d", i+1), i+1); err != nil {
			return err
		}
		n.Edges = append(n.Edges, e)
	}
	if err := n.Switch.Bridge(ctx, "br0", 1500, ports...); err != nil {
		return err
	}
	for _, o := range n.Options.Guests {
		if err := n.addGuest(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// innerMTU is what a tunnel leaves of the underlay's 1500 bytes.
func (n *Fabric) innerMTU() int { return map[int]int{4: 1450, 6: 1430}[n.Options.Family] }

func (n *Fabric) stop(ctx context.Context) error {
	var errs []error
	for _, e := range n.Edges {
		errs = append(errs, e.Path.Down(ctx, e))
	}
	for _, r := range n.Reflectors {
		if r.FRR != nil {
			errs = append(errs, r.FRR.Stop(ctx))
		}
	}
	return errors.Join(errs...)
}

// Ready waits until the reflectors have a session with every edge, and each edge made of
// Linux knows all others with which it shares a segment.
func (n *Fabric) Ready(ctx context.Context) error {
	for _, r := range n.Reflectors {
		if err := r.FRR.AwaitSessions(ctx, n.peers()...); err != nil {
			return err
		}
	}
	for _, e := range n.Edges {
		if err := await.That(ctx, e.Name+" to know the other edges", func() error { return e.knows(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// knows says which other edge, with which it shares a segment, it has no way to.
func (e *Edge) knows(ctx context.Context) error {
	var errs []error
	for _, s := range e.Segments() {
		var known []netip.Addr
		var err error
		if e.FRR != nil {
			known, err = e.FRR.VTEPs(ctx, e.Fabric.Options.Segments[s].VNI)
		} else {
			known, err = e.Edge.TEPs(ctx)
		}
		if err != nil {
			return err
		}
		for _, other := range e.Fabric.Edges {
			if other != e && slices.Contains(other.Segments(), s) && !slices.Contains(known, other.TEP) {
				errs = append(errs, fmt.Errorf("segment %s: %s is not among %v", e.Fabric.Options.Segments[s].Name, other.TEP, known))
			}
		}
	}
	return errors.Join(errs...)
}

// Segments are the indices of those that the edge has.
func (e *Edge) Segments() []int {
	var all []int
	for i := range e.Fabric.Options.Segments {
		has := e.Fabric.Options.L3VNI == 0
		for _, g := range e.Fabric.Options.Guests {
			has = has || g.Segment == i && slices.Contains(g.Edges, e.Index)
		}
		if has {
			all = append(all, i)
		}
	}
	return all
}

// guests are those that may be at the edge.
func (e *Edge) guests() []*Guest {
	var all []*Guest
	for _, g := range e.Fabric.Guests {
		if slices.Contains(g.edges, e.Index) {
			all = append(all, g)
		}
	}
	return all
}

// gateways are those of a segment, nil where it has none.
func (n *Fabric) gateways(segment int) []netip.Prefix {
	if !n.Options.Segments[segment].Gateway {
		return nil
	}
	return []netip.Prefix{
		netip.PrefixFrom(Addr(segment, 254, 4), 24),
		netip.PrefixFrom(Addr(segment, 0xfe, 6), 64),
	}
}

// Addr is the address with a number of a segment, by its index, of family 4 or 6.
func Addr(segment, number, family int) netip.Addr {
	if family == 4 {
		return netip.AddrFrom4([4]byte{10, byte(segment), 0, byte(number)})
	}
	return netip.MustParseAddr(fmt.Sprintf("fd00:%x::%x", segment, number))
}

// routerMAC is that of the edge in the segment between routers.
func (e *Edge) routerMAC() net.HardwareAddr {
	return net.HardwareAddr{2, 0, 0, 0, 4, byte(e.Index + 1)}
}

// peers are the reflectors': all edges.
func (n *Fabric) peers() []netip.Addr {
	var peers []netip.Addr
	for _, e := range n.Edges {
		peers = append(peers, e.Addr)
	}
	return peers
}

// startReflector starts or restarts a reflector, which opens sessions itself too.
func (n *Fabric) startReflector(ctx context.Context, r *Reflector) (err error) {
	peers := n.peers()
	var b strings.Builder
	n.bgp(&b, r.Addr, peers)
	b.WriteString(" address-family l2vpn evpn\n")
	for _, peer := range peers {
		fmt.Fprintf(&b, "  neighbor %s activate\n  neighbor %s route-reflector-client\n", peer, peer)
	}
	r.FRR, err = dut.StartFRR(ctx, r.Host, dut.FRRConfig{BGP: b.String(), BFD: n.bfd(peers)})
	return err
}

// bgp writes the begin of a configuration of FRR's bgpd.
func (n *Fabric) bgp(b *strings.Builder, own netip.Addr, peers []netip.Addr) {
	o := n.Options
	fmt.Fprintf(b, "router bgp %d\n bgp router-id %s\n no bgp default ipv4-unicast\n bgp graceful-restart\n timers bgp %d %d\n",
		dut.AS, dut.RouterID(own), o.Keepalive, o.Hold)
	for _, peer := range peers {
		fmt.Fprintf(b, " neighbor %s remote-as %d\n neighbor %s timers connect 1\n", peer, dut.AS, peer)
		if o.Password != "" {
			fmt.Fprintf(b, " neighbor %s password %s\n", peer, o.Password)
		}
		if o.TTLSecurity {
			fmt.Fprintf(b, " neighbor %s ttl-security hops 1\n", peer)
		}
		if o.Liveness != "" {
			fmt.Fprintf(b, " neighbor %s bfd\n", peer)
		}
	}
}
