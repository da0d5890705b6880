package config

import "github.com/selvage/selvage/internal/overlay"

// limits are those of all ports and of all segments.
type limits struct {
	Mode    string  `json:"mode,omitempty" jsonschema:"default=enforce,enum=enforce,enum=observe" jsonschema_description:"observe counts what would be refused, and refuses nothing that guests send"`
	Port    *quotas `json:"port,omitempty" jsonschema_description:"of each port that has no limits of its own"`
	Segment *quotas `json:"segment,omitempty" jsonschema_description:"of each segment that has no limits of its own"`
}

// ownLimits are those of one port or segment.
type ownLimits struct {
	Mode string `json:"mode,omitempty" jsonschema:"enum=enforce,enum=observe" jsonschema_description:"instead of spec.limits.mode"`
	quotas
}

// quotas are how much one port or segment may take of what all share: entries of tables, then
// packets a second.
type quotas struct {
	MACs              *uint32 `json:"macs,omitempty" jsonschema_description:"MAC addresses learned; at the limit the oldest is forgotten; 0 is without limit"`
	Neighbours        *uint32 `json:"neighbours,omitempty" jsonschema_description:"IP addresses learned from ARP and neighbour discovery; at the limit the oldest is forgotten; 0 is without limit"`
	HalfOpen          *uint32 `json:"halfOpen,omitempty" jsonschema_description:"connections of the firewall without an answer, those from outside and those from inside for themselves; at the limit the oldest is forgotten; 0 is without limit"`
	Connections       *uint32 `json:"connections,omitempty" jsonschema_description:"answered connections of the firewall; at the limit the oldest idle one is forgotten; 0 is without limit"`
	NATSessions       *uint32 `json:"natSessions,omitempty" jsonschema_description:"NAT sessions; at the limit those that are over are freed, then new ones are refused; 0 is without limit"`
	Flows             *uint32 `json:"flows,omitempty" jsonschema_description:"entries of the flow cache; at the limit the oldest is forgotten; 0 is without limit"`
	Broadcast         *uint32 `json:"broadcast,omitempty" jsonschema_description:"broadcast frames a second (storm control); 0 is without limit"`
	Multicast         *uint32 `json:"multicast,omitempty" jsonschema_description:"multicast frames a second (storm control); 0 is without limit"`
	UnknownUnicast    *uint32 `json:"unknownUnicast,omitempty" jsonschema_description:"frames a second to MAC addresses that are not learned (storm control); 0 is without limit"`
	NewFlows          *uint32 `json:"newFlows,omitempty" jsonschema_description:"packets a second whose flow is not in the flow cache; 0 is without limit"`
	ICMPErrors        *uint32 `json:"icmpErrors,omitempty" jsonschema_description:"ICMP errors a second that the edge sends to it; 0 is without limit"`
	Resets            *uint32 `json:"resets,omitempty" jsonschema_description:"TCP resets a second that the edge sends to it; 0 is without limit"`
	NeighbourRequests *uint32 `json:"neighbourRequests,omitempty" jsonschema_description:"ARP requests and neighbour solicitations a second that its packets cause; 0 is without limit"`
	LogLines          *uint32 `json:"logLines,omitempty" jsonschema_description:"log lines a second of the firewall about it; 0 is without limit"`
	HostEvents        *uint32 `json:"hostEvents,omitempty" jsonschema_description:"hosts a second that arrive or move, and are advertised by BGP; 0 is without limit"`
}

// model is base with what q says.
func (q *quotas) model(base overlay.Limits) overlay.Limits {
	if q == nil {
		return base
	}
	for _, v := range []struct {
		from *uint32
		to   *uint32
	}{
		{q.MACs, &base.MACs},
		{q.Neighbours, &base.Neighbours},
		{q.HalfOpen, &base.HalfOpen},
		{q.Connections, &base.Connections},
		{q.NATSessions, &base.NATSessions},
		{q.Flows, &base.Flows},
		{q.Broadcast, &base.Broadcast},
		{q.Multicast, &base.Multicast},
		{q.UnknownUnicast, &base.UnknownUnicast},
		{q.NewFlows, &base.NewFlows},
		{q.ICMPErrors, &base.ICMPErrors},
		{q.Resets, &base.Resets},
		{q.NeighbourRequests, &base.NeighbourRequests},
		{q.LogLines, &base.LogLines},
		{q.HostEvents, &base.HostEvents},
	} {
		if v.from != nil {
			*v.to = *v.from
		}
	}
	return base
}

// model is base with what l says.
func (l *ownLimits) model(base overlay.Limits) overlay.Limits {
	if l == nil {
		return base
	}
	base = l.quotas.model(base)
	if l.Mode != "" {
		base.Observe = isObserve(l.Mode)
	}
	return base
}

func isObserve(mode string) bool { return mode == "observe" }

// setLimits gives each port and segment of e its limits.
func (d *document) setLimits(e *overlay.Edge) {
	all := d.Spec.Limits
	port, segment := all.Port.model(e.DefaultPortLimits()), all.Segment.model(e.DefaultSegmentLimits())
	port.Observe, segment.Observe = isObserve(all.Mode), isObserve(all.Mode)
	for i, p := range d.Spec.Ports {
		e.Ports[i].Limits = p.Limits.model(port)
	}
	for i, s := range d.Spec.Segments {
		e.Segments[i].Limits = s.Limits.model(segment)
	}
}
