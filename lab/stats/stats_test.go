package stats

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []float64
		want Interval
	}{
		{"none", nil, Interval{}},
		{"one", []float64{7}, Interval{7, 7, 7, 1, 0}},
		{"three", []float64{3, 1, 2}, Interval{2, 1, 3, 3, 0.75}},
		{"five is min to max", []float64{5, 3, 1, 4, 2}, Interval{3, 1, 5, 5, 0.9375}},
		{"six reaches 95 %", []float64{1, 2, 3, 4, 5, 6}, Interval{3.5, 1, 6, 6, 0.96875}},
		// 1 - 2·(1+9)/2⁹ = 0.9609: the second smallest and largest.
		{"nine drops the extremes", []float64{1, 2, 3, 4, 5, 6, 7, 8, 9}, Interval{5, 2, 8, 9, 1 - 20.0/512}},
		{"not finite", []float64{math.NaN(), 2, math.Inf(1)}, Interval{2, 2, 2, 1, 0}},
	} {
		got := Median(c.in)
		if math.Abs(got.Confidence-c.want.Confidence) > 1e-12 {
			t.Errorf("%s: confidence %v, want %v", c.name, got.Confidence, c.want.Confidence)
		}
		got.Confidence = c.want.Confidence
		if got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
	if in := []float64{3, 1, 2}; Median(in).N != 3 || in[0] != 3 {
		t.Error("Median sorts the caller's slice")
	}
}

// TestConfidence counts, for every small n, all 2ⁿ ways in which samples fall
// below or above the true median.
func TestConfidence(t *testing.T) {
	for n := 1; n <= 14; n++ {
		k, conf := rank(n)
		hit := 0
		for mask := range 1 << n {
			below := 0
			for i := range n {
				below += mask >> i & 1
			}
			if below >= k && n-below >= k {
				hit++
			}
		}
		if want := float64(hit) / float64(int(1)<<n); math.Abs(want-conf) > 1e-12 {
			t.Errorf("n = %d, k = %d: confidence %v, counted %v", n, k, conf, want)
		}
	}
	if Confidence(0) != 0 || Confidence(5) != 0.9375 {
		t.Error("Confidence")
	}
}

func TestSpread(t *testing.T) {
	if got := Spread([]float64{10, 10, 10, 10, 99}); got != 0 {
		t.Errorf("one outlier of five: %v", got)
	}
	if got := Spread([]float64{9, 10, 11}); math.Abs(got-0.14826) > 1e-9 {
		t.Errorf("got %v", got)
	}
	if Spread(nil) != 0 || Spread([]float64{0, 0, 4}) != 0 {
		t.Error("no values or zero median")
	}
}

func TestBalanced(t *testing.T) {
	if got := Balanced([]string{"A", "B", "C", "D"}, 4); len(got) != 4 ||
		got[0][0]+got[0][1]+got[0][2]+got[0][3] != "ABDC" || got[1][0]+got[1][1]+got[1][2]+got[1][3] != "CDBA" {
		t.Errorf("first pair: %v", got[:2])
	}
	for n := 1; n <= 7; n++ {
		names := []string{"a", "b", "c", "d", "e", "f", "g"}[:n]
		rounds := n
		if n%2 == 1 {
			rounds = 2 * n
		}
		position := map[string]map[int]int{}
		follows := map[string]int{}
		for _, order := range Balanced(names, rounds) {
			for i, name := range order {
				if position[name] == nil {
					position[name] = map[int]int{}
				}
				position[name][i]++
				if i > 0 {
					follows[order[i-1]+name]++
				}
			}
		}
		for _, a := range names {
			for i := range n {
				if position[a][i] != rounds/n {
					t.Errorf("n = %d: %s is %d times at %d", n, a, position[a][i], i)
				}
			}
			for _, b := range names {
				if a != b && follows[a+b] != rounds/n {
					t.Errorf("n = %d: %s follows %s %d times", n, b, a, follows[a+b])
				}
			}
		}
	}
	if Balanced([]string(nil), 3) != nil || Balanced([]string{"a"}, 0) != nil {
		t.Error("nothing to order")
	}
}

// TestHeaderTax uses the figures of the FortiGate study: per gigabit 941 Mbit/s plain and
// 909 through VXLAN at a 1500-byte underlay with TCP timestamps.
func TestHeaderTax(t *testing.T) {
	plain := Path{MTU: 1500, Timestamps: true}
	vxlan := Path{MTU: 1450, Timestamps: true, Outer: 50}
	if plain.MSS() != 1448 || vxlan.MSS() != 1398 {
		t.Errorf("MSS %d and %d", plain.MSS(), vxlan.MSS())
	}
	if p, v := math.Round(1000*plain.Share()), math.Round(1000*vxlan.Share()); p != 941 || v != 909 {
		t.Errorf("per gigabit: %v plain, %v VXLAN", p, v)
	}
	if tax := HeaderTax(plain, vxlan); math.Abs(tax-0.0345) > 5e-5 {
		t.Errorf("tax %v", tax)
	}
	jumbo := HeaderTax(Path{MTU: 9000, Timestamps: true}, Path{MTU: 8950, Timestamps: true, Outer: 50})
	if math.Abs(jumbo-0.0056) > 5e-5 {
		t.Errorf("jumbo tax %v", jumbo)
	}
	v6 := HeaderTax(plain, Path{MTU: 1430, Timestamps: true, Outer: 70})
	if v6 <= HeaderTax(plain, vxlan) {
		t.Errorf("an IPv6 underlay must cost more: %v", v6)
	}
	if inner6 := (Path{MTU: 1500, IPv6: true, Timestamps: true}); inner6.MSS() != 1428 {
		t.Errorf("IPv6 MSS %d", inner6.MSS())
	}
	if HeaderTax(Path{MTU: 40}, vxlan) != 0 || (Path{MTU: 40}).Share() != 0 {
		t.Error("nothing fits")
	}
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 4: "4.00", 33: "33.0", 0.4123: "0.412", 1.019: "1.02", 18.75: "18.8", 99.97: "100", 233.4: "233", 9.996: "10.0",
		1024: "1,024", 1234567.8: "1,234,568", -1234: "-1,234",
	} {
		if got := Figure(v); got != want {
			t.Errorf("Figure(%v) = %q, want %q", v, got, want)
		}
	}
	if In(4, "count") != "4" || In(1024, "count") != "1,024" || In(4, "µs") != "4.00" {
		t.Error("In")
	}
	if Ratio(0) != "–" || Ratio(1.016) != "1.02 ×" || Ratio(11.44) != "11.4 ×" || Ratio(1234) != "1,234 ×" {
		t.Error("Ratio")
	}
	if Percent(-0.0345) != "−3.5 %" || Percent(0.02) != "+2.0 %" || Percent(-0.0001) != "0.0 %" {
		t.Error("Percent")
	}
}
