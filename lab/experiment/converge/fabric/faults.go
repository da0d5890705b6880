package fabric

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/selvage/selvage/lab/dut/evpn"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/topo"
)

// Fault is what happens in a case. It is made anew for each event: where a guest is depends
// on those before.
func (n *Fabric) Fault(caseName string) inject.Fault {
	switch caseName {
	case "move":
		return n.move()
	case "edge-loss":
		return n.edgeLoss()
	case "link-loss":
		return n.linkLoss()
	case "rr-restart":
		return inject.NewFault(caseName, fmt.Sprintf("SIGKILL to all daemons of the route reflectors, which are restarted %s later", reflectorPause), n.restartReflectors, nothing)
	}
	return inject.NewFault(caseName, "SIGKILL to all daemons of the route reflectors, which stay down", n.killReflectors, n.startReflectors)
}

// linkLoss cuts one link after the other, in turn: an edge may send all by one of them.
func (n *Fabric) linkLoss() inject.Fault {
	name := n.Edges[edgeA].Name + []string{"", secondPort}[n.cuts%2]
	link := inject.Ports{Host: n.Switch, Names: []string{name}}
	return inject.NewFault(
		"link-loss", "one of the two links of edge A to the underlay is cut, the other one the next time",
		func(ctx context.Context) error {
			n.cuts++
			return link.Down(ctx)
		}, link.Up,
	)
}

func nothing(context.Context) error { return nil }

// reflectorPause is for how long a reflector that starts again is away: a service manager
// tries again at once, and FRR takes about as long to read what it is to do.
const reflectorPause = time.Second

// move has the mobile guest behind the other one of its edges, where it stays.
func (n *Fabric) move() inject.Fault {
	to := n.movingTo()
	return inject.NewFault("move", "the guest moves from edge A to edge B or back like a live migration: its old link is cut, the new one comes up, and gratuitous ARP announces it, at once and again later", func(ctx context.Context) error {
		if err := n.Guests[guestMobile].Move(ctx, to); err != nil {
			return err
		}
		return n.repeat(ctx)
	}, nothing)
}

// movingTo is where the mobile guest goes next.
func (n *Fabric) movingTo() *evpn.Edge {
	return n.Edges[1-n.Guests[guestMobile].At().Index]
}

// repeat has the guest announced again, as hypervisors do (QEMU: four more times).
func (n *Fabric) repeat(ctx context.Context) error {
	for _, pause := range []time.Duration{50, 150, 250, 350} {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause * time.Millisecond):
		}
		if err := n.Guests[guestMobile].Announce(); err != nil {
			return err
		}
	}
	return nil
}

// edgeLoss has an edge vanish: its links first, so that nothing of it says goodbye.
func (n *Fabric) edgeLoss() inject.Fault {
	lost := n.Edges[edgeA]
	links := inject.Ports{Host: n.Switch, Names: []string{lost.Name}}
	return inject.NewFault(
		"edge-loss", "the host of edge A dies: its link is cut, and its processes get SIGKILL; edge B also reaches the service",
		func(ctx context.Context) error { return errors.Join(links.Down(ctx), n.path.kill(lost)) },
		func(ctx context.Context) error { return errors.Join(links.Up(ctx), n.path.again(ctx, lost)) },
	)
}

func (n *Fabric) killReflectors(context.Context) error {
	for _, r := range n.Reflectors {
		r.FRR.Kill()
	}
	return nil
}

func (n *Fabric) startReflectors(ctx context.Context) error {
	var errs []error
	for _, r := range n.Reflectors {
		errs = append(errs, r.FRR.Start(ctx))
	}
	return errors.Join(errs...)
}

func (n *Fabric) restartReflectors(ctx context.Context) error {
	if err := n.killReflectors(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(reflectorPause):
	}
	return n.startReflectors(ctx)
}

// secondUplink is an edge's other interface towards the underlay, and secondPort what the
// router's has more than its first one, which is called like the edge.
const (
	secondUplink = "u1"
	secondPort   = "b"
)

// twoUplinks has the edges of a fabric reach a router by two links each, in the place of
// their one in the switch. The endpoint's address is the edge's own and on neither link.
//
//	edge1 u0 === edge1  [switch] edge2  === u0 edge2
//	      u1 === edge1b          edge2b === u1
type twoUplinks struct{ path }

// Up gives an edge its links before it starts.
func (t twoUplinks) Up(ctx context.Context, e *evpn.Edge) error {
	if err := route(e.Fabric); err != nil {
		return err
	}
	if err := uplink(ctx, e); err != nil {
		return fmt.Errorf("links of %s: %w", e.Name, err)
	}
	return t.path.Up(ctx, e)
}

// route makes the switch a router, for the first of the edges.
func route(n *evpn.Fabric) error {
	core := n.Switch
	if forwards, err := core.SysctlGet("net/ipv4/ip_forward"); err != nil || forwards == "1" {
		return err
	}
	return errors.Join(
		core.SysctlSet("net/ipv4/ip_forward", "1"),
		core.SysctlSet("net/ipv4/fib_multipath_hash_policy", "1"),
		core.SysctlSet("net/ipv4/conf/br0/proxy_arp", "1"), // reflectors think that edges are next to them
		core.AddAddr("br0", topo.PrefixOf(topo.UnderlayAddr(254, 4))))
}

// uplink replaces an edge's link by two.
func uplink(ctx context.Context, e *evpn.Edge) error {
	core, port := e.Fabric.Switch, e.Name
	ends := [2][2]netip.Prefix{} // of each link: the edge's, the router's
	for i := range ends {
		for side := range 2 {
			ends[i][side] = netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(e.Index), byte(4*i + 1 + side)}), 30)
		}
	}
	_, freed := core.Output(ctx, "ip", "link", "set", port, "nomaster")
	err := errors.Join(freed,
		e.DelAddr(topo.UnderlayName, topo.PrefixOf(e.TEP)), e.AddAddr("lo", netip.PrefixFrom(e.TEP, 32)),
		e.AddAddr(topo.UnderlayName, ends[0][0]), core.AddAddr(port, ends[0][1]),
		e.Fabric.Lab.Link(ctx, topo.LinkEnd{Host: e.Host, Name: secondUplink, Addrs: []netip.Prefix{ends[1][0]}},
			topo.LinkEnd{Host: core, Name: port + secondPort, Addrs: []netip.Prefix{ends[1][1]}}, 1500))
	if err != nil {
		return err
	}
	_, out := e.Output(ctx, "ip", "route", "add", "192.0.2.0/24", "src", e.TEP.String(),
		"nexthop", "via", ends[0][1].Addr().String(), "nexthop", "via", ends[1][1].Addr().String())
	_, in := core.Output(ctx, "ip", "route", "add", e.TEP.String(),
		"nexthop", "via", ends[0][0].Addr().String(), "nexthop", "via", ends[1][0].Addr().String())
	errs := []error{
		out, in,
		e.SysctlSet("net/ipv4/fib_multipath_hash_policy", "1"),
		e.SysctlSet("net/ipv4/conf/all/ignore_routes_with_linkdown", "1"), // as FRR's manual has it
		e.SysctlSet("net/ipv4/conf/all/arp_announce", "2"),                // not the endpoint's, which is on no link
	}
	for _, r := range e.Fabric.Reflectors { // which may have found the edge where it was
		_, err := r.Output(ctx, "ip", "neigh", "flush", "dev", topo.UnderlayName)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
