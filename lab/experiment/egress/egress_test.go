package egress

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// parse reads a command line.
func parse(args string) (*Command, error) {
	c := new(commands)
	err := experimenttest.Parse(c, append([]string{"egress"}, strings.Fields(args)...)...)
	return &c.Egress, err
}

func TestEgressValidate(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", ""},
		{"--quick --troubleshoot", ""},
		{"--wire 0", ""},
		{"--no-free --wire 2.5 --underlay-mtu 1500", ""},
		{"--targets kernel,kernel-csum-off", ""},
		{"--targets selvage-csum-off", "add that"},
		{"--targets fast", `unknown target "fast"`},
		{"--targets kernel,kernel", "named twice"},
		{"--stages node,node", "node is named twice"},
		{"--stages moon", "must be one of"},
		{"--measure tcp,tcp", "named twice"},
		{"--directions send,send", "named twice"},
		{"--wire=-1", "--wire: -1 is neither"},
		{"--wire 1000", "--wire: 1000 is neither"},
		{"--wire 0 --no-free", "leave nothing to measure"},
		{"--underlay-mtu 1300", "--underlay-mtu: 1300 is not within 1330"},
		{"--rounds=-1", "--rounds"},
		{"--duration 1500ms", "--duration"},
		{"--sample 1ms", "--sample"},
		{"--at-once 1", "--at-once"},
	} {
		_, err := parse(tt.args)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.args, err, tt.want)
		}
	}
}

func TestEgressQuick(t *testing.T) {
	c, err := parse("--quick")
	if err != nil {
		t.Fatal(err)
	}
	if left := egressPace().Left(experiment.Steps(c.plan())); left > 2*time.Minute {
		t.Errorf("--quick is planned to take %s", left)
	}
	if c.Rounds < stats.MinRounds || !slices.Equal(c.Targets, []string{"kernel", "selvage"}) {
		t.Errorf("%d rounds of %v carry no verdict", c.Rounds, c.Targets)
	}
}

// Each case of a round has all targets that have the stage, next to each other, and the
// stages is climbed from the bottom; all ratios have the sample that they are against.
func TestEgressPlan(t *testing.T) {
	c, err := parse("--troubleshoot --rounds 4 --stages egress,tunnel,routed")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	var cases []string
	for _, s := range c.plan() {
		seen[s.Target+" "+s.CaseName+" "+s.what]++
		if name := fmt.Sprint(s.Round, " ", s.CaseName, " ", s.what); len(cases) == 0 || cases[len(cases)-1] != name {
			if slices.Contains(cases, name) {
				t.Errorf("%s is taken up again", name)
			}
			cases = append(cases, name)
		}
	}
	for name, n := range seen {
		if n != 4 {
			t.Errorf("%s is sampled %d times in 4 rounds", name, n)
		}
	}
	for _, want := range []string{
		"plain node tcp", "plain routed-free-reverse tcp", "plain routed conn", "kernel egress-reverse tcp", "selvage tunnel-free tcp",
		"selvage node rr", "selvage egress conn", "kernel-csum-off tunnel tcp", "selvage-csum-off egress-free tcp",
	} {
		if seen[want] == 0 {
			t.Errorf("no sample of %s", want)
		}
	}
	for _, wrong := range []string{"plain tunnel tcp", "plain egress tcp", "kernel tunnel conn", "kernel-csum-off node tcp", "kernel-csum-off egress conn"} {
		if seen[wrong] > 0 {
			t.Errorf("%s is sampled", wrong)
		}
	}
	if cases[0] != "1 node tcp" || cases[1] != "1 tunnel tcp" || cases[3] != "1 egress tcp" {
		t.Errorf("the stages begins with %v", cases[:4])
	}
}

func TestEgressPlanSettings(t *testing.T) {
	for args, want := range map[string][]string{
		"":                  {"node", "egress", "node-free", "egress-free"},
		"--wire 0":          {"node-free", "egress-free"},
		"--no-free":         {"node", "egress"},
		"--no-free --quick": {"node", "egress"},
	} {
		c, err := parse(args + " --measure tcp --rounds 1 --directions send --stages node,egress --targets selvage")
		if err != nil {
			t.Fatal(err)
		}
		var cases []string
		for _, s := range c.plan() {
			cases = append(cases, s.CaseName)
		}
		if !slices.Equal(cases, want) {
			t.Errorf("%s: %v, want %v", args, cases, want)
		}
	}
}

func TestClimbOutcome(t *testing.T) {
	for want, s := range map[string]result.Sample{
		"FAILED: no route": {Error: "no\n route"},
		"4.50 Gbit/s, 7 retransmits, 0.500 CPU s/GB, but other processes kept the machine 30 % busy": {Metrics: map[string]float64{stats.Decisive: 4.5, "retransmits": 7, "cpu_per_gb": 0.5, "idle_busy": 0.3}},
		"6,000 connections a second": {Metrics: map[string]float64{ConnRate: 6000}},
		"p50 17.0 µs, p99 20.0 µs":   {Metrics: map[string]float64{RRP50: 17, "rr_p99": 20}},
	} {
		if got := climbOutcome(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
