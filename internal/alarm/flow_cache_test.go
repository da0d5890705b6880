package alarm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
)

// reading is one of a cache of tc and one of transit programs.
func reading(at time.Duration, events map[string]uint64, tc, transit datapath.Cache) api.FlowCacheInfo {
	tc.Name, transit.Name = datapath.CacheTC, datapath.CacheTransit
	return ReadFlowCache(time.Unix(1000, 0).Add(at), datapath.Stats{Events: events, Caches: []datapath.Cache{tc, transit}})
}

func TestRates(t *testing.T) {
	before := reading(0, map[string]uint64{"hit": 100, "miss": 10}, datapath.Cache{Used: 900, Size: 1000}, datapath.Cache{Used: 10, Size: 100})
	events := map[string]uint64{"hit": 1000, "miss": 510, "stale": 100, "evicted": 100}
	for _, tt := range []struct {
		name string
		used int
		tc   float64
	}{
		// 500 misses, of which 100 evicted from transit and 20 grew it.
		{"full, and grown by 60", 960, (500 - 100 - 20 - 60) / 2.0},
		{"full, and others aged", 900, (500 - 100 - 20) / 2.0},
		{"half full, and others aged", 500, (500 - 100 - 20) / 2.0},
		{"less than half full", 499, 0},
	} {
		after := reading(2*time.Second, events, datapath.Cache{Used: tt.used, Size: 1000}, datapath.Cache{Used: 30, Size: 100})
		got, err := api.Rates(before, after)
		if err != nil {
			t.Fatal(err)
		}
		want := &api.CacheRates{
			Seconds: 2, LookUps: 750, HitRatio: 0.6,
			Events:  map[string]float64{"hit": 450, "miss": 250, "stale": 50, "revalidated": 0, "flow-full": 0, "flow-not-admitted": 0, "evicted": 50, "transit": 0},
			Evicted: map[string]float64{"tc": tt.tc, "transit": 50},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	if _, err := api.Rates(before, before); err == nil || !strings.Contains(err.Error(), "clock was set back") {
		t.Errorf("no time between readings: %v", err)
	}
	less := reading(time.Second, nil, datapath.Cache{}, datapath.Cache{})
	if _, err := api.Rates(before, less); err == nil || !strings.Contains(err.Error(), "loaded again") {
		t.Errorf("counters that fell: %v", err)
	}
}

// interval is what happened in ten seconds, by second, to a transit cache that
// holds 1,000.
type interval struct{ hit, miss, evicted uint64 }

var (
	bad    = interval{1000, 1000, 200}
	good   = interval{2000, 20, 5}
	middle = interval{1850, 150, 80} // neither bad nor calm: 92.5 % hits
)

func TestCacheAlarm(t *testing.T) {
	one, two := []interval{bad}, []interval{bad, bad}
	for _, tt := range []struct {
		name      string
		intervals []interval
		want      bool
	}{
		{"nothing happens", []interval{{}, {}, {}}, false},
		{"one bad interval", one, false},
		{"two", two, true},
		{"two, apart", []interval{bad, middle, bad}, false},
		{"too few look-ups to matter", []interval{{400, 599, 500}, {400, 599, 500}}, false},
		{"just enough look-ups", []interval{{400, 600, 500}, {400, 600, 500}}, true},
		{"many misses that evict nothing: new flows", []interval{{0, 5000, 0}, {0, 5000, 0}}, false},
		{"evictions slower than decisions age anyway", []interval{{0, 5000, 99}, {0, 5000, 99}}, false},
		{"evictions just as fast", []interval{{0, 5000, 100}, {0, 5000, 100}}, true},
		{"evictions, and hits all the same", []interval{{9000, 999, 900}, {9000, 999, 900}}, false},
		{"hits just too few", []interval{{8999, 1001, 900}, {8999, 1001, 900}}, true},
		{"two good intervals do not end it", append(two, good, good), true},
		{"three do", append(two, good, good, good), false},
		{"a middling one begins the count anew", append(two, good, good, middle, good, good), true},
		{"middling ones never end it", append(two, middle, middle, middle, middle), true},
		{"silence ends it", append(two, interval{}, interval{}, interval{}), false},
		{"it comes back", append(two, good, good, good, bad, bad), true},
	} {
		at, sum := time.Duration(0), interval{7, 7, 7} // of before the first reading
		take := func() api.FlowCacheInfo {
			events := map[string]uint64{"hit": sum.hit, "miss": sum.miss, "evicted": sum.evicted}
			return reading(at, events, datapath.Cache{Size: 1000}, datapath.Cache{Used: 1000, Size: 4000})
		}
		w := cacheWatch{}.after(take())
		for _, i := range tt.intervals {
			at += 10 * time.Second
			sum = interval{sum.hit + 10*i.hit, sum.miss + 10*i.miss, sum.evicted + 10*i.evicted}
			w = w.after(take())
		}
		if w.thrashing != tt.want {
			t.Errorf("%s: thrashing %t, want %t", tt.name, w.thrashing, tt.want)
		}
	}
}

// A data path that was loaded anew has lower counters: that is no interval.
func TestCacheWatchSurvivesLowerCounters(t *testing.T) {
	w := cacheWatch{thrashing: true, contrary: 1}.after(reading(0, map[string]uint64{"hit": 9}, datapath.Cache{}, datapath.Cache{}))
	w = w.after(reading(time.Second, nil, datapath.Cache{}, datapath.Cache{}))
	if !w.thrashing || w.contrary != 1 || w.last.Rates != nil {
		t.Errorf("%+v, want nothing changed", w)
	}
	if text := w.problem(512); !strings.Contains(text, "decisions: raise spec.flowCache.size, now 512") {
		t.Errorf("problem without rates: %s", text)
	}
}

func TestTimed(t *testing.T) {
	const wait = 200 * time.Millisecond
	want := errors.New("of f")
	took, err := Timed(func() error {
		<-time.After(wait)
		return want
	})
	if !errors.Is(err, want) || took <= 0 || took > wait/4 {
		t.Errorf("%s, %v of waiting for %s", took, err, wait)
	}
}
