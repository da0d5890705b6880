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

// OutageOptions are of flows that are watched while something on their way fails.
type OutageOptions struct {
	Flows        int           // of UDP; default 16
	Interval     time.Duration // between two packets of a flow; default 1 ms
	Connections  int           // of TCP; default 100
	LineInterval time.Duration // between two lines of a connection; default 100 ms
	Port         int           // default 5310
}

func (o *OutageOptions) fill() {
	setDefault(&o.Flows, 16)
	setDefault(&o.Interval, time.Millisecond)
	setDefault(&o.Connections, 100)
	setDefault(&o.LineInterval, 100*time.Millisecond)
	setDefault(&o.Port, 5310)
}

// Outage is what came of the flows. All packets and lines are sent back by the target.
type Outage struct {
	Options OutageOptions // as used
	// Out is the way of each UDP flow to the target; Flows is there and back.
	Out, Flows  []OutageFlow
	Connections []OutageFlow
	// Late is the longest that the sender itself was held up.
	Late time.Duration
}

// OutageRun is flows that run.
type OutageRun struct {
	options        OutageOptions
	source, target *instrument
	states         *outageStates
}

// Monotonic is the time of the flows' clock.
func Monotonic() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("CLOCK_MONOTONIC: %w", err)
	}
	return time.Duration(now.Nano()), nil
}

// StartOutage starts flows from the client of ends to its server, and returns when all are
// answered. The caller ends them by Stop, or by Kill when it needs no report.
func StartOutage(ctx context.Context, ends Ends, o OutageOptions) (*OutageRun, error) {
	o.fill()
	common := flags("addr", ends.Addr, "port", o.Port, "flows", o.Flows, "interval", o.Interval)
	target, err := part{host: ends.Server, command: "lab-outage-target", flags: common}.serve(ctx, "tcp", o.Port)
	if err != nil {
		return nil, err
	}
	run := &OutageRun{options: o, target: target, states: &outageStates{changed: make(chan struct{}, 1)}}
	run.source, err = startOutageSource(ctx, ends.Client, append(flags("connections", o.Connections, "line-interval", o.LineInterval), common...), run.states)
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

// startOutageSource starts the source, whose lines are read as they come.
func startOutageSource(ctx context.Context, host *topo.Host, flags []string, states *outageStates) (*instrument, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("path of this program: %w", err)
	}
	i := &instrument{Command: host.Command(ctx, append([]string{self, "lab-outage-source"}, flags...)...)}
	i.Env, i.Stdout = []string{instrumentEnv + "=1"}, states
	return i, i.Start()
}

// answered waits until every flow and connection has been answered.
func (r *OutageRun) answered(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, outagePatience+patience)
	defer cancel()
	return r.await(ctx, func(line outageLine) error {
		if line.At == 0 || line.Unanswered > 0 {
			return fmt.Errorf("%d of %d flows and %d connections have not been answered", line.Unanswered, r.options.Flows, r.options.Connections)
		}
		return nil
	})
}

// Steady waits until, for a while, no flow has been silent and no connection waited. It
// fails with ctx, saying how many still are.
func (r *OutageRun) Steady(ctx context.Context, while time.Duration) error {
	var since time.Duration
	return r.await(ctx, func(line outageLine) error {
		if line.Silent+line.Waiting > 0 || since == 0 {
			since = line.At
		}
		switch {
		case line.Silent+line.Waiting > 0:
			return fmt.Errorf("%d flows are silent and %d connections wait", line.Silent, line.Waiting)
		case line.At-since < while:
			return errors.New("all have resumed")
		}
		return nil
	})
}

// await calls judge with each state until it is content.
func (r *OutageRun) await(ctx context.Context, decide func(outageLine) error) error {
	for {
		err := decide(r.states.last())
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
func (r *OutageRun) Kill() {
	r.source.Kill()
	r.target.Kill()
}

// Stop ends the flows and returns what came of them.
func (r *OutageRun) Stop(ctx context.Context) (*Outage, error) {
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
	var out outageTargetReport
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
	return &Outage{Options: r.options, Out: out.Flows, Flows: report.Flows, Connections: report.Connections, Late: report.Late}, nil
}

// outageStates reads the source's lines.
type outageStates struct {
	changed chan struct{}

	mu   sync.Mutex
	rest []byte // of a line that is not whole yet
	line outageLine
	err  error
}

// Write takes what the source printed.
func (s *outageStates) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, p...)
	for {
		line, rest, whole := bytes.Cut(s.rest, []byte("\n"))
		if !whole {
			break
		}
		s.rest = rest
		var next outageLine
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

func (s *outageStates) last() outageLine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.line
}

func (s *outageStates) broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
