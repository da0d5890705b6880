package speaker

import (
	"log/slog"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

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

// mend makes the log show the attributes of the UPDATE that comes next, or no more.
func (r *report) mend(next bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mending = next
}

// mend keeps the attributes of the routes of an UPDATE until these are told as withdrawn.
func (h handler) mend(shown slog.Value) {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	attrs, ok := shown.Any().([]bgp.PathAttributeInterface)
	if !h.of.mending || !ok {
		return
	}
	h.of.mending = false
	for _, a := range attrs {
		reach, ok := a.(*bgp.PathAttributeMpReachNLRI)
		if !ok {
			continue
		}
		if h.of.mended == nil {
			h.of.mended = make(map[bgp.NLRI][]bgp.PathAttributeInterface)
		}
		for _, n := range reach.Value {
			h.of.mended[n.NLRI] = attrs
		}
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
