package topo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// Interface names of the standard topology, the same on both sides.
const (
	EndName      = "eth0" // of client and server
	AccessName   = "p0"   // of a host, towards its client or server
	UnderlayName = "u0"   // of a host, towards the other
)

// Addresses of the end systems, the same in every TwoHosts that is not routed.
var (
	ClientV4 = netip.MustParseAddr("10.0.0.1")
	ServerV4 = netip.MustParseAddr("10.0.0.2")
	ClientV6 = netip.MustParseAddr("fd00::1")
	ServerV6 = netip.MustParseAddr("fd00::2")
)

// TwoHostsNames are what the hosts of a TwoHosts are called.
type TwoHostsNames struct{ Client, A, B, Server string }

// TwoHostsOptions are the sizes and families of a TwoHosts; zero fields get
// their defaults.
type TwoHostsOptions struct {
	Names       TwoHostsNames // default client, hosta, hostb, server
	UnderlayMTU int           // bytes; default 1500
	// InnerMTU is that of client and server behind a tunnel; default: the
	// underlay's less the overhead of VXLAN, 50 bytes on IPv4 and 70 on IPv6.
	InnerMTU        int
	UnderlayFamily  int             // 4 (default) or 6
	Offloads        map[string]bool // ethtool features of both underlay interfaces
	BridgeNetfilter BridgeNetfilter // of both hosts
	// Routed puts client and server into different subnets, each with a gateway:
	// every path then routes between them.
	Routed bool
	// Pairs of a client and a server; default 1. The others are client2 and server2, …
	Pairs int
	// SameHost has the servers too behind host A; host B then carries nothing.
	SameHost bool
}

// TwoHosts is the standard topology: a client and a server, each behind a host,
// and an underlay between the hosts. It carries nothing until a path is built.
//
//	client --- hosta ==underlay== hostb --- server
//
// Routed, the server is 10.1.0.2/24 and fd01::2/64, and the end systems' default
// routes go to 10.0.0.254, fd00::fe and 10.1.0.254, fd01::fe.
type TwoHosts struct {
	Lab            *Lab
	Client, Server *Host // of the first pair
	Pairs          []Pair
	A, B           *Host
	Options        TwoHostsOptions // with the defaults filled in
	TEPA, TEPB     netip.Addr      // underlay addresses of the hosts

	path *Path // the one that is up
}

// NewTwoHosts builds the hosts and links of the standard topology.
func NewTwoHosts(ctx context.Context, l *Lab, o TwoHostsOptions) (*TwoHosts, error) {
	n := &TwoHosts{Lab: l, Options: o}
	if err := n.fillOptions(); err != nil {
		return nil, err
	}
	if err := n.makeHosts(); err != nil {
		return nil, err
	}
	for _, h := range []*Host{n.A, n.B} {
		if err := h.SetBridgeNetfilter(n.Options.BridgeNetfilter); err != nil {
			return nil, err
		}
	}
	return n, n.connect(ctx)
}

// makeHosts makes the first client, both hosts, the first server, and the other pairs.
func (n *TwoHosts) makeHosts() (err error) {
	n.Pairs = make([]Pair, n.Options.Pairs)
	names := n.Options.Names
	for i := range n.Pairs {
		p := &n.Pairs[i]
		if p.Client, err = n.Lab.Host(PairName(names.Client, i)); err != nil {
			return err
		}
		if i == 0 {
			if n.A, err = n.Lab.Host(names.A); err != nil {
				return err
			}
			if n.B, err = n.Lab.Host(names.B); err != nil {
				return err
			}
		}
		if p.Server, err = n.Lab.Host(PairName(names.Server, i)); err != nil {
			return err
		}
		p.addresses(i, n.Options.Routed)
	}
	n.Client, n.Server = n.Pairs[0].Client, n.Pairs[0].Server
	return nil
}

func (n *TwoHosts) fillOptions() error {
	o := &n.Options
	if err := o.checkPairs(); err != nil {
		return err
	}
	if o.Names == (TwoHostsNames{}) {
		o.Names = TwoHostsNames{Client: "client", A: "hosta", B: "hostb", Server: "server"}
	}
	if o.BridgeNetfilter == "" {
		o.BridgeNetfilter = BridgeNetfilterOff
	}
	if o.UnderlayMTU == 0 {
		o.UnderlayMTU = 1500
	}
	near, far := UnderlayAddrs()
	overhead := 50 // RFC 7348 section 5: 20 IPv4 + 8 UDP + 8 VXLAN + 14 Ethernet
	switch o.UnderlayFamily {
	case 0, 4:
		o.UnderlayFamily = 4
		n.TEPA, n.TEPB = near[0], far[0]
	case 6:
		overhead = 70
		n.TEPA, n.TEPB = near[1], far[1]
	default:
		return fmt.Errorf("underlay family %d: choose 4 or 6", o.UnderlayFamily)
	}
	if o.InnerMTU == 0 {
		o.InnerMTU = o.UnderlayMTU - overhead
	}
	return o.BridgeNetfilter.check()
}

// UnderlayAddrs are the addresses of hosts A and B on the underlay, IPv4 and IPv6.
func UnderlayAddrs() (near, far []netip.Addr) {
	return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")},
		[]netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::2")}
}

// UnderlayAddr is the address with a number on the underlay.
func UnderlayAddr(number, family int) netip.Addr {
	if family == 6 {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", number))
	}
	return netip.AddrFrom4([4]byte{192, 0, 2, byte(number)})
}

// PrefixOf is the subnet of an address of this topology: /24 or /64.
func PrefixOf(a netip.Addr) netip.Prefix {
	if a.Is4() {
		return netip.PrefixFrom(a, 24)
	}
	return netip.PrefixFrom(a, 64)
}

// connect makes all links.
func (n *TwoHosts) connect(ctx context.Context) error {
	underlay := func(h *Host, last byte, tep netip.Addr) LinkEnd {
		return LinkEnd{Host: h, Name: UnderlayName, MAC: net.HardwareAddr{2, 0, 0, 0, 2, last}, Addrs: []netip.Prefix{PrefixOf(tep)}, Offloads: n.Options.Offloads}
	}
	errs := []error{n.Lab.Link(ctx, underlay(n.A, 1, n.TEPA), underlay(n.B, 2, n.TEPB), n.Options.UnderlayMTU)}
	for _, g := range n.guests() {
		errs = append(errs, n.Lab.Link(ctx, g.end(n.Subnets()), g.access(), n.Options.InnerMTU))
	}
	return errors.Join(errs...)
}

// reset replaces all interfaces by new links, so that nothing of one path,
// neither offload nor learned address, is left for the next.
func (n *TwoHosts) reset(ctx context.Context) error {
	hosts := []*Host{n.A, n.B}
	for _, g := range n.guests() {
		hosts = append(hosts, g.guest)
	}
	for _, h := range hosts {
		if err := h.Clear(); err != nil {
			return err
		}
	}
	return n.connect(ctx)
}

// SetInnerMTU sets what the end systems believe, and their links.
func (n *TwoHosts) SetInnerMTU(mtu int) error {
	var errs []error
	for _, g := range n.guests() {
		errs = append(errs, g.host.SetMTU(g.name, mtu), g.guest.SetMTU(EndName, mtu))
	}
	return errors.Join(errs...)
}

// Path is a data path between client and server that works. One at a time is up
// in a TwoHosts.
type Path struct {
	Name        string
	Description string
	// InnerMTU is that of client and server, in bytes.
	InnerMTU int

	net   *TwoHosts
	sides []Side
	mu    sync.Mutex // the lab may close while the path does
	stops []func(context.Context) error
}

// Side is a half where it is up.
type Side struct {
	Half Half
	Site Site
}

// Sides are the path's halves, none where the path is not made of any.
func (p *Path) Sides() []Side { return p.sides }

// Site is one side of a TwoHosts as a data path's half sees it.
type Site struct {
	Host          *Host
	Local, Remote netip.Addr // TEPs
	UnderlayMTU   int
	InnerMTU      int
	Ends          []*Host  // clients and servers behind the host
	Access        []string // the host's interfaces towards them; none is AccessName alone
	Peer          *Host    // the other host
	// Subnets are what to route between, that of Ends first; none where to bridge.
	Subnets []Subnet
}

// Ports are the host's interfaces towards its ends.
func (s Site) Ports() []string {
	if len(s.Access) == 0 {
		return []string{AccessName}
	}
	return s.Access
}

// Half is what carries packets in one host, between AccessName and UnderlayName.
// Those of lab/dut can be mixed.
type Half interface {
	// Name is the target's.
	Name() string
	// Describe is one line for reports.
	Describe() string
	// Up starts it and returns what stops it, which may be nil.
	Up(ctx context.Context, s Site) (stop func(context.Context) error, err error)
}

// Build starts a half in each host that has ends, and waits until every server answers
// its client over IPv4 and IPv6.
func (n *TwoHosts) Build(ctx context.Context, a, b Half) (*Path, error) {
	p := &Path{Name: a.Name(), Description: a.Describe(), InnerMTU: n.Options.InnerMTU}
	if a.Name() != b.Name() {
		p.Name += "-" + b.Name()
		p.Description += "; other side: " + b.Describe()
	}
	var clientFirst, serverFirst []Subnet
	if subnets := n.Subnets(); subnets != nil {
		p.Description += ", routing between two segments"
		clientFirst, serverFirst = subnets, []Subnet{subnets[1], subnets[0]}
	}
	for _, one := range []Side{
		{a, Site{Host: n.A, Local: n.TEPA, Remote: n.TEPB, Peer: n.B, Subnets: clientFirst}},
		{b, Site{Host: n.B, Local: n.TEPB, Remote: n.TEPA, Peer: n.A, Subnets: serverFirst}},
	} {
		one.Site.UnderlayMTU, one.Site.InnerMTU = n.Options.UnderlayMTU, n.Options.InnerMTU
		one.Site.Ends, one.Site.Access = n.Behind(one.Site.Host)
		if len(one.Site.Ends) > 0 {
			p.sides = append(p.sides, one)
		}
	}
	return n.StartPath(ctx, p, func() error {
		for _, one := range p.sides {
			stop, err := one.Half.Up(ctx, one.Site)
			if stop != nil {
				p.OnStop(stop)
			}
			if err != nil {
				return fmt.Errorf("%s on %s: %w", one.Half.Name(), one.Site.Host.Name, err)
			}
		}
		return nil
	})
}

// StartPath runs up, which prepares p, and returns p when it carries traffic.
func (n *TwoHosts) StartPath(ctx context.Context, p *Path, up func() error) (*Path, error) {
	p.net = n
	if n.path != nil {
		return nil, fmt.Errorf("path %s is up: close it before starting %s", n.path.Name, p.Name)
	}
	n.path = p
	// Whoever closes first, the path or the lab, leaves nothing for the other.
	n.Lab.OnClose("stop path "+p.Name, p.halt)
	err := up()
	for _, pair := range n.Pairs {
		for _, family := range []int{4, 6} {
			if err == nil {
				err = pair.Client.Reach(ctx, pair.ServerAddr(family))
			}
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("path %s: %w", p.Name, err), p.Close())
	}
	return p, nil
}

// OnStop has Close call stop, the latest first.
func (p *Path) OnStop(stop func(context.Context) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stops = append(p.stops, stop)
}

// halt stops what runs, the latest first.
func (p *Path) halt(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for i := len(p.stops) - 1; i >= 0; i-- {
		errs = append(errs, p.stops[i](ctx))
	}
	p.stops = nil
	return errors.Join(errs...)
}

// Close stops the path and gives the topology new links. It may be called again.
func (p *Path) Close() error {
	if p.net.path != p {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), CloseTimeout)
	defer cancel()
	err := p.halt(ctx)
	p.net.path = nil
	if p.net.Lab.Closing() {
		return err
	}
	return errors.Join(err, p.net.reset(ctx))
}
