// Package cause proposes why a path is slower than it should be, from evidence that was read before anything was
// changed, the likeliest first.
//
// Its one invariant: it is pure. It reads no host and changes none: evidence is read by lab/agent, and a cause is proved
// by lab/experiment/why, which flips the setting and measures.
package cause

import (
	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/lab/agent"
)

// Most is how many causes are proposed: each costs a run.
const Most = 5

// Evidence is what is known before anything is flipped.
type Evidence struct {
	Client, Server End
	// Overlay is the path that is slow, Plain one beside it that is not: nil where there is none.
	Overlay Figures
	Plain   *Figures
}

// End is what was read at one end of the path.
type End struct {
	Facts facts.Host
	// Devices are the interfaces that the path leaves by, the topmost first: a port or tunnel device, then what is below
	// it, each of them in Facts.
	Devices []string
	// Kernel is what the kernel has on the way besides interfaces: queueing disciplines, rules, sysctls, counters.
	Kernel agent.Evidence
}

// Figures are the medians of a path's slices before anything was flipped. What was not measured is 0.
type Figures struct {
	Gbits       float64 // TCP, one stream, of its payload
	Retransmits float64 // share of the segments
	MSS         int     // bytes
	RRMicros    float64 // median of a round trip
	LossPPM     float64 // UDP datagrams of a slow stream that did not arrive, in millionths
	MTU         int     // largest IP packet that arrives, bytes; 0 is not probed
	Cores       []Core  // at both ends while TCP was measured
}

// Core is how busy a core was, in shares of the time.
type Core struct {
	Role    string // "client" or "server"
	Core    int
	Busy    float64
	SoftIRQ float64
	Steal   float64
}

// Flip is what changes a setting at one end.
type Flip struct {
	Role   string // "client" or "server"
	Change agent.Change
}

// Cause is what may slow a path.
type Cause struct {
	// Setting is its name and what --may has, one of Settings.
	Setting string
	// Object is what it is a setting of, as "client:vx0"; with Setting it names the cause.
	Object string
	// Likelihood orders causes, 0 … 1.
	Likelihood float64
	// Why is the evidence, a sentence with the figures.
	Why string
	// Flips are made together to prove it. None: it cannot be flipped, and Commands tell what to try.
	Flips []Flip
	// Share is, of a cause that no setting undoes, what part of the difference it explains by counters; nil otherwise.
	Counted *float64
	// Commands do the same by hand.
	Commands []string
}
