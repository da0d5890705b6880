package mtu

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// Kind is what a ceiling counts.
type Kind string

// The kinds: with PerPacket as many packets a second pass whatever their size, with
// PerByte as many bits; Mixed lies between.
const (
	PerPacket Kind = "per packet"
	PerByte   Kind = "per byte"
	Mixed     Kind = "per packet and per byte"
)

// Limits of the classification.
const (
	packetLike = 0.6  // elasticity from which a ceiling is one per packet
	byteLike   = 0.4  // and up to which one per byte
	flowLike   = 1.25 // growth of the sum with flows from which a ceiling is one per flow
	sizesApart = 1.5  // least ratio of the largest to the smallest segment
	reached    = 0.95 // of the largest size that was asked for
	vague      = 0.5  // widest interval of an elasticity that says anything
)

// Point is one transfer of a sweep over sizes and flows.
type Point struct {
	Round int
	Asked float64 // payload of a segment, bytes
	MSS   float64 // that TCP used
	Flows int
	Gbits float64 // sum of the flows
	Busy  float64 // share of all cores' time, 0 … 1
}

// Ceiling is what limits the rate of a data path.
type Ceiling struct {
	// Refused says why nothing follows from the sweep, "" when something does.
	Refused string
	Kind    Kind
	// Elasticity of the rate over the segment size with one flow, from rounds: 1 when
	// packets a second are constant, 0 when bits a second are.
	Elasticity stats.Interval
	// PerFlow says that the sum grows with flows; Growth is by how much, from one to
	// Flows at the largest size.
	PerFlow bool
	Growth  stats.Interval
	Flows   int
	// Least and Most are the segments that were used, in bytes.
	Least, Most float64
	// PacketNS and KilobyteNS split the time of a segment, from a line through the
	// medians: time = PacketNS + bytes/1000 × KilobyteNS.
	PacketNS, KilobyteNS float64
	// Busy is the share of all cores' time that one flow of the largest size took: near
	// 1 more flows could not have brought more.
	Busy float64
}

// Ceilings classifies the sweep of each target of r, in its order. Targets
// without one are left out.
func Ceilings(r result.Result) map[string]Ceiling {
	points := map[string][]Point{}
	for _, s := range r.Samples {
		asked, flows, ok := Swept(s.Case)
		if !ok || s.Error != "" {
			continue
		}
		p := Point{Round: s.Round, Asked: float64(asked), MSS: s.Metrics[measure.MSS], Flows: flows, Gbits: s.Metrics[stats.Decisive]}
		for _, core := range s.CPU {
			p.Busy += (core.User + core.System + core.SoftIRQ) / float64(len(s.CPU))
		}
		points[s.Target] = append(points[s.Target], p)
	}
	ceilings := map[string]Ceiling{}
	for name, swept := range points {
		ceilings[name] = Classify(swept)
	}
	return ceilings
}

// Classify says from a sweep what the ceiling counts. It refuses when segments on the
// wire did not grow as asked, and when rounds are few or disagree.
func Classify(points []Point) Ceiling {
	single := slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return p.Flows != 1 || p.Gbits <= 0 || p.MSS <= 0 })
	if len(single) == 0 {
		return Ceiling{Refused: "no transfer of one flow was measured"}
	}
	bySize := func(a, b Point) int { return cmp.Compare(a.MSS, b.MSS) }
	small, large := slices.MinFunc(single, bySize), slices.MaxFunc(single, bySize)
	c := Ceiling{Least: small.MSS, Most: large.MSS}
	most := slices.MaxFunc(single, func(a, b Point) int { return cmp.Compare(a.Asked, b.Asked) })
	switch {
	case most.MSS < reached*most.Asked:
		c.Refused = fmt.Sprintf("the MSS in use was %s bytes where %s were requested: larger packets were never sent, so their rate says nothing",
			stats.Figure(most.MSS), stats.Figure(most.Asked))
		return c
	case large.MSS < sizesApart*small.MSS:
		c.Refused = fmt.Sprintf("the MSS in use did not change (%s to %s bytes), so packets and bytes cannot be told apart",
			stats.Figure(small.MSS), stats.Figure(large.MSS))
		return c
	}
	c.grow(points, small.Asked, large.Asked)
	c.PacketNS, c.KilobyteNS = line(single)
	switch width := c.Elasticity.Hi - c.Elasticity.Lo; {
	case c.Elasticity.N < stats.MinRounds:
		c.Refused = fmt.Sprintf("%s cannot tell a ceiling from noise: at least %d are needed", result.Counted(c.Elasticity.N, "round"), stats.MinRounds)
	case width > vague:
		c.Refused = fmt.Sprintf("the rounds disagree (elasticity %.2f to %.2f, where 1 is per packet and 0 per byte)", c.Elasticity.Lo, c.Elasticity.Hi)
	case c.Elasticity.Median >= packetLike:
		c.Kind = PerPacket
	case c.Elasticity.Median <= byteLike:
		c.Kind = PerByte
	default:
		c.Kind = Mixed
	}
	c.PerFlow = c.Refused == "" && c.Growth.N >= stats.MinRounds && c.Growth.Lo > 1 && c.Growth.Median >= flowLike
	return c
}

// grow fills in how the rate grows from the small to the large size and from one
// flow to the most, from pairs of the same round.
func (c *Ceiling) grow(points []Point, small, large float64) {
	at := map[Point]Point{} // by round, size asked for and flows
	rounds, busy := map[int]bool{}, []float64{}
	for _, p := range points {
		at[Point{Round: p.Round, Asked: p.Asked, Flows: p.Flows}] = p
		rounds[p.Round] = true
		c.Flows = max(c.Flows, p.Flows)
		if p.Flows == 1 && p.Asked == large {
			busy = append(busy, p.Busy)
		}
	}
	var elasticities, growths []float64
	for round := range rounds {
		a, b := at[Point{Round: round, Asked: small, Flows: 1}], at[Point{Round: round, Asked: large, Flows: 1}]
		many := at[Point{Round: round, Asked: large, Flows: c.Flows}]
		if a.Gbits > 0 && b.Gbits > 0 && a.MSS != b.MSS {
			elasticities = append(elasticities, math.Log(b.Gbits/a.Gbits)/math.Log(b.MSS/a.MSS))
		}
		if b.Gbits > 0 && many.Gbits > 0 && c.Flows > 1 {
			growths = append(growths, many.Gbits/b.Gbits)
		}
	}
	c.Elasticity, c.Growth = stats.Median(elasticities), stats.Median(growths)
	c.Busy = stats.Median(busy).Median
}

// line fits the time of a segment over its size by least squares of the medians,
// in ns and ns a kilobyte; a part that comes out negative is none.
func line(points []Point) (packetNS, kilobyteNS float64) {
	bySize := map[float64][]float64{}
	for _, p := range points {
		bySize[p.MSS] = append(bySize[p.MSS], p.MSS*8/p.Gbits) // ns
	}
	var n, sx, sy, sxx, sxy float64
	for size, times := range bySize {
		x, y := size/1000, stats.Median(times).Median
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if n < 2 {
		return 0, 0
	}
	slope := (n*sxy - sx*sy) / (n*sxx - sx*sx)
	return max(0, (sy-slope*sx)/n), max(0, slope)
}

// Words says what c is, for a sentence that begins with the data path.
func (c Ceiling) Words() string {
	if c.Refused != "" {
		return "no conclusion: " + c.Refused
	}
	words := string(c.Kind)
	if c.PerFlow {
		words += ", and per flow"
	}
	return words
}
