package cache

import (
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/transit"
)

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
	r := experimenttest.Of(experimenttest.Samples(CacheOff, "flows-1", transit.NSPerPacket, 400, 500, 400), experimenttest.Samples(CacheOn, "flows-1", transit.NSPerPacket, 200, 250, 200))
	r.Experiment = Name
	if got := Saved(r, "flows-1"); got.Median != 0.5 || got.N != 3 {
		t.Errorf("whole time: %+v", got)
	}
	r.Samples = append(r.Samples, experimenttest.Of(experimenttest.Samples(CacheOff, "flows-1", transit.DeviceNS, 300, 300, 0), experimenttest.Samples(CacheOn, "flows-1", transit.DeviceNS, 75, 75, 75)).Samples...)
	if got := Saved(r, "flows-1"); got.Median != 0.75 || got.N != 2 {
		t.Errorf("the device's time: %+v", got)
	}
	if got := Saved(r, "flows-2"); got.N != 0 {
		t.Errorf("%+v", got)
	}
	row, _ := stats.Find(summarise(r), CacheOn, "flows-1", transit.NSPerPacket)
	if row.Baseline != CacheOff || row.Ratio != 0.5 {
		t.Errorf("%+v", row)
	}
	saved, ok := stats.Find(summarise(r), CacheOn, "flows-1", ShareSaved)
	if !ok || saved.Median != 0.75 || saved.N != 2 || saved.Distinguishable || saved.Baseline != CacheOff {
		t.Errorf("%+v", saved)
	}
}
