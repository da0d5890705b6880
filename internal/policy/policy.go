// Package policy compiles a firewall's rules into the image that the data path reads, and
// says in Go what that image decides.
//
// Its one invariant: Evaluate, Judge and bpf/firewall/classify.h give the same judgement for every
// opening. It does no I/O, and knows neither maps nor the numbers in them: Image is told.
// Do not keep connections here; a policy is asked about their first packets alone.
package policy

import (
	"net/netip"

	"github.com/selvage/selvage/internal/overlay"
)

// Place is where a workload is attached: a port, or one VLAN of a trunk.
type Place struct {
	Name    string // p0, or p0.10 of a trunk
	Port    string // p0
	Segment string
	Labels  map[string]string
}

// Rule is a rule of a policy, or a default that stands for one.
type Rule struct {
	// Section and Name tell rules apart. A default has the section "default" and the
	// segment's name, or "edge".
	Section, Name string
	Verdict       overlay.Verdict
	Log           bool
	// Text is what it matches, for users.
	Text string
}

// Section and name of the defaults.
const (
	DefaultSection = "default"
	DefaultEdge    = "edge"
)

// Numbers are what the data path calls the things that a policy names.
type Numbers struct {
	Policy   uint32
	Vports   map[string]uint16 // by a place's name, of those that there are now
	Segments map[string]uint16 // by name
	Rules    []uint32          // of each of Rules(), 1 … 2^24-1
}

// Compiled is a policy as the data path reads it: lines of LineWords words, host's byte order.
type Compiled []uint32

// LineWords are the words of one entry of the policy's map, struct line of bpf/abi/abi.h.
const LineWords = 16

// Query is a connection's first packet, as the rules see it: struct opening of
// bpf/abi/abi.h by names.
type Query struct {
	Src, Dst       netip.Addr
	SrcMAC, DstMAC overlay.MAC
	// SrcPlace and DstPlace are places of this edge, "" beyond a tunnel or uplink.
	SrcPlace, DstPlace     string
	SrcSegment, DstSegment string
	// Place is the one whose firewall is asked, Direction In or Out of it.
	Place     string
	Direction overlay.Direction
	Protocol  uint8
	// SrcPort and DstPort are of TCP, UDP and SCTP. DstPort of ICMP is type << 8 | code.
	SrcPort, DstPort uint16
	// Ported says that the ports, or the ICMP type, are known: of a later fragment they
	// are not, and no service that asks for them matches.
	Ported bool
}

// Match is what a policy says about an opening.
type Match struct {
	Rule    int // index in Rules() of the one that decides
	LogOnly int // of the first rule on trial before it that matches, or -1
	Verdict overlay.Verdict
	Log     bool
}

// Shadow is a rule that can never decide, because an earlier one matches all that it does.
type Shadow struct {
	Rule, By int // indices in Rules()
	// Duplicate: both match the same, and say the same.
	Duplicate bool
}
