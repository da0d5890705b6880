package gateway

import (
	"slices"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/replica"
)

// refreshEvery is how often other gateways are told that sessions live on, well before these
// expire there: a session that had a packet in between is told of. Timeouts that are shorter
// are halved.
const refreshEvery = time.Minute

// Replicates reports whether e has a gateway to tell of its sessions.
func Replicates(e overlay.Edge) bool { return len(replicaLinks(e)) > 0 }

// replicaLinks are the connections to the other members of the groups of e with replication:
// one for each port.
func replicaLinks(e overlay.Edge) (links []replica.Link) {
	if e.Egress == nil {
		return nil
	}
	for _, g := range e.Egress.Gateways {
		for _, l := range groupLinks(e, g) {
			if !slices.ContainsFunc(links, func(o replica.Link) bool { return o.ID() == l.ID() }) {
				links = append(links, l)
			}
		}
	}
	return links
}

func groupLinks(e overlay.Edge, g overlay.GatewayGroup) (links []replica.Link) {
	if g.Replication == nil || !slices.Contains(g.Members, Self(e)) {
		return nil
	}
	for _, m := range g.Members {
		if m != Self(e) && m.Is4() == Self(e).Is4() {
			links = append(links, replica.Link{Local: Self(e), Remote: m, Port: g.Replication.Port, Key: g.Replication.Key})
		}
	}
	return links
}

// described are links with what both ends have to be configured with alike.
func described(e overlay.Edge, links []replica.Link) []replica.Link {
	for i, l := range links {
		links[i].Parts = map[string]replica.Part{}
		for _, g := range e.Egress.Gateways {
			if !slices.ContainsFunc(groupLinks(e, g), func(o replica.Link) bool { return o.ID() == l.ID() }) {
				continue
			}
			for name, hash := range nat.Fingerprints(g, e.Egress.Policies) {
				links[i].Parts[name] = hash
			}
		}
	}
	return links
}

// audiences are the links that hear of the sessions of a policy, by the tag of its name. Of sessions with the address of an
// uplink nobody hears: it is this gateway's alone.
func audiences(e overlay.Edge) map[uint32][]replica.ID {
	all := make(map[uint32][]replica.ID)
	if e.Egress == nil {
		return all
	}
	for _, p := range e.Egress.Policies {
		for _, g := range e.Egress.Gateways {
			if g.Name != p.Gateways || p.UplinkAddress {
				continue
			}
			for _, l := range groupLinks(e, g) {
				all[datapath.NameTag(p.Name)] = append(all[datapath.NameTag(p.Name)], l.ID())
			}
		}
	}
	return all
}

// refreshInterval is how often sessions of these timeouts are told of again.
func refreshInterval(t overlay.Timeouts) time.Duration {
	return min(refreshEvery, t.UDPReplied/2, t.ICMP/2, t.Established/2)
}
