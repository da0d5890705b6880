package api

// Parameters of requests, by their names in the URL.
const (
	ArgPort      = "port"
	ArgRemote    = "remote"
	ArgSegment   = "segment"
	ArgMAC       = "mac"
	ArgAddr      = "addr"
	ArgLimit     = "limit"
	ArgOrigin    = "origin"
	ArgSlow      = "slow"
	ArgBy        = "by"
	ArgTo        = "to" // an address that routes are looked up for
	ArgRule      = "rule"
	ArgPolicy    = "policy"
	ArgRouter    = "router"
	ArgNeighbour = "neighbour"
	ArgSoft      = "soft"
	ArgTimeout   = "timeout"
	ArgWhat      = "what"

	argPacket = "packet"
	argSrcMAC = "src_mac"
	argDstMAC = "dst_mac"
	argVLAN   = "vlan"
	argSize   = "size"
	argTTL    = "ttl"
	argProto  = "proto"
	argState  = "state"
	argTop    = "top"
	argType   = "type"
	argVNI    = "vni"
	argIP     = "ip"
	argUnused = "unused"
)
