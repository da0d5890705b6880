package experiments

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/losses"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
)

// parseRfc2544 reads a command line.
func parseRfc2544(args string) (*Rfc2544, error) {
	c := new(rfc2544Commands)
	err := experimenttest.Parse(c, append([]string{"rfc2544"}, strings.Fields(args)...)...)
	return &c.Rfc2544, err
}

// parseCache reads a command line.
func parseCache(args string) (*Cache, error) {
	c := new(cacheCommands)
	err := experimenttest.Parse(c, append([]string{"cache"}, strings.Fields(args)...)...)
	return &c.Cache, err
}

func TestRfc2544Validate(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", ""},
		{"--quick", ""},
		{"--quick --family 6 --underlay 6 --scenario 2", ""},
		{"--sizes 1500", ""},
		{"--flow-sweep 1,1280,100000,1000000", ""},
		{"--targets limit,fast", `unknown target "fast"`},
		{"--targets limit,limit", "named twice"},
		{"--directions encap,encap", "named twice"},
		{"--directions sideways", "must be one of"},
		{"--sizes 64,64", "64 is named twice"},
		{"--sizes 1500,1518", "1518 is named twice"},
		{"--sizes 60", "--sizes, --flows, --family"},
		{"--sizes 1600", "the largest frame of Ethernet"},
		{"--sizes 64 --family 6", "--sizes, --flows, --family"},
		{"--imix --family 6", "--imix"},
		{"--flows=-5", "--flows: -5 is not"},
		{"--flows 0", "--flows: 0 is not"},
		{"--flow-sweep 0", "--flow-sweep: 0 flows"},
		{"--flow-sweep 5,5", "5 is named twice"},
		{"--tolerance 0", "--tolerance"},
		{"--tolerance 100", "--tolerance"},
		{"--line-rate 0", "--line-rate"},
		{"--min-rate 50 --max-rate 10", "not a range"},
		{"--max-rate 101", "not a range"},
		{"--retries=-1", "--retries"},
		{"--rounds 0", "--rounds"},
		{"--duration 1ms", "--duration"},
		{"--drain 1us", "--drain"},
		{"--settle=-1s", "--settle"},
		{"--latency-trials=-1", "--latency-trials"},
		{"--scenario 3", "must be one of"},
		{"--cores many", "must be one of"},
		{"--selvage-transit fast", "must be one of"},
		{"--targets kernel-route --directions both", "no tunnel for the far side"},
	} {
		_, err := parseRfc2544(tt.args)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q: error %v, want %q in it", tt.args, err, tt.want)
		}
	}
}

// The defaults are the study's; --quick leaves what was asked for.
func TestRfc2544Defaults(t *testing.T) {
	c, err := parseRfc2544("")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Sizes, []int{64, 128, 256, 512, 1024, 1280, 1518}) || c.Duration != 90*time.Second || c.Drain != 2*time.Second || c.Settle != 5*time.Second ||
		c.Flows != 1280 || c.Tolerance != 0.01 || c.Retries != 3 || c.LatencyTrials != 20 || len(c.Directions) != 3 || c.MinRate != 1 || c.MaxRate != 100 {
		t.Errorf("%+v", c)
	}
	if c, err = parseRfc2544("--quick"); err != nil || !slices.Equal(c.Sizes, []int{64, 512, 1518}) || len(c.Directions) != 2 || c.Duration != 200*time.Millisecond || c.LatencyTrials != 1 {
		t.Errorf("%v, %+v", err, c)
	}
	if c, err = parseRfc2544("--quick --sizes 1500 --directions both --duration 50ms --rounds 1"); err != nil || !slices.Equal(c.Sizes, []int{1518}) ||
		!slices.Equal(c.Directions, []string{"both"}) || c.Duration != 50*time.Millisecond || c.InitialDuration != 50*time.Millisecond || c.Rounds != 1 {
		t.Errorf("%v, %+v", err, c)
	}
}

// Every target takes every case in every round, neighbours in time; only what cannot be
// is left out.
func TestRfc2544Plan(t *testing.T) {
	c, err := parseRfc2544("--quick --targets limit,kernel-route,selvage --directions encap,both --sizes 64,512 --imix --flow-sweep 1,100000 --rounds 2 --scenario 2")
	if err != nil {
		t.Fatal(err)
	}
	cases := []string{"encap-64-x2", "encap-512-x2", "encap-imix-x2", "both-64-x2", "both-512-x2", "both-imix-x2", "encap-64-flows-1-x2", "encap-64-flows-100000-x2"}
	var kinds []string
	for _, k := range c.kinds() {
		kinds = append(kinds, k.caseName)
		traffic, ok := stats.Transit(k.caseName)
		if !ok || traffic.Case() != k.caseName || traffic.Direction != k.direction {
			t.Errorf("case %s is read as %+v", k.caseName, traffic)
		}
		if err := k.stream.Check(); err != nil {
			t.Errorf("%s: %v", k.caseName, err)
		}
		if flows := max(traffic.Flows, 1); traffic.Flows > 0 && k.stream.Flows != flows {
			t.Errorf("%s has %d flows", k.caseName, k.stream.Flows)
		}
	}
	if !slices.Equal(kinds, cases) {
		t.Errorf("cases %v, want %v", kinds, cases)
	}
	seen := map[string]int{}
	for _, s := range c.plan() {
		seen[fmt.Sprint(s.round, s.caseName, s.target)]++
		if s.target == routeName && s.direction == stats.Both {
			t.Errorf("%s is planned", s)
		}
	}
	if want := 2 * (3*8 - 3); len(seen) != want || len(c.plan()) != want {
		t.Errorf("%d samples, %d different, want %d", len(c.plan()), len(seen), want)
	}
}

func TestMeanSize(t *testing.T) {
	if got := mean([]gen.Share{{Frame: 64, Weight: 3}, {Frame: 100, Weight: 1}}); got != 73 {
		t.Errorf("mean %v, want 73", got)
	}
}

func TestCacheSize(t *testing.T) {
	for flows, want := range map[int]int{1: 0, 100000: 0, 100001: 262144, 1000000: 2097152} {
		if got := cacheSize(flows); got != want {
			t.Errorf("for %d flows %d entries, want %d", flows, got, want)
		}
	}
}

// What is missing has to be in a counter, and what counters name has to be missing.
func TestUnaccounted(t *testing.T) {
	for _, tt := range []struct {
		sent, got, lost uint64
		dropped         losses.Counts
		want            string
	}{
		{sent: 100, got: 100},
		{sent: 100, got: 90, lost: 10, dropped: losses.Counts{"a": 4, "b": 6}},
		{sent: 100, got: 90, lost: 10, dropped: losses.Counts{"a": 10, "arp": strangers}},
		{sent: 100, got: 90, lost: 10, dropped: losses.Counts{"a": 9}, want: "1 of 10 lost frames are in no counter (9 a"},
		{sent: 100, got: 101, want: "101 frames arrived of 100"},
		{sent: 100, got: 100, dropped: losses.Counts{"a": strangers + 1}, want: "name 65 drops (65 a), but 0 frames are missing"},
	} {
		p := passage{sent: gen.Sent{Frames: tt.sent}, got: gen.Report{Frames: tt.got}, lost: tt.lost, dropped: tt.dropped}
		if got := p.unaccounted(); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt, got, tt.want)
		}
	}
}

func TestCacheValidate(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", ""},
		{"--quick", ""},
		{"--targets cache-on", ""},
		{"--targets cache", `unknown target "cache"`},
		{"--flows 0", "--flows, --frame"},
		{"--flows 5,5", "named twice"},
		{"--frame 20", "--flows, --frame"},
		{"--frame 2000", "the largest frame of Ethernet"},
		{"--routes 0,0", "named twice"},
		{"--routes 2000", "not within 0 … 1024"},
		{"--rounds 0", "--rounds"},
		{"--duration 1ms", "--duration"},
		{"--drain 1us", "--drain"},
		{"--direction both", "must be one of"},
	} {
		_, err := parseCache(tt.args)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q: error %v, want %q in it", tt.args, err, tt.want)
		}
	}
}

func TestCachePlan(t *testing.T) {
	c, err := parseCache("--flows 1,1280 --routes 0,1000 --rounds 3")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, s := range c.plan() {
		load, ok := stats.Cached(s.caseName)
		if !ok || load.Flows != s.stream.Flows || load.Routes != s.routes {
			t.Errorf("case %s is read as %+v, and has %d flows and %d routes", s.caseName, load, s.stream.Flows, s.routes)
		}
		seen[s.caseName+" "+s.target]++
	}
	if len(seen) != 8 || seen["flows-1280-routes-1000 cache-off"] != 3 {
		t.Errorf("samples %v", seen)
	}
}

// Programs of targets are edges of another build.
func TestRfc2544Builds(t *testing.T) {
	c, err := parseRfc2544("--quick --targets=limit,old=/bin/sh,selvage=/bin/ls")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"old": "/bin/sh", "selvage": "/bin/ls"} {
		if got, ok := c.forwarder(name).(topo.TransitSelvage); !ok || got.Binary != want {
			t.Errorf("%s is %+v", name, got)
		}
	}
	if _, err := parseRfc2544("--quick --targets=kernel=/bin/sh"); err == nil || !strings.Contains(err.Error(), "kernel is no edge") {
		t.Errorf("%v", err)
	}
}
