package offload

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
)

// offloadDefaults are what kong fills in.
func offloadDefaults() Command {
	return Command{
		Targets: []string{"kernel", "selvage"}, Encap: []overlay.Encapsulation{overlay.VXLAN}, Where: []string{rolePorts, roleUnderlay},
		Rounds: 5, UnderlayMTU: 1500, Family: 4, Pairs: 4, Streams: 8, Duration: time.Second,
	}
}

func TestOffloadValidate(t *testing.T) {
	for want, change := range map[string]func(*Command){
		"":                       func(*Command) {},
		"unknown target":         func(c *Command) { c.Targets = []string{"wire"} },
		"named twice":            func(c *Command) { c.Encap = append(c.Encap, overlay.VXLAN) },
		"--states":               func(c *Command) { c.States = []string{"rss-off"} },
		"--ways":                 func(c *Command) { c.Ways = []string{oneWay, oneWay} },
		"--where: name at least": func(c *Command) { c.Where = nil },
		"--sizes: 0":             func(c *Command) { c.Sizes = []int{0} },
		"--sizes: 8":             func(c *Command) { c.Sizes = []int{8, 8} },
		"--rounds":               func(c *Command) { c.Rounds = 0 },
		"--pairs":                func(c *Command) { c.Pairs = 0 },
		"--streams":              func(c *Command) { c.Streams = 6 },
		"--duration":             func(c *Command) { c.Duration = 1500 * time.Millisecond },
		"--underlay-mtu":         func(c *Command) { c.UnderlayMTU = 1300 },
	} {
		c := offloadDefaults()
		change(&c)
		err := c.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The study's numbers are the defaults.
func TestOffloadDefaults(t *testing.T) {
	c := offloadDefaults()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Sizes, []int{1, 2, 4, 8, 16, 32, 64}) || len(c.States) != 8 || !slices.Equal(c.Ways, []string{oneWay, bothWays}) || c.innerMTU() != 1450 {
		t.Errorf("%+v, inner MTU %d", c, c.innerMTU())
	}
}

func whoever(string, overlay.Encapsulation) bool { return true }

func TestOffloadPlan(t *testing.T) {
	c := offloadDefaults()
	c.Encap = []overlay.Encapsulation{overlay.VXLAN, overlay.Geneve}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	steps := c.plan(func(name string, e overlay.Encapsulation) bool { return name != "kernel" || e == overlay.VXLAN })
	perRound := 8 * 7 * 2 * 3 // states, sizes, ways, targets with encapsulations
	if len(steps) != 5*perRound {
		t.Fatalf("%d steps, want %d", len(steps), 5*perRound)
	}
	seen, first := map[string]int{}, map[string]int{}
	for i, s := range steps {
		seen[s.Target+" "+s.CaseName]++
		if s.stream.Case() != s.CaseName || s.Round != 1+i/perRound {
			t.Errorf("step %d is %+v", i, s)
		}
		// What is compared is neighbours.
		if s.stream.Encapsulation == "vxlan" && (i == 0 || steps[i-1].CaseName != s.CaseName) {
			first[s.Target]++
			if steps[i+1].CaseName != s.CaseName || steps[i+1].Target == s.Target {
				t.Errorf("after %s comes %s", s, steps[i+1])
			}
		}
	}
	for what, n := range seen {
		if n != 5 {
			t.Errorf("%s is measured %d times", what, n)
		}
	}
	if first["kernel"] != first["selvage"] {
		t.Errorf("first of a state are %v", first)
	}
}

func TestOffloadQuick(t *testing.T) {
	c := offloadDefaults()
	c.Quick = true
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	steps := c.plan(whoever)
	if took := offloadPace().Left(experiment.Steps(steps)); took > 3*time.Minute {
		t.Errorf("it takes %s", took)
	}
	if c.Rounds < stats.MinRounds {
		t.Errorf("%d rounds carry no verdict", c.Rounds)
	}
	c = offloadDefaults()
	c.Quick, c.States, c.Sizes = true, []string{"gro-off"}, []int{2}
	if err := c.Validate(); err != nil || !slices.Equal(c.States, []string{"gro-off"}) || !slices.Equal(c.Sizes, []int{2}) {
		t.Errorf("what was asked for is overruled: %+v, %v", c, err)
	}
}

func TestKindOf(t *testing.T) {
	for feature, want := range map[string]string{
		"tx-tcp-segmentation": Segmentation, "tx-udp_tnl-csum-segmentation": Segmentation, "tx-generic-segmentation": Segmentation,
		"rx-gro": Coalescing, "rx-lro": Coalescing, "rx-gro-list": "", "rx-udp-gro-forwarding": "",
		"tx-checksum-ip-generic": Checksums, "rx-checksum": Checksums, "tx-checksum-sctp": "", "tx-scatter-gather": "", "highdma": "",
	} {
		if got := kindOf(feature); got != want {
			t.Errorf("%s is %q, want %q", feature, got, want)
		}
	}
}

func TestForceWords(t *testing.T) {
	now := map[string]bool{"tx-tcp-segmentation": false, "tx-generic-segmentation": true, "rx-gro": true, "tx-checksum-ip-generic": false, "highdma": true}
	inForce := map[string]map[string]string{roleUnderlay: {}}
	for _, kind := range allKinds() {
		inForce[roleUnderlay][kind] = extent(now, kind)
	}
	if got := forceWords(inForce); got != "underlay: tso partly, gro on, csum off" {
		t.Error(got)
	}
	for _, c := range [][3]string{{"", "on", "on"}, {"on", "", "on"}, {"on", "off", "partly"}, {"partly", "on", "partly"}, {"off", "off", "off"}} {
		if got := joinExtent(c[0], c[1]); got != c[2] {
			t.Errorf("%v: %s", c, got)
		}
	}
}

// Rates add up; the processor's time is the mean of what the runs saw, of the same time.
func TestStreamSample(t *testing.T) {
	core := func(n int, busy float64) result.CPUShare {
		return result.CPUShare{Core: n, User: busy / 2, SoftIRQ: busy / 2, Idle: 1 - busy}
	}
	run := func(gbits, first, second float64) *measure.TCP {
		return &measure.TCP{
			Options: measure.TCPOptions{Streams: 2, Unwatched: true}, Received: gbits * 1e9, Retransmits: 3, Elapsed: time.Second,
			CPU: measure.CPU{Cores: []result.CPUShare{core(0, first), core(1, second)}},
		}
	}
	s := streamSample([]*measure.TCP{run(2, 0.8, 0.4), run(3, 1, 0.6)})
	want := map[string]float64{Throughput: 5, Processor: 70, Efficiency: 5000.0 / 70, "streams": 4, "retransmits": 6, "cpu_steal": 0}
	for name, value := range s.Metrics {
		if diff := value - want[name]; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("%s is %v, want %v", name, value, want[name])
		}
	}
	if !slices.Equal(slices.Sorted(maps.Keys(s.Metrics)), slices.Sorted(maps.Keys(want))) || len(s.CPU) != 2 || s.Duration != 1 {
		t.Errorf("%+v", s)
	}
}
