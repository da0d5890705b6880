// Package gen is the lab's traffic generator: a Sender whose frames are made
// in the kernel, a Sink that counts, checks and times them there, and a
// Reflector that sends tunnel packets back.
//
// Its one invariant: a frame is counted exactly once, in the first of these that
// holds: the generator was too late to make it (Unsent), the first interface
// refused it (Overrun), it was handed over (Frames). Only what was handed over
// can be lost. All of it lives in file descriptors, so a killed process leaves
// nothing behind. Do not use it to talk to anybody: it ignores what comes back.
package gen

import (
	"net"
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// FCS is the frame check sequence in bytes, which RFC 2544 counts in a frame's
// size and which no buffer here holds.
const FCS = 4

// Defaults of a Stream, as the study of a bare-metal edge had them.
const (
	DefaultSources      = 20
	DefaultDestinations = 64
	DefaultFlows        = DefaultSources * DefaultDestinations
)

// Stream is what the frames are. Flow f of n comes from source f mod Sources to
// destination f / Sources mod Destinations, and where that repeats from the next
// UDP port; frame i is of flow i mod n.
type Stream struct {
	// ID tells the streams of one network apart; a Sink counts one of them.
	ID uint8
	// Frame is the size in bytes with FCS; inside a tunnel the inner frame's, whose
	// FCS is then not sent. 64 … MaxFrame; IPv6 needs 84.
	Frame int
	// IMIX, in place of Frame, is several sizes by turns.
	IMIX []Share
	// Order, unless empty, is the sizes of IMIX by turns, as indexes; else they are spread evenly. Its
	// sizes come as often as they weigh.
	Order []uint8
	// Flows, Sources and Destinations are 1280, 20 and 64 by default.
	Flows, Sources, Destinations int
	// Family is the IP version of the frames, 4 by default.
	Family int
	// From and To are the networks of sources and destinations, whose hosts count
	// from 2: 198.18.0.0/16 and 198.19.0.0/16 (RFC 2544 appendix C.2.2), or
	// 2001:2:0:1::/64 and 2001:2:0:2::/64 (RFC 5180 section 8) by default.
	From, To netip.Prefix

	shift, firstFlow int // of a part: the source and the flow where it begins
}

// Share is the part of a size in a mix: 7:4:1 is the weights of three.
type Share struct {
	Frame  int `json:"frame"`
	Weight int `json:"weight"`
}

// Port is an interface that frames leave by, and the addresses between that and
// the device under test. Flow f leaves by port f mod the number of ports.
type Port struct {
	Ifindex        int
	SrcMAC, DstMAC net.HardwareAddr
	// VLAN, unless 0, is the tag of all frames: 4 bytes more than Stream.Frame.
	VLAN uint16
	// Tunnel, unless nil, is put around each frame.
	Tunnel *Tunnel
}

// Tunnel is the packets that a remote tunnel endpoint would send. Only lengths,
// checksums and the entropy of the flow (the outer source port, or NVGRE's
// FlowID) differ from packet to packet.
type Tunnel struct {
	Encapsulation overlay.Encapsulation
	// Local is the sending TEP, Remote the device's.
	Local, Remote netip.Addr
	VNI           overlay.VNI
	// UDPPort is the encapsulation's own by default.
	UDPPort uint16
	// Options are Geneve's, whole ones (RFC 8926 section 3.5), at most 60 bytes.
	Options []byte
	// SrcMAC and DstMAC are the inner frame's.
	SrcMAC, DstMAC net.HardwareAddr
}

// Load is how a Stream is sent once.
type Load struct {
	// Rate is frames/s over all ports; 0 is as fast as it goes.
	Rate float64
	// Frames ends the run after so many, sent or not; Duration after that time. With
	// both the first ends it, and one must be given.
	Frames   uint64
	Duration time.Duration
	// Burst is the frames that go back to back, at the mean Rate; 1 by default.
	Burst int
	// CatchUp is the longest delay of the clock that frames are sent faster for;
	// what is later than that is Unsent. 100 µs by default.
	CatchUp time.Duration
	// Batch is the frames that the kernel hands over at a time, 1 … 256. More is
	// faster and adds latency. By default 1 up to 500 kpps, 8 up to 2 Mpps, otherwise 64.
	Batch int
	// start, unless 0, is when it begins, by the monotonic clock in ns; lead is the share of the
	// interval that the first frame waits then, so that parts of a stream take turns.
	start uint64
	lead  float64
	// Untimed leaves the time of sending out, so that the sink cannot tell
	// latencies, which is faster.
	Untimed bool
}

// Sent is the outcome of a run.
type Sent struct {
	// Run is the number that Sink.Reset was to be told.
	Run uint16 `json:"run"`
	// Offered is what the Load asked for until the run ended: Frames, Overrun and
	// Unsent.
	Offered uint64 `json:"offered"`
	// Frames were handed over to the interfaces, and Bytes on the wire without FCS.
	Frames uint64 `json:"frames"`
	Bytes  uint64 `json:"bytes"`
	// Overrun were refused by an interface: its ring was full, it was down, or the
	// frame larger than its MTU.
	Overrun uint64 `json:"overrun"`
	// Unsent were due when the generator was not there to send them.
	Unsent uint64 `json:"unsent"`
	// PortFrames are Frames and Overrun by port.
	PortFrames []uint64 `json:"port_frames"`
	// Duration is from the first frame's time to one interval after the last's.
	Duration time.Duration `json:"duration"`
	// Busy is the time that the generator's thread was on its core. All that polls on
	// that core inline is in it, so without a rate Busy / Frames is what a frame costs
	// from generator to sink, whatever else the core had to do meanwhile.
	Busy time.Duration `json:"busy"`
	// RateError is (Frames / Duration) / Rate − 1; 0 without a rate.
	RateError float64 `json:"rate_error"`
}

// Rate is what was handed over, in frames/s.
func (s Sent) Rate() float64 {
	if s.Duration <= 0 {
		return 0
	}
	return float64(s.Frames) / s.Duration.Seconds()
}

// SinkOptions are what a Sink looks at. The zero value counts frames of stream 0.
type SinkOptions struct {
	// Stream is the ID of the stream to count.
	Stream uint8
	// Flows, unless 0, checks the sequence numbers of so many flows: 32 bytes each.
	Flows int
	// Latency times the frames that have a time of sending.
	Latency bool
	// Answer answers ARP requests and neighbour solicitations for every address that
	// are not of the asker itself, with the address of the interface.
	Answer bool
	// Turns is how often a loop of nothing runs for each 16 frames: a delay that is planted where
	// a comparison has to show that it would be found.
	Turns uint32
	// Mode is how the driver runs the program, Native by default.
	Mode Mode
	// VXLANPort and GenevePort are UDP ports, the registered ones by default.
	VXLANPort, GenevePort uint16
}

// ReflectorOptions are what a Reflector sends back, and how. Of SinkOptions it takes Answer, Mode, VXLANPort and GenevePort.
type ReflectorOptions struct {
	SinkOptions
	// Plain sends frames without a tunnel back, too.
	Plain bool
	// Redirect sends frames by XDP's redirect. By XDP_TX, which more drivers have, a veth sends nothing to a peer that has no
	// XDP program.
	Redirect bool
}

// Mode is how XDP runs.
type Mode string

// Modes of XDP.
const (
	Native  Mode = "native"  // in the driver
	Generic Mode = "generic" // in the kernel's stack, with any driver, at a rate that is far lower
)

// Report is what a Sink has counted since Reset.
type Report struct {
	// Frames are of the stream and run, and Bytes of those on the wire without FCS.
	Frames uint64 `json:"frames"`
	Bytes  uint64 `json:"bytes"`
	// Shortest and Longest of those frames, on the wire without FCS.
	Shortest int `json:"shortest"`
	Longest  int `json:"longest"`
	// Core are Frames by core; Around by what was around them: "plain", "vxlan",
	// "geneve" or "nvgre".
	Core   []uint64          `json:"core"`
	Around map[string]uint64 `json:"around"`
	// Foreign are all other frames by kind ("arp", "nd", "stale" …). They went on to
	// the kernel, but for stale ones, which are of another run of this stream, and
	// those that were answered.
	Foreign  map[string]uint64 `json:"foreign"`
	Answered uint64            `json:"answered"`

	// Flows were seen, of those that are checked. Gaps are sequence numbers that did
	// not come while later ones of their flow did; those lost at the end of a run
	// are not among them, and those that the first interface refused are. Reordered
	// came after a later one (RFC 4737 section 3.3), Duplicated a second time. Unknown
	// are of flows beyond SinkOptions.Flows.
	Flows      int    `json:"flows"`
	Gaps       uint64 `json:"gaps"`
	Reordered  uint64 `json:"reordered"`
	Duplicated uint64 `json:"duplicated"`
	Unknown    uint64 `json:"unknown"`
	// Worst are the flows with the most faults, at most WorstFlows, the worst first.
	Worst []Flow `json:"worst,omitempty"`

	Latency Latency `json:"latency"`
}

// WorstFlows is the most flows that a Report names.
const WorstFlows = 10

// Flow is what a Sink knows of one.
type Flow struct {
	Flow       int    `json:"flow"`
	Frames     uint64 `json:"frames"`
	Gaps       uint64 `json:"gaps"`
	Reordered  uint64 `json:"reordered"`
	Duplicated uint64 `json:"duplicated"`
}

// Lost is what was sent and did not come; duplicates do not make up for it where
// flows are checked.
func (r Report) Lost(s Sent) uint64 {
	return s.Frames - min(s.Frames, r.Frames-r.Duplicated)
}
