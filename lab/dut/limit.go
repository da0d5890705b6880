package dut

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/limit"
	"github.com/selvage/selvage/lab/topo"
)

// LimitOptions are of the path without any work of its own.
type LimitOptions struct {
	EndOptions
	Encapsulation overlay.Encapsulation // default: none
}

// Limit hands everything between client and server on at both hosts by bare redirects at tc: no
// look-up and no look at the packet. What a data path of this topology cannot be faster than,
// and with an encapsulation, what a tunnel cannot.
func Limit(ctx context.Context, n *topo.TwoHosts, o LimitOptions) (*topo.Path, error) {
	p := &topo.Path{Name: "limit", Description: "bare redirects at tc on both hosts, no tunnel", InnerMTU: o.mtu(n)}
	switch o.Encapsulation {
	case "":
	case overlay.VXLAN:
		p.Description, p.InnerMTU = "redirects at tc on both hosts, with the same VXLAN header before every frame", n.Options.InnerMTU
	default:
		return nil, fmt.Errorf("path limit: no tunnel of %s, only vxlan", o.Encapsulation)
	}
	if n.Options.Routed || len(n.Pairs) > 1 {
		return nil, errors.New("path limit: it joins one client and one server of one subnet")
	}
	return n.StartPath(ctx, p, func() error {
		if err := n.SetInnerMTU(p.InnerMTU); err != nil {
			return err
		}
		for _, way := range []limitWay{{n.A, n.B, n.TEPA, n.TEPB}, {n.B, n.A, n.TEPB, n.TEPA}} {
			wire, err := way.join(o.Encapsulation != "")
			if err != nil {
				return err
			}
			p.OnStop(func(context.Context) error { return wire.Close() })
		}
		return nil
	})
}

// limitWay is a host, and where its packets go.
type limitWay struct {
	here, there *topo.Host
	from, to    netip.Addr
}

// join joins its interfaces at tc, by a tunnel or without.
func (w limitWay) join(tunnel bool) (wire *limit.Wire, err error) {
	access, err := w.here.Index(topo.AccessName)
	if err != nil {
		return nil, err
	}
	underlay, err := w.here.Index(topo.UnderlayName)
	if err != nil {
		return nil, err
	}
	ends := limit.Ends{Source: w.from, Destination: w.to, VNI: 100}
	if ends.SourceMAC, err = w.here.MAC(topo.UnderlayName); err != nil {
		return nil, err
	}
	if ends.DestinationMAC, err = w.there.MAC(topo.UnderlayName); err != nil {
		return nil, err
	}
	err = w.here.Do(func() (err error) {
		if tunnel {
			wire, err = limit.Tunnel(access, underlay, ends)
		} else {
			wire, err = limit.Between(access, underlay)
		}
		return err
	})
	return wire, err
}
