package datapath

import (
	"net/netip"

	"github.com/selvage/selvage/internal/overlay"
)

// Config is what the programs are loaded with. A change of it loads new
// programs; everything else goes through Apply.
type Config struct {
	Name      string // the directory of the pins
	TEP       netip.Addr
	UDPPorts  []uint16 // ports on which tunnels arrive, at most MaxUDPPorts
	FlowCache overlay.FlowCache
	FDB       overlay.FDB
	PinRoot   string // a bpffs directory; "" is DefaultPinRoot
}

// Tables is the desired content of the data path. The objects name each other
// by name, ifindex and address; the identifiers in the maps are the data path's own.
type Tables struct {
	Underlays []int // ifindex
	Segments  []overlay.Segment
	Ports     []Port
	TEPs      []TEP
	// Checksummers are the kernel's tunnel devices in metadata mode, by UDP port:
	// the ifindex of each. Segments that ask for UDP checksums send through them.
	Checksummers map[uint16]int
	// Coalescer is a veth pair of ours whose far end polls (GRO); zero without one.
	Coalescer Coalescer
}

// Coalescer is the ifindexes of a veth pair: packets go in at Near and come back,
// put together, from Far.
type Coalescer struct{ Near, Far int }

// Port is a local interface that exists now.
type Port struct {
	Name    string
	Ifindex int
	Segment string
	// Peer asks for delivery into the other namespace of a veth pair.
	Peer bool
	MTU  int // of the interface, an IP packet's size in bytes
}

// TEP is a remote tunnel endpoint and the way to it.
type TEP struct {
	Addr    netip.Addr
	Ifindex int // of the underlay interface; 0 when there is no route
	MTU     int // of that interface, an IP packet's size in bytes
	SrcMAC  overlay.MAC
	NextMAC overlay.MAC // zero while unresolved: the kernel's neighbour table is asked per packet
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

// FDBEntry is one forwarding entry. Exactly one of Port and Remote is set.
type FDBEntry struct {
	Segment string
	MAC     overlay.MAC
	Port    string
	Remote  netip.Addr
	Static  bool
	AgeNS   uint64
	Moves   uint32
}

// Flow is one cached decision.
type Flow struct {
	Segment          string
	InPort           string     // "" when it came through the tunnel
	InRemote         netip.Addr // unset when it came from a port
	OutPort          string
	OutRemote        netip.Addr
	SrcMAC, DstMAC   overlay.MAC
	EtherType        uint16
	Proto            uint8
	Src, Dst         netip.Addr // unset when not IP
	SrcPort, DstPort uint16
	FastPath         bool
	Why              string // why not on the fast path
	Packets, Bytes   uint64
	IdleNS           uint64
}

// Drop is the counter of one reason.
type Drop struct {
	Reason, Description string
	Packets, Bytes      uint64
}
