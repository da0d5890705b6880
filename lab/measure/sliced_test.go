package measure_test

import (
	"context"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/measure"
)

// Instruments that stand ready take turns; each says what it did in its own slices.
func TestSlices(t *testing.T) {
	n := newTwoHosts(t)
	if _, err := dut.Plain(t.Context(), n, dut.EndOptions{}); err != nil {
		t.Fatal(err)
	}
	ends := measure.EndsOf(n, 4)
	rr, err := measure.StandRR(t.Context(), ends, measure.RROptions{Request: 64, Response: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer rr.Close()
	tcp, err := measure.StandTCP(t.Context(), ends, measure.BulkOptions{Streams: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := measure.StandUDP(t.Context(), ends, measure.UDPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	const slices, slice = 3, 40 * time.Millisecond
	for range slices {
		for _, one := range []measure.Sliced{rr, tcp, udp} {
			if err := one.Slice(t.Context(), slice); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		of      measure.Sliced
		sliced  []string
		metrics []string
	}{
		{rr, []string{measure.RRP50, measure.RRP99, measure.RRRate}, nil},
		{tcp, []string{measure.TCPThroughput, measure.CPUPerGB}, []string{measure.MSS, measure.Cwnd, measure.RTT}},
		{udp, []string{measure.UDPRate, measure.UDPSentRate}, nil},
	} {
		s := c.of.Sample()
		if s.Duration <= 0 { // a busy machine may hold the start of a slice up
			t.Errorf("%T: %v s measured", c.of, s.Duration)
		}
		for _, name := range c.sliced {
			if len(s.Series[name]) != slices {
				t.Errorf("%T: %s of %d slices: %v", c.of, name, slices, s.Series[name])
			}
			for _, v := range s.Series[name] {
				if v <= 0 {
					t.Errorf("%T: %s %v", c.of, name, v)
				}
			}
		}
		for _, name := range c.metrics {
			if s.Metrics[name] <= 0 {
				t.Errorf("%T: %s %v", c.of, name, s.Metrics[name])
			}
		}
		t.Logf("%T: %v %v", c.of, s.Metrics, s.Series)
	}
	if len(rr.Sample().Latency) == 0 {
		t.Error("no distribution")
	}
	if got := tcp.Sample().Metrics[measure.Streams]; got != 2 {
		t.Errorf("%v streams", got)
	}
}

// A slice on a path that carries nothing fails, and says why.
func TestSliceWithoutPath(t *testing.T) {
	n := newTwoHosts(t)
	path, err := dut.Plain(t.Context(), n, dut.EndOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rr, err := measure.StandRR(t.Context(), measure.EndsOf(n, 4), measure.RROptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer rr.Close()
	if err := path.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := rr.Slice(ctx, 20*time.Millisecond); err == nil || len(rr.Sample().Series) > 0 {
		t.Errorf("%v, %v", err, rr.Sample().Series)
	}
}
