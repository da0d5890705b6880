package rfc2544

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/sizing"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

// measured is the rate per core at one frame size.
type measured struct {
	size int
	mpps float64
}

// From reads the cost of a target of an rfc2544 result for a frame size. Between two
// sizes the time per packet is interpolated; beyond the largest the largest one's rate is
// taken, which is then said, and below the smallest that is an error. Where there are
// several directions, the slowest counts; frames of the direction both cross the host
// twice.
func From(r result.Result, target string, frame int) (sizing.Cost, error) {
	if r.Experiment != Name {
		return sizing.Cost{}, fmt.Errorf("the result is of experiment %q: want one of selvage lab %s", r.Experiment, Name)
	}
	rows := summarise(r)
	byDirection := map[string][]measured{}
	for _, t := range Transits(r) {
		if t.Size == 0 || t.Flows > 0 || t.Pairs > 1 {
			continue
		}
		row, ok := stats.Find(rows, target, t.Case(), transit.MppsPerCore)
		if !ok || row.Median <= 0 {
			continue
		}
		mpps := row.Median
		if t.Direction == transit.Both {
			mpps *= 2
		}
		byDirection[t.Direction] = append(byDirection[t.Direction], measured{t.Size, mpps})
	}
	if len(byDirection) == 0 {
		return sizing.Cost{}, fmt.Errorf("the result has no %s of %q (it has %s): measure it with selvage lab %s, or give --mpps-per-core",
			transit.MppsPerCore, target, strings.Join(stats.Names(r), ", "), Name)
	}
	var cost sizing.Cost
	for _, direction := range []string{transit.Encap, transit.Decap, transit.Both} {
		points := byDirection[direction]
		if len(points) == 0 {
			continue
		}
		mpps, how, err := interpolate(points, frame)
		if err != nil {
			return sizing.Cost{}, fmt.Errorf("%s: %w", direction, err)
		}
		if cost.MppsPerCore == 0 || mpps < cost.MppsPerCore {
			cost = sizing.Cost{MppsPerCore: mpps, Source: fmt.Sprintf("measured: %s of %s, %s, run of %s%s", direction, target, how, r.Started.UTC().Format("2006-01-02"), shared(r))}
		}
	}
	return cost, nil
}

// shared says that a rate holds more than the datapath's work.
func shared(r result.Result) string {
	if SharedCore(r) {
		return ", with generator and sink on the same core, so the data path alone needs less"
	}
	return ""
}

// interpolate is the rate at a frame size from the sizes around it.
func interpolate(points []measured, frame int) (mpps float64, how string, err error) {
	slices.SortFunc(points, func(a, b measured) int { return a.size - b.size })
	first, last := points[0], points[len(points)-1]
	switch {
	case frame < first.size:
		return 0, "", fmt.Errorf("the smallest frame that was measured has %d bytes: %d cannot be told from it", first.size, frame)
	case frame > last.size:
		return last.mpps, fmt.Sprintf("at %d bytes, the largest size", last.size), nil
	}
	i, exact := slices.BinarySearchFunc(points, frame, func(m measured, frame int) int { return m.size - frame })
	if exact {
		return points[i].mpps, fmt.Sprintf("at %d bytes", frame), nil
	}
	a, b := points[i-1], points[i]
	at := float64(frame-a.size) / float64(b.size-a.size)
	time := (1-at)/a.mpps + at/b.mpps
	return 1 / time, fmt.Sprintf("between %d and %d bytes", a.size, b.size), nil
}
