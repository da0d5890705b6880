package plan

import (
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
)

// autoHops is how many links a multihop session may cross where the configuration
// leaves it to us.
const autoHops = 16

// Peers are the BFD sessions that e asks for: one for each pair of endpoints and, where its route has
// several next hops, one for each of them too. What they say comes back as Facts.Dead.
func Peers(e overlay.Edge, t PathPolicies, paths map[overlay.Pair]host.Path) (peers []bfd.Peer) {
	l := e.Underlay.Liveness
	if l == nil {
		return nil
	}
	asked := make(map[overlay.Pair]bool)
	for _, p := range t.Paths {
		hops := int(l.Hops)
		if hops == 0 {
			if hops = autoHops; paths[p.Pair].Addr == p.Remote { // the next hop is the remote itself
				hops = 1
			}
		}
		peer := bfd.Peer{
			Pair: p.Pair, Ifindex: p.Ifindex, Pinned: isPinned(e, p.Pair), Hops: hops, Timers: bfd.Timers{Interval: l.Interval, Multiplier: l.Multiplier},
		}
		if p.Via != (overlay.Via{}) {
			if all := p.Endpoints(); !asked[all] {
				asked[all] = true
				peers = append(peers, bfd.Peer{Pair: all, Hops: hops, Timers: peer.Timers})
			}
			peer.SrcMAC, peer.NextMAC = p.SrcMAC, p.NextMAC
		}
		peers = append(peers, peer)
	}
	return peers
}

// isPinned reports whether a path is by one link or not there: the route to its next hop, or that of a TEP with an
// interface of its own, may not take another.
func isPinned(e overlay.Edge, p overlay.Pair) bool {
	return p.Via != (overlay.Via{}) || slices.ContainsFunc(e.Underlay.Local(), func(t overlay.TEP) bool {
		return t.Addr == p.Local && t.Interface != ""
	})
}

// Held are the pairs that answer and are held back after failures.
func Held(results map[overlay.Pair]bfd.Result) map[overlay.Pair]bool {
	held := make(map[overlay.Pair]bool)
	for pair, r := range results {
		if r.Held {
			held[pair] = true
		}
	}
	return held
}

// Dead are the pairs of e that may not be used, of what a bfd.Monitor knows. A remote
// that answers on one path speaks BFD, so its other paths that never answered are
// not to be trusted: one may have died before this process started. The same holds of the next hops
// of a pair among each other. Where one of them answers, they alone say which may be used.
func Dead(e overlay.Edge, results map[overlay.Pair]bfd.Result) map[overlay.Pair]string {
	answers, byNextHop := make(map[netip.Addr]bool), make(map[overlay.Pair]bool)
	edgeOf := func(p overlay.Pair) netip.Addr { return e.Remote(p.Remote).Addrs[0] }
	for pair, r := range results {
		answers[edgeOf(pair)] = answers[edgeOf(pair)] || r.State == bfd.Up
		if pair.Via != (overlay.Via{}) {
			byNextHop[pair.Endpoints()] = byNextHop[pair.Endpoints()] || r.State == bfd.Up
		}
	}
	dead := make(map[overlay.Pair]string)
	for pair, r := range results {
		ofNextHop, others := pair.Via != overlay.Via{}, byNextHop[pair.Endpoints()]
		switch {
		case !ofNextHop && others && !r.Left:
		case !r.Usable():
			dead[pair] = r.Why
		case r.State != bfd.Unknown:
		case ofNextHop && others:
			dead[pair] = "it never answered, though the remote answers by another next hop"
		case !ofNextHop && answers[edgeOf(pair)]:
			dead[pair] = "it never answered, though the remote answers on another path"
		}
	}
	return dead
}
