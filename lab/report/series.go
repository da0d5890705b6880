package report

import (
	"cmp"
	"slices"
)

// track is one target's throughput over time.
type track struct {
	name   string
	rounds [][]float64 // every good round
	median []float64   // the round whose throughput is the median
	step   float64     // seconds a value
}

// endLabels names the lines at their right end.
func (v view) endLabels(c *canvas, tracks []track, y func(float64) float64, x float64) {
	sorted := slices.Clone(tracks)
	last := func(t track) float64 { return y(t.median[len(t.median)-1]) }
	slices.SortStableFunc(sorted, func(a, b track) int { return cmp.Compare(last(a), last(b)) })
	wanted := make([]float64, len(sorted))
	for i, t := range sorted {
		wanted[i] = last(t)
	}
	for i, place := range spread(wanted, 14, 10, c.h-30) {
		c.open(v.Color(sorted[i].name), "")
		c.text(x+8, place+4, "own", brief(sorted[i].name, 9))
		c.close()
	}
}
