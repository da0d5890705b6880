package why

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
)

// model is a run on a machine whose speed changes from round to round, and a little from slice to slice: what the path
// beside it gains, and what each flip does, in logarithms.
func model(rng *rand.Rand, rounds int, loss float64, flips ...float64) result.Result {
	r := result.Result{Schema: result.Schema, Experiment: Name, Targets: []result.Target{{Name: "overlay"}, {Name: "plain"}}, Parameters: result.Parameters{}}
	gains := map[string]float64{"overlay": 0, "plain": loss}
	for i, gain := range flips {
		name := "overlay-" + string(rune('1'+i))
		gains[name] = gain
		r.Targets = append(r.Targets, result.Target{Name: name})
		r.Causes = append(r.Causes, result.Cause{Setting: "offload", Object: "client:eth" + string(rune('0'+i)), Why: "it is off", Target: name, Against: "overlay", Commands: []string{"client: ethtool"}})
	}
	for round := range rounds {
		speed := math.Exp(0.2 * rng.NormFloat64())
		for _, target := range r.Targets {
			v := 5 * speed * math.Exp(gains[target.Name]+0.05*rng.NormFloat64())
			r.Samples = append(r.Samples, result.Sample{Target: target.Name, Case: caseTCP, Round: round + 1, Metrics: map[string]float64{measure.TCPThroughput: v}})
		}
	}
	return r
}

// The true share is within the interval nine times of ten at least, and what does nothing is proved in one run of twenty
// at most, of the same 5 % noise and five candidates.
func TestCoverage(t *testing.T) {
	const runs = 300
	rng := rand.New(rand.NewPCG(1, 2))
	within, proved, wrong := 0, 0, 0
	for range runs {
		r := model(rng, 8, 0.5, 0.35, 0, 0, 0, 0)
		assess(&r)
		if c := r.Causes[0]; c.Lo <= 0.7 && 0.7 <= c.Hi {
			within++
		}
		if r.Causes[0].Proved {
			proved++
		}
		for _, c := range r.Causes[1:] {
			if c.Proved {
				wrong++
				break
			}
		}
	}
	empty := 0
	for range runs { // a loss that no flip makes good
		r := model(rng, 8, 0.5, 0, 0, 0, 0, 0)
		assess(&r)
		for _, c := range r.Causes {
			if c.Proved {
				empty++
				break
			}
		}
	}
	if empty > runs*5/100 {
		t.Errorf("a false cause in %d of %d runs without one", empty, runs)
	}
	if within < runs*90/100 || proved < runs*95/100 || wrong > runs*5/100 {
		t.Errorf("of %d runs: the share is within the interval in %d, the cause is proved in %d, a false one in %d", runs, within, proved, wrong)
	}
}

func TestAssess(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for name, c := range map[string]struct {
		r        result.Result
		headline string
		proved   int
	}{
		"one cause":       {model(rng, 10, 0.6, 0.6, 0), "offload of client:eth0 explains ", 1},
		"none":            {model(rng, 10, 0.6, 0, 0), "No cause was proved for what overlay loses against plain in TCP throughput (0.5", 0},
		"no loss":         {model(rng, 10, 0, 0), "There is nothing to explain: ", 0},
		"both are slow":   {model(rng, 10, 0, 0.6), "offload of client:eth0 explains 100 % [100, 100] of what the flips gain", 1},
		"worse by a flip": {model(rng, 10, 0.6, -0.5), "No cause was proved", 0},
		"few rounds":      {model(rng, 7, 0.6, 0.6), "No verdict: 7 rounds are fewer", 0},
	} {
		t.Run(name, func(t *testing.T) {
			assess(&c.r)
			n := 0
			for _, cause := range c.r.Causes {
				if cause.Proved {
					n++
				}
			}
			if v := verdict(c.r); !strings.HasPrefix(v.Headline, c.headline) || n != c.proved {
				t.Errorf("%d proved: %s", n, v.Headline)
			}
		})
	}
}

// Without a path beside it shares are of what all flips gain together, the second on top of the first.
func TestOnTop(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	r := model(rng, 10, 0, 0.6)
	r.Targets = append([]result.Target{r.Targets[0]}, r.Targets[2:]...) // no plain path
	r.Causes = append(r.Causes, result.Cause{Setting: "qdisc", Object: "client:eth1", Target: "overlay-1-2", Against: "overlay-1"})
	r.Targets = append(r.Targets, result.Target{Name: "overlay-1-2"})
	for round := range 10 {
		v := 5 * math.Exp(0.6+0.05*rng.NormFloat64())
		for target, gain := range map[string]float64{"overlay-1": 0, "overlay-1-2": 0.2} {
			r.Samples = append(r.Samples, result.Sample{Target: target, Case: caseTCP, Round: 11 + round, Metrics: map[string]float64{measure.TCPThroughput: v * math.Exp(gain)}})
		}
	}
	assess(&r)
	for i, want := range []float64{0.75, 0.25} {
		if c := r.Causes[i]; !c.Proved || math.Abs(c.Share-want) > 0.1 {
			t.Errorf("%+v, want a share of %.2f", c, want)
		}
	}
	if v := verdict(r); !strings.HasSuffix(v.Headline, "of what the flips gain in TCP throughput.") {
		t.Error(v.Headline)
	}
}
