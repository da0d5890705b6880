package gateway

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
)

const (
	// resolveTimeout is how long a gateway that comes waits for the MAC addresses of next hops
	// while others serve. One that is dead does not keep it from serving.
	resolveTimeout = 300 * time.Millisecond
	// resolveEvery is how often it asks for those that have not answered.
	resolveEvery = 50 * time.Millisecond
	// resolveMost bounds the next hops that it asks for.
	resolveMost = 256
)

// Resolver finds MAC addresses at uplinks.
type Resolver interface {
	// Resolve asks for those that are not known, and says how many these are.
	Resolve(places []Place) (unknown int)
}

// NextHops asks for next hops before a role serves: a packet whose next hop is not known is lost.
type NextHops struct {
	role     *Role
	nat      NAT
	resolver Resolver
}

// NewNextHops makes it for a role.
func NewNextHops(role *Role, nat NAT, resolver Resolver) *NextHops {
	return &NextHops{role, nat, resolver}
}

// Run asks whenever the role is about to serve, until ctx ends.
func (n *NextHops) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.role.asks:
		}
		if n.resolve(ctx) {
			n.role.resolve()
		}
	}
}

// resolve reports whether all are known in time.
func (n *NextHops) resolve(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	tick := time.NewTicker(resolveEvery)
	defer tick.Stop()
	var needed []Place
	err := n.nat.WithSessions(func(e overlay.Edge, all Sessions) (err error) {
		needed, err = nextHops(e, all)
		return err
	})
	for err == nil && n.resolver.Resolve(needed) > 0 {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return err == nil
}

// nextHops are the routers behind the uplinks of the policies that e is a gateway of, and the
// hosts in the networks of the uplinks with which there are sessions.
func nextHops(e overlay.Edge, all Sessions) (list []Place, err error) {
	seen := make(map[Place]bool)
	add := func(u overlay.Uplink, addr netip.Addr, onLink bool) {
		onLink = onLink || slices.ContainsFunc(u.Addresses, func(p netip.Prefix) bool { return p.Contains(addr) })
		if p := (Place{u.Name, addr}); onLink && !seen[p] && len(list) < resolveMost {
			seen[p] = true
			list = append(list, p)
		}
	}
	uplinks := uplinksOf(e, func(r overlay.Router, u overlay.Uplink) {
		for _, route := range r.Routes {
			for _, via := range route.Via {
				add(u, via.Addr, via.Uplink == u.Name)
			}
		}
	})
	return list, all.EachNATSession(func(b *datapath.NATSession) bool {
		if u, ok := uplinks[b.Policy]; ok {
			add(u, b.Outside.Addr(), false)
		}
		return len(list) < resolveMost
	})
}

// uplinksOf calls do with the uplink of each policy that e is a gateway of, and returns them by
// the policy's name.
func uplinksOf(e overlay.Edge, do func(overlay.Router, overlay.Uplink)) map[string]overlay.Uplink {
	all := make(map[string]overlay.Uplink)
	if e.Egress == nil {
		return all
	}
	for _, p := range e.Egress.Policies {
		for _, r := range e.Routers {
			for _, u := range r.Uplinks {
				if r.Name == p.Router && u.Name == p.Uplink && slices.Contains(groupMembers(e, p.Name), Self(e)) {
					all[p.Name] = u
					do(r, u)
				}
			}
		}
	}
	return all
}

// awaitNextHops says why this edge, which could serve, does not yet. It waits only while others
// serve; it asks in any case, so that one that stands by does not begin to when it is needed. mu is held.
func (r *Role) awaitNextHops(w electionInput) (why string) {
	if r.resolved {
		return ""
	}
	if r.resolveBy.IsZero() {
		r.resolveBy = w.now.Add(resolveTimeout)
		background.Notify(r.asks)
	}
	if !w.coveredByOthers() || !w.now.Before(r.resolveBy) {
		return ""
	}
	return "it asks for the next hops of its uplinks"
}

// resolve has the role serve.
func (r *Role) resolve() {
	r.mu.Lock()
	r.resolved = true
	r.mu.Unlock()
	r.Wake()
}
