package overlay

import (
	"net/netip"
	"time"
)

// Firewall is the policy that stands between the edge's ports and its segments: each
// port has it for itself, and keeps its own connections. Uplinks and tunnels have none.
type Firewall struct {
	// Default is what becomes of packets that no rule decides about, where their port's
	// segment has no default of its own.
	Default Verdict
	// NonIP is for frames that are neither IP, ARP nor neighbour discovery: Allow or Drop.
	NonIP Verdict
	// Strict drops TCP segments that belong to no connection and do not open one, and
	// resets outside the window. Otherwise the rules decide about them, as about a SYN.
	Strict   bool
	Sizes    ConnectionSizes
	Timeouts Timeouts
	// LogRate is how many log lines a second each port may have by default; 0 writes none.
	LogRate uint32
	// Groups are named sets, which rules and other groups refer to. They may be nested,
	// without cycles.
	Groups []Group
	// Rules in the order in which they are asked: the first that matches decides.
	Rules []Rule
	// Defaults are those of segments, by name.
	Defaults map[string]Verdict
}

// ConnectionSizes are entries of the connection tables.
type ConnectionSizes struct {
	Connections uint32 // that have been answered
	HalfOpen    uint32 // that have not, and closed ones
}

// Timeouts are how long a connection is remembered without a packet.
type Timeouts struct {
	Opening     time.Duration // TCP before the handshake is complete
	Established time.Duration
	HalfClosed  time.Duration // TCP after one end's FIN
	TimeWait    time.Duration // TCP after both ends' FIN
	Closed      time.Duration // TCP after a reset
	UDP         time.Duration // and other protocols, without an answer
	UDPReplied  time.Duration // with one, and no packets after that
	UDPStream   time.Duration // with one, and packets that go on
	ICMP        time.Duration
}

// DefaultTimeouts obey RFC 5382 (REQ-5: 2 hours 4 minutes) and RFC 5508. A UDP dialogue of two
// packets is forgotten early, as in Linux (nf_conntrack_udp_timeout): the firewall is not a NAT.
var DefaultTimeouts = Timeouts{
	Opening: 30 * time.Second, Established: 2*time.Hour + 4*time.Minute, HalfClosed: 4 * time.Minute,
	TimeWait: time.Minute, Closed: 10 * time.Second, UDP: 30 * time.Second, UDPReplied: 30 * time.Second,
	UDPStream: 3 * time.Minute,
	ICMP:      60 * time.Second,
}

// Verdict is what a rule says.
type Verdict string

// The verdicts. Reject drops and tells the sender: TCP by a reset, all else by ICMP
// "administratively prohibited". LogOnly is a rule on trial: what it would decide about is
// counted and logged, and the next rules decide.
const (
	Allow   Verdict = "allow"
	Drop    Verdict = "drop"
	Reject  Verdict = "reject"
	LogOnly Verdict = "log-only"
)

// Direction is seen from the workload behind the port.
type Direction string

// The directions of a connection's first packet.
const (
	In   Direction = "in"   // to the workload
	Out  Direction = "out"  // from it
	Both Direction = "both" // either
)

// Rule decides about connections by their first packet.
type Rule struct {
	// Section and Name together name the rule: its counters stay when it is changed or
	// moved.
	Section, Name string
	Verdict       Verdict
	Direction     Direction
	// From and To are source and destination of the connection's first packet. Empty is
	// any; otherwise one of the members has to match.
	From, To []Member
	// Services: empty is any.
	Services []Service
	// AppliedTo are the ports that have the rule; empty is all. Addresses and MACs are not
	// allowed here, nor in groups that it names.
	AppliedTo []Member
	Log       bool
	Comment   string
}

// Group is a named set.
type Group struct {
	Name    string
	Members []Member
}

// Member is a part of a group, or of a rule's source or destination. Exactly one field
// is set.
type Member struct {
	Prefix netip.Prefix
	Range  AddrRange
	MAC    *MAC
	// Segment has whatever comes from it, or goes into it, as this edge sees it: a packet
	// of a router's L3 segment is not of the segment where it began.
	Segment string
	Port    string // of a trunk with all its VLANs, or one of them as in p0.10
	// Labels select ports that have all of them.
	Labels map[string]string
	Group  string
}

// AddrRange is the addresses from First to Last, of one family.
type AddrRange struct{ First, Last netip.Addr }

// Service is a kind of traffic.
type Service struct {
	// Protocol is the IP protocol, or AnyProtocol. ICMP is 1 with IPv4 and 58 with IPv6.
	Protocol int
	// Ports of the destination and SourcePorts are of TCP, UDP and SCTP; empty is any.
	Ports, SourcePorts []PortRange
	// ICMPType and ICMPCode are -1 for any.
	ICMPType, ICMPCode int
}

// AnyProtocol is a Service's that is of no protocol alone.
const AnyProtocol = -1

// PortRange is the ports from First to Last.
type PortRange struct {
	First uint16 `json:"first"`
	Last  uint16 `json:"last"`
}
