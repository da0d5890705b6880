package stats

import (
	"cmp"
	"slices"

	"github.com/selvage/selvage/lab/result"
)

// Cores returns how each core spent the samples of a target's case: the
// median over its good samples of each share by itself, by core number. So the
// shares of a core may add up to a little more or less than 1.
func Cores(r result.Result, target, caseName string) []result.CPUShare {
	samples := map[int][]result.CPUShare{}
	for _, s := range r.Samples {
		if s.Target != target || s.Case != caseName || s.Error != "" {
			continue
		}
		for _, c := range s.CPU {
			samples[c.Core] = append(samples[c.Core], c)
		}
	}
	var cores []result.CPUShare
	for core, shares := range samples {
		of := func(pick func(result.CPUShare) float64) float64 {
			xs := make([]float64, len(shares))
			for i, share := range shares {
				xs[i] = pick(share)
			}
			return Median(xs).Median
		}
		cores = append(cores, result.CPUShare{
			Core:    core,
			User:    of(func(c result.CPUShare) float64 { return c.User }),
			System:  of(func(c result.CPUShare) float64 { return c.System }),
			SoftIRQ: of(func(c result.CPUShare) float64 { return c.SoftIRQ }),
			Idle:    of(func(c result.CPUShare) float64 { return c.Idle }),
		})
	}
	slices.SortFunc(cores, func(a, b result.CPUShare) int { return cmp.Compare(a.Core, b.Core) })
	return cores
}
