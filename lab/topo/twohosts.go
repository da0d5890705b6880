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

// TwoHostsOptions are the sizes and families of a TwoHosts; zero fields get
// their defaults.
type TwoHostsOptions struct {
	UnderlayMTU int // bytes; default 1500
	// InnerMTU is that of client and server behind a tunnel; default: the
	// underlay's less the overhead of VXLAN, 50 bytes on IPv4 and 70 on IPv6.
	InnerMTU        int
	UnderlayFamily  int             // 4 (default) or 6
	Offloads        map[string]bool // ethtool features of both underlay interfaces
	BridgeNetfilter BridgeNetfilter // of both hosts
	// Routed puts client and server into different subnets, each with a gateway:
	// every path then routes between them.
	Routed bool
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
	Client, Server *Host
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
	for _, want := range []struct {
		host **Host
		name string
	}{{&n.Client, "client"}, {&n.A, "hosta"}, {&n.B, "hostb"}, {&n.Server, "server"}} {
		h, err := l.Host(want.name)
		if err != nil {
			return nil, err
		}
		*want.host = h
	}
	for _, h := range []*Host{n.A, n.B} {
		if err := h.setBridgeNetfilter(n.Options.BridgeNetfilter); err != nil {
			return nil, err
		}
	}
	return n, n.connect(ctx)
}

func (n *TwoHosts) fillOptions() error {
	o := &n.Options
	if o.BridgeNetfilter == "" {
		o.BridgeNetfilter = BridgeNetfilterDefault
	}
	if o.UnderlayMTU == 0 {
		o.UnderlayMTU = 1500
	}
	near, far := underlayAddrs()
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

// underlayAddrs are the addresses of hosts A and B on the underlay, IPv4 and IPv6.
func underlayAddrs() (near, far []netip.Addr) {
	return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")},
		[]netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::2")}
}

// prefix is the subnet of an address of this topology: /24 or /64.
func prefix(a netip.Addr) netip.Prefix {
	if a.Is4() {
		return netip.PrefixFrom(a, 24)
	}
	return netip.PrefixFrom(a, 64)
}

// MAC addresses of the end systems.
var (
	clientMAC = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	serverMAC = net.HardwareAddr{2, 0, 0, 0, 0, 2}
)

func (n *TwoHosts) clientEnd() LinkEnd {
	return n.end(n.Client, clientMAC, 0, n.ClientAddr(4), n.ClientAddr(6))
}

func (n *TwoHosts) serverEnd() LinkEnd {
	return n.end(n.Server, serverMAC, 1, n.ServerAddr(4), n.ServerAddr(6))
}

func (n *TwoHosts) end(h *Host, mac net.HardwareAddr, side int, addrs ...netip.Addr) LinkEnd {
	e := LinkEnd{Host: h, Name: EndName, MAC: mac}
	for _, addr := range addrs {
		e.Addrs = append(e.Addrs, prefix(addr))
	}
	if subnets := n.subnets(); subnets != nil {
		for _, gateway := range subnets[side].Gateways {
			e.Gateways = append(e.Gateways, gateway.Addr())
		}
	}
	return e
}

// connect makes all links.
func (n *TwoHosts) connect(ctx context.Context) error {
	access := func(h *Host, last byte) LinkEnd {
		return LinkEnd{Host: h, Name: AccessName, MAC: net.HardwareAddr{2, 0, 0, 0, 1, last}}
	}
	underlay := func(h *Host, last byte, tep netip.Addr) LinkEnd {
		return LinkEnd{Host: h, Name: UnderlayName, MAC: net.HardwareAddr{2, 0, 0, 0, 2, last}, Addrs: []netip.Prefix{prefix(tep)}, Offloads: n.Options.Offloads}
	}
	return errors.Join(
		n.Lab.Link(ctx, n.clientEnd(), access(n.A, 1), n.Options.InnerMTU),
		n.Lab.Link(ctx, underlay(n.A, 1, n.TEPA), underlay(n.B, 2, n.TEPB), n.Options.UnderlayMTU),
		n.Lab.Link(ctx, access(n.B, 2), n.serverEnd(), n.Options.InnerMTU),
	)
}

// reset replaces all interfaces by new links, so that nothing of one path,
// neither offload nor learned address, is left for the next.
func (n *TwoHosts) reset(ctx context.Context) error {
	for _, h := range []*Host{n.Client, n.A, n.B, n.Server} {
		if err := h.clear(); err != nil {
			return err
		}
	}
	return n.connect(ctx)
}

// setInnerMTU sets what the end systems believe, and their links.
func (n *TwoHosts) setInnerMTU(mtu int) error {
	return errors.Join(
		n.A.SetMTU(AccessName, mtu), n.Client.SetMTU(EndName, mtu),
		n.B.SetMTU(AccessName, mtu), n.Server.SetMTU(EndName, mtu),
	)
}

// Path is a data path between client and server that works. One at a time is up
// in a TwoHosts.
type Path struct {
	Name        string
	Description string
	// InnerMTU is that of client and server, in bytes.
	InnerMTU int

	net   *TwoHosts
	mu    sync.Mutex // the lab may close while the path does
	stops []func(context.Context) error
}

// Site is one side of a TwoHosts as a data path's half sees it.
type Site struct {
	Host          *Host
	Local, Remote netip.Addr // TEPs
	UnderlayMTU   int
	InnerMTU      int
	End           *Host // the client or server behind the host
	Peer          *Host // the other host
	// Subnets are what to route between, that of End first; none where to bridge.
	Subnets []Subnet
}

// Half is what carries packets in one host, between AccessName and UnderlayName.
// Kernel, OVS and Selvage are halves and can be mixed.
type Half interface {
	// Name is the contender's.
	Name() string
	// Describe is one line for reports.
	Describe() string
	// Up starts it and returns what stops it, which may be nil.
	Up(ctx context.Context, s Site) (stop func(context.Context) error, err error)
}

// Build starts a half in each host and waits until the server answers the client
// over IPv4 and IPv6.
func (n *TwoHosts) Build(ctx context.Context, a, b Half) (*Path, error) {
	p := &Path{Name: a.Name(), Description: a.Describe(), InnerMTU: n.Options.InnerMTU, net: n}
	if a.Name() != b.Name() {
		p.Name += "-" + b.Name()
		p.Description += "; other side: " + b.Describe()
	}
	var clientFirst, serverFirst []Subnet
	if subnets := n.subnets(); subnets != nil {
		p.Description += ", routing between two segments"
		clientFirst, serverFirst = subnets, []Subnet{subnets[1], subnets[0]}
	}
	return n.start(ctx, p, func() error {
		for _, side := range []struct {
			half Half
			site Site
		}{
			{a, Site{n.A, n.TEPA, n.TEPB, n.Options.UnderlayMTU, n.Options.InnerMTU, n.Client, n.B, clientFirst}},
			{b, Site{n.B, n.TEPB, n.TEPA, n.Options.UnderlayMTU, n.Options.InnerMTU, n.Server, n.A, serverFirst}},
		} {
			stop, err := side.half.Up(ctx, side.site)
			if stop != nil {
				p.onStop(stop)
			}
			if err != nil {
				return fmt.Errorf("%s on %s: %w", side.half.Name(), side.site.Host.Name, err)
			}
		}
		return nil
	})
}

// start runs up, which prepares p, and returns p when it carries traffic.
func (n *TwoHosts) start(ctx context.Context, p *Path, up func() error) (*Path, error) {
	if n.path != nil {
		return nil, fmt.Errorf("path %s is up: close it before starting %s", n.path.Name, p.Name)
	}
	n.path = p
	// Whoever closes first, the path or the lab, leaves nothing for the other.
	n.Lab.onClose("stop path "+p.Name, p.halt)
	err := up()
	for _, family := range []int{4, 6} {
		if err == nil {
			err = n.Client.Reach(ctx, n.ServerAddr(family))
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("path %s: %w", p.Name, err), p.Close())
	}
	return p, nil
}

func (p *Path) onStop(stop func(context.Context) error) {
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
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := p.halt(ctx)
	p.net.path = nil
	if p.net.Lab.isClosing() {
		return err
	}
	return errors.Join(err, p.net.reset(ctx))
}
