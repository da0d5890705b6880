package offload

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Name is the name of the experiment on offloads and the sizes of writes, the QLogic study's.
const Name = "offload"

// baseline is the target that its ratios are against, in the same state.
const baseline = "kernel"

// Metrics of that experiment. The gains are rows of the summary only: ratios to the same
// target with all offloads off, from the same rounds.
const (
	Throughput      = "throughput" // Gbit/s of payload received, all streams together
	Processor       = "cpu"        // percent of all cores
	Efficiency      = "efficiency" // Mbit/s per percent of all cores
	ThroughputGain  = "throughput_gain"
	ProcessorChange = "cpu_change"
	EfficiencyGain  = "efficiency_gain"
	GainAlone       = "gain_alone"    // throughput with one offload to that with none
	GainLeftOut     = "gain_left_out" // throughput with all offloads to that with all but one
	meanWords       = "mean"
)

// Kinds of offloads, which states switch as one.
const (
	Segmentation = "tso"  // on transmit, in a tunnel and outside
	Coalescing   = "gro"  // on receive
	Checksums    = "csum" // of both, in a tunnel and outside
)

// allKinds are all of them.
func allKinds() []string { return []string{Segmentation, Coalescing, Checksums} }

// States of the offloads of a run.
const (
	AllOn  = "all-on"
	AllOff = "all-off"
)

// states are all states: all, none, all but one and one alone.
func states() []string {
	states := []string{AllOn, AllOff}
	for _, kind := range allKinds() {
		states = append(states, kind+"-off", kind+"-on")
	}
	return states
}

// isOn says whether a state has a kind of offload on. Linux segments in a device only
// where that does checksums (netdev_fix_features), so segmentation alone has these too.
func isOn(state, kind string) bool {
	switch state {
	case AllOn:
		return true
	case AllOff:
		return false
	case Segmentation + "-on":
		return kind == Segmentation || kind == Checksums
	}
	of, on, _ := strings.Cut(state, "-")
	return (of == kind) == (on == "on")
}

// Attribution is two states that differ in one kind of offload.
type Attribution struct{ Kind, Metric, With, Without string }

// Attributions are those of all kinds: one at a time, then all but one.
func Attributions() []Attribution {
	var all []Attribution
	for _, kind := range allKinds() {
		none := AllOff
		if kind == Segmentation {
			none = Checksums + "-on"
		}
		all = append(all,
			Attribution{kind, GainAlone, kind + "-on", none},
			Attribution{kind, GainLeftOut, AllOn, kind + "-off"})
	}
	return all
}

// Stream is what a case of the offload experiment sends.
type Stream struct {
	Encapsulation string
	State         string // or a kind, on rows of GainAlone and GainLeftOut
	Size          int    // bytes of a write; 0 on rows of the mean over all sizes
	BothWays      bool
}

// Case is the name of s's samples: "vxlan/all-on/64k/one-way".
func (s Stream) Case() string {
	ways := "one-way"
	if s.BothWays {
		ways = "both-ways"
	}
	return strings.Join([]string{s.Encapsulation, s.State, SizeWords(s.Size), ways}, "/")
}

// SizeWords is a size of a write as cases name it.
func SizeWords(size int) string {
	switch {
	case size == 0:
		return meanWords
	case size%1024 == 0:
		return strconv.Itoa(size/1024) + "k"
	}
	return strconv.Itoa(size)
}

// Streamed reads a case of the offload experiment.
func Streamed(caseName string) (Stream, bool) {
	parts := strings.Split(caseName, "/")
	if len(parts) != 4 || parts[3] != "one-way" && parts[3] != "both-ways" {
		return Stream{}, false
	}
	s := Stream{Encapsulation: parts[0], State: parts[1], BothWays: parts[3] == "both-ways"}
	if parts[2] == meanWords {
		return s, true
	}
	digits, kilo := strings.CutSuffix(parts[2], "k")
	size, err := strconv.Atoi(digits)
	if kilo {
		size *= 1024
	}
	s.Size = size
	return s, err == nil && size > 0
}

// Streams are the cases of the samples of r: by encapsulation and ways as they came, then
// by state, then by size.
func Streams(r result.Result) []Stream {
	var all []Stream
	var encapsulations []string
	for _, caseName := range stats.Cases(r) {
		if s, ok := Streamed(caseName); ok && s.Size > 0 {
			all = append(all, s)
			encapsulations = append(encapsulations, s.Encapsulation)
		}
	}
	states := states()
	ways := func(s Stream) int {
		if s.BothWays {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b Stream) int {
		return cmp.Or(
			cmp.Compare(slices.Index(encapsulations, a.Encapsulation), slices.Index(encapsulations, b.Encapsulation)),
			cmp.Compare(ways(a), ways(b)),
			cmp.Compare(slices.Index(states, a.State), slices.Index(states, b.State)),
			cmp.Compare(a.Size, b.Size))
	})
	return all
}

// Means are the streams of r without their sizes, in the same order.
func Means(r result.Result) []Stream {
	var all []Stream
	for _, s := range Streams(r) {
		s.Size = 0
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// Sizes are those of the writes of r, ascending.
func Sizes(r result.Result) []int {
	var all []int
	for _, s := range Streams(r) {
		all = append(all, s.Size)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
