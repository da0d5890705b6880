package paths

import (
	"bytes"
	"encoding/json"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/experiment/experimenttest"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/turns"
	"github.com/selvage/selvage/test/places"
	"github.com/selvage/selvage/test/tier"
)

const version = "of-the-test"

func TestMain(m *testing.M) {
	measure.RunInstrument(os.Args[1:])
	agent.Run(os.Args[1:], version, nil)
	tier.SideBySide(3)
	os.Exit(m.Run())
}

// command is one as the command line makes it.
func command(t *testing.T, testbed *places.Testbed) *Command {
	t.Helper()
	return &Command{
		Flags: Flags{
			Client: place.Place{Kind: place.SSH, Host: "a"}, Server: place.Place{Kind: place.SSH, Host: "b"},
			Watch: []place.Place{{Kind: place.Namespace, Name: testbed.B.Host.Namespace}},
			Path:  []turns.Path{{Name: "underlay", Addr: testbed.B.Underlay}, {Name: "overlay", Addr: testbed.B.Overlay}},
			Port:  5300, Reverse: true, MaxTime: time.Minute,
			Connection: place.Connection{SSH: strings.Join(testbed.SSH, " ")},
		},
		Destination: experiment.Destination{Output: "table", Results: t.TempDir()}, Rounds: 2, Slice: 300 * time.Millisecond, Streams: 1,
	}
}

func run(t *testing.T, c *Command) (stdout, stderr string) {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	if err := c.Run(t.Context(), &experiment.Console{Out: &out, Err: &log, Version: version}); err != nil {
		t.Fatalf("%v\n%s\n%s", err, log.String(), places.Picture)
	}
	return out.String(), log.String()
}

// kept is the one result and report below a directory.
func kept(t *testing.T, dir string) (r result.Result, page string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*-paths", "result.json"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%d results in %s: %v", len(names), dir, err)
	}
	if r, err = result.ReadFile(names[0]); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(filepath.Dir(names[0]), experiment.ReportFile))
	if err != nil {
		t.Fatal(err)
	}
	return r, string(data)
}

// A whole run over SSH: every case of both paths, every place's cores, what took them, and a box of
// which nothing but its command line is used.
func TestRun(t *testing.T) {
	tier.Slow(t)
	testbed := places.New(t)
	c := command(t, testbed)
	var change agent.Change
	if err := change.UnmarshalText([]byte(places.Data + ":tx-checksum-ip-generic=off")); err != nil {
		t.Fatal(err)
	}
	c.Set, c.Profile, c.Rounds = []Setting{{Client: true, Server: true, Change: change}}, true, 1
	c.Boxes.WatchDevice = []place.Place{{Kind: place.SSH, Host: "b"}}
	c.Boxes.WatchCommand, c.Boxes.WatchPattern = []string{"grep ^cpu[0-9] /proc/stat"}, []string{`(?m)^(?P<name>cpu\d+) (?P<value>\d+)`}
	table, log := run(t, c)
	for _, want := range []string{
		"client → server", "server → client", "TCP throughput, reverse", "MSS used", "Request/response p50", "under load", "Connect/request/response",
		"Small packets lost", "CPU per gigabyte, client", "ssh:a", "No verdict",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if n := strings.Count(log, "(is on), until the end"); n != 2 {
		t.Errorf("changes are told of %d times:\n%s", n, log)
	}
	for _, m := range []*places.Machine{testbed.A, testbed.B} {
		if on, err := m.Host.Features(places.Data); err != nil || !on["tx-checksum-ip-generic"] {
			t.Errorf("%s is not as it was: %v", m.Host.Name, err)
		}
	}
	r, page := kept(t, c.Results)
	checkProfiles(t, r)
	if d := r.Devices[0]; len(d.Series) != len(r.Profiles[0].CPU) || d.Failed > 0 || len(d.Series[0].Values) < 2 {
		t.Errorf("a box's own words: %+v", d)
	}
	for _, want := range []string{"The core that climbs", "Processes, client", "Kernel functions, client", "cpu0", "VXLAN segment"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	t.Log("\n" + log + table)
}

// checkProfiles: the kernel's own functions for TCP are seen once, as both places are one machine;
// the instrument is a process of both ends.
func checkProfiles(t *testing.T, r result.Result) {
	t.Helper()
	if len(r.Profiles) != 2*2*3 {
		t.Fatalf("%d profiles, not of 2 directions, 2 paths and 3 places", len(r.Profiles))
	}
	for _, p := range r.Profiles {
		has := func(name string) bool {
			return slices.ContainsFunc(p.Processes, func(t result.ProcessTime) bool { return t.Name == name && t.Seconds > 0 })
		}
		if len(p.NotRead) > 0 || p.Gigabytes <= 0 || len(p.SoftIRQs) == 0 || p.Role == roleClient && !has("instrument") {
			t.Errorf("%s over %s at %s: %+v", p.Case, p.Target, p.Role, p)
		}
		if (len(p.Functions) > 0) != (p.Role == roleClient) {
			t.Errorf("%s: functions %v", p.Role, p.Functions)
		}
	}
}

// A path that swallows what is large is one sample that failed, and the other cases go on.
func TestBlackHole(t *testing.T) {
	testbed := places.New(t)
	for _, m := range []*places.Machine{testbed.A, testbed.B} {
		// Fragments of the overlay's packets need no more than the underlay has: so nobody says anything.
		if _, err := m.Host.Output(t.Context(), "sh", "-c", "ip link set "+places.Overlay+" mtu 1500 && nft 'add table ip hole; add chain ip hole out { type filter hook output priority 0; }; "+
			"add rule ip hole out udp dport 4789 meta length > 1400 drop'"); err != nil {
			t.Fatal(err)
		}
	}
	c := command(t, testbed)
	c.Cases, c.Watch, c.Reverse, c.Rounds = []string{"tcp", "rr"}, nil, false, 2
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	err := c.Run(t.Context(), &experiment.Console{Out: &out, Err: &log, Version: version})
	if err == nil || !strings.Contains(err.Error(), "black hole") || !strings.Contains(err.Error(), "1 of 7 samples failed") {
		t.Fatalf("%v\n%s%s", err, log.String(), out.String())
	}
	if !strings.Contains(out.String(), "No verdict: round 1 of overlay has an error") {
		t.Error(out.String())
	}
}

func TestRunJSON(t *testing.T) {
	testbed := places.New(t)
	c := command(t, testbed)
	c.Cases, c.Output, c.Watch = []string{"rr"}, "json", nil
	out, _ := run(t, c)
	r, err := result.Read(strings.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Preflight) != 2 || r.Preflight[1].Place != "ssh:b" || r.Preflight[1].Machine.Kernel == "" || len(r.Preflight[1].Interfaces) < 3 {
		t.Errorf("preflight: %+v", r.Preflight)
	}
	if len(r.Samples) != 4 || len(r.Summary) != 8 || r.Samples[0].Metrics[measure.RRP50] <= 0 || len(r.Samples[0].Uses) != 2 || len(r.Places) != 2 {
		data, _ := json.Marshal(r.Samples)
		t.Errorf("%d samples, %d rows: %s", len(r.Samples), len(r.Summary), data)
	}
}

// A dry run changes nothing, and says what a run would.
func TestDryRun(t *testing.T) {
	testbed := places.New(t)
	c := command(t, testbed)
	c.DryRun, c.Watch = true, nil
	c.Set = []Setting{{Client: true, Change: agent.Change{Sysctl: "net.ipv4.tcp_mtu_probing", Value: "2"}}}
	out, _ := run(t, c)
	for _, want := range []string{"ssh:a: would put the agent", "ssh:b: would put the agent", "ssh:b: would listen on port 5300", "ssh:a: would set net.ipv4.tcp_mtu_probing=2 (is 0)"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if all, _ := os.ReadDir(c.Results); len(all) > 0 {
		t.Errorf("it left %v", all)
	}
}

// While a slice is measured the SSH connections carry heartbeats: a few packets a second.
func TestSliceIsQuiet(t *testing.T) {
	testbed := places.New(t)
	c := command(t, testbed)
	c.Watch = nil
	e, err := c.open(t.Context(), &experiment.Console{Version: version})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	}()
	trial, err := runTrial(t.Context(), e, []measure.Role{{Instrument: measure.RoleUDP, Addr: testbed.B.Overlay, Port: 5300, Duration: 3 * time.Second, Size: 18}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range trial.watched {
		// A heartbeat each way and their acknowledgements are 4 packets a second; the rest
		// are the requests with which it began.
		m := w.Interfaces[places.Management]
		if m.RxPackets > 20 || m.TxPackets > 20 || m.RxBytes > 4000 || m.TxBytes > 4000 {
			t.Errorf("place %d, in %s: %+v", i, w.Duration, m)
		}
		if m.RxPackets < 3 || m.TxPackets < 3 {
			t.Errorf("place %d, in %s: no heartbeats: %+v", i, w.Duration, m)
		}
	}
}

// Of a path through a shaper of 100 Mbit/s, by turns, bulk transfers and iperf3 say the same.
func TestAgreesWithIperf3(t *testing.T) {
	tier.Slow(t)
	testbed := places.New(t)
	for _, m := range []*places.Machine{testbed.A, testbed.B} {
		if _, err := m.Host.Output(t.Context(), "tc", "qdisc", "add", "dev", places.Data, "root", "tbf", "rate", "100mbit", "burst", "64k", "latency", "20ms"); err != nil {
			t.Fatal(err)
		}
	}
	rounds := 8
	if tier.IsLong() {
		rounds = 20
	}
	for name, caseName := range map[string]string{"forward": "tcp", "reverse": "tcp-reverse"} {
		iv := stats.Center(compare(t, testbed, caseName, rounds))
		t.Logf("%s: ours to iperf3: %.4f (%.4f … %.4f), n %d", name, math.Exp(iv.Median), math.Exp(iv.Lo), math.Exp(iv.Hi), iv.N)
		if most := math.Log(1.02); iv.Lo > most || iv.Hi < -most {
			t.Errorf("%s: ours is %.4f of iperf3's", name, math.Exp(iv.Median))
		}
	}
}

// Without a shaper the processor is the limit, which neighbours share; only many turns tell.
func TestAgreesWithIperf3Unshaped(t *testing.T) {
	tier.Long(t, "TestAgreesWithIperf3")
	testbed := places.New(t)
	for _, caseName := range []string{"tcp", "tcp-reverse"} {
		iv := stats.Center(compare(t, testbed, caseName, 60))
		t.Logf("%s: ours to iperf3: %.4f (%.4f … %.4f), n %d", caseName, math.Exp(iv.Median), math.Exp(iv.Lo), math.Exp(iv.Hi), iv.N)
		if lo, hi := math.Exp(iv.Lo), math.Exp(iv.Hi); lo > 1.02 || hi < 0.98 {
			t.Errorf("%s: ours is %.4f … %.4f of iperf3's", caseName, lo, hi)
		}
	}
}

// compare returns the logarithms of the ratios of ours to iperf3's, measured by turns.
func compare(t *testing.T, testbed *places.Testbed, caseName string, rounds int) (logs []float64) {
	t.Helper()
	c := command(t, testbed)
	c.Slice, c.Watch = time.Second, nil
	e, err := c.open(t.Context(), &experiment.Console{Version: version})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	}()
	for i := range rounds {
		var ours, theirs float64
		for j := range 2 {
			if (i+j)%2 == 0 {
				s, err := c.slice(t.Context(), e, caseName, c.Path[0])
				if err != nil {
					t.Fatal(err)
				}
				ours = s.Metrics[measure.TCPThroughput]
			} else {
				theirs = iperf3(t, testbed, c.Path[0].Addr, caseName == "tcp-reverse")
			}
		}
		logs = append(logs, math.Log(ours/theirs))
	}
	return logs
}

// iperf3 measures a second after the first, in Gbit/s received.
func iperf3(t *testing.T, testbed *places.Testbed, addr netip.Addr, reverse bool) float64 {
	t.Helper()
	server := testbed.B.Host.Command(t.Context(), "iperf3", "-s", "-1", "-p", "5299")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	if err := testbed.B.Host.AwaitListen(t.Context(), "tcp", 5299); err != nil {
		t.Fatal(err)
	}
	argv := []string{"iperf3", "-c", addr.String(), "-p", "5299", "-t", "1", "-O", "1", "-J"}
	if reverse {
		argv = append(argv, "-R")
	}
	out, err := testbed.A.Host.Output(t.Context(), argv...)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var report struct {
		End struct {
			Received struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal(out, &report); err != nil || report.End.Received.Rate == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	return report.End.Received.Rate / 1e9
}

func TestCommandLine(t *testing.T) {
	var s Setting
	if err := s.UnmarshalText([]byte("both:eth0:rx-gro=off")); err != nil || !s.Client || !s.Server || s.Change.String() != "eth0:rx-gro=off" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := s.UnmarshalText([]byte("eth0:rx-gro=off")); err == nil {
		t.Error("a setting of no side is no error")
	}
}

// Ratios are of rounds that both paths have; zeroes are compared by differences.
func TestSummarise(t *testing.T) {
	r := result.Result{Schema: result.Schema, Parameters: result.Parameters{"slice": result.Time(time.Second), "rounds": result.Count(9)}, Targets: []result.Target{{Name: "a"}, {Name: "b"}}}
	for round := range 9 {
		for _, of := range []struct {
			name   string
			factor float64
		}{{"a", 1}, {"b", 0.5}} {
			r.Samples = append(r.Samples, result.Sample{Target: of.name, Case: "udp", Round: round + 1, Metrics: map[string]float64{
				measure.UDPRate: of.factor * float64(100+round), measure.UDPLossPPM: 1 - of.factor,
			}})
		}
	}
	rows := summarise(r)
	if len(rows) != 4 {
		t.Fatalf("%+v", rows)
	}
	row, _ := stats.Find(rows, "b", "udp", measure.UDPRate)
	if math.Abs(row.Ratio-0.5) > 1e-9 || !row.Distinguishable || row.Baseline != "a" {
		t.Errorf("%+v", row)
	}
	row, _ = stats.Find(rows, "b", "udp", measure.UDPLossPPM)
	if row.Ratio != 0 || row.Difference != 0.5 || !row.Distinguishable {
		t.Errorf("%+v", row)
	}
	text := experimenttest.Table(t, Experiment(), r)
	for _, want := range []string{"worse", "Small packets received of b is 52.0 kpps, 0.50 × a"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
