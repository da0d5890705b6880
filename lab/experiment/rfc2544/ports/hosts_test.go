package ports

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/lab/transit"
	"github.com/selvage/selvage/lab/transit/tester"
	"github.com/selvage/selvage/test/places"
)

// hosts are two machines that a cable joins, reached by SSH, and a command that measures it.
func hosts(t *testing.T) (*places.Testbed, *Command) {
	t.Helper()
	testbed := places.New(t)
	for _, m := range []*places.Machine{testbed.A, testbed.B} {
		if out, err := m.Host.Output(t.Context(), "sh", "-c", "ip link del "+places.Overlay+"; ip addr flush dev "+places.Data+"; sysctl -qw net.ipv6.conf."+places.Data+".disable_ipv6=1"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return testbed, &Command{
		Tx: []Interface{{"", places.Data}}, Rx: []Interface{{"", places.Data}}, L2: true, XDP: gen.Native, DUT: "a cable", CatchUp: 50 * time.Millisecond,
		Host: []place.Place{{Kind: place.SSH, Host: "a"}, {Kind: place.SSH, Host: "b"}}, SSH: strings.Join(testbed.SSH, " "),
	}
}

// Both sides are of other hosts, which SSH leads to: all directions are measured there, and their ports are left as they were.
func TestHosts(t *testing.T) {
	testbed, c := hosts(t)
	c.Reverse, c.Both = true, true
	trials := short(4)
	if err := c.Check(trials); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	r, err := c.measure(t.Context(), &experiment.Console{Out: &log, Err: &log, Version: "test"}, time.Now(), trials)
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	if len(r.Samples) != 3 {
		t.Fatalf("%d samples, want 3", len(r.Samples))
	}
	for _, s := range r.Samples {
		if m := s.Metrics; s.Error != "" || m[transit.NDR] <= 0 || m[transit.LatencyP50] <= 0 || m[transit.LatencyP99] < m[transit.LatencyP50] {
			t.Errorf("%s: %q %v", s.Case, s.Error, m)
		}
	}
	if tx, rx := r.Parameters.Text("tx"), r.Parameters.Text("rx"); !strings.Contains(tx, "at ssh:a") || !strings.Contains(rx, "at ssh:b") {
		t.Errorf("ports %q and %q, want their places", tx, rx)
	}
	if len(r.Places) != 2 || result.Host(r, r.Places[1]) == nil || r.Places[1].Role != "rx" || r.Places[1].Name != "ssh:b" {
		t.Errorf("places: %+v", r.Places)
	}
	for _, m := range []*places.Machine{testbed.A, testbed.B} {
		if p, err := topo.ReadPort(m.Host.Namespace, places.Data); err != nil || p.Program != 0 {
			t.Errorf("left at %s: %+v (%v)", m.Host.Name, p, err)
		}
	}
}

// What is wrong at another host is said before anything is sent, with the place.
func TestRefusesHosts(t *testing.T) {
	_, c := hosts(t)
	for want, change := range map[string]func(*Command){
		"--rx: ssh:b: port d7":    func(c *Command) { c.Rx[0].Name = "d7" },
		"--rx: m0 has an address": func(c *Command) { c.Rx[0].Name = "m0" },
		"--generator-cores: 4095": func(c *Command) { c.Cores = []int{4095} },
	} {
		changed := *c
		changed.Rx = []Interface{c.Rx[0]}
		change(&changed)
		o := place.Connection{SSH: c.SSH}.Options("test", nil)
		o.Limits.Time = time.Second
		s, err := changed.openSite(t.Context(), short(4), o)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, change := range map[string]func(*Command){
		"d0 at ssh:a is named twice": func(c *Command) { c.Tx = []Interface{c.Tx[0], c.Tx[0]} },
		"d0 at ssh:b is named twice": func(c *Command) { c.Host = []place.Place{c.Host[1], c.Host[1]} },
	} {
		changed := *c
		change(&changed)
		if err := changed.Check(short(4)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c.Host = append(c.Host, c.Host[0])
	if err := c.Check(short(4)); err == nil || !strings.Contains(err.Error(), "--host: 3 places") {
		t.Errorf("three hosts: %v", err)
	}
}

// elsewhere are ports of a machine with a clock of its own.
type elsewhere struct{ tester.Ports }

func (elsewhere) Host() tester.Host { return tester.Host{Cores: []int{0, 1}, Boot: "another"} }

// Latency between two clocks is none: it is measured of frames that come back.
func TestTwoClocks(t *testing.T) {
	w := newWorld(t, false)
	c, trials := w.command(false, 4), short(4)
	c.Both = true
	s := w.open(t, c, trials)
	s.sides[1].tester = elsewhere{s.sides[1].tester}
	for _, step := range c.plan(trials) {
		sample := c.take(t.Context(), s, step, trials)
		_, timed := sample.Metrics[transit.LatencyP50]
		if sample.Error != "" || timed != (step.direction == both) || len(sample.Latency) > 0 != timed {
			t.Errorf("%s: timed %t, %d quantiles, error %q", step.CaseName, timed, len(sample.Latency), sample.Error)
		}
	}
}
