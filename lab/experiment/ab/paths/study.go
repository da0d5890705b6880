package paths

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// transfer is a path's line of the FortiGate study's table: what iperf3 prints at its end, over all
// slices of a direction, slow start and all.
type transfer struct {
	Path, Color, Direction string
	Interval               string // how many slices of which length
	Transfer               string // received, of all slices
	Sent, Received         string // Mbit/s, median
	Band                   string // of received
	Retransmits, RetrBand  string
}

// transfers are the lines of both directions.
func transfers(r result.Result) (lines []transfer) {
	for _, direction := range []struct{ caseName, words string }{{caseTCP, "client → server"}, {caseReverse, "server → client"}} {
		for _, name := range stats.Names(r) {
			samples := stats.Good(r, name, direction.caseName)
			if len(samples) == 0 {
				continue
			}
			sent, retransmits := stats.MetricOf(samples, measure.TCPSent), stats.MetricOf(samples, measure.Retransmits)
			var received []float64
			gigabytes := 0.0
			for _, s := range samples {
				gigabytes += s.Metrics[moved]
				received = append(received, 8*s.Metrics[moved]/max(s.Duration, 1e-3))
			}
			lines = append(lines, transfer{
				Path: name, Direction: direction.words,
				Interval: fmt.Sprintf("%d × %.2f s", len(samples), samples[0].Duration), Transfer: bytesOf(gigabytes),
				Sent: mbits(stats.Median(sent).Median), Received: mbits(stats.Median(received).Median), Band: band(received, mbits),
				Retransmits: counted(stats.Median(retransmits).Median), RetrBand: band(retransmits, counted),
			})
		}
	}
	return lines
}

// mbits writes Gbit/s in the study's unit.
func mbits(gbits float64) string { return stats.Figure(1000 * gbits) }

func counted(n float64) string { return stats.In(n, "count") }

func bytesOf(gigabytes float64) string {
	if gigabytes < 1 {
		return stats.Figure(1000*gigabytes) + " MB"
	}
	return stats.Figure(gigabytes) + " GB"
}

// band is from the least to the most.
func band(xs []float64, write func(float64) string) string {
	lo, hi := write(slices.Min(xs)), write(slices.Max(xs))
	if lo == hi {
		return lo
	}
	return lo + "–" + hi
}

// climb is the core of a place that rises most above what it did over the baseline.
type climb struct {
	Path, Color, Role, Place string
	Core                     int
	Busy, SoftIRQ            float64 // shares of its time
	Baseline                 float64 // busy over the baseline
}

// climbs are of each path besides the baseline, at each machine.
func climbs(r result.Result) (all []climb) {
	base := baseline(r)
	for _, name := range stats.Names(r) {
		if name == base {
			continue
		}
		for i, p := range r.Places {
			if sameMachine(r, i) != "" {
				continue
			}
			if c, ok := climbOf(coresOf(r, name, caseTCP, p.Role), coresOf(r, base, caseTCP, p.Role)); ok {
				c.Path, c.Role, c.Place = name, p.Role, p.Name
				all = append(all, c)
			}
		}
	}
	return all
}

func climbOf(cores, base []result.CPUShare) (found climb, ok bool) {
	most := 0.0
	for _, c := range cores {
		i := slices.IndexFunc(base, func(b result.CPUShare) bool { return b.Core == c.Core })
		if i < 0 {
			continue
		}
		if rise := busy(c) - busy(base[i]); !ok || rise > most {
			found, ok, most = climb{Core: c.Core, Busy: busy(c), SoftIRQ: c.SoftIRQ, Baseline: busy(base[i])}, true, rise
		}
	}
	return found, ok
}

func busy(c result.CPUShare) float64 { return c.User + c.System + c.SoftIRQ }

// sameMachine is the role of the first place of a place's machine, "" when that is itself.
func sameMachine(r result.Result, i int) string {
	if r.Places[i].Machine == "" {
		return ""
	}
	first := slices.IndexFunc(r.Places, func(p result.Place) bool { return p.Machine == r.Places[i].Machine })
	if first == i {
		return ""
	}
	return r.Places[first].Role
}

// coresOf are the medians of a place's cores over a path's samples of a case.
func coresOf(r result.Result, path, caseName, role string) []result.CPUShare {
	of := r
	of.Samples = nil
	for _, s := range stats.Good(r, path, caseName) {
		for _, u := range s.Uses {
			if u.Role == role {
				of.Samples = append(of.Samples, result.Sample{Target: path, Case: caseName, Round: s.Round, CPU: u.CPU})
			}
		}
	}
	return stats.Cores(of, path, caseName)
}

// lost are the drops of a path's samples of all cases at a place, those of one counter together, the most first.
func lost(r result.Result, path, role string) (all []result.Drop) {
	for _, s := range r.Samples {
		if s.Target != path {
			continue
		}
		for _, u := range s.Uses {
			if u.Role != role {
				continue
			}
			for _, d := range u.Drops {
				i := slices.IndexFunc(all, func(o result.Drop) bool { return o.Stage == d.Stage && o.Where == d.Where && o.Counter == d.Counter })
				if i < 0 {
					all = append(all, d)
					continue
				}
				all[i].Packets += d.Packets
			}
		}
	}
	for _, p := range r.Profiles {
		if p.Target == path && p.Role == role {
			all = append(all, p.Drops...)
		}
	}
	slices.SortStableFunc(all, func(a, b result.Drop) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Where, b.Where), cmp.Compare(a.Counter, b.Counter))
	})
	return all
}

// studyText is the study's table for a terminal, and the core that climbs.
func studyText(b *strings.Builder, r result.Result) {
	lines := transfers(r)
	if len(lines) == 0 {
		return
	}
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "PATH\tDIRECTION\tINTERVAL\tTRANSFER\tSENT / RECEIVED, Mbit/s\tBAND\tRETRANSMITS\tBAND\n")
	for _, l := range lines {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s / %s\t%s\t%s\t%s\n", l.Path, l.Direction, l.Interval, l.Transfer, l.Sent, l.Received, l.Band, l.Retransmits, l.RetrBand)
	}
	w.Flush()
	for _, c := range climbs(r) {
		fmt.Fprintf(b, "%s: core %d of %s (%s) is %.0f %% busy, %.0f %% in softirq, against %.0f %% over %s\n",
			c.Path, c.Core, c.Role, c.Place, 100*c.Busy, 100*c.SoftIRQ, 100*c.Baseline, baseline(r))
	}
	b.WriteByte('\n')
}
