package dut

import (
	"context"
	"errors"

	"github.com/selvage/selvage/lab/limit"
	"github.com/selvage/selvage/lab/topo"
)

// Limit hands everything between client and server on at both hosts by bare redirects at tc:
// no tunnel, no look-up, no look at the packet. What a data path of this topology cannot be
// faster than.
func Limit(ctx context.Context, n *topo.TwoHosts, o EndOptions) (*topo.Path, error) {
	p := &topo.Path{Name: "limit", Description: "bare redirects at tc on both hosts, no tunnel", InnerMTU: o.mtu(n)}
	if n.Options.Routed || len(n.Pairs) > 1 {
		return nil, errors.New("path limit: it joins one client and one server of one subnet")
	}
	return n.StartPath(ctx, p, func() error {
		if err := n.SetInnerMTU(p.InnerMTU); err != nil {
			return err
		}
		for _, host := range []*topo.Host{n.A, n.B} {
			wire, err := redirect(host, topo.AccessName, topo.UnderlayName)
			if err != nil {
				return err
			}
			p.OnStop(func(context.Context) error { return wire.Close() })
		}
		return nil
	})
}

// redirect joins two interfaces at tc.
func redirect(h *topo.Host, access, underlay string) (*limit.Wire, error) {
	a, err := h.Index(access)
	if err != nil {
		return nil, err
	}
	u, err := h.Index(underlay)
	if err != nil {
		return nil, err
	}
	var wire *limit.Wire
	err = h.Do(func() (err error) {
		wire, err = limit.Between(a, u)
		return err
	})
	return wire, err
}
