package speaker

import (
	"errors"
	"log/slog"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// unknownSubType is what GoBGP 4.8 says of EVPN's extended communities that it does not know,
// as that of RFC 9047 (ARP/ND flags), which FRR puts on IPv6 addresses of routers. A speaker
// has to ignore those; GoBGP takes the routes that have one as withdrawn. What it had read of
// such an UPDATE it shows to its log, and then its routes, withdrawn, to those who watch: here
// both become a route again. Communities that stand behind the unknown one are lost, which
// is for a route's sorted ones (as FRR sends them) none that matters.
const unknownSubType = "unknown evpn subtype"

// unreadND stands for the flags of RFC 9047, whose byte GoBGP does not show. This edge and FRR
// send them of routers alone. Somebody else's host that is none would be taken for a router,
// which does nothing: a host is nobody's default router by that flag (RFC 4861 section 6.3.4).
const unreadND = rib.NDRouter | rib.NDOverride

// mendedMost is how many routes of a neighbour without a bound of its own are mended, and how many wait at
// most until GoBGP tells of them: an UPDATE has some two thousand.
const mendedMost = 1 << 16

// mendNext makes the log show the attributes of the UPDATE that comes next.
func (r *report) mendNext() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mending = true
}

// mend keeps the attributes of the routes of an UPDATE until these are told as withdrawn.
func (h handler) mend(conf overlay.BGPNeighbour, shown slog.Value) {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	attrs, ok := shown.Any().([]bgp.PathAttributeInterface)
	if !h.of.mending || !ok {
		return
	}
	h.of.mending = false
	if h.of.mended == nil {
		h.of.mended = make(map[bgp.NLRI][]bgp.PathAttributeInterface)
	}
	lost := 0
	for _, a := range attrs {
		reach, ok := a.(*bgp.PathAttributeMpReachNLRI)
		if !ok {
			continue
		}
		for _, n := range reach.Value {
			if len(h.of.mended) == mendedMost {
				lost++
				continue
			}
			h.of.mended[n.NLRI] = attrs
		}
	}
	if lost > 0 {
		h.relay.advertise(slog.LevelWarn, "too many routes with an extended community that GoBGP does not know wait to be read: the rest is taken as withdrawn",
			"neighbour", conf.Name, "routes", lost)
	}
}

// taken returns the attributes of a route that was told as withdrawn, and was not; nil of
// one that was. The NLRI is the one that was kept, not one that equals it.
func (r *report) taken(nlri bgp.NLRI) []bgp.PathAttributeInterface {
	r.mu.Lock()
	defer r.mu.Unlock()
	attrs := r.mended[nlri]
	delete(r.mended, nlri)
	return attrs
}

// mayMend reports whether there is room for one more mended route. GoBGP does not have them, so it does not count
// them when it ends the session of a neighbour with too many.
func (n *neighbour) mayMend(key evpn.Key, most int) bool {
	n.routesMu.Lock()
	defer n.routesMu.Unlock()
	return n.mended[key] != nil || len(n.mended) < most
}

// mostMended is that bound.
func mostMended(n overlay.BGPNeighbour) int {
	if n.MaxPrefixes > 0 {
		return int(min(n.MaxPrefixes, mendedMost))
	}
	return mendedMost
}

// errTooMany is of a route that is not mended for want of room.
var errTooMany = errors.New("more routes with an extended community that GoBGP does not know than are kept")
