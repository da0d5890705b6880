package stats

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/lab/result"
)

// rates makes one sample a value, rounds from 1.
func rates(target, caseName, metric string, values ...float64) []result.Sample {
	samples := tcp(target, metric, values...)
	for i := range samples {
		samples[i].Case = caseName
	}
	return samples
}

func TestTransit(t *testing.T) {
	for caseName, want := range map[string]Traffic{
		"encap-64":                 {Encap, 64, 0, 1},
		"decap-1518-x2":            {Decap, 1518, 0, 2},
		"both-imix":                {Both, 0, 0, 1},
		"encap-64-flows-100000":    {Encap, 64, 100000, 1},
		"encap-imix-flows-1280-x2": {Encap, 0, 1280, 2},
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
	r := of(rates("limit", "both-64", NDR, 1), rates("limit", "encap-64-flows-10", NDR, 1), rates("limit", "encap-imix", NDR, 1), rates("limit", "encap-128-x2", NDR, 1),
		rates("limit", "decap-64", NDR, 1), rates("limit", "encap-1024", NDR, 1), rates("limit", "encap-64", NDR, 1), rates("limit", "odd", NDR, 1), rates("limit", "encap-64-flows-1", NDR, 1))
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
	r := of(rates("selvage", "encap-512", NDR, 4, 4, 4), rates("limit", "encap-64", NDR, 5, 5, 5), rates("selvage", "encap-64", NDR, 4, 4, 4), rates("selvage", "encap-64", PDR, 4.1, 4.1, 4.1))
	r.Experiment = RFC2544
	rows := RFC2544Rows(r)
	var got []string
	for _, row := range rows {
		got = append(got, row.Target+" "+row.Case+" "+row.Metric)
	}
	want := []string{"selvage encap-64 ndr", "limit encap-64 ndr", "selvage encap-512 ndr", "selvage encap-64 pdr"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	row, _ := Find(rows, "selvage", "encap-64", NDR)
	if row.Baseline != Limit || math.Abs(row.Ratio-0.8) > 1e-12 || !row.Distinguishable || row.Unit != "Mpps" {
		t.Errorf("%+v", row)
	}
	if base, _ := Find(rows, "limit", "encap-64", NDR); base.Baseline != "" || base.Ratio != 1 {
		t.Errorf("%+v", base)
	}
}

func TestRefuseRate(t *testing.T) {
	r := of(rates("limit", "encap-64", NDR, 5, 5.1, 4.9), rates("selvage", "encap-64", NDR, 4, 4.1, 4))
	if why := RefuseRate(r, "encap-64", NDR, "limit", "selvage"); why != "" {
		t.Error(why)
	}
	for want, change := range map[string][]result.Sample{
		"the no-drop rate of selvage spreads by ±37 %": rates("selvage", "encap-64", NDR, 4, 5, 3),
		"selvage has 2 of the at least 3 rounds":       rates("selvage", "encap-64", NDR, 4, 4),
		"selvage was not measured":                     nil,
	} {
		samples := change
		if len(change) != 2 {
			samples = append(rates("limit", "encap-64", NDR, 5, 5, 5), change...)
		}
		if why := RefuseRate(of(samples), "encap-64", NDR, "selvage"); !strings.Contains(why, want) {
			t.Errorf("%q, want %q", why, want)
		}
	}
}

func TestCached(t *testing.T) {
	for caseName, want := range map[string]Load{"flows-1": {1, 0}, "flows-1280-routes-1000": {1280, 1000}} {
		got, ok := Cached(caseName)
		if !ok || got != want || got.Case() != caseName {
			t.Errorf("%s: %+v %v", caseName, got, ok)
		}
	}
	for _, caseName := range []string{"", "flows", "flows-0", "flows-x", "flow-1", "flows-1-routes", "flows-1-routes--2", "flows-1-rules-3"} {
		if _, ok := Cached(caseName); ok {
			t.Errorf("%q was read", caseName)
		}
	}
}

func TestSaved(t *testing.T) {
	r := of(rates(CacheOff, "flows-1", NSPerPacket, 400, 500, 400), rates(CacheOn, "flows-1", NSPerPacket, 200, 250, 200))
	r.Experiment = Cache
	if got := Saved(r, "flows-1"); got.Median != 0.5 || got.N != 3 {
		t.Errorf("whole time: %+v", got)
	}
	r.Samples = append(r.Samples, of(rates(CacheOff, "flows-1", DeviceNS, 300, 300, 0), rates(CacheOn, "flows-1", DeviceNS, 75, 75, 75)).Samples...)
	if got := Saved(r, "flows-1"); got.Median != 0.75 || got.N != 2 {
		t.Errorf("the device's time: %+v", got)
	}
	if got := Saved(r, "flows-2"); got.N != 0 {
		t.Errorf("%+v", got)
	}
	row, _ := Find(CacheRows(r), CacheOn, "flows-1", NSPerPacket)
	if row.Baseline != CacheOff || row.Ratio != 0.5 {
		t.Errorf("%+v", row)
	}
	saved, ok := Find(CacheRows(r), CacheOn, "flows-1", ShareSaved)
	if !ok || saved.Median != 0.75 || saved.N != 2 || saved.Distinguishable || saved.Baseline != CacheOff {
		t.Errorf("%+v", saved)
	}
}

func TestTransitParameters(t *testing.T) {
	for text, want := range map[string]string{"0.01 %": "0.01 %", "0.0001": "0.01 %", "0.5%": "0.5 %", "": "the tolerated", "x %": "the tolerated"} {
		if got := Tolerance(result.Result{Parameters: map[string]string{"tolerance": text}}); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]bool{"inline": true, "generator, device and sink share core 1": true, "split": false, "": false, "generator on core 1; device on core 0": false} {
		if got := SharedCore(result.Result{Parameters: map[string]string{"cores": text}}); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
