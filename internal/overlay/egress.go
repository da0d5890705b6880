package overlay

import (
	"net/netip"
	"time"
)

// Egress is how packets leave the overlay with other addresses than their own: policies
// that send them to gateways, and what all translation of this edge shares.
type Egress struct {
	// Sessions is how many connections may be translated at once, by all policies and uplinks.
	NATSessions uint32
	Timeouts    Timeouts
	// DNSTimeout is that of UDP to port 53, 0: as of other UDP.
	DNSTimeout time.Duration
	// Log has the begin and end of each session written, LogRate lines a second at most.
	Log     bool
	LogRate uint32
	// Groups are named sets that Policies[].From may name: those of the firewall.
	Groups   []Group
	Gateways []GatewayGroup
	// Policies in the order in which they are asked: the first that matches decides.
	Policies []EgressPolicy
}

// What an edge has where it does not say: room for sessions, and log lines a second.
const (
	DefaultNATSessions = 262144
	DefaultNATLogRate  = 100
	// DefaultNATShare is what part of the sessions one source may have.
	DefaultNATShare   = 16
	DefaultDNSTimeout = 30 * time.Second
)

// GatewayMode says how the gateways of a group share the work.
type GatewayMode string

// The values of GatewayMode.
const (
	// ActiveStandby has the first live gateway do all.
	ActiveStandby GatewayMode = "active-standby"
	// ActiveActive divides sources and addresses among the live ones, by rendezvous hashing.
	ActiveActive GatewayMode = "active-active"
)

// MaxGateways is how many members a group has at most.
const MaxGateways = 16

// GatewayGroup is edges that stand in for each other.
type GatewayGroup struct {
	Name string
	Mode GatewayMode
	// Members are the first addresses of edges in their order of preference; this edge's
	// own first address stands for itself.
	Members []netip.Addr
	// Replication is nil where each gateway knows its own sessions alone.
	Replication *Replication
}

// Replication tells the other gateways of a group of each session, over TCP between
// their first tunnel endpoints.
type Replication struct {
	Port uint16
	// Key authenticates the gateways to each other (HMAC-SHA-256).
	Key []byte
}

// DefaultReplicationPort is of the dynamic range (RFC 6335 section 6).
const DefaultReplicationPort = 49789

// EgressPolicy sends packets by a gateway, which gives them an address of the pool.
type EgressPolicy struct {
	Name   string
	Router string
	// VNI and Tunnel are the policy's own segment between edges and gateways: what comes
	// by it is of this policy. It is called as SegmentName says.
	VNI    VNI
	Tunnel Tunnel
	// Remotes are the other edges, whose sources may come, and the gateways.
	Remotes []netip.Addr
	TEPs    []string
	// From is which sources, as a firewall's rule; empty is any.
	From []Member
	// To is which destinations, of those outside the overlay: to which the router has no
	// route or one that leads to an uplink. nil is all. Except is never translated.
	To, Except []netip.Prefix
	// Gateways is the name of a group.
	Gateways string
	// Pool is what sources become. An edge that is a gateway answers for its addresses on
	// the network of Uplink.
	Pool   []AddrRange
	Uplink string
	// UplinkAddress has sources become the address of the uplink of the gateway that serves them, one a
	// family. Pool is empty then. Such sessions are of use to no other gateway, and are not replicated.
	UplinkAddress bool
	// PerConnection spreads the connections of a source over the pool; otherwise it has
	// the same address for all, while that has ports left.
	PerConnection bool
	// Independent is endpoint-independent mapping (RFC 4787 section 4.1): a source port
	// becomes the same one for all destinations. Open lets anybody reply to it (section 5).
	Independent, Open bool
	Ports             PortRange
	// Limit is how many sessions a source may have, InboundLimit how many may be opened to it
	// from outside, 0 without.
	Limit, InboundLimit uint32
}

// SegmentName is the name of the policy's segment between edges and gateways.
func (p EgressPolicy) SegmentName() string { return "egress-" + p.Name }

// EgressMAC is every edge's address in the segments of egress policies: locally administered.
var EgressMAC = MAC{0x02, 0x00, 0x5e, 0x00, 0x01, 0x02}

// DefaultNATPorts are those that a source port may become (RFC 6056 section 3.2).
var DefaultNATPorts = PortRange{1024, 65535}

// UplinkNAT is an uplink's own translation.
type UplinkNAT struct {
	// Masquerade gives what leaves by the uplink the uplink's address, unless a policy
	// translates it.
	Masquerade bool
	// Required drops what nothing translates, instead of letting it leave as it is.
	Required     bool
	Ports        PortRange
	Limit        uint32 // as of a policy, like InboundLimit
	InboundLimit uint32
	PortForwards []PortForward
}

// PortForward leads packets for ports of an address of the uplink, or of a pool that it
// answers for, to a host of the overlay.
type PortForward struct {
	Protocol int // TCP or UDP
	Addr     netip.Addr
	Ports    PortRange
	To       netip.Addr
	ToPort   uint16 // of the first one
}

// DefaultNATTimeouts obey RFC 4787 (REQ-5: 2 to 5 minutes), RFC 5382 (REQ-5) and RFC 5508 (REQ-1).
var DefaultNATTimeouts = Timeouts{
	Opening: 4 * time.Minute, Established: 2*time.Hour + 4*time.Minute, HalfClosed: 4 * time.Minute,
	TimeWait: 4 * time.Minute, Closed: 10 * time.Second, UDP: 2 * time.Minute, UDPReplied: 5 * time.Minute, UDPStream: 5 * time.Minute,
	ICMP: 60 * time.Second,
}
