package cache

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

// Name is the name of the experiment on the flow cache.
const Name = "cache"

// Its targets; without the cache is the baseline.
const (
	CacheOn  = "cache-on"
	CacheOff = "cache-off"
)

// Metrics of the cache experiment besides NSPerPacket and DeviceNS. ShareSaved is on rows of
// CacheOn alone; Summarise computes it from both (see Saved).
const (
	ShareSaved = "share_saved"
	HitRate    = "hit_rate"
)

// Load is what a case of the cache experiment has: flows, and routes behind the cache.
type Load struct{ Flows, Routes int }

// Cached reads a case of the cache experiment: "flows-N", with routes behind the cache
// "flows-N-routes-M".
func Cached(caseName string) (Load, bool) {
	parts := strings.Split(caseName, "-")
	if len(parts) != 2 && (len(parts) != 4 || parts[2] != "routes") || parts[0] != "flows" {
		return Load{}, false
	}
	flows, err := strconv.Atoi(parts[1])
	if err != nil || flows < 1 {
		return Load{}, false
	}
	l := Load{Flows: flows}
	if len(parts) == 4 {
		if l.Routes, err = strconv.Atoi(parts[3]); err != nil || l.Routes < 0 {
			return Load{}, false
		}
	}
	return l, true
}

// Case is the name of l's samples.
func (l Load) Case() string {
	name := "flows-" + strconv.Itoa(l.Flows)
	if l.Routes > 0 {
		name += "-routes-" + strconv.Itoa(l.Routes)
	}
	return name
}

// Loads are the cases of r by routes and then by flows.
func Loads(r result.Result) []Load {
	var all []Load
	for _, caseName := range stats.Cases(r) {
		if l, ok := Cached(caseName); ok && !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b Load) int {
		return cmp.Or(cmp.Compare(a.Routes, b.Routes), cmp.Compare(a.Flows, b.Flows))
	})
	return all
}

// cacheMetrics are the figures of every case.
func cacheMetrics(r result.Result) []stats.Metric {
	var metrics []stats.Metric
	for _, m := range figures() {
		for _, l := range Loads(r) {
			m.Case = l.Case()
			metrics = append(metrics, m)
		}
	}
	return metrics
}

// figures are those of a case, without its name.
func figures() []stats.Metric {
	return []stats.Metric{
		{Case: "", Name: transit.NSPerPacket, Unit: "ns", Title: "Time of a core per packet", Higher: false},
		{Case: "", Name: transit.DeviceNS, Unit: "ns", Title: "The device's time per packet", Higher: false},
		{Case: "", Name: HitRate, Unit: "share", Title: "Packets that the cache answered", Higher: true},
	}
}

// Saved is what the cache saves in a case, from rounds that have both: 1 - on/off of the
// device's time, or of the whole time where the former was not measured.
func Saved(r result.Result, caseName string) stats.Interval {
	for _, metric := range []string{transit.DeviceNS, transit.NSPerPacket} {
		on, off := stats.Values(r, CacheOn, caseName, metric), stats.Values(r, CacheOff, caseName, metric)
		var saved []float64
		for _, round := range stats.SortedRounds(on) {
			if off[round] > 0 {
				saved = append(saved, 1-on[round]/off[round])
			}
		}
		if len(saved) > 0 {
			return stats.Median(saved)
		}
	}
	return stats.Interval{}
}

// savedRows are the rows of ShareSaved.
func savedRows(r result.Result) []result.Row {
	var rows []result.Row
	for _, l := range Loads(r) {
		iv := Saved(r, l.Case())
		if iv.N == 0 {
			continue
		}
		rows = append(rows, result.Row{
			Target: CacheOn, Case: l.Case(), Metric: ShareSaved, Unit: "share", Median: iv.Median, Lo: iv.Lo, Hi: iv.Hi, N: iv.N,
			Baseline: CacheOff, Distinguishable: stats.Excludes(iv, 0),
		})
	}
	return rows
}

// summarise are the summary of r: what the cache saves last.
func summarise(r result.Result) []result.Row {
	return append(stats.Summarise(r, CacheOff, cacheMetrics(r)), savedRows(r)...)
}
