// Package network has the network of the experiment egress: a workload that reaches a target outside of the overlay
// by a gateway, and what can carry it there.
//
// Its one invariant: all paths have the same addresses, timeouts and links. Do not use it to measure: that is the
// experiment.
package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/topo"
)

// Interfaces of a Network beside those of a TwoHosts.
const (
	OutsideName  = "w0"  // of the gateway, towards the target
	EndpointName = "ov0" // of node and gateway, in the overlay; the kernel's is its vxlan device
)

// Options are the sizes of a Network; zero fields get their defaults.
type Options struct {
	UnderlayMTU int // of the underlay and of the network outside, in bytes; default 1500
	// InnerMTU is that of the workload and of the tunnel's own endpoints; default: what the
	// underlay leaves to VXLAN on IPv4.
	InnerMTU int
}

// Network is a workload that reaches a target outside the overlay by a gateway:
//
//	workload --- node ==underlay== gateway --- target
//	    eth0   p0    u0          u0       w0   eth0
//
// The target has an address to which packets are translated at the gateway, and one to
// which they are routed as they are. Node and gateway have an address each in the overlay
// too. All is IPv4. It carries nothing until a path is up.
type Network struct {
	Lab                             *topo.Lab
	Workload, Node, Gateway, Target *topo.Host
	Options                         Options // with the defaults filled in

	mu    sync.Mutex // the lab may close while the path stops
	stops []func(context.Context) error
}

// Addresses of every Network.
var (
	WorkloadAddr = netip.MustParseAddr("10.0.0.1")
	// TranslatedAddr and RoutedAddr are the target's.
	TranslatedAddr = netip.MustParseAddr("203.0.113.10")
	RoutedAddr     = netip.MustParseAddr("203.0.113.20")
	// PoolAddr is what a policy makes of the workload's.
	PoolAddr = netip.MustParseAddr("203.0.113.100")

	inside    = netip.MustParsePrefix("10.0.0.0/24")
	firstHop  = netip.MustParsePrefix("10.0.0.254/24")
	outside   = netip.MustParsePrefix("203.0.113.0/24")
	uplink    = netip.MustParsePrefix("203.0.113.1/24")
	endpoints = [2]netip.Prefix{netip.MustParsePrefix("10.201.0.1/24"), netip.MustParsePrefix("10.201.0.2/24")}
)

// timeouts are how long translations are remembered by all paths.
func timeouts() overlay.Timeouts { return overlay.DefaultNATTimeouts }

// New builds hosts and links.
func New(ctx context.Context, l *topo.Lab, o Options) (*Network, error) {
	if o.UnderlayMTU == 0 {
		o.UnderlayMTU = 1500
	}
	if o.InnerMTU == 0 {
		o.InnerMTU = o.UnderlayMTU - overlay.VXLAN.Overhead(topo.ClientV4)
	}
	n := &Network{Lab: l, Options: o}
	for _, h := range []struct {
		name string
		host **topo.Host
	}{{"workload", &n.Workload}, {"node", &n.Node}, {"gateway", &n.Gateway}, {"target", &n.Target}} {
		var err error
		if *h.host, err = l.Host(h.name); err != nil {
			return nil, err
		}
	}
	return n, errors.Join(n.connect(ctx), n.Target.AddRoute(topo.EndName, inside, uplink.Addr()))
}

// connect makes all links.
func (n *Network) connect(ctx context.Context) error {
	near, far := n.TEPs()
	subnet := func(addrs ...netip.Addr) (all []netip.Prefix) {
		for _, a := range addrs {
			all = append(all, topo.PrefixOf(a))
		}
		return all
	}
	return errors.Join(
		n.Lab.Link(ctx,
			topo.LinkEnd{Host: n.Node, Name: topo.UnderlayName, MAC: net.HardwareAddr{2, 0, 0, 0, 2, 1}, Addrs: subnet(near)},
			topo.LinkEnd{Host: n.Gateway, Name: topo.UnderlayName, MAC: net.HardwareAddr{2, 0, 0, 0, 2, 2}, Addrs: subnet(far)}, n.Options.UnderlayMTU),
		n.Lab.Link(ctx,
			topo.LinkEnd{Host: n.Workload, Name: topo.EndName, MAC: topo.ClientMAC, Addrs: subnet(WorkloadAddr), Gateways: []netip.Addr{firstHop.Addr()}},
			topo.LinkEnd{Host: n.Node, Name: topo.AccessName}, n.Options.InnerMTU),
		n.Lab.Link(ctx,
			topo.LinkEnd{Host: n.Target, Name: topo.EndName, MAC: topo.ServerMAC, Addrs: subnet(TranslatedAddr, RoutedAddr)},
			topo.LinkEnd{Host: n.Gateway, Name: OutsideName}, n.Options.UnderlayMTU))
}

// TEPs are the underlay addresses of node and gateway.
func (n *Network) TEPs() (node, gateway netip.Addr) {
	near, far := topo.UnderlayAddrs()
	return near[0], far[0]
}

// Endpoint is the gateway's own address in the overlay.
func (n *Network) Endpoint() netip.Addr { return endpoints[1].Addr() }

// Hosts are the same hosts by the names of the standard topology.
func (n *Network) Hosts() *topo.TwoHosts {
	near, far := n.TEPs()
	return &topo.TwoHosts{
		Lab: n.Lab, Client: n.Workload, A: n.Node, B: n.Gateway, Server: n.Target, TEPA: near, TEPB: far,
		Options: topo.TwoHostsOptions{UnderlayMTU: n.Options.UnderlayMTU, InnerMTU: n.Options.InnerMTU, UnderlayFamily: 4},
	}
}

// Path is what carries packets between the ends of a Network.
type Path interface {
	// Describe is one line for reports.
	Describe() string
	// Up starts it and returns what stops it, which may be nil.
	Up(ctx context.Context, n *Network) (stop func(context.Context) error, err error)
	// Reaches are the addresses that node and workload reach by it.
	Reaches(n *Network) (node, workload []netip.Addr)
}

// Start brings a path up and waits until everything that it reaches answers.
func (n *Network) Start(ctx context.Context, p Path) error {
	n.Lab.OnClose("stop "+p.Describe(), n.halt)
	stop, err := p.Up(ctx, n)
	if stop != nil {
		n.mu.Lock()
		n.stops = append(n.stops, stop)
		n.mu.Unlock()
	}
	node, workload := p.Reaches(n)
	for _, addr := range node {
		if err == nil {
			err = n.Node.Reach(ctx, addr)
		}
	}
	for _, addr := range workload {
		if err == nil {
			err = n.Workload.Reach(ctx, addr)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.Describe(), err)
	}
	return nil
}

// SeenAs is the address that the target sees of a connection which the workload opens to
// one of its own.
func (n *Network) SeenAs(to netip.Addr) (netip.Addr, error) {
	var listener net.Listener
	err := n.Target.Do(func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(to, seenPort).String())
		return err
	})
	if err != nil {
		return netip.Addr{}, fmt.Errorf("listen at the target: %w", err)
	}
	defer listener.Close()
	err = n.Workload.Do(func() error {
		conn, err := net.DialTimeout("tcp", listener.Addr().String(), seenTime)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		return netip.Addr{}, fmt.Errorf("connection of the workload to the target: %w", err)
	}
	conn, err := listener.Accept()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("connection at the target: %w", err)
	}
	from, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	return from.Addr(), errors.Join(err, conn.Close())
}

// Of SeenAs: RFC 862's port, and longer than a lost SYN takes.
const (
	seenPort = 7
	seenTime = 5 * time.Second
)

// halt stops what runs, once.
func (n *Network) halt(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for _, stop := range n.stops {
		errs = append(errs, stop(ctx))
	}
	n.stops = nil
	return errors.Join(errs...)
}

// wireBurst lets a whole 64 kB segment pass at once, and wireQueue is a millisecond at
// 10 Gbit/s and more than TCP needs on a path without delay, both in bytes.
const wireBurst, wireQueue = 128 << 10, 1250 << 10

// Wire gives the underlay and the link to the target a rate in bits a second, both ways; 0
// is none. Frames count from their Ethernet header on.
func (n *Network) Wire(ctx context.Context, bits uint64) error {
	var errs []error
	for _, at := range []struct {
		host *topo.Host
		name string
	}{{n.Node, topo.UnderlayName}, {n.Gateway, topo.UnderlayName}, {n.Gateway, OutsideName}, {n.Target, topo.EndName}} {
		argv := []string{"tc", "qdisc", "replace", "dev", at.name, "root", "noqueue"}
		if bits > 0 {
			argv = []string{"tc", "qdisc", "replace", "dev", at.name, "root", "tbf", "rate", strconv.FormatUint(bits, 10) + "bit",
				"burst", strconv.Itoa(wireBurst), "limit", strconv.Itoa(wireQueue)}
		}
		if _, err := at.host.Output(ctx, argv...); err != nil {
			errs = append(errs, fmt.Errorf("rate of %s on %s: %w", at.name, at.host.Name, err))
		}
	}
	return errors.Join(errs...)
}
