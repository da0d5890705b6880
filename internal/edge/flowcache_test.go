package edge

import (
	"context"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
)

// The words for events are those of the data path.
func TestEventsAreThoseOfTheDataPath(t *testing.T) {
	header, err := os.ReadFile("../../bpf/core/reasons.h")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(header), "#define EVENTS(X)")
	list, _, _ = strings.Cut(list, "\n\n")
	for _, e := range slices.Concat(cacheEvents, firewallEvents, natEvents) {
		name := strings.ReplaceAll(strings.ToUpper(e.Name), "-", "_")
		if !regexp.MustCompile(`X\(` + name + `,\s*"` + regexp.QuoteMeta(e.Description) + `"\)`).MatchString(list) {
			t.Errorf("bpf/core/reasons.h has no event %s %q", name, e.Description)
		}
	}
}

func TestFlowCacheDocument(t *testing.T) {
	c, _ := newGatewayWorld(t).run()
	got := fetched(t, c.FlowCache)
	if time.Since(got.ReadAt) > time.Minute {
		t.Errorf("read at %v", got.ReadAt)
	}
	one := uint64(1)
	want := api.FlowCacheInfo{
		ReadAt: got.ReadAt, Enabled: true, LookUps: 20, HitRatio: 0.5,
		Caches: []api.CacheInfo{
			{Name: "tc", Used: 3, Size: 4096, Bytes: 1 << 20},
			{Name: "transit", Used: 50, Size: 8192, Bytes: 1 << 21, Evicted: &one},
		},
		Events: slices.Clone(cacheEvents),
	}
	for i, n := range []uint64{10, 2, 5, 3, 0, 1, 0} {
		want.Events[i].Count = n
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flow cache (-want +got):\n%s", diff)
	}
	if s := fetched(t, c.Status); s.Flows != (api.Usage{Used: 3, Size: 4096}) || s.Transit == nil || *s.Transit != (api.Usage{Used: 50, Size: 8192}) {
		t.Errorf("status has %+v and %+v", s.Flows, s.Transit)
	}
}

// reading is one of a cache of tc and one of transit programs.
func reading(at time.Duration, events map[string]uint64, tc, transit datapath.Cache) api.FlowCacheInfo {
	tc.Name, transit.Name = datapath.CacheTC, datapath.CacheTransit
	return FlowCacheInfo(time.Unix(1000, 0).Add(at), datapath.Stats{Events: events, Caches: []datapath.Cache{tc, transit}})
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
			Events:  map[string]float64{"hit": 450, "miss": 250, "stale": 50, "revalidated": 0, "flow-full": 0, "evicted": 50, "transit": 0},
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

func TestThrashingIsAProblem(t *testing.T) {
	w := newGatewayWorld(t)
	w.opts.Resync = 20 * time.Millisecond
	c, _ := w.run()
	if w.problem(c, "flow cache") {
		t.Error("a problem without a reason")
	}
	lose := func(n uint64) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lost = n
	}
	lose(1_000_000)
	w.within("thrashing is a problem", func() bool {
		return w.problem(c, "flow cache: thrashing", "0 % hits", "; transit has 50 of 8192 entries and evicts ", "/s): raise spec.flowCache.size, now 4096")
	})
	if f := fetched(t, c.FlowCache); f.Alarm != "thrashing" || !strings.Contains(f.Problem, "flow cache: thrashing") {
		t.Errorf("alarm %q, %q", f.Alarm, f.Problem)
	}
	lose(0)
	w.within("it is over", func() bool { return !w.problem(c, "flow cache") })
	if f := fetched(t, c.FlowCache); f.Alarm != "" || f.Problem != "" {
		t.Errorf("alarm %q, %q", f.Alarm, f.Problem)
	}
}

func TestCacheThatIsOff(t *testing.T) {
	w := newWorld(t)
	w.config.FlowCache.Enabled = false
	w.opts.Resync = 20 * time.Millisecond
	c, _ := w.run()
	if !w.problem(c, "flow cache: off", "spec.flowCache.enabled") {
		t.Errorf("problems %q", fetched(t, c.Status).Problems)
	}
	if f := fetched(t, c.FlowCache); f.Enabled || f.Alarm != "off" {
		t.Errorf("%+v", f)
	}
	w.mu.Lock()
	w.config.FlowCache.Enabled = true
	w.mu.Unlock()
	w.hangup()
	w.within("no problem when it is on", func() bool { return !w.problem(c, "flow cache") })
}

func TestCacheThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.opts.Resync = 20 * time.Millisecond
	c, _ := w.run()
	refuse := func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.failing["stats"] = err
	}
	refuse(errFake)
	failed := func() bool {
		_, err := c.FlowCache(context.Background())
		return err != nil && strings.HasSuffix(err.Error(), "read flow cache: "+errFake.Error())
	}
	w.within("the reading fails", failed)
	applied := w.called("apply")
	w.within("the loop meets it", func() bool { return w.called("apply") > applied+1 })
	refuse(nil)
	w.within("no problem is left", func() bool { return !w.problem(c, "watch the flow cache") })
}

func TestFlowCacheRates(t *testing.T) {
	w := newGatewayWorld(t)
	c, _ := w.run()
	w.mu.Lock()
	w.lost = 10
	w.mu.Unlock()
	got, err := c.FlowCacheRates(context.Background(), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	r := got.Rates
	if r == nil || r.Seconds <= 0 || r.HitRatio != 0 || r.Events["miss"] != 10/r.Seconds || r.Evicted["transit"] != 10/r.Seconds || r.Evicted["tc"] != 0 {
		t.Errorf("rates %+v", r)
	}
	ended, end := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, end)
	if _, err := c.FlowCacheRates(ended, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestInterfaces(t *testing.T) {
	w := newGatewayWorld(t)
	native := host.XDP{Known: true, Takes: true, Sends: true}
	w.config.Underlay.Interfaces = []string{"eth0", "eth2", "eth3"}
	u := w.config.Routers[0].Uplinks[0]
	u.Name, u.Interface = "dmz", "eth0" // an uplink in a VLAN of the underlay
	w.config.Routers[0].Uplinks = append(w.config.Routers[0].Uplinks, u)
	w.hostState.Links["eth0"] = host.Link{Name: "eth0", Index: 2, MTU: 1550, Up: true, XDP: native}
	w.hostState.Links["eth1"] = host.Link{Name: "eth1", Index: 8, MTU: 9000, Up: true, XDP: native}
	w.hostState.Links["eth3"] = host.Link{Name: "eth3", Index: 9, MTU: 1550, Up: true, XDP: host.XDP{Known: true, Takes: true}}
	w.refused = map[int]string{9: "invalid argument"}
	c, _ := w.run()
	want := []api.InterfaceInfo{
		{Name: "eth0", Ifindex: 2, Roles: []string{"underlay", "uplink"}, Hook: "xdp", TakesRedirected: true, MTU: 1550},
		{Name: "eth2", Roles: []string{"underlay"}, HookWhy: "the interface does not exist"},
		{Name: "eth3", Ifindex: 9, Roles: []string{"underlay"}, Hook: "tcx", HookWhy: "the driver refused the program: invalid argument",
			RedirectWhy: "it does not accept redirected packets (a veth does while its peer has GRO or an XDP program), so tc sends those that leave here", MTU: 1550},
		{Name: "eth1", Ifindex: 8, Roles: []string{"uplink"}, Hook: "tcx", HookWhy: "the driver's XDP does not support an MTU of 9000",
			RedirectWhy: "it does not accept redirected frames with an MTU of 9000, so tc sends those that leave here", MTU: 9000},
	}
	if diff := cmp.Diff(want, fetched(t, c.Interfaces)); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
	hooks := each(fetched(t, c.Ports), func(p api.PortInfo) string { return p.Name + " " + p.Hook + " " + p.HookWhy })
	if diff := cmp.Diff([]string{"p0 tcx ", "p0.10 tcx ", "wan tcx the driver's XDP does not support an MTU of 9000", "dmz xdp "}, hooks); diff != "" {
		t.Errorf("hooks of ports (-want +got):\n%s", diff)
	}
	w.mu.Lock()
	w.config.Transit.Mode = overlay.TransitGeneric
	w.mu.Unlock()
	w.hangup()
	w.within("generic hooks", func() bool {
		i := fetched(t, c.Interfaces)[0]
		return i.Hook == "xdpgeneric" && i.HookWhy == "transit.mode is generic"
	})
	w.set(func() { w.failing["apply"] = errFake })
	w.within("what is attached is not known", func() bool {
		i := fetched(t, c.Interfaces)[0]
		return i.Hook == "" && strings.Contains(i.HookWhy, "see `selvage status`")
	})
	if hooks := w.scraped()["selvage_interface_hook_info"].samples; len(hooks) != 0 {
		t.Errorf("metrics have hooks %v that are not known", hooks)
	}
}

// Waiting, as for a core, is no work.
func TestTimed(t *testing.T) {
	const wait = 200 * time.Millisecond
	want := errors.New("of f")
	took, err := timed(func() error {
		<-time.After(wait)
		return want
	})
	if !errors.Is(err, want) || took <= 0 || took > wait/4 {
		t.Errorf("%s, %v of waiting for %s", took, err, wait)
	}
}
