package rfc2544

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/dut/router"
	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/transit"
)

// parse reads a command line.
func parse(args string) (*Command, error) {
	c := new(commands)
	err := experimenttest.Parse(c, append([]string{"rfc2544"}, strings.Fields(args)...)...)
	return &c.Rfc2544, err
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
		_, err := parse(tt.args)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q: error %v, want %q in it", tt.args, err, tt.want)
		}
	}
}

// The defaults are the study's; --quick leaves what was asked for.
func TestRfc2544Defaults(t *testing.T) {
	c, err := parse("")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Sizes, []int{64, 128, 256, 512, 1024, 1280, 1518}) || c.Duration != 90*time.Second || c.Drain != 2*time.Second || c.Settle != 5*time.Second ||
		c.Flows != 1280 || c.Tolerance != 0.01 || c.Retries != 3 || c.LatencyTrials != 20 || len(c.Directions) != 3 || c.MinRate != 1 || c.MaxRate != 100 {
		t.Errorf("%+v", c)
	}
	if c, err = parse("--quick"); err != nil || !slices.Equal(c.Sizes, []int{64, 512, 1518}) || len(c.Directions) != 2 || c.Duration != 200*time.Millisecond || c.LatencyTrials != 1 {
		t.Errorf("%v, %+v", err, c)
	}
	if c, err = parse("--quick --sizes 1500 --directions both --duration 50ms --rounds 1"); err != nil || !slices.Equal(c.Sizes, []int{1518}) ||
		!slices.Equal(c.Directions, []string{"both"}) || c.Duration != 50*time.Millisecond || c.InitialDuration != 50*time.Millisecond || c.Rounds != 1 {
		t.Errorf("%v, %+v", err, c)
	}
}

// Every target takes every case in every round, neighbours in time; only what cannot be
// is left out.
func TestRfc2544Plan(t *testing.T) {
	c, err := parse("--quick --targets limit,kernel-route,selvage --directions encap,both --sizes 64,512 --imix --flow-sweep 1,100000 --rounds 2 --scenario 2")
	if err != nil {
		t.Fatal(err)
	}
	cases := []string{"encap-64-x2", "encap-512-x2", "encap-imix-x2", "both-64-x2", "both-512-x2", "both-imix-x2", "encap-64-flows-1-x2", "encap-64-flows-100000-x2"}
	var kinds []string
	for _, k := range c.kinds() {
		kinds = append(kinds, k.CaseName)
		traffic, ok := Transit(k.CaseName)
		if !ok || traffic.Case() != k.CaseName || traffic.Direction != k.Direction {
			t.Errorf("case %s is read as %+v", k.CaseName, traffic)
		}
		if err := k.Stream.Check(); err != nil {
			t.Errorf("%s: %v", k.CaseName, err)
		}
		if flows := max(traffic.Flows, 1); traffic.Flows > 0 && k.Stream.Flows != flows {
			t.Errorf("%s has %d flows", k.CaseName, k.Stream.Flows)
		}
	}
	if !slices.Equal(kinds, cases) {
		t.Errorf("cases %v, want %v", kinds, cases)
	}
	seen := map[string]int{}
	for _, s := range c.plan() {
		seen[fmt.Sprint(s.Round, s.CaseName, s.Target)]++
		if s.Target == transit.RouteName && s.Direction == transit.Both {
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

// Programs of targets are edges of another build.
func TestRfc2544Builds(t *testing.T) {
	c, err := parse("--quick --targets=limit,old=/bin/sh,selvage=/bin/ls")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"old": "/bin/sh", "selvage": "/bin/ls"} {
		if got, ok := c.forwarder(name).(router.Selvage); !ok || got.Binary != want {
			t.Errorf("%s is %+v", name, got)
		}
	}
	if _, err := parse("--quick --targets=kernel=/bin/sh"); err == nil || !strings.Contains(err.Error(), "kernel is no edge") {
		t.Errorf("%v", err)
	}
}

// Flags of testbeds beside ports, and ports without what they need, are refused before anything is done.
func TestPortFlags(t *testing.T) {
	for want, args := range map[string]string{
		"is for testbeds that the lab builds": "--tx a --rx b --l2 --targets kernel",
		"each needs one, as 192.0.2.2/24":     "--tx a --rx b",
		"--tx and --rx: name the interfaces":  "--tx a --l2",
		"a is named twice":                    "--tx a --rx a --l2",
		"none is in the network":              "--tx a --rx b --tx-address 192.0.2.2/24 --rx-address 198.51.100.2/24 --gateway 192.0.2.1",
		"is the device's address":             "--tx a --rx b --tx-address 192.0.2.1/24 --rx-address 198.51.100.2/24 --gateway 192.0.2.1,198.51.100.1",
		"is not of IPv4":                      "--tx a --rx b --tx-address 192.0.2.2/24 --rx-address 2001:db8::2/64 --gateway 192.0.2.1,2001:db8::1",
		"16385 is more than 16384 bytes":      "--tx a --rx b --l2 --sizes 16385",
		"is no interface":                     "--tx a/b --rx b --l2",
		"--vlan: 4095":                        "--tx a --rx b --l2 --vlan 4095",
		"--generator-cores":                   "--tx a --rx b --l2 --generator-cores 0,0",
		"name the network behind":             "--tx a --rx b --encap vxlan:1@192.0.2.1",
		"not one of the letters":              "--tx a --rx b --l2 --genome az",
		"4000 is more than 1518 bytes":        "--sizes 4000",
		"there is no --encap":                 "--tx a --rx b --encap-mac 02:00:00:00:00:01",
		"--encap-mac":                         "--tx a --rx b --tx-address 192.0.2.2/24 --encap vxlan:1@192.0.2.1 --tx-net 203.0.113.0/24",
		"--duration-sum":                      "--tx a --rx b --l2 --duration-sum 1s",
	} {
		if _, err := parse(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: no %q in %v", args, want, err)
		}
	}
	_, err := parse("--tx a,ns:x:b --rx c,d --tx-address 2001:db8::2/64,2001:db8:1::2/64 --rx-address 2001:db8:2::2/64,2001:db8:3::2/64 --gateway 2001:db8::1,2001:db8:1::1,2001:db8:2::1,2001:db8:3::1 --quick")
	if err == nil || !strings.Contains(err.Error(), "not of one network namespace") {
		t.Error(err)
	}
	c, err := parse("--tx a,b --rx c,d --l2 --quick --line-rate 25 --sizes 1500,3000 --imix --genome aaab")
	if err != nil {
		t.Fatal(err)
	}
	if trials := trials(c); !c.Ports.Given || !c.Ports.LineRate || trials.LineRate != 25 || trials.Sizes[0] != 1518 || len(trials.Mixes) != 2 || len(trials.Mixes[1].Order) != 4 {
		t.Errorf("%+v of %+v", trials, c.Ports)
	}
}
