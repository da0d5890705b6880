package overlay

// Limits are how much of what all share a port or segment may take. 0 is without limit.
type Limits struct {
	// Observe counts what would be refused, and refuses nothing.
	Observe bool

	// Entries of tables.
	MACs        uint32 // learned MAC addresses
	Neighbours  uint32 // learned IP addresses
	HalfOpen    uint32 // connections of the firewall without an answer, in each direction
	Connections uint32 // answered ones
	NATSessions uint32
	Flows       uint32 // of the flow cache

	// Packets a second that it sends. Those of a segment are out of its tunnels, and flooded
	// frames of all.
	Broadcast      uint32 // flooded frames
	Multicast      uint32
	UnknownUnicast uint32 // frames whose destination is not in the FDB
	NewFlows       uint32 // packets whose flow is not in the flow cache

	// What the edge sends for it a second, also with Observe.
	ICMPErrors        uint32 // that the edge sends to it
	Resets            uint32 // TCP resets likewise
	NeighbourRequests uint32 // ARP requests and neighbour solicitations that it causes
	LogLines          uint32 // of the firewall
	HostEvents        uint32 // hosts that arrive or move, told to BGP
}

// What one port may take where nothing is configured: no honest guest comes near.
const (
	portMACs              = 4096
	portBroadcast         = 1000
	portMulticast         = 10_000
	portUnknownUnicast    = 10_000
	portNewFlows          = 50_000
	portICMPErrors        = 1000
	portResets            = 1000
	portNeighbourRequests = 1000
	portHostEvents        = 1000
	// A segment has several ports, and remotes.
	segmentRates = 10
)

// DefaultPortLimits are those of a port of e: a quarter of each table at most.
func (e *Edge) DefaultPortLimits() Limits {
	l := Limits{
		MACs: min(portMACs, quarter(e.FDB.Size)), Neighbours: min(portMACs, quarter(e.FDB.Size)), Flows: quarter(e.FlowCache.Size),
		Broadcast: portBroadcast, Multicast: portMulticast, UnknownUnicast: portUnknownUnicast, NewFlows: portNewFlows,
		ICMPErrors: portICMPErrors, Resets: portResets, NeighbourRequests: portNeighbourRequests, HostEvents: portHostEvents,
	}
	if fw := e.Firewall; fw != nil {
		l.HalfOpen, l.Connections, l.LogLines = quarter(fw.Sizes.HalfOpen), quarter(fw.Sizes.Connections), fw.LogRate
	}
	if eg := e.Egress; eg != nil {
		l.NATSessions = quarter(eg.NATSessions)
	}
	return l
}

// DefaultSegmentLimits are those of a segment of e: half of the tables that it learns into.
func (e *Edge) DefaultSegmentLimits() Limits {
	return Limits{
		MACs: e.FDB.Size / 2, Neighbours: e.FDB.Size / 2,
		Broadcast: segmentRates * portBroadcast, Multicast: segmentRates * portMulticast,
		UnknownUnicast: segmentRates * portUnknownUnicast, HostEvents: segmentRates * portHostEvents,
		ICMPErrors: segmentRates * portICMPErrors, Resets: segmentRates * portResets, NeighbourRequests: segmentRates * portNeighbourRequests,
	}
}

// UplinkLimits are those of an uplink: what the edge sends to a whole network for it.
func UplinkLimits() Limits {
	return Limits{
		ICMPErrors: segmentRates * portICMPErrors, Resets: segmentRates * portResets, NeighbourRequests: segmentRates * portNeighbourRequests,
	}
}

// LearnedShare is how much of a table what BGP tells may fill, in percent: the rest is for what is
// configured.
const LearnedShare = 80

// quarter is never 0, which would be without limit.
func quarter(n uint32) uint32 { return max(n/4, 1) }
