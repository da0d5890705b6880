package ab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/selvage/selvage/lab/dut"
	fabric "github.com/selvage/selvage/lab/dut/evpn"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/ab/paths"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/topo"
	between "github.com/selvage/selvage/lab/turns"
)

// gatewayNet is the network of the FortiGate study: one client, one server and one gateway box, and of two
// ways between client and box one a tunnel.
//
//	         ┌─ eth0 ── hypervisor ══ underlay, VXLAN ══╗
//	client ──┤                                          gateway ── srv0 ── server
//	         └─ leg0 ── cable ── untagged leg ──────────╝
//
// The overlay segment is 10.0.0.0/24, which EVPN feeds, the untagged leg 10.1.0.0/24, the server's leg 10.2.0.0/24;
// the gateway has .254 in each. The client routes by the server's address: .1 over the segment, .2 over the leg.
// With Selvage the hypervisor is an edge too, and has the segment's anycast gateway as every edge has: it
// routes what it then sends through the tunnel.
type gatewayNet struct {
	lab             *topo.Lab
	fabric          *fabric.Fabric
	client, server  *topo.Host
	cable           *topo.Host // of the untagged leg
	gateway         *fabric.Edge
	overlay, legTo  netip.Addr
	describesItself string
}

// Names of the legs.
const (
	clientLeg = "leg0"
	serverLeg = "srv0"
)

// wireRate is that of every link on the way, as tc-tbf(8) has it: the study's one gigabit leg.
const wireRate = "1gbit"

// gateway is the study's network as it was asked for.
type gateway struct{ kind, binary string }

// paths are the hypervisor's and the gateway's data paths.
func (g gateway) paths() []fabric.Path {
	if g.kind == "kernel" {
		return []fabric.Path{fabric.Kernel{}, fabric.Kernel{}}
	}
	edge := fabric.Selvage{Binary: g.binary, Change: gatewayConfig}
	return []fabric.Path{edge, edge}
}

// gatewayConfig is of the hypervisor, or of the gateway, which has the untagged leg too.
func gatewayConfig(e *fabric.Edge, _ string) string {
	begin := fmt.Sprintf(`apiVersion: selvage.dev/v1alpha2
kind: Edge
metadata: {name: %s}
spec:
  underlay:
    interfaces: [%s]
    tep: %q
  bgp:
    as: %d
    routerID: %s
    neighbours:
    - {name: rr1, address: %q, timers: {hold: 9s, keepalive: 3s, connectRetry: 1s}}
  routers:
  - name: gw
  segments:
  - {name: overlay, vni: 100, evpn: {}, gateway: {router: gw, addresses: ["10.0.0.254/24"]}}
  - {name: server, vni: 102, evpn: {}, gateway: {router: gw, addresses: ["10.2.0.254/24"]}}
`, dut.EdgeName(e.Host), topo.UnderlayName, e.TEP, e.Fabric.EVPNAS(), e.TEP, e.Fabric.Reflectors[0].Addr)
	if e.Index == 0 {
		return begin + "  ports:\n  - {name: client, interface: client, segment: overlay}\n"
	}
	return begin + fmt.Sprintf(`  - {name: leg, vni: 101, gateway: {router: gw, addresses: ["10.1.0.254/24"]}}
  ports:
  - {name: %[1]s, interface: %[1]s, segment: leg}
  - {name: %[2]s, interface: %[2]s, segment: server}
`, clientLeg, serverLeg)
}

// build makes hosts, links and data paths, and waits until both ways carry packets.
func (g gateway) build(ctx context.Context, lab *topo.Lab) (*gatewayNet, error) {
	n := &gatewayNet{lab: lab, overlay: netip.MustParseAddr("10.2.0.1"), legTo: netip.MustParseAddr("10.2.0.2")}
	ways := g.paths()
	var err error
	n.fabric, err = fabric.New(ctx, lab, fabric.Options{
		Edges: ways, Segments: []fabric.Segment{{Name: "overlay", VNI: 100}},
		Guests: []fabric.GuestOptions{{Name: "client", Number: 1, Edges: []int{0}}},
	})
	if err != nil {
		return nil, err
	}
	n.client, n.gateway = n.fabric.Guests[0].Host, n.fabric.Edges[1]
	if n.server, err = lab.Host("server"); err != nil {
		return nil, err
	}
	if n.cable, err = lab.Host("cable"); err != nil {
		return nil, err
	}
	if err := n.legs(ctx, g.kind == "kernel"); err != nil {
		return nil, err
	}
	if err := n.shape(ctx); err != nil {
		return nil, err
	}
	n.describesItself = fmt.Sprintf("The FortiGate study's network, built for this run: an overlay segment (VXLAN, EVPN by FRR) and an untagged leg of one gateway, %s. Underlay and leg carry %s.", ways[1].Describe(), wireRate)
	if err := n.fabric.Ready(ctx); err != nil {
		return nil, err
	}
	for _, to := range []netip.Addr{n.overlay, n.legTo} {
		if err := n.client.Reach(ctx, to); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// legs makes what is no tunnel. The kernel's gateway has addresses itself, Selvage's is told of them.
func (n *gatewayNet) legs(ctx context.Context, kernel bool) error {
	prefix := netip.MustParsePrefix
	box := func(name, addr string) topo.LinkEnd {
		end := topo.LinkEnd{Host: n.gateway.Host, Name: name}
		if kernel {
			end.Addrs = []netip.Prefix{prefix(addr)}
		}
		return end
	}
	err := errors.Join(
		n.lab.Link(ctx, topo.LinkEnd{Host: n.client, Name: clientLeg, Addrs: []netip.Prefix{prefix("10.1.0.1/24")}}, topo.LinkEnd{Host: n.cable, Name: "client"}, 1500),
		n.lab.Link(ctx, box(clientLeg, "10.1.0.254/24"), topo.LinkEnd{Host: n.cable, Name: "gateway"}, 1500),
		n.cable.Bridge(ctx, "br0", 1500, "client", "gateway"),
		n.lab.Link(ctx, topo.LinkEnd{
			Host: n.server, Name: topo.EndName, Addrs: []netip.Prefix{prefix("10.2.0.1/24"), prefix("10.2.0.2/24")},
			Gateways: []netip.Addr{netip.MustParseAddr("10.2.0.254")},
		}, box(serverLeg, "10.2.0.254/24"), 1500),
	)
	if err == nil && kernel {
		err = n.gateway.AddAddr("br100", prefix("10.0.0.254/24"))
	}
	if err != nil {
		return err
	}
	for _, argv := range [][]string{
		{"ip", "route", "add", n.overlay.String(), "via", "10.0.0.254"},
		{"ip", "route", "add", n.legTo.String(), "via", "10.1.0.254"},
	} {
		if out, err := n.client.Output(ctx, argv...); err != nil {
			return fmt.Errorf("client: %w: %s", err, out)
		}
	}
	if !kernel {
		return nil
	}
	// The kernel's hypervisor only switches: a bridge with the gateway's own MAC address would take its frames.
	_, err = n.fabric.Edges[0].Output(ctx, "ip", "link", "set", "br100", "address", "02:00:00:00:0a:01")
	return err
}

// shape gives underlay and leg the rate of a wire, with what Ethernet adds to each frame: FCS, preamble
// and gap (24 bytes). That is at the switches, whatever way a data path sends. Segments are cut before, as
// an adapter does, so each is counted.
func (n *gatewayNet) shape(ctx context.Context) error {
	for _, at := range []struct {
		host *topo.Host
		name string
	}{{n.cable, "client"}, {n.cable, "gateway"}, {n.fabric.Switch, n.fabric.Edges[0].Name}, {n.fabric.Switch, n.gateway.Name}} {
		out, err := at.host.Output(ctx, "tc", "qdisc", "add", "dev", at.name, "root", "stab", "overhead", "24", "linklayer", "ethernet",
			"tbf", "rate", wireRate, "burst", "16k", "latency", "5ms")
		if err != nil {
			return fmt.Errorf("wire rate of %s of %s: %w: %s", at.name, at.host.Name, err, out)
		}
	}
	return nil
}

// run builds the network and measures it as one that exists: at is the run but for places and paths.
func (g gateway) run(ctx context.Context, console *experiment.Console, at *paths.Command) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces and BPF need root: run it with sudo")
	}
	ctx, stop := experiment.WithHangup(ctx)
	defer stop()
	experiment.RestoreDead(ctx, console.Err)
	lab, err := topo.New(ctx, "ab gateway "+g.kind)
	if err != nil {
		return err
	}
	defer func() { err = experiment.Removed(ctx, err, lab.Close()) }()
	n, err := g.build(ctx, lab)
	if err != nil {
		return err
	}
	at.Flags = paths.Flags{
		Client: place.Place{Kind: place.Namespace, Name: n.client.Namespace}, Server: place.Place{Kind: place.Namespace, Name: n.server.Namespace},
		Watch: []place.Place{{Kind: place.Namespace, Name: n.gateway.Namespace}},
		Path:  []between.Path{{Name: "plain", Addr: n.legTo}, {Name: "overlay", Addr: n.overlay}},
		Port:  5300, Reverse: true, Profile: true, MaxTime: time.Minute,
	}
	at.Built = n.describesItself
	if err := at.Validate(); err != nil {
		return err
	}
	return at.Run(ctx, console)
}
