package attack

import (
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// assaults is a run of two rounds: selvage holds, kernel loses packets in one round, ovs cannot be
// attacked.
func assaults() result.Result {
	r := result.Result{Experiment: Name, Parameters: result.Parameters{"ageing": result.Time(5 * time.Second), whyNotParameter("ovs", "nat-exhaustion"): result.Words("it has no NAT")}}
	for _, name := range []string{"kernel", "ovs", "selvage"} {
		r.Targets = append(r.Targets, result.Target{Name: name})
		for round := 1; round <= 2; round++ {
			m := map[string]float64{Crossed: 0, Sent: 1000, KeptTCP + "_same": 0.99, KeptTCP + "_other": 1, KeptRR + "_same": 1.01, KeptConnections + "_other": 1, LostConnections: 0, Recovered: 0.1}
			switch {
			case name == "kernel" && round == 2:
				m[Crossed], m[Recovered], m[KeptTCP+"_same"], m[LostConnections] = 7, 4, 0.5, 2
			case name == "ovs":
				m = map[string]float64{NotApplicable: 1}
			}
			r.Samples = append(r.Samples, result.Sample{Target: name, Case: "nat-exhaustion", Round: round, Metrics: m})
		}
	}
	return r
}

func TestAttackRows(t *testing.T) {
	r := assaults()
	rows := summarise(r)
	for _, want := range []result.Row{
		{Target: "kernel", Metric: Crossed, Unit: "packets", Median: 7, Lo: 0, Hi: 7, N: 2},
		{Target: "kernel", Metric: Recovered, Unit: "s", Median: 4, Lo: 0.1, Hi: 4, N: 2},
		{Target: "kernel", Metric: LostConnections, Unit: "count", Median: 2, Lo: 0, Hi: 2, N: 2},
		{Target: "kernel", Metric: KeptTCP, Unit: "×", Median: 0.745, Lo: 0.5, Hi: 0.99, N: 2},
		{Target: "selvage", Metric: KeptTCP + "_other", Unit: "×", Median: 1, Lo: 1, Hi: 1, N: 2},
		{Target: "ovs", Metric: NotApplicable, Unit: "count", Median: 1, Lo: 1, Hi: 1, N: 2},
	} {
		want.Case = "nat-exhaustion"
		if got, _ := stats.Find(rows, want.Target, want.Case, want.Metric); got != want {
			t.Errorf("%s of %s: %+v, want %+v", want.Metric, want.Target, got, want)
		}
	}
	if _, ok := stats.Find(rows, "ovs", "nat-exhaustion", Crossed); ok {
		t.Error("ovs was not attacked, and has a figure")
	}
}

func TestLosses(t *testing.T) {
	r := assaults()
	var lost []string
	for _, loss := range Losses(r, "kernel", "nat-exhaustion") {
		lost = append(lost, loss.Metric)
	}
	if len(lost) != 3 || lost[0] != Crossed || lost[1] != KeptTCP || lost[2] != LostConnections {
		t.Errorf("the kernel lost %q", lost)
	}
	if lost := Losses(r, "selvage", "nat-exhaustion"); len(lost) != 0 {
		t.Errorf("selvage lost %+v", lost)
	}
	if why := WhyNot(r, "ovs", "nat-exhaustion"); why != "it has no NAT" {
		t.Error(why)
	}
	if why := refuse(r, "ovs", "nat-exhaustion"); why != "" {
		t.Error(why)
	}
	r.Parameters["recovery"] = result.Time(100 * time.Millisecond)
	if lost := Losses(r, "selvage", "nat-exhaustion"); len(lost) != 1 || lost[0].Metric != Recovered {
		t.Errorf("what was not waited for is lost: %+v", lost)
	}
	r.Samples[0].Error = "no route"
	if why := refuse(r, "kernel", "nat-exhaustion"); why == "" {
		t.Error("a verdict stands on a sample that failed")
	}
}

// A figure beyond its limit that unattacked pairs have too is no loss, but unclear.
func TestUnclearLosses(t *testing.T) {
	r := assaults()
	for i := range r.Samples {
		if r.Samples[i].Target == "selvage" {
			r.Samples[i].Metrics[KeptTCP+"_other"], r.Samples[i].Metrics[KeptRR+"_same"] = 0.9, 1.3
		}
	}
	names := func(losses []Loss) (names []string) {
		for _, l := range losses {
			names = append(names, l.Metric)
		}
		return names
	}
	if lost := names(Losses(r, "selvage", "nat-exhaustion")); !slices.Equal(lost, []string{KeptTCP, KeptRR}) {
		t.Errorf("without controls %q are lost", lost)
	}
	for i := range 100 { // beyond the two of one in fifty is another 0.8, and 1.2
		m := map[string]float64{ControlTCP + "_same": 1, ControlRR + "_other": 1}
		if i < 3 {
			m[ControlTCP+"_same"], m[ControlRR+"_other"] = 0.8, 1.2
		}
		r.Samples = append(r.Samples, result.Sample{Target: "selvage", Case: "mac-flood", Round: i + 1, Metrics: m})
	}
	if lost, unclear := names(Losses(r, "selvage", "nat-exhaustion")), names(Unclear(r, "selvage", "nat-exhaustion")); !slices.Equal(lost, []string{KeptRR}) || !slices.Equal(unclear, []string{KeptTCP}) {
		t.Errorf("%q are lost, %q unclear; want the round trip, and the throughput", lost, unclear)
	}
	for i := range r.Samples { // packets that cross do so by no chance
		if r.Samples[i].Target == "selvage" {
			r.Samples[i].Metrics[Crossed] = 1
		}
	}
	if lost := names(Losses(r, "selvage", "nat-exhaustion")); lost[0] != Crossed {
		t.Errorf("%q are lost, want what crossed first", lost)
	}
}
