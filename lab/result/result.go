// Package result is the one shape that every lab experiment writes: a
// versioned document with the environment, the raw samples and a flat summary.
//
// Its invariant: a summary row can be computed again from the samples in the
// same file. It holds data only; running, judging and drawing live elsewhere.
package result

import "time"

// Schema names the version of this document; it changes when a reader of the
// old one would misread the new one.
const Schema = "selvage.dev/result/v3"

// Result is one run of one experiment.
type Result struct {
	Schema      string      `json:"schema"`
	Experiment  string      `json:"experiment"`
	Started     time.Time   `json:"started"`
	Duration    float64     `json:"duration_s"`
	Command     []string    `json:"command" jsonschema:"nullable"`
	Parameters  Parameters  `json:"parameters" jsonschema:"nullable"`
	Environment Environment `json:"environment"`
	Preflight   Preflight   `json:"preflight,omitempty"`
	Topology    Topology    `json:"topology"`
	Targets     []Target    `json:"targets" jsonschema:"nullable"`
	Samples     []Sample    `json:"samples" jsonschema:"nullable"`
	Summary     []Row       `json:"summary" jsonschema:"nullable"`
	Verdict     Verdict     `json:"verdict"`
	// Causes are those of lab why, the largest share first.
	Causes []Cause `json:"causes,omitempty"`
	// Of a run between places.
	Places   []Place   `json:"places,omitempty"`
	Profiles []Profile `json:"profiles,omitempty"`
	Devices  []Device  `json:"devices,omitempty"`
}

// Cause is a setting that may slow a path, and what came of flipping it.
type Cause struct {
	Setting string `json:"setting"` // "offload", "mtu", …
	Object  string `json:"object"`  // what it is a setting of, as "client:vx0"
	Why     string `json:"why"`     // what it was proposed for
	// Target is the path with this cause flipped, and Against the one without, which may have other causes flipped; ""
	// of one that was not flipped.
	Target  string `json:"target,omitempty"`
	Against string `json:"against,omitempty"`
	// Share is the part of the loss that it explains, 1 for all of it, with its interval. What the loss is against is in
	// the verdict.
	Share    float64  `json:"share"`
	Lo       float64  `json:"lo"`
	Hi       float64  `json:"hi"`
	Proved   bool     `json:"proved"`
	Commands []string `json:"commands" jsonschema:"nullable"`
}

// Environment is what has to be equal before two results may be compared.
type Environment struct {
	Kernel      string                     `json:"kernel"`
	CPU         string                     `json:"cpu"`
	Cores       int                        `json:"cores"`
	MemoryBytes int64                      `json:"memory_bytes"`
	Versions    map[string]string          `json:"versions" jsonschema:"nullable"` // selvage, iperf3, iproute2, ovs …
	Offloads    map[string]map[string]bool `json:"offloads" jsonschema:"nullable"` // interface role → ethtool feature → on
	MTU         map[string]int             `json:"mtu" jsonschema:"nullable"`      // "underlay", "inner", "plain"
	Sysctls     map[string]string          `json:"sysctls" jsonschema:"nullable"`
}

// Topology is the picture of what was measured, left to right.
type Topology struct {
	Nodes []Node `json:"nodes" jsonschema:"nullable"`
	Links []Link `json:"links" jsonschema:"nullable"`
}

// Node is a host or an end system.
type Node struct {
	Name  string   `json:"name"`
	Role  string   `json:"role"` // "client", "host", "server"
	Addrs []string `json:"addrs" jsonschema:"nullable"`
}

// Link joins two nodes by name.
type Link struct {
	A    string `json:"a"`
	B    string `json:"b"`
	Role string `json:"role"` // "access" or "underlay"
	MTU  int    `json:"mtu"`
}

// Target is one data path under test.
type Target struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	InnerMTU    int    `json:"inner_mtu"`
	// HeaderTax is the share of throughput that the headers alone must cost
	// against the baseline at full-sized segments (0.034 = 3.4 %).
	HeaderTax float64 `json:"header_tax"`
}

// Sample is one measurement of one target in one round.
type Sample struct {
	Target   string  `json:"target"`
	Case     string  `json:"case"`    // "tcp", "rr-1", "rr-1024", "udp", "transit-encap", "hole", "sweep-536x4" …
	Round    int     `json:"round"`   // from 1
	Start    float64 `json:"start_s"` // since Result.Started
	Duration float64 `json:"duration_s"`
	// Metrics holds the sample's figures by name, in the units of the summary.
	Metrics map[string]float64 `json:"metrics" jsonschema:"nullable"`
	// Series holds one value a reporting interval (a second with iperf3), one a slice, or
	// one a source port, by name.
	Series map[string][]float64 `json:"series,omitempty"`
	CPU    []CPUShare           `json:"cpu,omitempty"`  // one per core
	Uses   []Use                `json:"uses,omitempty"` // of each place, in a run between places
	// Latency is the distribution of one request/response sample.
	Latency []Quantile `json:"latency,omitempty"`
	Error   string     `json:"error,omitempty"`
}

// CPUShare is how one core spent a sample, in shares of its wall time (0 … 1).
type CPUShare struct {
	Core    int     `json:"core"`
	User    float64 `json:"user"`
	System  float64 `json:"system"`
	SoftIRQ float64 `json:"softirq"`
	Idle    float64 `json:"idle"`
}

// Quantile is one point of a latency distribution.
type Quantile struct {
	Q  float64 `json:"q"`  // 0 … 1
	US float64 `json:"us"` // microseconds
}

// Row is one line of the summary.
type Row struct {
	Target   string  `json:"target"`
	Case     string  `json:"case"`
	Metric   string  `json:"metric"`
	Unit     string  `json:"unit"`
	Median   float64 `json:"median"`
	Lo       float64 `json:"lo"` // bounds of the interval of the median
	Hi       float64 `json:"hi"`
	N        int     `json:"n"`
	Baseline string  `json:"baseline"` // the target that ratio is against; "" for the baseline's own rows
	Ratio    float64 `json:"ratio"`    // of pairs (of one round, or of neighbouring slices) to the baseline; 1 for the baseline, 0 when there is none
	RatioLo  float64 `json:"ratio_lo"`
	RatioHi  float64 `json:"ratio_hi"`
	// Distinguishable is false when the interval of the ratio holds 1.
	Distinguishable bool `json:"distinguishable"`
	// Difference is the paired difference to the baseline, in Unit, of a row that has no ratio
	// because a value is 0.
	Difference float64 `json:"difference,omitempty"`
	// SmallestEffect is the smallest change, as a share of the baseline (0.02 = 2 %), that nine
	// of ten runs like this one would have told from none; 0 where that is not known.
	SmallestEffect float64 `json:"smallest_effect,omitempty"`
}

// Verdict is the experiment's answer in words.
type Verdict struct {
	// Refused is set when noise or errors forbid a conclusion; Headline then says why.
	Refused     bool      `json:"refused"`
	Headline    string    `json:"headline"`              // one sentence
	Explanation string    `json:"explanation,omitempty"` // what belongs to it, or what to do when refused
	Findings    []Finding `json:"findings" jsonschema:"nullable"`
}

// Refuse makes v one that says why there is none, and what to do; findings stay.
func (v *Verdict) Refuse(why, remedy string) {
	v.Refused, v.Headline, v.Explanation = true, "No verdict: "+why+".", remedy
}

// String is headline and explanation.
func (v Verdict) String() string {
	if v.Explanation == "" {
		return v.Headline
	}
	return v.Headline + " " + v.Explanation
}

// Finding is what a run shows on one topic: cause, evidence and advice.
type Finding struct {
	Topic string `json:"topic,omitempty"` // a word or two, "" for none
	Text  string `json:"text"`
}

// String is the finding in a line: "Noise: the cores were busy".
func (f Finding) String() string {
	if f.Topic == "" {
		return f.Text
	}
	return f.Topic + ": " + f.Text
}

// And is the finding with more said of it.
func (f Finding) And(text string) Finding {
	f.Text += text
	return f
}
