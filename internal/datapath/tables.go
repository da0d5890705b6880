package datapath

import (
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// Config is what the programs are loaded with. A change of it loads new
// programs; everything else goes through Apply.
type Config struct {
	Name      string       // the directory of the pins
	TEPs      []netip.Addr // this edge's own, the first stands for it; at most overlay.MaxTEPs
	UDPPorts  []UDPPort    // on which tunnels arrive, at most MaxUDPPorts
	NVGRE     bool         // whether NVGRE tunnels arrive; otherwise GRE is the host's
	FlowCache overlay.FlowCache
	Transit   bool // whether there may be transit programs
	FDB       overlay.FDB
	Tables    overlay.Tables
	// Firewall is nil where ports have none. What is in Tables.Firewall is of no concern
	// here: groups, rules and defaults.
	Firewall *overlay.Firewall
	// Egress is nil where nothing is translated. Its sizes, timeouts and whether there is a
	// log or replication concern the programs.
	Egress *overlay.Egress
	// ProbeMAC is where probes out of tunnels are answered, in any segment; zero: nowhere.
	ProbeMAC overlay.MAC
	Timing   bool   // packets' times are written down, see OpenStamps
	PinRoot  string // a bpffs directory; "" is the default, see PinRoot
	// Beside is a handle of this process to the same data path, nil without one. It goes on, until the first Apply of
	// the one that is opened takes over, and is closed after that.
	Beside *Datapath
}

// UDPPort is a port and what arrives on it.
type UDPPort struct {
	Port          uint16
	Encapsulation overlay.Encapsulation
}

// Counters are packets and bytes in one direction.
type Counters struct{ Packets, Bytes uint64 }

// PortCounters are one port's, Rx being from the port into the overlay.
type PortCounters struct {
	Rx, Tx Counters
	Drops  uint64
}

// TEPCounters are one remote's, Rx being from the remote.
type TEPCounters struct{ Rx, Tx Counters }

// Origin is who says where a host is.
type Origin string

// The origins, from the one that gives way to the one that does not.
const (
	OriginLearned Origin = "learned" // its own packets
	OriginBGP     Origin = "bgp"
	OriginStatic  Origin = "static"
)

// FDBEntry is one forwarding entry. Exactly one of Port and Remote is set.
type FDBEntry struct {
	Segment string
	MAC     overlay.MAC
	Port    string
	Remote  netip.Addr
	Static  bool
	Origin  Origin
	Sticky  bool // BGP says that it does not move
	AgeNS   uint64
	Moves   uint32
	// Frozen is for how long it stays where it is, as it moved too often; Other is the port or
	// remote where it was seen too.
	Frozen time.Duration
	Other  string
}

// Flow is one cached decision.
type Flow struct {
	Segment          string     // where it came in
	OutSegment       string     // of a routed flow, where it goes; "" when bridged
	InPort           string     // "" when it came through the tunnel
	InRemote         netip.Addr // unset when it came from a port
	OutPort          string
	OutRemote        netip.Addr
	SrcMAC, DstMAC   overlay.MAC
	EtherType        uint16
	Proto            uint8
	Src, Dst         netip.Addr // unset when not IP
	SrcPort, DstPort uint16
	// ToSrc and ToDst are what source and destination become; unset where they stay.
	ToSrc, ToDst   netip.AddrPort
	FastPath       bool
	Why            string // why not on the fast path
	Packets, Bytes uint64
	IdleNS         uint64
}

// Drop is the counter of one reason.
type Drop struct {
	Reason, Description string
	Packets, Bytes      uint64
}

// Neighbour is an address of a host in a segment and its MAC.
type Neighbour struct {
	Segment string
	Addr    netip.Addr
	MAC     overlay.MAC
	Port    string     // where the MAC is: a port's name, or
	Remote  netip.Addr // a remote; neither while that is unknown
	Static  bool
	Origin  Origin
	ND      rib.NDFlags // of an IPv6 address
	AgeNS   uint64
}

// PathReport is what ICMP messages of the underlay said about a path: a packet of the tunnels
// was too big. Anybody can have sent them.
type PathReport struct {
	MTU int // the least, an IP packet's size in bytes
	// VNIMTU is the least of messages that embed a VNI of segments that send to the remote; 0:
	// none did.
	VNIMTU int
	Age    time.Duration // of the first message
}
