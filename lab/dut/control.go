package dut

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/topo"
)

// Control is BGP EVPN for the two hosts of a routed topology: a route reflector, FRR, which
// each host reaches by a link of its own, so that nothing of it is on the way of what is
// measured.
//
//	client --- hosta ==underlay== hostb --- server
//	             m0 --- reflector --- m0
type Control struct {
	// Output are the routes that were in place when the path was, in words.
	Output string

	net       *topo.TwoHosts
	reflector *topo.Host
	frr       *FRR
}

// managementName is a host's interface towards the reflector.
const managementName = "m0"

// managementAddrs are the addresses of a host, by its place, and of the reflector on their link.
func managementAddrs(i int) (host, reflector netip.Prefix) {
	addr := func(last byte) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 255, last}), 30)
	}
	return addr(byte(4*i + 1)), addr(byte(4*i + 2))
}

// KernelEVPN is Kernel fed by BGP: FRR on both hosts in the place of static entries.
func KernelEVPN(ctx context.Context, n *topo.TwoHosts, o KernelOptions) (*topo.Path, *Control, error) {
	o.Learned = true
	return controlled(ctx, n, func(i int) topo.Half { return kernelEVPN{KernelHalf(o), i} })
}

// SelvageEVPN is Selvage fed by BGP.
func SelvageEVPN(ctx context.Context, n *topo.TwoHosts, o SelvageOptions) (*topo.Path, *Control, error) {
	return controlled(ctx, n, func(i int) topo.Half {
		own := o
		_, reflector := managementAddrs(i)
		own.Learned = reflector.Addr()
		return selvageEVPN{SelvageHalf(own)}
	})
}

// controlled builds a path whose halves learn from a reflector, and waits until it carries
// traffic and all of its routes are in place.
func controlled(ctx context.Context, n *topo.TwoHosts, half func(i int) topo.Half) (*topo.Path, *Control, error) {
	if !n.Options.Routed || n.Options.SameHost || n.Options.Pairs > 1 {
		return nil, nil, errors.New("a path that BGP feeds: it needs a routed topology of one client and one server, on two hosts")
	}
	c := &Control{net: n}
	if err := c.start(ctx); err != nil {
		return nil, nil, fmt.Errorf("route reflector: %w", err)
	}
	p, err := n.Build(ctx, half(0), half(1))
	if err != nil {
		return nil, nil, err
	}
	if err := await.That(ctx, "the routes of both hosts", func() error { return c.complete(ctx) }); err != nil {
		return nil, nil, errors.Join(err, p.Close())
	}
	p.Description += ", fed by BGP EVPN"
	return p, c, nil
}

// start makes the reflector and its links, and starts it.
func (c *Control) start(ctx context.Context) (err error) {
	if c.reflector, err = c.net.Lab.Host("reflector"); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "router bgp %d\n bgp router-id 192.0.2.201\n no bgp default ipv4-unicast\n timers bgp 3 9\n", AS)
	for i, h := range []*topo.Host{c.net.A, c.net.B} {
		host, reflector := managementAddrs(i)
		err := c.net.Lab.Link(ctx, topo.LinkEnd{Host: h, Name: managementName, Addrs: []netip.Prefix{host}},
			topo.LinkEnd{Host: c.reflector, Name: h.Name, Addrs: []netip.Prefix{reflector}}, 1500)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, " neighbor %s remote-as %d\n neighbor %s timers connect 1\n", host.Addr(), AS, host.Addr())
	}
	// It sends no packet there, but passes on no route whose next hop it has no way to.
	if err := c.reflector.AddRoute("lo", topo.PrefixOf(c.net.TEPA).Masked(), netip.Addr{}); err != nil {
		return err
	}
	b.WriteString(" address-family l2vpn evpn\n")
	for i := range 2 {
		host, _ := managementAddrs(i)
		fmt.Fprintf(&b, "  neighbor %s activate\n  neighbor %s route-reflector-client\n", host.Addr(), host.Addr())
	}
	if c.frr, err = StartFRR(ctx, c.reflector, FRRConfig{BGP: b.String()}); err != nil {
		return err
	}
	c.net.Lab.OnClose("stop the route reflector", c.frr.Stop)
	return nil
}

// complete says what the reflector has not heard yet: of each host that it is there for each
// segment, and of each end system its addresses.
func (c *Control) complete(ctx context.Context) error {
	hosts, err := c.frr.Do(ctx, "show bgp l2vpn evpn route type macip")
	if err != nil {
		return err
	}
	var errs []error
	ends := 0
	for _, subnet := range c.net.Subnets() {
		for _, addr := range subnet.End {
			route := fmt.Sprintf("[%s]:[%d]:[%s]", subnet.EndMAC, addr.BitLen(), addr)
			if !strings.Contains(hosts, route) {
				errs = append(errs, fmt.Errorf("nothing was advertised for %s", route))
			}
			ends++
		}
	}
	flood, err := c.frr.Do(ctx, "show bgp l2vpn evpn route type multicast")
	if err != nil {
		return err
	}
	for _, tep := range []netip.Addr{c.net.TEPA, c.net.TEPB} {
		route := fmt.Sprintf("[%d]:[%s]", tep.BitLen(), tep)
		if found := strings.Count(flood, route); found < len(c.net.Subnets()) {
			errs = append(errs, fmt.Errorf("%s is known for %d of %d segments", tep, found, len(c.net.Subnets())))
		}
	}
	c.Output = fmt.Sprintf("BGP EVPN by an FRR route reflector beside the path; in place before the first sample: %d routes to addresses of end systems (type 2), %d of hosts for broadcast (type 3)", ends, 2*len(c.net.Subnets()))
	return errors.Join(errs...)
}

// kernelEVPN is a half of the kernel's with FRR.
type kernelEVPN struct {
	KernelHalf
	place int
}

// Describe is one line for reports.
func (kernelEVPN) Describe() string { return "Linux bridges and the kernel's vxlan devices, FRR" }

// Up makes bridges and devices, and starts FRR, which fills them.
func (k kernelEVPN) Up(ctx context.Context, s topo.Site) (func(context.Context) error, error) {
	stop, err := k.KernelHalf.Up(ctx, s)
	if err != nil {
		return stop, err
	}
	_, reflector := managementAddrs(k.place)
	peer := reflector.Addr()
	frr, err := StartFRR(ctx, s.Host, FRRConfig{BGP: fmt.Sprintf(
		"router bgp %d\n bgp router-id %s\n no bgp default ipv4-unicast\n timers bgp 3 9\n neighbor %s remote-as %d\n neighbor %s timers connect 1\n"+
			" address-family l2vpn evpn\n  advertise-all-vni\n  neighbor %s activate\n", AS, RouterID(s.Local), peer, AS, peer, peer)})
	if err != nil {
		return stop, err
	}
	both := func(ctx context.Context) error { return errors.Join(frr.Stop(ctx), stop(ctx)) }
	return both, speak(s)
}

// selvageEVPN is a half of Selvage's with BGP.
type selvageEVPN struct{ SelvageHalf }

// Up starts an edge.
func (h selvageEVPN) Up(ctx context.Context, s topo.Site) (func(context.Context) error, error) {
	stop, err := h.SelvageHalf.Up(ctx, s)
	if err != nil {
		return stop, err
	}
	return stop, speak(s)
}

// speak has end systems ask for their gateways, as they do when they start: nobody can tell
// of one that never said a word. Whether a gateway answers more than that is its own matter.
func speak(s topo.Site) error {
	for _, end := range s.Ends {
		for _, gateway := range s.Subnets[0].Gateways {
			err := end.Knock(gateway.Addr())
			if err != nil && !errors.Is(err, topo.ErrSilent) {
				return fmt.Errorf("%s to its gateway %s: %w", end.Name, gateway.Addr(), err)
			}
		}
	}
	return nil
}
