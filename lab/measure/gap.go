package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/lab/topo"
)

// GapOptions are of flows that are watched while something on their way fails.
type GapOptions struct {
	Flows        int           // of UDP; default 16
	Interval     time.Duration // between two packets of a flow; default 1 ms
	Connections  int           // of TCP; default 100
	LineInterval time.Duration // between two lines of a connection; default 100 ms
	Port         int           // default 5310
}

func (o *GapOptions) fill() {
	setDefault(&o.Flows, 16)
	setDefault(&o.Interval, time.Millisecond)
	setDefault(&o.Connections, 100)
	setDefault(&o.LineInterval, 100*time.Millisecond)
	setDefault(&o.Port, 5310)
}

// Gap is what came of the flows. All packets and lines are sent back by the target.
type Gap struct {
	Options GapOptions // as used
	// Out is the way of each UDP flow to the target; Flows is there and back.
	Out, Flows  []GapFlow
	Connections []GapFlow
	// Late is the longest that the sender itself was held up.
	Late time.Duration
}

// GapRun is flows that run.
type GapRun struct {
	options        GapOptions
	source, target *instrument
	states         *gapStates
}

// Monotonic is the time of the flows' clock.
func Monotonic() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("CLOCK_MONOTONIC: %w", err)
	}
	return time.Duration(now.Nano()), nil
}

// StartGap starts flows from the client of ends to its server, and returns when all are
// answered. The caller ends them by Stop, or by Kill when it needs no report.
func StartGap(ctx context.Context, ends Ends, o GapOptions) (*GapRun, error) {
	o.fill()
	common := flags("addr", ends.Addr, "port", o.Port, "flows", o.Flows, "interval", o.Interval)
	target, err := part{host: ends.Server, command: "lab-gap-target", flags: common}.serve(ctx, "tcp", o.Port)
	if err != nil {
		return nil, err
	}
	run := &GapRun{options: o, target: target, states: &gapStates{changed: make(chan struct{}, 1)}}
	run.source, err = startGapSource(ctx, ends.Client, append(flags("connections", o.Connections, "line-interval", o.LineInterval), common...), run.states)
	if err != nil {
		target.Kill()
		return nil, err
	}
	if err := run.answered(ctx); err != nil {
		err = withCause(withCause(err, run.source), target)
		run.Kill()
		return nil, err
	}
	return run, nil
}

// startGapSource starts the source, whose lines are read as they come.
func startGapSource(ctx context.Context, host *topo.Host, flags []string, states *gapStates) (*instrument, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("path of this program: %w", err)
	}
	i := &instrument{Command: host.Command(ctx, append([]string{self, "lab-gap-source"}, flags...)...)}
	i.Env, i.Stdout = []string{instrumentEnv + "=1"}, states
	return i, i.Start()
}

// answered waits until every flow and connection has been answered.
func (r *GapRun) answered(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, gapPatience+patience)
	defer cancel()
	return r.await(ctx, func(line gapLine) error {
		if line.At == 0 || line.Unanswered > 0 {
			return fmt.Errorf("%d of %d flows and %d connections have not been answered", line.Unanswered, r.options.Flows, r.options.Connections)
		}
		return nil
	})
}

// Steady waits until, for a while, no flow has been silent and no connection waited. It
// fails with ctx, saying how many still are.
func (r *GapRun) Steady(ctx context.Context, while time.Duration) error {
	var since time.Duration
	return r.await(ctx, func(line gapLine) error {
		if line.Silent+line.Waiting > 0 || since == 0 {
			since = line.At
		}
		switch {
		case line.Silent+line.Waiting > 0:
			return fmt.Errorf("%d flows are silent and %d connections wait", line.Silent, line.Waiting)
		case line.At-since < while:
			return errors.New("all go on")
		}
		return nil
	})
}

// await calls judge with each state until it is content.
func (r *GapRun) await(ctx context.Context, judge func(gapLine) error) error {
	for {
		err := judge(r.states.last())
		if err == nil {
			return nil
		}
		select {
		case <-r.states.changed:
		case <-r.source.Done():
			return fmt.Errorf("the flows ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("wait for the flows: %w: %w", context.Cause(ctx), err)
		}
	}
}

// Kill ends the flows without a report.
func (r *GapRun) Kill() {
	r.source.Kill()
	r.target.Kill()
}

// Stop ends the flows and returns what came of them.
func (r *GapRun) Stop(ctx context.Context) (*Gap, error) {
	defer r.Kill()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, i := range []*instrument{r.source, r.target} {
		if err := i.Stop(ctx); err != nil {
			return nil, err
		}
		if err := i.Wait(); err != nil {
			return nil, err
		}
	}
	var out gapTargetReport
	if err := r.target.report(&out); err != nil {
		return nil, err
	}
	report := r.states.last().Report
	switch {
	case r.states.broken() != nil:
		return nil, fmt.Errorf("report of %s: %w", r.source, r.states.broken())
	case report == nil:
		return nil, fmt.Errorf("%s ended without a report", r.source)
	}
	return &Gap{Options: r.options, Out: out.Flows, Flows: report.Flows, Connections: report.Connections, Late: report.Late}, nil
}

// gapStates reads the source's lines.
type gapStates struct {
	changed chan struct{}

	mu   sync.Mutex
	rest []byte // of a line that is not whole yet
	line gapLine
	err  error
}

// Write takes what the source printed.
func (s *gapStates) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, p...)
	for {
		line, rest, whole := bytes.Cut(s.rest, []byte("\n"))
		if !whole {
			break
		}
		s.rest = rest
		var next gapLine
		if err := json.Unmarshal(line, &next); err != nil {
			s.err = errors.Join(s.err, err)
			continue
		}
		s.line = next
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (s *gapStates) last() gapLine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.line
}

func (s *gapStates) broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
