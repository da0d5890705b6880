package latency

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/lab/experiment/experimenttest"
)

// parse reads a command line.
func parse(args string) (*Command, error) {
	c := new(commands)
	err := experimenttest.Parse(c, append([]string{"latency"}, strings.Fields(args)...)...)
	return &c.Latency, err
}

func TestLatencyValidate(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", ""},
		{"--quick --app --breakdown --rate 1000", ""},
		{"--targets plain,kernel,ovs,selvage", ""},
		{"--rules 7", ""},
		{"--targets fast", `unknown target "fast"`},
		{"--targets kernel,kernel", "named twice"},
		{"--scenarios same-host,same-host", "named twice"},
		{"--scenarios moon", "must be one of"},
		{"--measure rr,rr", "named twice"},
		{"--measure ping", "must be one of"},
		{"--rules 5,5", "5 is named twice"},
		{"--rules=-1", "--rules: -1 is not"},
		{"--rules 200000", "--rules: 200000 is not"},
		{"--rounds=-1", "--rounds"},
		{"--duration 1ms", "--duration"},
		{"--sample 1ms", "--sample"},
		{"--pairs 0", "--pairs"},
		{"--at-once 1", "--at-once"},
		{"--rate=-1", "--rate"},
		{"--underlay-mtu 1300", "--underlay-mtu"},
	} {
		_, err := parse(tt.args)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.args, err, tt.want)
		}
	}
}

// The study's length is the default, and the case without a firewall always there.
func TestLatencyDefaults(t *testing.T) {
	c, err := parse("")
	if err != nil {
		t.Fatal(err)
	}
	if c.Duration != 120*time.Second || !slices.Equal(c.Rules, []int{0, 1, 10, 100, 1000, 10000, 100000}) || c.Pairs != 4 {
		t.Errorf("%+v", c)
	}
	if c, err = parse("--quick --rules 10000,7 --scenarios same-host"); err != nil || !slices.Equal(c.Rules, []int{0, 7, 10000}) || c.Rounds != 3 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestLatencyPlan(t *testing.T) {
	c, err := parse("--targets plain,kernel,selvage --rules 0,100,1000 --rounds 2 --rate 500 --app --duration 3s --sample 1s")
	if err != nil {
		t.Fatal(err)
	}
	took := map[string]int{}
	var policies []string // as they change
	for _, s := range c.plan() {
		took[s.Target+" "+s.CaseName+" "+s.what]++
		if s.Target == "plain" && s.setting.Rules > 0 {
			t.Errorf("%v: plain has no firewall", s)
		}
		if want := (c.scenario(s.setting) && (s.what == "rr" || s.what == "pairs")); want != (s.Planned == 3*time.Second) {
			t.Errorf("%v takes %s", s, s.Planned)
		}
		if policy := fmt.Sprint(s.Target, " ", s.setting.Scenario, " ", s.setting.Rules); len(policies) == 0 || policies[len(policies)-1] != policy {
			policies = append(policies, policy)
		}
	}
	for what, want := range map[string]int{
		"selvage rules-100 rr": 2, "selvage rules-100 tcp": 2, "selvage rules-100 open": 2, "selvage rules-100 app": 6, "selvage rules-1000 app": 0,
		"selvage two-hosts-on-x4 pairs": 2, "kernel same-host-on rr": 2, "kernel same-host-on tcp": 0, "plain rules-0 udp": 2, "plain same-host-off conn": 2,
		"kernel same-host-off-x4 pairs": 2, "kernel rules-1000 pairs": 0,
	} {
		if took[what] != want {
			t.Errorf("%s: %d samples, want %d", what, took[what], want)
		}
	}
	// All samples of a policy are neighbours, in each part of the two rounds: five on one host,
	// seven between two.
	if most := 2 * 2 * (5 + 7); len(policies) > most {
		t.Errorf("policies change %d times, more than %d:\n%s", len(policies), most, strings.Join(policies, "\n"))
	}
}

// opening is a guest's first packet at its own host.
func opening(proto uint8, port uint16) policy.Query {
	return policy.Query{
		Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), SrcPlace: "access", Place: "access",
		SrcSegment: "lab", DstSegment: "lab", Direction: overlay.Out, Protocol: proto, SrcPort: 40000, DstPort: port, Ported: true,
	}
}

// Whatever is measured is decided by the last rule, and a marker by its own policy's alone.
func TestSweepPolicy(t *testing.T) {
	places := []policy.Place{{Name: "access", Port: "access", Segment: "lab"}}
	for _, rules := range []int{1, 2, 10, 100, 5000} {
		fw := sweepPolicy(rules, 3)
		if len(fw.Rules) != rules || !reflect.DeepEqual(fw, sweepPolicy(rules, 3)) {
			t.Fatalf("%d rules, want %d that are always the same", len(fw.Rules), rules)
		}
		for _, o := range []struct {
			opening policy.Query
			rule    int
		}{
			{opening(6, 5201), rules - 1}, {opening(6, 5301), rules - 1}, {opening(6, 5304), rules - 1}, {opening(17, 5302), rules - 1},
			{opening(6, 5432), rules - 1}, {opening(6, 5480), rules - 1}, {opening(6, 9), rules - 1},
			{opening(6, firstMarker+3), rules - 1}, {opening(6, firstMarker+2), rules}, {opening(6, forbiddenPort), rules}, {opening(17, forbiddenPort), rules},
		} {
			got := policy.Evaluate(*fw, places, o.opening)
			if got.Rule != o.rule || (got.Verdict == overlay.Allow) != (o.rule == rules-1) {
				t.Errorf("%d rules: protocol %d port %d is decided by rule %d (%s), want %d", rules, o.opening.Protocol, o.opening.DstPort, got.Rule, got.Verdict, o.rule)
			}
		}
	}
}

// No rule is another's double, as in real policies, nor written wrong: all of them compile.
func TestSweepPolicyVaries(t *testing.T) {
	const rules = 20000
	fw := sweepPolicy(rules, 0)
	names, bodies, verdicts := map[string]bool{}, map[string]int{}, map[overlay.Verdict]int{}
	for _, r := range fw.Rules {
		names[r.Name] = true
		verdicts[r.Verdict]++
		bodies[strings.Join([]string{memberText(r.From), memberText(r.To), serviceText(r.Services)}, " ")]++
	}
	if len(names) != rules || len(bodies) != rules {
		t.Errorf("%d names and %d different rules of %d", len(names), len(bodies), rules)
	}
	if verdicts[overlay.Drop] < rules/10 || len(verdicts) != 2 {
		t.Errorf("verdicts %v", maps.Collect(maps.All(verdicts)))
	}
	if _, err := policy.Compile(*fw, []policy.Place{{Name: "access", Port: "access", Segment: "lab"}}); err != nil {
		t.Error(err)
	}
}

func memberText(list []overlay.Member) string {
	text := ""
	for _, m := range list {
		text += m.Prefix.String() + m.Group
	}
	return text
}

func serviceText(list []overlay.Service) string {
	var b strings.Builder
	for _, s := range list {
		b.WriteString(strings.Repeat("|", s.Protocol))
		for _, p := range s.Ports {
			b.WriteRune(rune(p.First))
		}
	}
	return b.String()
}

func TestRenamed(t *testing.T) {
	got := renamed(map[string]float64{RRP50: 1, "rr_p99": 2, "cpu_steal": 3}, "rr1")
	if want := map[string]float64{RR1P50: 1, "rr1_p99": 2, "cpu_steal": 3}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Programs of targets are edges of another build.
func TestLatencyBuilds(t *testing.T) {
	if c, err := parse("--quick --targets=kernel,old=/bin/sh"); err != nil || c.programs["old"] != "/bin/sh" {
		t.Errorf("%v, %v", c.programs, err)
	}
	if _, err := parse("--quick --targets=kernel=/bin/sh"); err == nil || !strings.Contains(err.Error(), "kernel is no edge") {
		t.Errorf("%v", err)
	}
}
