package chart

import (
	"cmp"
	"slices"
)

// Track is one target's throughput over time.
type Track struct {
	Name   string
	Rounds [][]float64 // every good round
	Median []float64   // the round whose throughput is the median
	Step   float64     // seconds a value
}

// EndLabels names the lines at their right end.
func (v View) EndLabels(c *Canvas, tracks []Track, y func(float64) float64, x float64) {
	sorted := slices.Clone(tracks)
	last := func(t Track) float64 { return y(t.Median[len(t.Median)-1]) }
	slices.SortStableFunc(sorted, func(a, b Track) int { return cmp.Compare(last(a), last(b)) })
	wanted := make([]float64, len(sorted))
	for i, t := range sorted {
		wanted[i] = last(t)
	}
	for i, place := range Spread(wanted, 14, 10, c.Height-30) {
		c.Open(v.Color(sorted[i].Name), "")
		c.Text(x+8, place+4, "own", Brief(sorted[i].Name, 9))
		c.Close()
	}
}
