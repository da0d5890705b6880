package rfc2544

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

func TestTransit(t *testing.T) {
	for caseName, want := range map[string]Traffic{
		"encap-64":                 {transit.Encap, 64, 0, 1},
		"decap-1518-x2":            {transit.Decap, 1518, 0, 2},
		"both-imix":                {transit.Both, 0, 0, 1},
		"encap-64-flows-100000":    {transit.Encap, 64, 100000, 1},
		"encap-imix-flows-1280-x2": {transit.Encap, 0, 1280, 2},
	} {
		got, ok := Transit(caseName)
		if !ok || got != want || got.Case() != caseName {
			t.Errorf("%s: %+v %v, named %s", caseName, got, ok, got.Case())
		}
	}
	for _, caseName := range []string{"", "encap", "tcp-64", "encap-", "encap-0", "encap-x", "encap-64-flows", "encap-64-flows-0", "encap-64-flow-3", "encap-64-x3"} {
		if got, ok := Transit(caseName); ok {
			t.Errorf("%q is %+v", caseName, got)
		}
	}
}

func TestTransits(t *testing.T) {
	r := experimenttest.Of(experimenttest.Samples("limit", "both-64", transit.NDR, 1), experimenttest.Samples("limit", "encap-64-flows-10", transit.NDR, 1), experimenttest.Samples("limit", "encap-imix", transit.NDR, 1), experimenttest.Samples("limit", "encap-128-x2", transit.NDR, 1),
		experimenttest.Samples("limit", "decap-64", transit.NDR, 1), experimenttest.Samples("limit", "encap-1024", transit.NDR, 1), experimenttest.Samples("limit", "encap-64", transit.NDR, 1), experimenttest.Samples("limit", "odd", transit.NDR, 1), experimenttest.Samples("limit", "encap-64-flows-1", transit.NDR, 1))
	var got []string
	for _, c := range Transits(r) {
		got = append(got, c.Case())
	}
	want := []string{"encap-64", "encap-1024", "encap-imix", "encap-128-x2", "decap-64", "both-64", "encap-64-flows-1", "encap-64-flows-10"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestSummariseTransit: rows in the order of metrics, then of cases, against limit.
func TestSummariseTransit(t *testing.T) {
	r := experimenttest.Of(experimenttest.Samples("selvage", "encap-512", transit.NDR, 4, 4, 4), experimenttest.Samples("limit", "encap-64", transit.NDR, 5, 5, 5), experimenttest.Samples("selvage", "encap-64", transit.NDR, 4, 4, 4), experimenttest.Samples("selvage", "encap-64", transit.PDR, 4.1, 4.1, 4.1))
	r.Experiment = Name
	rows := summarise(r)
	var got []string
	for _, row := range rows {
		got = append(got, row.Target+" "+row.Case+" "+row.Metric)
	}
	want := []string{"selvage encap-64 ndr", "limit encap-64 ndr", "selvage encap-512 ndr", "selvage encap-64 pdr"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	row, _ := stats.Find(rows, "selvage", "encap-64", transit.NDR)
	if row.Baseline != stats.Limit || math.Abs(row.Ratio-0.8) > 1e-12 || !row.Distinguishable || row.Unit != "Mpps" {
		t.Errorf("%+v", row)
	}
	if base, _ := stats.Find(rows, "limit", "encap-64", transit.NDR); base.Baseline != "" || base.Ratio != 1 {
		t.Errorf("%+v", base)
	}
}

func TestRefuseRate(t *testing.T) {
	r := experimenttest.Of(experimenttest.Samples("limit", "encap-64", transit.NDR, 5, 5.1, 4.9), experimenttest.Samples("selvage", "encap-64", transit.NDR, 4, 4.1, 4))
	if why := transit.RefuseRate(r, "encap-64", transit.NDR, "limit", "selvage"); why != "" {
		t.Error(why)
	}
	for want, change := range map[string][]result.Sample{
		"the no-drop rate of selvage spreads by ±37 %": experimenttest.Samples("selvage", "encap-64", transit.NDR, 4, 5, 3),
		"selvage has 2 of the at least 3 rounds":       experimenttest.Samples("selvage", "encap-64", transit.NDR, 4, 4),
		"selvage was not measured":                     nil,
	} {
		samples := change
		if len(change) != 2 {
			samples = append(experimenttest.Samples("limit", "encap-64", transit.NDR, 5, 5, 5), change...)
		}
		if why := transit.RefuseRate(experimenttest.Of(samples), "encap-64", transit.NDR, "selvage"); !strings.Contains(why, want) {
			t.Errorf("%q, want %q", why, want)
		}
	}
}

func TestTransitParameters(t *testing.T) {
	if got := Tolerance(result.Result{}); got != "the tolerated" {
		t.Errorf("without a tolerance: %q", got)
	}
	for args, shared := range map[string]bool{"--tolerance=0.5": true, "--tolerance=0.5 --cores=split": false} {
		var command commands
		if err := experimenttest.Parse(&command, append([]string{"rfc2544"}, strings.Fields(args)...)...); err != nil {
			t.Fatal(err)
		}
		r := command.Rfc2544.describe(&experiment.Console{}, time.Now())
		if got := Tolerance(r); got != "0.5 %" || SharedCore(r) != shared {
			t.Errorf("%s: tolerance %q, shared core %t", args, got, SharedCore(r))
		}
	}
}
