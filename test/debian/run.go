package debian

import (
	"context"
	"errors"
	"time"

	"github.com/selvage/selvage/internal/await"
)

// runMost bounds a command whose context has no deadline, and askPause is between two looks whether it has ended.
const (
	runMost  = 5 * time.Minute
	askPause = 200 * time.Millisecond
)

// environment is that of scripts.
var environment = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}

// Result is what a command said.
type Result struct {
	Out, Err string
	Status   int // -1 when it is not known
}

// Command is one that runs in a machine.
type Command struct{ process process }

// Begin starts a shell script, and does not wait for it.
func (m *Machine) Begin(ctx context.Context, script string) (Command, error) {
	p, err := m.host.begin(ctx, script)
	return Command{p}, err
}

// Wait waits until it ends.
func (c Command) Wait(ctx context.Context) (Result, error) { return c.process.wait(ctx) }

// Run runs a shell script. An error has what it said.
func (m *Machine) Run(ctx context.Context, script string) (Result, error) {
	p, err := m.host.begin(ctx, script)
	if err != nil {
		return Result{Status: -1}, err
	}
	return p.wait(ctx)
}

// Must runs a script that has to succeed, and returns what it wrote to standard output.
func (m *Machine) Must(script string) string {
	m.t.Helper()
	r, err := m.Run(m.t.Context(), script)
	if err != nil {
		m.t.Fatalf("%s\n%v", script, err)
	}
	return r.Out
}

// Fact waits until a script succeeds.
func (m *Machine) Fact(what, script string) {
	m.t.Helper()
	err := await.Within(m.t.Context(), factMost, what, func() error {
		r, err := m.Run(m.t.Context(), script)
		if err != nil && r.Status >= 0 { // each look is work for an emulated processor
			pause(m.t.Context())
		}
		return err
	})
	if err != nil {
		m.t.Fatalf("%v\n%s", err, m.journal(m.t.Context()))
	}
}

// factMost bounds the wait for a fact.
const factMost = 2 * time.Minute

// patience is how long a command may take.
func patience(ctx context.Context) time.Duration {
	if until, ok := ctx.Deadline(); ok {
		return time.Until(until)
	}
	return runMost
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(askPause):
	}
}

var errRuns = errors.New("it runs")
