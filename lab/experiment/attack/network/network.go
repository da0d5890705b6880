// Package network has the network of the experiment attack: two tenants on two hosts with attackers among them, and
// what can carry it, each hardened as a careful operator does.
//
// Its one invariant: honest guests reach what a path carries them to before the first attack. Do not use it to send
// attacks: that is attacker beside it.
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

// Options are of a Network; zero fields get their defaults.
type Options struct {
	Ageing time.Duration // of learned MAC addresses; default 300 s
	// BGP has the hosts hear EVPN routes of the stranger, where the path can.
	BGP bool
	// Bare leaves out every defence that an operator adds, as the proof that captures see attacks.
	Bare bool
}

// Network is two tenants on two hosts, with attackers at ports of the one and on the underlay:
//
//	same1, attacker, loose --- hosta ══ switch ══ hostb --- same2       segment red
//	other1, bystander -------- hosta      ║       hostb --- other2      segment blue
//	outside ------------------ hosta   stranger
//
// The port of attacker is guarded: one MAC address, one address a family. Those of loose and
// bystander are not, as ports of guests with guests of their own are not. Host A routes each segment to
// the outside, by an interface and translated, where the path can route.
type Network struct {
	Lab                    *topo.Lab
	Options                Options // with the defaults filled in
	A, B, Switch, Stranger *topo.Host
	Outside                *topo.Host
	Guests                 []*Guest

	mu    sync.Mutex // the lab may close while the path stops
	stops []func(context.Context) error
}

// Guest is an end system of a Network.
type Guest struct {
	*topo.Host
	Role    string
	Segment int // 0 red, 1 blue
	MAC     net.HardwareAddr
	V4, V6  netip.Addr
	// Guarded says whether its port takes its own addresses alone.
	Guarded bool
	// Port is the interface of its host, A or B.
	Port string
	far  bool
}

// Roles of the guests, which are their names.
const (
	RoleSame1     = "same1"
	RoleSame2     = "same2"
	RoleAttacker  = "attacker"
	RoleLoose     = "loose"
	RoleOther1    = "other1"
	RoleOther2    = "other2"
	RoleBystander = "bystander"
)

// segments are the tenants.
func segments() []string { return []string{"red", "blue"} }

// VNI is that of a segment, 0 red or 1 blue.
func VNI(segment int) uint32 { return uint32(100 + segment) }

// Gateway is the first hop of a segment: an address of a family, 4 or 6, as host A has it.
func Gateway(segment, family int) netip.Prefix {
	if family == 6 {
		return netip.MustParsePrefix(fmt.Sprintf("fd0%d::fe/64", segment))
	}
	return netip.MustParsePrefix(fmt.Sprintf("10.%d.0.254/24", segment))
}

// uplinks are host A's addresses outside, and Outside those that it reaches there.
func uplinks() [2]netip.Prefix {
	return [2]netip.Prefix{netip.MustParsePrefix("203.0.113.1/24"), netip.MustParsePrefix("198.51.100.1/24")}
}

// Outside is the address outside that a segment reaches.
func Outside(segment int) netip.Addr {
	return [2]netip.Addr{netip.MustParseAddr("203.0.113.10"), netip.MustParseAddr("198.51.100.10")}[segment]
}

// TEP is an underlay address: of host A (1), host B (2) or the stranger.
func TEP(number, family int) netip.Addr { return topo.UnderlayAddr(number, family) }

// Stranger is the stranger's number on the underlay.
const Stranger = 66

// GatewayMAC is the first hop's on both segments.
func GatewayMAC() net.HardwareAddr { return net.HardwareAddr{2, 0, 0x5e, 0, 1, 1} }

// MAC begins with what no honest interface has: 06:a7.
func MAC(last byte) net.HardwareAddr { return net.HardwareAddr{6, 0xa7, 0, 0, 0, last} }

// New builds hosts and links.
func New(ctx context.Context, l *topo.Lab, o Options) (*Network, error) {
	if o.Ageing == 0 {
		o.Ageing = 300 * time.Second
	}
	n := &Network{Lab: l, Options: o}
	for name, host := range map[string]**topo.Host{"hosta": &n.A, "hostb": &n.B, "switch": &n.Switch, "stranger": &n.Stranger, "outside": &n.Outside} {
		var err error
		if *host, err = l.Host(name); err != nil {
			return nil, err
		}
	}
	for _, h := range []*topo.Host{n.A, n.B} {
		if err := h.SetBridgeNetfilter(topo.BridgeNetfilterOff); err != nil {
			return nil, err
		}
	}
	if err := n.underlay(ctx); err != nil {
		return nil, err
	}
	for _, g := range guests() {
		if err := n.attach(ctx, g); err != nil {
			return nil, err
		}
	}
	return n, n.outside(ctx)
}

func guests() []Guest {
	honest := func(segment int, last byte) net.HardwareAddr {
		return net.HardwareAddr{2, 0, 0, 0, byte(segment), last}
	}
	guest := func(role string, segment, number int, mac net.HardwareAddr, guarded, far bool) Guest {
		return Guest{
			Role: role, Segment: segment, MAC: mac, Guarded: guarded, far: far,
			V4: netip.AddrFrom4([4]byte{10, byte(segment), 0, byte(number)}), V6: netip.MustParseAddr(fmt.Sprintf("fd0%d::%x", segment, number)),
		}
	}
	return []Guest{
		guest(RoleSame1, 0, 1, honest(0, 1), true, false), guest(RoleSame2, 0, 2, honest(0, 2), true, true),
		guest(RoleAttacker, 0, 0x42, MAC(0x42), true, false), guest(RoleLoose, 0, 0x43, MAC(0x43), false, false),
		guest(RoleOther1, 1, 1, honest(1, 1), true, false), guest(RoleOther2, 1, 2, honest(1, 2), true, true),
		guest(RoleBystander, 1, 3, honest(1, 3), false, false),
	}
}

// OnPaper has the guests, and nothing that exists.
func OnPaper() *Network {
	n := &Network{}
	for _, g := range guests() {
		n.Guests = append(n.Guests, &g)
	}
	return n
}

// Guest is the one with a role.
func (n *Network) Guest(role string) *Guest {
	for _, g := range n.Guests {
		if g.Role == role {
			return g
		}
	}
	return nil
}

// underlay joins both hosts and the stranger.
func (n *Network) underlay(ctx context.Context) error {
	var ports []string
	for _, end := range []struct {
		host   *topo.Host
		number int
	}{{n.A, 1}, {n.B, 2}, {n.Stranger, Stranger}} {
		own := topo.LinkEnd{
			Host: end.host, Name: topo.UnderlayName, MAC: net.HardwareAddr{2, 0, 0, 0, 2, byte(end.number)},
			Addrs: []netip.Prefix{netip.PrefixFrom(topo.UnderlayAddr(end.number, 4), 24), netip.PrefixFrom(topo.UnderlayAddr(end.number, 6), 64)},
		}
		if err := n.Lab.Link(ctx, own, topo.LinkEnd{Host: n.Switch, Name: end.host.Name}, 1500); err != nil {
			return err
		}
		ports = append(ports, end.host.Name)
	}
	return n.Switch.Bridge(ctx, "br0", 1500, ports...)
}

// attach makes a guest and its link. Its gateway is host A's.
func (n *Network) attach(ctx context.Context, g Guest) (err error) {
	if g.Host, err = n.Lab.Host(g.Role); err != nil {
		return err
	}
	at := n.At(&g)
	g.Port = "p" + strconv.Itoa(len(n.Behind(at)))
	n.Guests = append(n.Guests, &g)
	end := topo.LinkEnd{Host: g.Host, Name: topo.EndName, MAC: g.MAC, Addrs: []netip.Prefix{topo.PrefixOf(g.V4), topo.PrefixOf(g.V6)}}
	if !g.far {
		end.Gateways = []netip.Addr{Gateway(g.Segment, 4).Addr()}
	}
	return n.Lab.Link(ctx, end, topo.LinkEnd{Host: at, Name: g.Port}, 1500-overlay.VXLAN.Overhead(topo.ClientV4))
}

// At is the host that a guest is behind.
func (n *Network) At(g *Guest) *topo.Host {
	if g.far {
		return n.B
	}
	return n.A
}

// Behind are the guests of a host.
func (n *Network) Behind(h *topo.Host) []*Guest {
	var all []*Guest
	for _, g := range n.Guests {
		if n.At(g) == h {
			all = append(all, g)
		}
	}
	return all
}

// outside links host A with what is outside, once for each segment.
func (n *Network) outside(ctx context.Context) error {
	var errs []error
	for i, uplink := range uplinks() {
		name := "w" + strconv.Itoa(i)
		errs = append(errs, n.Lab.Link(ctx,
			topo.LinkEnd{Host: n.Outside, Name: "eth" + strconv.Itoa(i), Addrs: []netip.Prefix{netip.PrefixFrom(Outside(i), uplink.Bits())}},
			topo.LinkEnd{Host: n.A, Name: name}, 1450))
	}
	return errors.Join(errs...)
}

// Path is what carries a Network.
type Path interface {
	// Describe is one line for reports, with the hardening.
	Describe() string
	// Up starts it and returns what stops it, which may be nil.
	Up(ctx context.Context, n *Network) (stop func(context.Context) error, err error)
	// Routes says whether it has a router and NAT at host A.
	Routes() bool
}

// Start brings a path up and waits until honest guests reach what it carries them to.
func (n *Network) Start(ctx context.Context, p Path) error {
	n.Lab.OnClose("stop "+p.Describe(), n.halt)
	stop, err := p.Up(ctx, n)
	if stop != nil {
		n.mu.Lock()
		n.stops = append(n.stops, stop)
		n.mu.Unlock()
	}
	for i, pair := range [][2]string{{RoleSame1, RoleSame2}, {RoleOther1, RoleOther2}} {
		client, server := n.Guest(pair[0]), n.Guest(pair[1])
		if err == nil {
			err = errors.Join(client.Reach(ctx, server.V4), client.Reach(ctx, server.V6))
		}
		if err == nil && p.Routes() {
			err = client.Reach(ctx, Outside(i))
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.Describe(), err)
	}
	return nil
}

// halt stops what runs, once.
func (n *Network) halt(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for i := len(n.stops) - 1; i >= 0; i-- {
		errs = append(errs, n.stops[i](ctx))
	}
	n.stops = nil
	return errors.Join(errs...)
}

// Hosts are both hosts by the names of the standard topology.
func (n *Network) Hosts() *topo.TwoHosts {
	return &topo.TwoHosts{
		Lab: n.Lab, Client: n.Guest(RoleSame1).Host, A: n.A, B: n.B, Server: n.Guest(RoleSame2).Host, TEPA: topo.UnderlayAddr(1, 4), TEPB: topo.UnderlayAddr(2, 4),
		Options: topo.TwoHostsOptions{UnderlayMTU: 1500, InnerMTU: 1450, UnderlayFamily: 4},
	}
}
