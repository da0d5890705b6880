package chart

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Fact is one line of a list of definitions.
type Fact struct{ Name, Value string }

// When is the start of the run, in UTC.
func (v View) When() string {
	if v.Started.IsZero() {
		return "time not recorded"
	}
	return v.Started.UTC().Format("2 January 2006, 15:04 UTC")
}

// Where is the machine in a few words.
func (v View) Where() string {
	var words []string
	if v.Environment.Cores > 0 {
		words = append(words, result.Counted(v.Environment.Cores, "core"))
	}
	if v.Environment.Kernel != "" {
		words = append(words, "Linux "+v.Environment.Kernel)
	}
	return strings.Join(words, ", ")
}

// Took is the run's length.
func (v View) Took() string {
	seconds := int(v.Duration + 0.5)
	if seconds < 120 {
		return fmt.Sprintf("%d s", seconds)
	}
	return fmt.Sprintf("%d min %d s", seconds/60, seconds%60)
}

// Confidence says what the intervals are worth.
func (v View) Confidence() string {
	rounds := stats.Rounds(v.Result)
	if rounds == 0 {
		return "No round was completed."
	}
	if stats.Sliced(v.Result) {
		return Glue(fmt.Sprintf("The interval of a median is over the rounds (order statistics, %.4g %%). A ratio compares neighbouring slices: the middle half of a round's is averaged. Over rounds it is the Hodges–Lehmann estimate with an interval of signed ranks (%.2g %%, n = %d). Testbeds are rebuilt for each round, so the chance of one is not measured twice. ≈ marks no difference; “sees” is the smallest change that nine of ten runs like this one would find.",
			100*stats.Confidence(rounds), 100*stats.PairedConfidence, rounds))
	}
	how := "the range of the rounds"
	if stats.Confidence(rounds) >= stats.WantConfidence && rounds > 6 {
		how = "order statistics"
	}
	return Glue(fmt.Sprintf("Intervals are %s and contain the median with %.4g %% confidence at n = %d, whatever the distribution. Ratios are medians of same-round pairs. A ratio whose interval contains 1 is marked ≈: not distinguishable.",
		how, 100*stats.Confidence(rounds), rounds))
}

// Order is one round's targets as they ran.
type Order struct {
	Round int
	Names []string
}

// Order rebuilds from the samples in which order the targets ran. Of slices, in which all
// take turns, there is none to show.
func (v View) Order() []Order {
	if v.Sliced() {
		return nil
	}
	type first struct {
		name  string
		start float64
	}
	byRound := map[int][]first{}
	for _, s := range v.Samples {
		seen := byRound[s.Round]
		i := slices.IndexFunc(seen, func(f first) bool { return f.name == s.Target })
		if i < 0 {
			byRound[s.Round] = append(seen, first{s.Target, s.Start})
			continue
		}
		seen[i].start = min(seen[i].start, s.Start)
	}
	var out []Order
	for _, round := range slices.Sorted(maps.Keys(byRound)) {
		seen := byRound[round]
		slices.SortStableFunc(seen, func(a, b first) int { return cmp.Compare(a.start, b.start) })
		o := Order{Round: round}
		for _, f := range seen {
			o.Names = append(o.Names, f.name)
		}
		out = append(out, o)
	}
	return out
}

// Lengths is how long one sample of each case took.
func (v View) Lengths() string {
	byCase := map[string][]float64{}
	var cases []string
	for _, s := range v.Samples {
		if _, ok := byCase[s.Case]; !ok {
			cases = append(cases, s.Case)
		}
		byCase[s.Case] = append(byCase[s.Case], s.Duration)
	}
	for i, caseName := range cases {
		cases[i] = fmt.Sprintf("%s %.1f s", caseName, stats.Median(byCase[caseName]).Median)
	}
	return strings.ReplaceAll(strings.Join(cases, ", "), "-", "\u2011") // "rr-1024" stays on one line
}

// Settings are the run's parameters by name.
func (v View) Settings() []Setting {
	var list []Setting
	for _, name := range v.Parameters.Names() {
		p := v.Parameters[name]
		list = append(list, Setting{Name: name, Value: p.String(), Explanation: p.Explanation})
	}
	return list
}

// Setting is a parameter for people.
type Setting struct{ Name, Value, Explanation string }

// Shell is the command that ran.
func (v View) Shell() string { return strings.Join(v.Command, " ") }

// Machine is the environment as a list.
func (v View) Machine() []Fact {
	e := v.Environment
	list := []Fact{{"Kernel", e.Kernel}, {"CPU", e.CPU}, {"Cores", fmt.Sprint(e.Cores)}}
	if e.MemoryBytes > 0 {
		list = append(list, Fact{"Memory", fmt.Sprintf("%.1f GiB", float64(e.MemoryBytes)/(1<<30))})
	}
	for _, name := range slices.Sorted(maps.Keys(e.MTU)) {
		list = append(list, Fact{"MTU " + name, fmt.Sprint(e.MTU[name])})
	}
	list = append(list, facts(e.Versions)...)
	for _, p := range v.Places {
		list = append(list, Fact{p.Role, result.Hardware(v.Result, p)})
	}
	return slices.DeleteFunc(list, func(f Fact) bool { return f.Value == "" || f.Value == "0" })
}

// Sysctls are the environment's sysctls by name.
func (v View) Sysctls() []Fact { return facts(v.Environment.Sysctls) }

func facts(m map[string]string) []Fact {
	var list []Fact
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, Fact{name, m[name]})
	}
	return list
}

// Features is one interface's features, on and off.
type Features struct {
	Role    string
	On, Off []string
}

// Offloads lists ethtool's features by interface role.
func (v View) Offloads() []Features {
	var out []Features
	for _, role := range slices.Sorted(maps.Keys(v.Environment.Offloads)) {
		o := Features{Role: role}
		features := v.Environment.Offloads[role]
		for _, feature := range slices.Sorted(maps.Keys(features)) {
			if features[feature] {
				o.On = append(o.On, feature)
			} else {
				o.Off = append(o.Off, feature)
			}
		}
		out = append(out, o)
	}
	return out
}

// Line is one row of the summary table.
type Line struct {
	Target, Color        string
	Median, Interval     string
	N                    int
	Ratio, RatioInterval string
	Sees                 string // the smallest change that would be found
}

// Block is one metric of the summary table.
type Block struct {
	Title, Unit string
	Lines       []Line
}

// Line is a row as the table has it.
func (v View) Line(row result.Row) Line {
	l := Line{
		Target: row.Target, Color: v.Color(row.Target), Median: stats.In(row.Median, row.Unit),
		Interval: stats.In(row.Lo, row.Unit) + "–" + stats.In(row.Hi, row.Unit), N: row.N, Ratio: BareRatioLabel(row),
	}
	if row.Baseline == "" {
		return l
	}
	if row.Ratio > 0 {
		l.RatioInterval = fmt.Sprintf("%.2f–%.2f", row.RatioLo, row.RatioHi)
	}
	if row.SmallestEffect > 0 {
		l.Sees = stats.Share(row.SmallestEffect)
	}
	return l
}

// Errors are the samples that failed.
func (v View) Errors() []string { return stats.Errors(v.Result) }

// Raw is the result as a link that needs no network.
func (v View) Raw() (template.URL, error) {
	var b strings.Builder
	if err := result.Write(&b, v.Result); err != nil {
		return "", err
	}
	return template.URL("data:application/json;base64," + base64.StdEncoding.EncodeToString([]byte(b.String()))), nil
}

// Hundred turns a share into percent.
func (v View) Hundred(share float64) float64 { return 100 * share }
