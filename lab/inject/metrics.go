package inject

// Metrics of that experiment: of the summary, and of a kill where they are in both. Times
// are milliseconds.
const (
	OutageP50     = "outage_p50" // of the flows that were hit
	OutageP99     = "outage_p99" //
	OutageMax     = "outage_max" //
	Survived      = "survived"   // share of the connections that went on, 0 … 1
	StallP50      = "stall_p50"  // of the connections
	StallP99      = "stall_p99"
	Lost          = "lost"     // packets of all flows, there and back
	AffectedFlows = "affected" // flows that lost packets or were silent
	ReturnMax     = "return_gap_max"
	ReturnLost    = "return_lost"
	// ReturnSurvived is the share of the connections that outlived the return too.
	ReturnSurvived = "return_survived"

	Connections = "connections" // of a kill
	WentOn      = "went_on"     // how many of them did
	// Noise is the longest silence in the second before a kill.
	Noise = "noise_max"
	// Late is the longest that the sender of the flows was held up.
	Late = "sender_late"
	// Repair is from the fault to the first packet that was forwarded again.
	Repair = "repair"
)

// Series of a kill: one value a flow or connection, in ms. Outages are those of the flows that
// were hit.
const (
	OutageSeries = "outage_ms"
	StallSeries  = "stall_ms"
	ReturnSeries = "return_gap_ms"
)

// Metrics of steps, in ms.
const (
	StepNoticed = "step_noticed" // until it was detected
	StepWritten = "step_written" // until the tables were written
)

// Step is a part of the time from a fault to its end.
type Step struct{ Metric, Title string }

// NoisyFloor is the silence (ms) before a kill that is noise of the machine in any case.
const NoisyFloor = 20

// HeldUp is from when on (ms) the instrument's own delays are worth a word.
const HeldUp = 20
