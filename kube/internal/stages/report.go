package stages

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/stats"
)

// Facts are what a report is made of besides the figures.
type Facts struct {
	Pod, Node, Gateway string // NAMESPACE/NAME, and names of nodes
	Server             string // a place; "" when there is none
	Expected           []netip.Addr
	// Own says whose other addresses are: "of the pod's node".
	Own map[netip.Addr]string
	// Offloads are those that are off, by the interface of a place on the way.
	Offloads []Offloads
	Notes    []string
}

// Offloads are those of an interface that are off, and matter.
type Offloads struct {
	Place     string   `json:"place"` // pod's node, or gateway's node
	Interface string   `json:"interface"`
	Off       []string `json:"off"`
	Error     string   `json:"error,omitempty"` // why it is not known
}

// Report is what came of a run. Its JSON is for programs: fields stay, and new ones may come.
type Report struct {
	Summary string `json:"summary"`
	Pod     string `json:"pod"`
	Node    string `json:"node"`
	Gateway string `json:"gatewayNode"`
	Server  string `json:"server,omitempty"`
	// Expected are the addresses with one of which the pod is to leave, Seen those that the server saw.
	Expected []string `json:"expected"`
	Seen     []Seen   `json:"seen"`
	Leaks    int      `json:"leaks"` // connections with another address
	Stages   []Result `json:"stages"`
	Loses    string   `json:"loses,omitempty"` // the stage that fails, or keeps least
	Steps    []Step   `json:"steps"`
	Notes    []string `json:"notes"`
	Problems []string `json:"problems"`
}

// Seen is a source address.
type Seen struct {
	Address     string `json:"address"`
	Connections int    `json:"connections"`
	Leak        bool   `json:"leak"`
	Whose       string `json:"whose,omitempty"`
}

// Figure is a median over the rounds with its interval.
type Figure struct {
	Median     float64 `json:"median"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	N          int     `json:"n"`
	Confidence float64 `json:"confidence"`
}

// Result is what was found of a stage.
type Result struct {
	Name        string  `json:"name"`
	From        string  `json:"from"`
	To          string  `json:"to"`
	Address     string  `json:"address"`
	Throughput  *Figure `json:"gigabitsPerSecond,omitempty"`
	RTT         *Figure `json:"roundTripMicroseconds,omitempty"`
	Loss        *Figure `json:"lossShare,omitempty"`
	Retransmits *Figure `json:"retransmits,omitempty"`
	MSS         *Figure `json:"segmentBytes,omitempty"`
	Sent        uint64  `json:"datagramsSent"`
	Lost        uint64  `json:"datagramsLost"`
	// Ratio is its throughput by that of the slower one of Below, in the same rounds.
	Ratio  *Figure  `json:"ratio,omitempty"`
	Below  []string `json:"below,omitempty"`
	Errors []string `json:"errors,omitempty"`
	Failed string   `json:"failed,omitempty"` // why it fails
}

// Step is one of the troubleshooting order.
type Step struct {
	Topic string `json:"topic"`
	Text  string `json:"text"`
}

// lossMost is the share of datagrams beyond which a stage fails: TCP over it is slow at any distance.
const lossMost = 0.01

// Make is the report of a run.
func Make(facts Facts, figures []*Figures) Report {
	r := Report{
		Pod: facts.Pod, Node: facts.Node, Gateway: facts.Gateway, Server: facts.Server, Expected: []string{}, Seen: []Seen{}, Stages: []Result{},
		Notes: append([]string{}, facts.Notes...), Problems: []string{},
	}
	for _, a := range facts.Expected {
		r.Expected = append(r.Expected, a.String())
	}
	for _, f := range figures {
		r.Stages = append(r.Stages, resultOf(f, figures))
		if f.Stage.Name == Egress {
			r.sources(facts, f)
		}
	}
	r.conclude()
	r.Steps = r.steps(facts)
	return r
}

func resultOf(f *Figures, all []*Figures) Result {
	r := Result{
		Name: f.Stage.Name, From: f.Stage.From, To: f.Stage.To, Address: f.Stage.Addr.String(), Throughput: figure(stats.Median, f.Throughput), RTT: figure(stats.Median, f.RTT),
		Loss: figure(stats.Median, f.Loss), Retransmits: figure(stats.Median, f.Retransmits), MSS: figure(stats.Median, f.MSS),
		Sent: f.Sent, Lost: f.Sent - f.Received, Errors: f.Errors,
	}
	r.Ratio, r.Below = ratio(f, all)
	switch {
	case len(f.Errors) > 0:
		r.Failed = strings.Join(f.Errors, "; ")
	case r.Loss != nil && r.Loss.Median > lossMost:
		r.Failed = fmt.Sprintf("it loses %s of datagrams (%d of %d)", share(r.Loss.Median), r.Lost, r.Sent)
	}
	return r
}

// ratio is of a stage's throughput to that of the slower one of those below, in the rounds in which all were measured; nil without any.
func ratio(f *Figures, all []*Figures) (*Figure, []string) {
	var lower []*Figures
	var names []string
	for _, name := range below(f.Stage.Name) {
		if i := slices.IndexFunc(all, func(o *Figures) bool { return o.Stage.Name == name }); i >= 0 {
			lower, names = append(lower, all[i]), append(names, name)
		}
	}
	ratios := map[int]float64{}
	for round, rate := range f.Throughput {
		slowest := math.Inf(1)
		for _, o := range lower {
			slowest = min(slowest, o.Throughput[round]) // 0 where it was not measured
		}
		if len(lower) > 0 && slowest > 0 {
			ratios[round] = rate / slowest
		}
	}
	if len(ratios) == 0 {
		return nil, nil
	}
	return figure(stats.Center, ratios), names
}

// figure is nil without a value.
func figure(of func([]float64) stats.Interval, values map[int]float64) *Figure {
	if len(values) == 0 {
		return nil
	}
	var list []float64
	for _, round := range slices.Sorted(maps.Keys(values)) {
		list = append(list, values[round])
	}
	iv := of(list)
	return &Figure{iv.Median, iv.Lo, iv.Hi, iv.N, iv.Confidence}
}

// sources takes down the addresses that the server saw.
func (r *Report) sources(facts Facts, f *Figures) {
	list, count := f.addresses()
	for _, a := range list {
		s := Seen{Address: a.String(), Connections: count[a], Leak: !slices.Contains(facts.Expected, a), Whose: facts.Own[a]}
		if s.Leak {
			r.Leaks += s.Connections
		}
		r.Seen = append(r.Seen, s)
	}
}

// conclude has the finding: a leak first, then the first stage that fails, then the one that keeps least.
func (r *Report) conclude() {
	asked := 0
	var leaks []string
	for _, s := range r.Seen {
		asked += s.Connections
		if s.Leak {
			text := s.Address
			if s.Whose != "" {
				text += " " + s.Whose
			}
			leaks = append(leaks, text)
		}
	}
	if r.Leaks > 0 {
		r.Problems = append(r.Problems, fmt.Sprintf("a leak: %d of %d connections of pod %s left with %s, which no policy gives it (expected %s)",
			r.Leaks, asked, r.Pod, strings.Join(leaks, ", "), strings.Join(r.Expected, ", ")))
	}
	for _, s := range r.Stages {
		if s.Failed == "" {
			continue
		}
		text := fmt.Sprintf("stage %s (%s to %s, %s) fails: %s", s.Name, s.From, s.To, s.Address, s.Failed)
		if r.Loses == "" {
			r.Loses = s.Name
		} else if i := slices.IndexFunc(below(s.Name), func(name string) bool { return r.stage(name) != nil && r.stage(name).Failed != "" }); i >= 0 {
			text += fmt.Sprintf(" (as stage %s does, on which it depends)", below(s.Name)[i])
		}
		r.Problems = append(r.Problems, text)
	}
	if len(r.Problems) > 0 {
		r.Summary = r.Problems[0]
		return
	}
	r.Summary = r.healthy(asked)
}

func (r *Report) stage(name string) *Result {
	if i := slices.IndexFunc(r.Stages, func(s Result) bool { return s.Name == name }); i >= 0 {
		return &r.Stages[i]
	}
	return nil
}

// healthy is the finding where nothing fails.
func (r *Report) healthy(asked int) string {
	text := "no stage fails"
	if asked > 0 {
		text = fmt.Sprintf("no leak in %d connections, and no stage fails", asked)
	}
	least, few := (*Result)(nil), 0
	for i, s := range r.Stages {
		switch {
		case s.Ratio == nil:
		case s.Ratio.N < stats.LeastPairs:
			few = s.Ratio.N
		case s.Ratio.High < 1 && (least == nil || s.Ratio.Median < least.Ratio.Median):
			least = &r.Stages[i]
		}
	}
	switch {
	case least != nil:
		r.Loses = least.Name
		return fmt.Sprintf("%s; stage %s loses most: it keeps %s of %s", text, least.Name, least.Ratio.text(3), slower(least.Below))
	case few > 0:
		return fmt.Sprintf("%s; which one is slower takes at least %d rounds, and there were %d", text, stats.LeastPairs, few)
	}
	return text + ", and none is slower than what is below it"
}

// slower are the stages of a comparison in words.
func slower(list []string) string {
	if len(list) > 1 {
		return "the slower of " + strings.Join(list, " and ")
	}
	return strings.Join(list, "")
}
