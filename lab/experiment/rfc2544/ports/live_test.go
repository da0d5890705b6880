package ports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/gen"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/plant"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/lab/transit"
	"github.com/selvage/selvage/lab/transit/tester"
	"github.com/selvage/selvage/lab/watch"
	"github.com/selvage/selvage/test/tier"
)

func TestMain(m *testing.M) {
	agent.Run(os.Args[1:], "test", agent.Services{tester.ServiceName: tester.Service})
	tier.SideBySide(2)
	os.Exit(m.Run())
}

/*
world is a kernel between two ports that have no addresses:

	tester tx ----- in device out ----- rx tester

It routes between 192.0.2.0/24 and 198.51.100.0/24, 2001:db8:1::/64 and 2001:db8:2::/64, or bridges.
*/
type world struct{ tester, device *topo.Host }

func newWorld(t testing.TB, bridge bool) *world {
	t.Helper()
	tier.Root(t)
	if t, ok := t.(*testing.T); ok {
		t.Parallel()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	lab, err := topo.New(ctx, "ports-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w.tester, err = lab.Host("tester")
	must(err)
	w.device, err = lab.Host("device")
	must(err)
	for i, names := range [][2]string{{"tx", "in"}, {"rx", "out"}} {
		end := topo.LinkEnd{Host: w.device, Name: names[1]}
		if !bridge {
			end.Addrs = []netip.Prefix{netip.MustParsePrefix([]string{"192.0.2.1/24", "198.51.100.1/24"}[i]), netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::1/64", i+1))}
		}
		must(lab.Link(ctx, topo.LinkEnd{Host: w.tester, Name: names[0]}, end, 1500))
		must(w.tester.DisableIPv6(names[0]))
		_, err := w.device.SetFeatures(names[1], map[string]bool{"rx-gro": true}) // so that it takes frames of XDP
		must(err)
	}
	if bridge {
		must(w.device.Bridge(ctx, "br0", 1500, "in", "out"))
		return w
	}
	must(w.device.SysctlSet("net/ipv4/ip_forward", "1"))
	must(w.device.SysctlSet("net/ipv6/conf/all/forwarding", "1"))
	return w
}

// command is one for this world.
func (w *world) command(l2 bool, family int) *Command {
	at := func(name string) []Interface { return []Interface{{w.tester.Namespace, name}} }
	// Other tests have the cores too.
	c := &Command{Tx: at("tx"), Rx: at("rx"), L2: l2, XDP: gen.Native, DUT: "a kernel", CatchUp: 50 * time.Millisecond}
	switch {
	case l2:
	case family == 6:
		c.TxAddress, c.RxAddress = prefixes("2001:db8:1::200/64"), prefixes("2001:db8:2::200/64")
		c.Gateway = []netip.Addr{netip.MustParseAddr("2001:db8:1::1"), netip.MustParseAddr("2001:db8:2::1")}
	default:
		c.TxAddress, c.RxAddress = prefixes("192.0.2.200/24"), prefixes("198.51.100.200/24")
		c.Gateway = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1")}
	}
	return c
}

// mtu gives all interfaces of the world one. Frames of packet sockets go by the ring of a veth whose far end has no XDP only if
// it does not segment; else by the backlog of the core, which is all tests'.
func (w *world) mtu(t *testing.T, bytes int) {
	t.Helper()
	for _, h := range []*topo.Host{w.device, w.tester} {
		links, err := h.Output(t.Context(), "sh", "-c", fmt.Sprintf("for i in /proc/sys/net/ipv4/conf/*/; do i=$(basename $i); case $i in all|default|lo) ;; *) ip link set dev $i mtu %d || exit 1; esac; done", bytes))
		if err != nil {
			t.Fatalf("%v: %s", err, links)
		}
	}
	for _, name := range []string{"tx", "rx"} {
		if out, err := w.tester.Output(t.Context(), "ethtool", "-K", name, "tso", "off"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// short are the shortest trials.
func short(family int) Trials {
	return Trials{
		Sizes: []int{100}, Flows: 40, Family: family, Quick: true, Tolerance: 0.01, MinRate: 1, MaxRate: 100, Retries: 3, Rounds: 1, LatencyTrials: 1,
		Duration: 60 * time.Millisecond, InitialDuration: 30 * time.Millisecond, LatencyDuration: 30 * time.Millisecond, Drain: 200 * time.Millisecond, Settle: time.Millisecond,
	}
}

func (w *world) open(t testing.TB, c *Command, trials Trials) *site {
	t.Helper()
	if err := c.Check(trials); err != nil {
		t.Fatal(err)
	}
	s, err := c.openSite(t.Context(), trials, place.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// around are instruments around a site that are warm.
func around(t testing.TB, s *site, trials Trials) *transit.Instruments {
	t.Helper()
	r, err := transit.Around(s, transit.InstrumentOptions{Direction: forward, Stream: gen.Stream{Frame: 100, Flows: trials.Flows, Family: trials.Family}, Drain: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := r.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// watchBox has a box be asked that a program answers for.
func (c *Command) watchBox(t *testing.T) {
	t.Helper()
	c.SSH = filepath.Join(t.TempDir(), "ssh")
	if err := os.WriteFile(c.SSH, []byte("#!/bin/sh\necho \"drops: $(date +%s)\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c.Boxes = watch.Flags{WatchDevice: []place.Place{{Kind: place.SSH, Host: "router"}}, WatchCommand: []string{"show drops"}, WatchPattern: []string{`(?P<name>\w+): (\d+)`}}
}

// A run through a router and through a bridge has all figures both ways, and leaves the ports as they were.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		name   string
		l2     bool
		family int
		change func(*Command)
		frame  int // 0 is that of short
	}{
		{"router IPv4", false, 4, func(c *Command) { c.Reverse = true; c.watchBox(t) }, 0}, {"router IPv6", false, 6, func(c *Command) { c.Both = true }, 0},
		{"bridge", true, 4, func(c *Command) { c.VLAN, c.Genome = 7, "aab" }, 0}, {"bridge generic", true, 6, func(c *Command) { c.XDP, c.Both = gen.Generic, true }, 0},
		{"router of large frames", false, 4, func(*Command) {}, 9018}, {"bridge of large frames that come back", true, 6, func(c *Command) { c.Both, c.VLAN = true, 7 }, 9018},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.l2)
			command := w.command(c.l2, c.family)
			c.change(command)
			trials := short(c.family)
			if c.frame > 0 {
				trials.Sizes = []int{c.frame}
				w.mtu(t, c.frame-14-gen.FCS)
			}
			trials.Mixes = command.Mixes(nil)
			if err := command.Check(trials); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			r, err := command.measure(t.Context(), &experiment.Console{Out: &log, Err: &log, Version: "test"}, time.Now(), trials)
			if err != nil {
				t.Fatalf("%v\n%s", err, &log)
			}
			want := 1 // sample
			if command.Reverse || command.Both || command.Genome != "" {
				want = 2
			}
			if len(r.Samples) != want {
				t.Fatalf("%d samples, want %d", len(r.Samples), want)
			}
			for _, s := range r.Samples {
				m := s.Metrics
				if s.Error != "" || m[transit.NDR] <= 0 || m[transit.PDR] < m[transit.NDR] || m[transit.GeneratorCeiling] < m[offeredRate] || m[rateTotal] <= m[rateIn] || m[transit.LatencyP99] <= 0 || m[transit.LatencyP50+"_10"] <= 0 {
					t.Errorf("%s: %q %v", s.Case, s.Error, m)
				}
				if m[offeredRate] > generatorMargin*m[transit.GeneratorCeiling]*1.0001 {
					t.Errorf("%s: offered %v Mpps of a ceiling of %v", s.Case, m[offeredRate], m[transit.GeneratorCeiling])
				}
			}
			if answered := r.Parameters.Int("neighbours_answered"); (answered > 0) == c.l2 {
				t.Errorf("%d requests for neighbours were answered", answered)
			}
			r.Summary = summarise(r)
			if v := verdict(r); v.Refused {
				t.Error(v)
			}
			for _, d := range r.Devices {
				if d.Failed > 0 || len(d.Series) != 1 || d.Series[0].Name != "drops" || len(d.Series[0].Values) != d.Asked {
					t.Errorf("the box that is watched: %+v", d)
				}
			}
			if len(r.Devices) != len(command.Boxes.WatchDevice) {
				t.Errorf("%d boxes were watched", len(r.Devices))
			}
			for _, name := range []string{"tx", "rx"} {
				if p, err := topo.ReadPort(w.tester.Namespace, name); err != nil || p.Program != 0 || len(p.Addrs) > 0 {
					t.Errorf("left at %s: %+v (%v)", name, p, err)
				}
			}
		})
	}
}

// A device that ends a tunnel at one side forwards what is inside to the other.
func TestEncap(t *testing.T) {
	w := newWorld(t, false)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.device.VXLAN(t.Context(), "vx", topo.VXLAN{VNI: 100, Local: netip.MustParseAddr("192.0.2.1"), MTU: 1450}))
	must(w.device.AddAddr("vx", netip.MustParsePrefix("203.0.113.254/24")))
	mac, err := w.device.MAC("vx")
	must(err)
	command, trials := w.command(false, 4), short(4)
	must(command.Encap.UnmarshalText([]byte("vxlan:100@192.0.2.1")))
	command.TxNet, command.EncapMAC = netip.MustParsePrefix("203.0.113.0/24"), mac.String()
	s := w.open(t, command, trials)
	plan := command.plan(trials)
	sample := command.take(t.Context(), s, plan[0], trials)
	m := sample.Metrics
	if sample.Error != "" || m[transit.NDR] <= 0 || plan[0].in != 150 || plan[0].out != 100 || m[rateIn] <= m[rateOut] {
		t.Errorf("%q %v %+v", sample.Error, m, plan[0])
	}
	backIntoTunnel(t, w, s, command, trials)
	for text, want := range map[string]string{"vxlan:100": "is not vxlan:VNI@TEP", "gre:1@192.0.2.1": "is not vxlan:VNI@TEP", "vxlan:16777216@192.0.2.1": "is not vxlan:VNI@TEP"} {
		if err := new(Encap).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	command.EncapOptions = []byte{1, 2, 3, 4}
	if err := command.Check(trials); err == nil || !strings.Contains(err.Error(), "vxlan has no options") {
		t.Error(err)
	}
}

// backIntoTunnel has frames looped back into the tunnel by a device that knows their hosts.
func backIntoTunnel(t *testing.T, w *world, s *site, command *Command, trials Trials) {
	t.Helper()
	commands := []string{"bridge fdb replace " + innerMAC().String() + " dev vx dst 192.0.2.200"}
	for _, host := range gen.Hosts(command.TxNet, gen.DefaultSources) {
		commands = append(commands, "ip neigh replace "+host.String()+" dev vx nud permanent lladdr "+innerMAC().String())
	}
	for _, line := range commands {
		if out, err := w.device.Output(t.Context(), strings.Fields(line)...); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	command.Both = true
	plan := command.plan(trials)
	last := plan[len(plan)-1]
	sample := command.take(t.Context(), s, last, trials)
	m := sample.Metrics
	if in, out, most := last.wire(); last.CaseName != "both-100" || in != 290 || out != in || most != 170 {
		t.Errorf("%s loads the device with %v and %v bytes a frame, a wire with %v", last.CaseName, in, out, most)
	}
	if sample.Error != "" || m[transit.NDR] <= 0 || math.Abs(m[rateIn]/(m[offeredRate]*290*8/1e3)-1) > 1e-9 || m[transit.LatencyP50] <= 0 {
		t.Errorf("%q %v", sample.Error, m)
	}
}

// Nothing is lost at nine tenths of the ceiling; on a machine that others use that may take several
// attempts.
func TestNothingIsLost(t *testing.T) {
	for name, cores := range map[string][]int{"one core": nil, "two cores": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			if runtime.NumCPU() < len(cores) {
				t.Skip("one core alone")
			}
			w := newWorld(t, false)
			command, trials := w.command(false, 4), short(4)
			s := w.open(t, command, trials)
			most := math.Inf(1)
			if len(cores) > 0 {
				s.sides[0].cores, most = cores, 200e3 // two cores and the device get into each other's way here
			}
			passesWhole(t, around(t, s, trials), most)
		})
	}
}

// passesWhole: nothing is lost at nine tenths of the ceiling, or at most of it.
func passesWhole(t *testing.T, r *transit.Instruments, most float64) {
	peak, err := r.Unchecked(t.Context(), gen.Load{Duration: 50 * time.Millisecond, Batch: transit.PeakBatch, Untimed: true}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	err = await.That(t.Context(), "a trial without loss", func() error {
		p, err := r.Send(t.Context(), gen.Load{Rate: min(generatorMargin*peak.Sent.Rate(), most), Frames: 20_000, Untimed: true, Batch: transit.PeakBatch})
		if err == nil && (p.Lost > 0 || p.Void != "" || p.Sent.Frames == 0) {
			err = fmt.Errorf("%d of %d lost %s", p.Lost, p.Sent.Frames, p.Void)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A device that drops every 10,000th frame is found out: to a frame in the account, and by the search.
func TestPlantedLoss(t *testing.T) {
	w := newWorld(t, false)
	index, err := w.device.Index("out")
	if err != nil {
		t.Fatal(err)
	}
	var harm *plant.Plant
	err = w.device.Do(func() (err error) {
		harm, err = plant.At(index, plant.Harm{OneOf: 10_000})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer harm.Close()
	command, trials := w.command(false, 4), short(4)
	s := w.open(t, command, trials)
	t.Run("account", func(t *testing.T) { countsPlanted(t, around(t, s, trials), harm) })
	trials.Sizes, trials.LatencyTrials, trials.Tolerance, trials.MinRate = []int{100}, 0, 0.5, 20
	trials.Duration = 300 * time.Millisecond
	sample := command.take(t.Context(), s, command.plan(trials)[0], trials)
	if m := sample.Metrics; sample.Error != "" || m[transit.NDR] != 0 || m[transit.PDR] <= 0 {
		t.Errorf("%q %v", sample.Error, m)
	}
}

// countsPlanted: what is lost is what was planted, to a frame.
func countsPlanted(t *testing.T, r *transit.Instruments, harm *plant.Plant) {
	err := await.That(t.Context(), "a trial in which nothing else is lost", func() error {
		_, before, err := harm.Count()
		if err != nil {
			return err
		}
		p, err := r.Send(t.Context(), gen.Load{Rate: 200e3, Frames: 50_000, Untimed: true})
		if err != nil {
			return err
		}
		_, after, err := harm.Count()
		if p.Lost != after-before || p.Void != "" || p.Lost < 4 {
			err = errors.Join(err, fmt.Errorf("%d of %d lost, %d planted %s", p.Lost, p.Sent.Frames, after-before, p.Void))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// What cannot work is refused before anything is sent, with the reason and the port.
func TestRefusals(t *testing.T) {
	w := newWorld(t, false)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, want string
		do, undo   func()
		change     func(*Command, *Trials)
	}{
		{"missing", "tx9", nil, nil, func(c *Command, _ *Trials) { c.Tx[0].Name = "tx9" }},
		{"namespace", "no-such-ns", nil, nil, func(c *Command, _ *Trials) { c.Tx[0].Namespace = "no-such-ns" }},
		{"MTU", "frames of 1600 bytes need an MTU of 1582 at ns:" + w.tester.Namespace + ":tx, which has 1500", nil, nil, func(_ *Command, t *Trials) { t.Sizes = []int{1600} }},
		{"down", "tx is down", func() { must(w.tester.Down("tx")) }, func() { must(w.tester.Up("tx")) }, nil},
		{"address", "has an address of this host, 203.0.113.1/24", func() { must(w.tester.AddAddr("rx", netip.MustParsePrefix("203.0.113.1/24"))) },
			func() { must(w.tester.DelAddr("rx", netip.MustParsePrefix("203.0.113.1/24"))) }, nil},
		{"program", "has an XDP program already", nil, nil, nil},
		{"gateway", "192.0.2.99 does not answer", nil, nil, func(c *Command, _ *Trials) { c.Gateway[0] = netip.MustParseAddr("192.0.2.99") }},
		{"room", "64 destinations do not fit into 192.0.2.0/27", nil, nil, func(c *Command, _ *Trials) { c.TxNet = netip.MustParsePrefix("192.0.2.0/27") }},
		{"host", "192.0.2.3 is among the hosts", nil, nil, func(c *Command, _ *Trials) { c.Gateway[0] = netip.MustParseAddr("192.0.2.3") }},
	} {
		command, trials := w.command(false, 4), short(4)
		if c.change != nil {
			c.change(command, &trials)
		}
		if c.do != nil {
			c.do()
		}
		if c.name == "program" {
			index, err := w.tester.Index("rx")
			must(err)
			sink, err := gen.NewSink(w.tester.Namespace, []int{index}, gen.SinkOptions{})
			must(err)
			c.undo = func() { must(sink.Close()) }
		}
		s, err := command.openSite(t.Context(), trials, place.Options{})
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if c.undo != nil {
			c.undo()
		}
	}
}
