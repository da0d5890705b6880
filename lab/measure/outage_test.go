package measure_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/lab/topo"
)

// A link that is down for a while is an outage of about that length in every flow, and all
// connections survive it. A sender that the machine stops meanwhile has a shorter one: it loses
// nothing that it does not send.
func TestOutageOfALink(t *testing.T) {
	n := newTwoHosts(t)
	path, err := dut.Plain(t.Context(), n, dut.EndOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer path.Close()
	const outage = time.Second
	o := measure.OutageOptions{Flows: 4, Connections: 10}
	run, err := measure.StartOutage(t.Context(), measure.EndsOf(n, 4), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, n.Picture())
	}
	steady(t, run)
	from := now(t)
	if err := n.A.Down(topo.UnderlayName); err != nil {
		t.Fatal(err)
	}
	err = await.That(t.Context(), "the link to be down for a while", func() error {
		if down := now(t) - from; down < outage {
			return fmt.Errorf("it is for %s", down)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.A.Up(topo.UnderlayName); err != nil {
		t.Fatal(err)
	}
	steady(t, run)
	got, err := run.Stop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Flows) != 4 || len(got.Out) != 4 || len(got.Connections) != 10 {
		t.Fatalf("%d flows, %d out, %d connections", len(got.Flows), len(got.Out), len(got.Connections))
	}
	end := now(t)
	for i, f := range got.Flows {
		w := f.Within(from, end, got.Options.Interval)
		if w.Silence < outage/2 || w.Lost == 0 || w.Open || w.Resumed < from {
			t.Errorf("flow %d: %+v, want an outage of %s", i, w, outage)
		}
		if out := got.Out[i].Within(from, end, got.Options.Interval); out.Lost == 0 {
			t.Errorf("flow %d on its way out: %+v", i, out)
		}
		if f.Received+w.Lost > f.Sent {
			t.Errorf("flow %d: %+v, of which %d were lost", i, f, w.Lost)
		}
	}
	for i, c := range got.Connections {
		if w := c.Within(from, end, got.Options.LineInterval); c.Error != "" || w.Open || w.Lost > 0 || c.Received < c.Sent-1 {
			t.Errorf("connection %d: %+v, %+v", i, c, w)
		}
	}
}

func steady(t *testing.T, run *measure.OutageRun) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if err := run.Steady(ctx, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
}

func now(t *testing.T) time.Duration {
	t.Helper()
	at, err := measure.Monotonic()
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// Flows to an address that nobody has do not start, and leave nothing behind.
func TestOutageToNobody(t *testing.T) {
	n := newTwoHosts(t)
	ends := measure.EndsOf(n, 4)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := measure.StartOutage(ctx, ends, measure.OutageOptions{Flows: 1, Connections: 1}); err == nil {
		t.Error("it started over no path at all")
	}
}
