package paths

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/stats"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/places"
	"github.com/selvage/selvage/test/tier"
)

// ours measures a case over the underlay once, in the unit of its main metric.
func ours(t *testing.T, c *Command, e ends, caseName string) float64 {
	t.Helper()
	s, err := c.slice(t.Context(), e, caseName, c.Path[0])
	if err != nil {
		t.Fatal(err)
	}
	return s.Metrics[mainMetric(caseName).Name]
}

// opened are sessions, and what closes them before the test ends: its context, with which the machines go,
// ends before what Cleanup has.
func opened(t *testing.T, c *Command) (ends, func()) {
	t.Helper()
	e, err := c.open(t.Context(), &experiment.Console{Version: version})
	if err != nil {
		t.Fatal(err)
	}
	return e, func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	}
}

// byTurns has two ways measure by turns and returns the logarithms of their ratios.
func byTurns(rounds int, a, b func() float64) (logs []float64) {
	for i := range rounds {
		var x, y float64
		if i%2 == 0 {
			x, y = a(), b()
		} else {
			y, x = b(), a()
		}
		logs = append(logs, math.Log(x/y))
	}
	return logs
}

// measuring is the turn of tests that compare figures: beside each other they would measure each other.
var measuring sync.Mutex

// quiet waits for the turn, until the test ends.
func quiet(t *testing.T) {
	t.Helper()
	measuring.Lock()
	t.Cleanup(measuring.Unlock)
}

// Over SSH and inside the namespaces the figures are the same: what an A/A of the two ways cannot tell apart.
func TestSSHIsNoDifference(t *testing.T) {
	tier.Long(t, "TestSliceIsQuiet")
	testbed := places.New(t)
	quiet(t)
	remote, local := command(t, testbed), command(t, testbed)
	local.Client = place.Place{Kind: place.Namespace, Name: testbed.A.Host.Namespace}
	local.Server = place.Place{Kind: place.Namespace, Name: testbed.B.Host.Namespace}
	var both [2]ends
	for i, c := range []*Command{remote, local} {
		c.Watch, c.Slice = nil, 500*time.Millisecond
		e, end := opened(t, c)
		defer end()
		both[i] = e
	}
	for _, caseName := range []string{caseTCP, caseReverse, caseRR, caseCRR, caseUDP} {
		logs := byTurns(24, func() float64 { return ours(t, remote, both[0], caseName) }, func() float64 { return ours(t, local, both[1], caseName) })
		iv := stats.Center(logs)
		t.Logf("%s: over SSH to inside: %.4f (%.4f … %.4f), n %d", caseName, math.Exp(iv.Median), math.Exp(iv.Lo), math.Exp(iv.Hi), iv.N)
		if iv.Lo > 0 || iv.Hi < 0 {
			t.Errorf("%s: over SSH it is %.4f … %.4f of inside", caseName, math.Exp(iv.Lo), math.Exp(iv.Hi))
		}
	}
}

// Our median of a round trip is that of sockperf on the same path, within 5 %, and our mean that of qperf,
// which has no median. All ends are on one core, so that nobody's wake-up of another is in it.
func TestRoundTripsAgree(t *testing.T) {
	tier.Long(t, "TestRun")
	testbed := places.New(t)
	quiet(t)
	ends := measure.Ends{Client: testbed.A.Host, Server: testbed.B.Host, Addr: testbed.B.Underlay}
	for name, of := range map[string]struct {
		ours   func(*measure.RR) float64
		theirs func(context.Context, measure.Ends) (float64, error)
	}{
		"sockperf": {func(rr *measure.RR) float64 { return rr.Quantile(0.5) }, sockperf},
		"qperf":    {func(rr *measure.RR) float64 { return rr.Latency.Mean() / 1e3 }, qperf},
	} {
		logs := byTurns(16, func() float64 {
			rr, err := measure.RunRR(t.Context(), ends, measure.RROptions{Request: 14, Response: 14, Duration: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			return of.ours(rr)
		}, func() float64 {
			us, err := of.theirs(t.Context(), ends)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return us
		})
		iv := stats.Center(logs)
		t.Logf("ours to %s: %.4f (%.4f … %.4f), n %d", name, math.Exp(iv.Median), math.Exp(iv.Lo), math.Exp(iv.Hi), iv.N)
		if math.Exp(math.Abs(iv.Median)) > 1.05 {
			t.Errorf("ours is %.4f of %s's", math.Exp(iv.Median), name)
		}
	}
}

// beside runs a server while a client does, both on the first core.
func beside(ctx context.Context, ends measure.Ends, port int, server, client []string) (string, error) {
	s := ends.Server.Command(ctx, server...)
	s.CPUs = []int{0}
	if err := s.Start(); err != nil {
		return "", err
	}
	defer s.Kill()
	if err := ends.Server.AwaitListen(ctx, "tcp", port); err != nil {
		return "", err
	}
	c := ends.Client.Command(ctx, client...)
	c.CPUs = []int{0}
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}

// sockperf's median of a round trip of 14 bytes, its least, over TCP, in µs.
func sockperf(ctx context.Context, ends measure.Ends) (us float64, err error) {
	out, err := beside(ctx, ends, 5298, []string{"sockperf", "server", "--tcp", "-p", "5298"},
		[]string{"sockperf", "ping-pong", "--tcp", "-i", ends.Addr.String(), "-p", "5298", "-t", "1", "-m", "14", "--full-rtt"})
	if err != nil {
		return 0, err
	}
	match := regexp.MustCompile(`percentile 50\.0+ = +([\d.]+)`).FindStringSubmatch(out)
	if match == nil {
		return 0, fmt.Errorf("no median in %q", out)
	}
	return strconv.ParseFloat(match[1], 64)
}

// qperf's tcp_lat is the mean of half a round trip; it has no median.
func qperf(ctx context.Context, ends measure.Ends) (us float64, err error) {
	out, err := beside(ctx, ends, 19765, []string{"qperf"},
		[]string{"qperf", ends.Addr.String(), "-t", "1", "-m", "14", "-ip", "5297", "tcp_lat"})
	if err != nil {
		return 0, err
	}
	match := regexp.MustCompile(`latency += +([\d.]+) (ns|us|ms)`).FindStringSubmatch(out)
	if match == nil {
		return 0, fmt.Errorf("no latency in %q", out)
	}
	half, err := strconv.ParseFloat(match[1], 64)
	return 2 * half * map[string]float64{"ns": 1e-3, "us": 1, "ms": 1e3}[match[2]], err
}

// An agent and its heartbeats take less than half a percent of a core, at the place and here.
func TestAgentCosts(t *testing.T) {
	seconds := 3.0
	if tier.IsLong() {
		seconds = 30
	}
	testbed := places.New(t)
	quiet(t)
	c := command(t, testbed)
	c.Watch = nil
	e, end := opened(t, c)
	defer end()
	before := spent(testbed.A.Host)
	if _, err := e.client.Watch(t.Context(), time.Duration(seconds*float64(time.Second))); err != nil {
		t.Fatal(err)
	}
	used := spent(testbed.A.Host) - before
	t.Logf("agent, its shell and sshd took %.3f s of %.0f", used, seconds)
	// Ticks are of 10 ms, and of the watch itself there are two looks.
	if used > 0.005*seconds+0.03 {
		t.Errorf("agent, its shell and sshd took %.1f %% of a core", 100*used/seconds)
	}
}

// spent is the CPU time of all processes of a host, in seconds.
func spent(h *topo.Host) (seconds float64) {
	for _, p := range places.ProcessesOf(h) {
		seconds += places.CPUTime(p.PID).Seconds()
	}
	return seconds
}
