package rfc2544

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/transit"
)

func TestFrom(t *testing.T) {
	r := result.Result{Experiment: Name, Started: time.Date(2026, 9, 14, 9, 0, 0, 0, time.UTC)}
	for _, s := range []struct {
		caseName string
		mpps     float64
	}{{"encap-64", 4}, {"encap-1024", 2}, {"decap-64", 5}, {"decap-1024", 1.9}, {"both-64", 3}, {"both-1024", 3}, {"encap-imix", 0.1}, {"encap-64-flows-1", 0.2}, {"encap-64-x2", 0.3}} {
		r.Samples = append(r.Samples, result.Sample{Target: "selvage", Case: s.caseName, Round: 1, Metrics: map[string]float64{transit.MppsPerCore: s.mpps}})
	}
	for frame, want := range map[int]struct {
		mpps float64
		how  string
	}{
		64:   {4, "encap of selvage, at 64 bytes, run of 2026-09-14"},
		544:  {1 / (0.5/4 + 0.5/2), "encap of selvage, between 64 and 1024 bytes"},
		1024: {1.9, "decap of selvage, at 1024 bytes"},
		9000: {1.9, "the largest size"},
	} {
		c, err := From(r, "selvage", frame)
		if err != nil || math.Abs(c.MppsPerCore-want.mpps) > 1e-12 || !strings.Contains(c.Source, want.how) {
			t.Errorf("%d: %+v %v, want %+v", frame, c, err, want)
		}
	}
	r.Parameters = result.Parameters{"shared_core": result.Of(result.Bool(true))}
	if c, err := From(r, "selvage", 64); err != nil || !strings.Contains(c.Source, "2026-09-14, with generator and sink on the same core") {
		t.Errorf("%+v %v", c, err)
	}
	for want, c := range map[string]struct {
		r     result.Result
		name  string
		frame int
	}{
		`experiment "ab"`:    {result.Result{Experiment: "ab"}, "selvage", 64},
		`of "kernel" (it`:    {r, "kernel", 64},
		"has 64 bytes: 63 c": {r, "selvage", 63},
	} {
		if _, err := From(c.r, c.name, c.frame); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
