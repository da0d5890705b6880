package measure_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/topo"
)

// appEnds have the database in the client's end system, so that the web service's
// questions cross the path too.
func appEnds(n *topo.TwoHosts) measure.AppEnds {
	return measure.AppEnds{
		Client: n.Client, Web: n.Server, Database: n.Client,
		WebAddr: n.ServerAddr(4), DatabaseAddr: n.ClientAddr(4),
	}
}

func TestApp(t *testing.T) {
	n := newTwoHosts(t)
	path, err := dut.Plain(t.Context(), n, dut.EndOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer path.Close()
	s, err := measure.StartApp(t.Context(), appEnds(n))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.Description, "PostgreSQL 1") {
		t.Errorf("description %q names no version of PostgreSQL", s.Description)
	}
	for _, o := range []measure.AppOptions{{}, {Connect: true}, {Rate: 200}, {Rate: 100, Connect: true}} {
		t.Run(o.Kind(), func(t *testing.T) {
			o.Duration, o.Warmup = 400*time.Millisecond, 100*time.Millisecond
			a, err := measure.RunApp(t.Context(), s, o)
			if err != nil {
				t.Fatal(err)
			}
			checkApp(t, a)
		})
	}
	data := filepath.Join(n.Lab.Dir, "client-database")
	if _, err := os.Stat(data); err != nil {
		t.Errorf("there was no data: %v", err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("the data is still there: %v", err)
	}
}

func checkApp(t *testing.T, a *measure.App) {
	t.Helper()
	sample, kind := a.Sample(), a.Options.Kind()
	p50, p99, p999 := sample.Metrics[kind+"_p50"], sample.Metrics[kind+"_p99"], sample.Metrics[kind+"_p999"]
	if p50 <= 10 || p99 < p50 || p999 < p99 || sample.Metrics[kind+"_p90"] < p50 {
		t.Errorf("percentiles %v", sample.Metrics)
	}
	if a.Requests != a.Latency.TotalCount() || len(sample.Latency) == 0 || sample.Case != kind {
		t.Errorf("%d requests, %d latencies, case %s with %d quantiles", a.Requests, a.Latency.TotalCount(), sample.Case, len(sample.Latency))
	}
	rated := int64(float64(a.Options.Rate) * a.Options.Duration.Seconds())
	switch {
	case rated > 0 && (a.Requests != rated || a.Late.TotalCount() != rated):
		t.Errorf("%d requests and %d wake-ups, want %d", a.Requests, a.Late.TotalCount(), rated)
	case rated == 0 && (a.Requests < 1 || a.Late.TotalCount() != 0):
		t.Errorf("%d requests, %d wake-ups", a.Requests, a.Late.TotalCount())
	}
	t.Logf("%d requests in %s, busy %.2f s: %v", a.Requests, a.Elapsed, a.CPU.Busy, sample.Metrics)
}

// More is due than can be served: that has no latency.
func TestAppOverload(t *testing.T) {
	n := newTwoHosts(t)
	path, err := dut.Plain(t.Context(), n, dut.EndOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer path.Close()
	s, err := measure.StartApp(t.Context(), appEnds(n))
	if err != nil {
		t.Fatal(err)
	}
	_, err = measure.RunApp(t.Context(), s, measure.AppOptions{Rate: 200_000, Workers: 2, Duration: 200 * time.Millisecond, Warmup: 10 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "use less than 200000 a second") {
		t.Errorf("200,000 requests a second: %v", err)
	}
	// The lab's end is the service's too, with nobody who stops it.
}

// A lab that ends while the database starts leaves neither data nor processes.
func TestAppInterrupted(t *testing.T) {
	n := newTwoHosts(t)
	path, err := dut.Plain(t.Context(), n, dut.EndOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer path.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := measure.StartApp(ctx, appEnds(n)); err == nil {
		t.Fatal("a database is there in 100 ms")
	}
	left, err := filepath.Glob(filepath.Join(n.Lab.Dir, "*database"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
