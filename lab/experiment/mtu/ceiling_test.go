package mtu

import (
	"math"
	"strings"
	"testing"
)

// sweep is the points of a path on which a segment takes packetNS + size × byteNS with
// one flow and flows share that as growth says, in three rounds that wobble.
func sweep(packetNS, byteNS float64, growth map[int]float64, mss func(asked float64) float64) []Point {
	var points []Point
	for round := 1; round <= 3; round++ {
		for flows, factor := range growth {
			for _, asked := range []float64{536, 1448, 8898} {
				size := mss(asked)
				points = append(points, Point{
					Round: round, Asked: asked, MSS: size, Flows: flows, Busy: 0.6,
					Gbits: size * 8 / (packetNS + size*byteNS) * factor * (1 + 0.01*float64(round)),
				})
			}
		}
	}
	return points
}

func TestClassify(t *testing.T) {
	asAsked := func(asked float64) float64 { return asked }
	flat, growing := map[int]float64{1: 1, 2: 1.02, 4: 1.03}, map[int]float64{1: 1, 2: 1.9, 4: 3.5}
	for name, c := range map[string]struct {
		points  []Point
		kind    Kind
		perFlow bool
		refused string
	}{
		"per packet":      {sweep(3000, 0.01, flat, asAsked), PerPacket, false, ""},
		"per byte":        {sweep(10, 0.5, flat, asAsked), PerByte, false, ""},
		"both":            {sweep(1000, 0.5, flat, asAsked), Mixed, false, ""},
		"per flow too":    {sweep(3000, 0.01, growing, asAsked), PerPacket, true, ""},
		"one flow only":   {sweep(10, 0.5, map[int]float64{1: 1}, asAsked), PerByte, false, ""},
		"jumbo not used":  {sweep(3000, 0.01, growing, func(asked float64) float64 { return min(asked, 1448) }), "", false, "the MSS in use was 1,448 bytes where 8,898 were requested"},
		"MSS as before":   {sweep(3000, 0.01, growing, func(float64) float64 { return 1448 }), "", false, "the MSS in use was 1,448 bytes"},
		"sizes too close": {[]Point{{1, 1448, 1398, 1, 3, 0.5}, {1, 1460, 1460, 1, 3, 0.5}}, "", false, "did not change (1,398 to 1,460 bytes)"},
		"one round":       {sweep(3000, 0.01, growing, asAsked)[:9], "", false, "1 round cannot tell"},
		"nothing":         {nil, "", false, "no transfer of one flow"},
		"many flows only": {[]Point{{1, 536, 536, 4, 3, 0.5}}, "", false, "no transfer of one flow"},
		"noise":           {[]Point{{1, 536, 536, 1, 1, 0}, {1, 8898, 8898, 1, 9, 0}, {2, 536, 536, 1, 1, 0}, {2, 8898, 8898, 1, 1, 0}, {3, 536, 536, 1, 1, 0}, {3, 8898, 8898, 1, 3, 0}}, "", false, "the rounds disagree"},
	} {
		got := Classify(c.points)
		if got.Kind != c.kind || got.PerFlow != c.perFlow || (got.Refused == "") != (c.refused == "") || !strings.Contains(got.Refused, c.refused) {
			t.Errorf("%s: %+v, want %q, per flow %v, refused %q", name, got, c.kind, c.perFlow, c.refused)
		}
	}
}

// The line through the medians gives back what the points were made of.
func TestSegmentTime(t *testing.T) {
	c := Classify(sweep(3000, 0.5, map[int]float64{1: 1, 4: 2}, func(asked float64) float64 { return asked }))
	if math.Abs(c.PacketNS-3000/1.02) > 1 || math.Abs(c.KilobyteNS-500/1.02) > 1 || math.Abs(c.Growth.Median-2) > 1e-9 || c.Flows != 4 || math.Abs(c.Busy-0.6) > 1e-9 {
		t.Errorf("%+v", c)
	}
	if got := (Ceiling{Kind: PerPacket, PerFlow: true}).Words(); got != "per packet, and per flow" {
		t.Error(got)
	}
}
