// Package router has the device between uplinks and tunnel endpoints, with a tester around it, and what can
// forward there: Linux, Open vSwitch, Selvage, and bare redirects as the limit.
//
// Its one invariant: one forwarder is up at a time, and it leaves the device as it was. Do not use it where
// two hosts have guests: that is lab/dut.
package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

// Options are the sizes and families of a Transit; zero fields get their
// defaults.
type Options struct {
	Pairs          int // uplinks, and as many underlay links: 1 (default) or 2
	Family         int // of the frames that cross the device: 4 (default) or 6
	UnderlayFamily int // 4 (default) or 6
	// MTU is that of all links, in bytes. The default leaves 200 bytes to tunnels.
	MTU int
	// Routes are how many more specific routes lie below the two that the frames need.
	Routes int
}

// defaultMTU is what the study of a bare-metal edge asks of an underlay for 1500.
const defaultMTU = 1700

// segment is the tunnels' VNI, or VSID.
const segment overlay.VNI = 100

// Inner Ethernet addresses of the routers at both ends of the tunnel.
var (
	routerMAC    = net.HardwareAddr{2, 0, 0, 0, 0x0f, 1}
	farRouterMAC = net.HardwareAddr{2, 0, 0, 0, 0x0f, 2}
)

// Link is a veth pair between tester and device. Its offloads on receive
// (GRO) have both ends take in what XDP redirects to them.
type Link struct {
	Tester, Device         string // interfaces
	TesterMAC, DeviceMAC   net.HardwareAddr
	TesterAddr, DeviceAddr netip.Prefix // of the frames' family at an uplink, of the underlay's at an underlay link
}

// Transit is a device under test between a tester's uplinks and the underlay on
// which the tester has the other tunnel endpoints:
//
//	gen0 --- up0 [device] ul0 --- sink0   (all of gen and sink in the tester)
//	gen1 --- up1          ul1 --- sink1   (with two pairs)
//
// Frames for Inside come by an uplink and leave in a tunnel, frames for Outside come
// in a tunnel and leave by an uplink. It carries nothing until a forwarder is up.
type Transit struct {
	Lab            *topo.Lab
	Tester, Device *topo.Host
	Options        Options // with the defaults filled in
	Uplinks        []Link
	Underlays      []Link
	// TEP is the device's tunnel endpoint. The tester's are Underlays' TesterAddr.
	TEP netip.Addr
	// Outside is the network behind the uplinks, Inside that behind the tunnels.
	Outside, Inside netip.Prefix

	mu sync.Mutex // the lab may close while a forwarder stops
	up *Forwarding
}

// NewTransit builds both hosts and their links.
func NewTransit(ctx context.Context, l *topo.Lab, o Options) (*Transit, error) {
	t := &Transit{Lab: l, Options: o}
	if err := t.fillOptions(); err != nil {
		return nil, err
	}
	var err error
	if t.Tester, err = l.Host("tester"); err != nil {
		return nil, err
	}
	if t.Device, err = l.Host("device"); err != nil {
		return nil, err
	}
	for i := range t.Options.Pairs {
		t.Uplinks = append(t.Uplinks, t.uplink(i))
		t.Underlays = append(t.Underlays, t.underlay(i))
	}
	t.TEP = t.Underlays[0].DeviceAddr.Addr()
	for _, link := range append(t.Uplinks[:len(t.Uplinks):len(t.Uplinks)], t.Underlays...) {
		if err := t.connect(ctx, link); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (t *Transit) fillOptions() error {
	o := &t.Options
	for _, field := range []struct {
		value *int
		or    int
	}{{&o.Pairs, 1}, {&o.Family, 4}, {&o.UnderlayFamily, 4}, {&o.MTU, defaultMTU}} {
		if *field.value == 0 {
			*field.value = field.or
		}
	}
	// RFC 2544 appendix C.2.2 and RFC 5180 section 8.
	t.Outside, t.Inside = netip.MustParsePrefix("198.18.0.0/16"), netip.MustParsePrefix("198.19.0.0/16")
	if o.Family == 6 {
		t.Outside, t.Inside = netip.MustParsePrefix("2001:2:0:1::/64"), netip.MustParsePrefix("2001:2:0:2::/64")
	}
	switch {
	case o.Pairs < 1 || o.Pairs > 2:
		return fmt.Errorf("transit with %d pairs of links: choose 1 or 2", o.Pairs)
	case o.Family != 4 && o.Family != 6, o.UnderlayFamily != 4 && o.UnderlayFamily != 6:
		return fmt.Errorf("transit of IPv%d over IPv%d: choose 4 or 6", o.Family, o.UnderlayFamily)
	case o.Routes < 0 || o.Routes > MostRoutes:
		return fmt.Errorf("transit with %d routes: 0 to %d are below the frames' networks", o.Routes, MostRoutes)
	}
	return nil
}

// uplink is the i-th link to the plain network.
func (t *Transit) uplink(i int) Link {
	device, tester := fmt.Sprintf("203.0.113.%d/28", 16*i+1), fmt.Sprintf("203.0.113.%d/28", 16*i+2)
	if t.Options.Family == 6 {
		device, tester = fmt.Sprintf("2001:db8:1:%d::1/64", i), fmt.Sprintf("2001:db8:1:%d::2/64", i)
	}
	return newLink("gen", "up", i, tester, device)
}

// underlay is the i-th link to tunnel endpoints.
func (t *Transit) underlay(i int) Link {
	device, tester := fmt.Sprintf("192.0.2.%d/28", 16*i+1), fmt.Sprintf("192.0.2.%d/28", 16*i+2)
	if t.Options.UnderlayFamily == 6 {
		device, tester = fmt.Sprintf("2001:db8:2:%d::1/64", i), fmt.Sprintf("2001:db8:2:%d::2/64", i)
	}
	return newLink("sink", "ul", i, tester, device)
}

func newLink(tester, device string, i int, testerAddr, deviceAddr string) Link {
	side := byte(1)
	if device == "ul" {
		side = 2
	}
	return Link{
		Tester: tester + strconv.Itoa(i), Device: device + strconv.Itoa(i),
		TesterMAC: net.HardwareAddr{2, 0, 0, 0, 0x10 + side, byte(2*i + 2)}, DeviceMAC: net.HardwareAddr{2, 0, 0, 0, 0x10 + side, byte(2*i + 1)},
		TesterAddr: netip.MustParsePrefix(testerAddr), DeviceAddr: netip.MustParsePrefix(deviceAddr),
	}
}

// connect makes a link. The tester's kernel has an address on it, so it answers for
// that; the device gets its addresses from the forwarder that wants them.
func (t *Transit) connect(ctx context.Context, k Link) error {
	tester := topo.LinkEnd{Host: t.Tester, Name: k.Tester, MAC: k.TesterMAC, Addrs: []netip.Prefix{k.TesterAddr}}
	device := topo.LinkEnd{Host: t.Device, Name: k.Device, MAC: k.DeviceMAC}
	if err := t.Lab.Link(ctx, tester, device, t.Options.MTU); err != nil {
		return err
	}
	receive := map[string]bool{"rx-gro": true} // the driver heeds it while the interface is up
	_, testers := t.Tester.SetFeatures(k.Tester, receive)
	_, devices := t.Device.SetFeatures(k.Device, receive)
	return errors.Join(testers, devices)
}

// Links are all of them, uplinks first.
func (t *Transit) Links() []Link {
	return append(t.Uplinks[:len(t.Uplinks):len(t.Uplinks)], t.Underlays...)
}

// Tunnel is what a forwarder puts around frames towards Inside, and what it
// takes from around those for Outside.
type Tunnel struct {
	Encapsulation overlay.Encapsulation
	VNI           overlay.VNI
	// DeviceMAC and TesterMAC are the inner frame's: of the device's router and of the
	// routers behind the tester's endpoints, which share one.
	DeviceMAC, TesterMAC net.HardwareAddr
	// Endpoints are the device's, by underlay link.
	Endpoints []netip.Addr
}

// DefaultTunnel is VXLAN to the TEP, for devices that have no tunnel of their own.
func (t *Transit) DefaultTunnel() *Tunnel { return t.tunnel("") }

// tunnel is that of a device whose one endpoint is the TEP.
func (t *Transit) tunnel(e overlay.Encapsulation) *Tunnel {
	tunnel := &Tunnel{Encapsulation: cmp.Or(e, overlay.VXLAN), VNI: segment, DeviceMAC: routerMAC, TesterMAC: farRouterMAC}
	for range t.Underlays {
		tunnel.Endpoints = append(tunnel.Endpoints, t.TEP)
	}
	return tunnel
}

// Forwarder is a data path that a Transit can have as its device.
type Forwarder interface {
	// Describe is one line for reports.
	Describe() string
	// Up starts it.
	Up(ctx context.Context, t *Transit) (*Forwarding, error)
}

// Forwarding is a forwarder that runs.
type Forwarding struct {
	// Tunnel is nil where frames stay as they are.
	Tunnel *Tunnel
	// Process is the device's own program that handles packets, 0 where the kernel does.
	Process int
	// Edge is the running edge, of the forwarder that has one.
	Edge *dut.Edge
	// Drops returns what the forwarder dropped by its own reasons. It may be nil.
	Drops func(context.Context) (map[string]uint64, error)
	// Excused are the reasons for which the kernel frees packets that are no losses, because
	// the forwarder has taken a copy, or that Drops has already.
	Excused []string
	// Programs says that Drops has what XDP programs of the device dropped.
	Programs bool

	stop func(context.Context) error
}

// Start brings a forwarder up; one at a time is.
func (t *Transit) Start(ctx context.Context, f Forwarder) (*Forwarding, error) {
	if t.up != nil {
		return nil, errors.New("a forwarder is up: stop it before starting another")
	}
	running, err := f.Up(ctx, t)
	if running != nil {
		t.up = running
		t.Lab.OnClose("stop the forwarder", func(ctx context.Context) error { return t.halt(ctx, running) })
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.Describe(), err), t.Stop())
	}
	return running, nil
}

// Stop ends the forwarder that is up.
func (t *Transit) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), topo.CloseTimeout)
	defer cancel()
	running := t.up
	t.up = nil
	if running == nil {
		return nil
	}
	return t.halt(ctx, running)
}

// halt stops what runs, once.
func (t *Transit) halt(ctx context.Context, f *Forwarding) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	stop := f.stop
	f.stop = nil
	if stop == nil {
		return nil
	}
	return stop(ctx)
}

// MostRoutes is the most of Options.Routes: it keeps each network's further routes within a /16 and a /64.
const MostRoutes = 1024

// moreRoutes are Options.Routes networks of 64 addresses from the start of a network.
func (t *Transit) moreRoutes(of netip.Prefix) []netip.Prefix {
	routes := make([]netip.Prefix, t.Options.Routes)
	for i := range routes {
		bytes := of.Addr().AsSlice()
		last := len(bytes) - 1
		bytes[last-1], bytes[last] = byte(i>>2), byte(i<<6)
		addr, _ := netip.AddrFromSlice(bytes)
		routes[i] = netip.PrefixFrom(addr, addr.BitLen()-6)
	}
	return routes
}

// addressUnderlays gives the device its addresses on the underlay, of which the first
// is the TEP, and the MAC addresses of the tester's endpoints.
func (t *Transit) addressUnderlays() error {
	var errs []error
	for _, k := range t.Underlays {
		errs = append(errs, own(t.Device, k.Device, k.DeviceAddr), t.Device.AddNeighbour(k.Device, k.TesterAddr.Addr(), k.TesterMAC))
	}
	return errors.Join(errs...)
}

// own gives an interface an address, and IPv6 where that needs it.
func own(h *topo.Host, name string, addr netip.Prefix) error {
	if addr.Addr().Is6() {
		return h.AddAddrs(name, addr)
	}
	return h.AddAddr(name, addr)
}
