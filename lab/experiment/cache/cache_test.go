package cache

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/experiment/experimenttest"
)

// parse reads a command line.
func parse(args string) (*Command, error) {
	c := new(commands)
	err := experimenttest.Parse(c, append([]string{"cache"}, strings.Fields(args)...)...)
	return &c.Cache, err
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
		_, err := parse(tt.args)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q: error %v, want %q in it", tt.args, err, tt.want)
		}
	}
}

func TestCachePlan(t *testing.T) {
	c, err := parse("--flows 1,1280 --routes 0,1000 --rounds 3")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, s := range c.plan() {
		load, ok := Cached(s.CaseName)
		if !ok || load.Flows != s.Stream.Flows || load.Routes != s.Routes {
			t.Errorf("case %s is read as %+v, and has %d flows and %d routes", s.CaseName, load, s.Stream.Flows, s.Routes)
		}
		seen[s.CaseName+" "+s.Target]++
	}
	if len(seen) != 8 || seen["flows-1280-routes-1000 cache-off"] != 3 {
		t.Errorf("samples %v", seen)
	}
}
