package measure

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/selvage/selvage/lab/result"
)

func recorded(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A run of three seconds and two streams.
func TestParseIperf(t *testing.T) {
	run, err := parseIperf(recorded(t, "iperf3.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := &TCP{
		Sent: 30542334577.58579, Received: 30541001040.5536,
		SentBytes: 11454119936, ReceivedBytes: 11454119936,
		Retransmits: 151129,
		Elapsed:     3000326 * time.Microsecond,
		Intervals: []Interval{
			{0, 1, 29602525429, 45227}, {1, 1, 30609157645, 51713}, {2, 1, 31415556044, 54189},
		},
	}
	if diff := cmp.Diff(want, run, cmpopts.EquateApprox(0.001, 0.01)); diff != "" {
		t.Error(diff)
	}
	sample := run.Sample()
	if got := sample.Metrics[TCPThroughput]; got < 30.54 || got > 30.55 {
		t.Errorf("%s is %v Gbit/s, want 30.54", TCPThroughput, got)
	}
	if got := len(sample.Series[TCPSeries]); got != 3 {
		t.Errorf("%d intervals in the series, want 3", got)
	}
}

func TestParseIperfErrors(t *testing.T) {
	for name, c := range map[string]struct{ report, want string }{
		"refused":    {string(recorded(t, "iperf3-refused.json")), "Connection refused"},
		"no report":  {"", "iperf3's report"},
		"unfinished": {`{"intervals":[],"end":{}}`, "did not finish"},
	} {
		_, err := parseIperf([]byte(c.report))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", name, err, c.want)
		}
	}
}

// A control connection and two streams, of which the first sent more.
func TestParseSS(t *testing.T) {
	want := []Socket{
		{MSS: 1448, RTT: 44, Cwnd: 13, BytesSent: 164},
		{MSS: 1448, RTT: 42, Cwnd: 384, BytesSent: 3099498573},
		{MSS: 1448, RTT: 82, Cwnd: 330, BytesSent: 3018923717},
	}
	if diff := cmp.Diff(want, parseSS(string(recorded(t, "ss.txt")))); diff != "" {
		t.Error(diff)
	}
}

func TestCPUSince(t *testing.T) {
	then, err := ParseCPU(recorded(t, "stat"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ticks{user: 16681, nice: 15441, system: 14747, idle: 334835, iowait: 937, softirq: 2924, steal: 56}, then[1], cmp.AllowUnexported(ticks{})); diff != "" {
		t.Error(diff)
	}
	now := CPUClock{0: then[0], 1: then[1]}
	a, b := now[0], now[1]
	a.user, a.nice, a.system, a.irq, a.softirq, a.idle = a.user+10, a.nice+10, a.system+30, a.irq+5, a.softirq+15, a.idle+30
	b.idle, b.iowait, b.steal = b.idle+60, b.iowait-1, b.steal+40 // a counter that went back
	now[0], now[1] = a, b
	want := CPU{
		Cores: []result.CPUShare{
			{Core: 0, User: 0.2, System: 0.3, SoftIRQ: 0.2, Idle: 0.3},
			{Core: 1, Idle: 59. / 99},
		},
		Busy:  0.7,
		Steal: 40. / 199,
	}
	if diff := cmp.Diff(want, now.Since(then), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Error(diff)
	}
	if _, err := ParseCPU([]byte("intr 1 2 3\n")); err == nil {
		t.Error("no error without a core")
	}
}
