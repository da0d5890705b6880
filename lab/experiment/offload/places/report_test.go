package places

import (
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/turns"
)

func TestGolden(t *testing.T) { experimenttest.Golden(t, Experiment(), Name) }

// TestOdd draws what interrupted, small and broken runs leave behind.
func TestOdd(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*result.Result)
		want   string
	}{
		"nothing":       {func(r *result.Result) { *r = result.Result{Schema: result.Schema, Experiment: Name} }, "Verdict refused"},
		"one round":     {experimenttest.Keeping(func(s result.Sample) bool { return s.Round == 1 }), "Verdict refused"},
		"as found":      {experimenttest.Keeping(func(s result.Sample) bool { return strings.HasPrefix(s.Case, AsFound) }), "no other state"},
		"not as found":  {experimenttest.Keeping(func(s result.Sample) bool { return !strings.HasPrefix(s.Case, AsFound) }), "Verdict refused"},
		"one size":      {experimenttest.Keeping(func(s result.Sample) bool { return strings.HasSuffix(s.Case, "/64k") }), "By state of both adapters"},
		"one path":      {experimenttest.Without("overlay"), "By size of writes"},
		"all failed":    {experimenttest.EachSample("", "", experimenttest.Failed), "&lt;b&gt;no route&lt;/b&gt;"},
		"zeros":         {experimenttest.EachSample("", "", experimenttest.Zeroed), "Method"},
		"strange cases": {experimenttest.EachSample("", "tso-off", func(s *result.Sample) { s.Case = "odd" }), "By size of writes"},
		"hostile name":  {experimenttest.EachSample("overlay", "", func(s *result.Sample) { s.Target = `"><script>x</script>` }), "k-x"},
	} {
		t.Run(name, func(t *testing.T) {
			r := experimenttest.Recorded(t, Name)
			c.change(&r)
			experimenttest.DrawOdd(t, Experiment(), r, c.want)
		})
	}
}

// modelled is a run over one path, whose throughput in a state is a multiple of that as found.
func modelled(rounds int, ratios map[string]float64) result.Result {
	r := result.Result{Schema: result.Schema, Experiment: Name, Parameters: result.Parameters{"slice": result.Time(time.Second)}}
	ratios[AsFound] = 1
	for round := 1; round <= rounds; round++ {
		for _, state := range []string{AsFound, AllOff, "tso-off", "gro-on"} {
			ratio, measured := ratios[state]
			for _, kb := range []int{1, 64} {
				if measured {
					base := float64(kb) * (1 + float64(round)/1000)
					r.Samples = append(r.Samples, result.Sample{Target: "lan", Case: caseOf(state, kb), Round: round, Duration: 1, Metrics: map[string]float64{
						measure.TCPThroughput: ratio * base, client + turns.CPUPerGB: 1 / ratio, server + turns.CPUPerGB: 2,
					}})
				}
			}
		}
	}
	return r
}

func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		r    result.Result
		want []string
	}{
		"both":    {modelled(10, map[string]float64{AllOff: 0.5, "gro-on": 1.25}), []string{"Over lan the adapters carry 8.04 Gbit/s as found (mean over the sizes of writes). With coalescing by the kernel (GRO) it is most, 1.25 × [1.25, 1.25]. With all offloads off it is least, 0.50 × [0.50, 0.50].", "carries 2.00 × [2.00, 2.00] what it does with all offloads off", "CPU per GB to as found: with all offloads off 2.00 ×"}},
		"same":    {modelled(10, map[string]float64{"tso-off": 1}), []string{"No other state is shown to carry more. None is shown to carry less.", "Not distinguishable: tso-off."}},
		"less":    {modelled(10, map[string]float64{"tso-off": 0.9}), []string{"No other state is shown to carry more. Without TCP segmentation (TSO) it is least, 0.90 ×"}},
		"few":     {modelled(3, map[string]float64{AllOff: 0.5}), []string{"No verdict: n = 3 over lan; a difference needs at least 8 rounds"}},
		"nothing": {result.Result{}, []string{"No verdict: nothing was measured."}},
	} {
		v := verdict(c.r)
		text := v.String()
		for _, f := range v.Findings {
			text += "\n" + f.Text
		}
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %s", name, want, text)
			}
		}
	}
}

// An adapter with everything gives a state of each thing that differs from how it is.
func TestStates(t *testing.T) {
	full := agent.Adapter{
		Features: map[string]bool{"tx-tcp-segmentation": true, "tx-tcp6-segmentation": true, "rx-gro-hw": false},
		Settings: map[string]agent.Setting{
			agent.RxRing: {Value: "512", Most: "4096"}, agent.TxRing: {Value: "4096", Most: "4096"}, agent.UDPHash4: {Value: agent.HashAddresses},
			agent.AdaptiveRx: {Value: "on"}, agent.RxUsecs: {Value: "50"}, agent.Pauses: {Value: "autoneg+rx+tx"},
		},
		Missing: map[string]string{agent.UDPHash6: "the driver has no such setting"},
	}
	bare := agent.Adapter{Features: map[string]bool{"tx-tcp-segmentation": false}}
	states, missing := statesOf([]found{{client, "eth1", full}, {server, "ens3", bare}})
	states = append(states, allOff(states))
	var lines []string
	for _, s := range states {
		for _, role := range []string{client, server} {
			for _, c := range s.changes[role] {
				lines = append(lines, s.name+" "+role+" "+c.String())
			}
		}
	}
	want := `tso-off client eth1:tx-tcp-segmentation=off
tso-off client eth1:tx-tcp6-segmentation=off
tso-on server ens3:tx-tcp-segmentation=on
gro-hw-on client eth1:rx-gro-hw=on
rss-ports client eth1:udp4-hash=ports
no-pause client eth1:pause=off
rings-max client eth1:rx-ring=4096
interrupts-at-once client eth1:adaptive-rx=off
interrupts-at-once client eth1:rx-usecs=0
all-off client eth1:tx-tcp-segmentation=off
all-off client eth1:tx-tcp6-segmentation=off`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if text := strings.Join(missing, "\n"); !strings.Contains(text, "lro: neither interface") || !strings.Contains(text, "udp6-hash at the client (eth1): the driver has no") {
		t.Error(text)
	}
	for _, s := range states {
		for _, c := range s.back(client, full) {
			now, has := full.Features[c.Feature]
			if c.Setting != "" && c.Value != full.Settings[c.Setting].Value || c.Setting == "" && (!has || c.On != now) {
				t.Errorf("%s goes back to %s", s.name, c)
			}
		}
		if words := wordsOf(s.name); strings.HasPrefix(words, "in state") {
			t.Errorf("no words for %s", s.name)
		}
	}
}

func TestCheck(t *testing.T) {
	host := func(name string) Host { return Host{place.Place{Kind: place.SSH, Host: name}, "eth1"} }
	good := func() *Command {
		return &Command{
			Host: []Host{host("a"), host("b")}, Path: []turns.Path{{Name: "x"}}, Writes: []int{1, 64}, Flows: 8,
			Flags: turns.Flags{Port: 1, Slice: time.Second, MaxTime: time.Minute},
		}
	}
	if err := good().Check(10); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Command){
		"--host: 1 are named, not two":  func(c *Command) { c.Host = c.Host[:1] },
		"--host: both are ssh:a":        func(c *Command) { c.Host[1] = c.Host[0] },
		"--host: nothing can run":       func(c *Command) { c.Host[1].Place = place.Place{Kind: place.Address} },
		"--writes: 0 is not a new size": func(c *Command) { c.Writes = []int{0} },
		"--writes: 1 is not a new size": func(c *Command) { c.Writes = []int{1, 1} },
		"--flows: 0 is not within":      func(c *Command) { c.Flows = 0 },
		"--path":                        func(c *Command) { c.Path = nil },
	} {
		c := good()
		change(c)
		if err := c.Check(10); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	var h Host
	if err := h.UnmarshalText([]byte("ssh:root@host-a:22:eth1.7")); err != nil || h.Interface != "eth1.7" || h.Place.Port != 22 || h.Place.Host != "host-a" {
		t.Errorf("%+v, %v", h, err)
	}
	for _, text := range []string{"", "eth1", "ssh:host-a", "ssh:host-a:", ":eth1", "ssh:[fd00::1]", "ssh:a:a-name-of-16-byte"} {
		if err := new(Host).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is no error", text)
		}
	}
}
