// Package network has the networks of the experiment failover: edges of Selvage of which something that forwards is
// killed for real, and comes back.
//
// Its one invariant: Ready returns when all is as it was at the start. Do not use it to watch flows: that is the
// experiment.
package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/inject"
	"github.com/selvage/selvage/lab/topo"
)

// Network is a network of edges in which something that forwards can be killed for real,
// and comes back.
type Network struct {
	Lab *topo.Lab
	// Source and Target are the ends of the flows that go through what is killed; Addr is
	// the target's.
	Source, Target *topo.Host
	Addr           netip.Addr
	// Faults are the ways to kill.
	Faults []inject.Fault
	// Description is one line for reports.
	Description string

	ready func(context.Context) error
	steps func(ctx context.Context, since time.Time) (inject.Steps, error)

	mu    sync.Mutex // the lab may close while an edge is started again
	edges []*edge
}

// Ready waits until every edge says that all is as it was at the start.
func (f *Network) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, inject.ReadyTime)
	defer cancel()
	for {
		err := await.That(ctx, "all to be as before", func() error { return f.ready(ctx) })
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// Steps are those after a fault that was injected at a time.
func (f *Network) Steps(ctx context.Context, since time.Time) (inject.Steps, error) {
	return f.steps(ctx, since)
}

// edge is an edge that may be killed and started again.
type edge struct {
	*dut.Edge
	host           *topo.Host
	binary, config string
}

// newNetwork has its edges stopped when the lab closes.
func newNetwork(l *topo.Lab) *Network {
	f := &Network{Lab: l}
	l.OnClose("stop the edges", f.stop)
	return f
}

func (f *Network) stop(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, e := range f.edges {
		if e.Edge != nil {
			errs = append(errs, e.Stop(ctx))
		}
	}
	return errors.Join(errs...)
}

// edge adds an edge that does not run yet.
func (f *Network) edge(h *topo.Host, binary, config string) (*edge, error) {
	if err := h.PreferProcesses(); err != nil {
		return nil, fmt.Errorf("priority of edges in %s: %w", h.Name, err)
	}
	e := &edge{host: h, binary: binary, config: config}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.edges = append(f.edges, e)
	return e, nil
}

// start runs an edge, for the first time or again, which takes over the data path that it
// finds.
func (f *Network) start(ctx context.Context, e *edge) error {
	running, err := dut.StartEdge(ctx, e.host, e.binary, dut.EdgeName(e.host), e.config)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e.Edge = running
	return nil
}

// kill ends an edge's process by SIGKILL, without waiting until it is gone.
func (e *edge) kill() error {
	if err := syscall.Kill(-e.Command.PID(), syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill edge %s: %w", e.Name, err)
	}
	return nil
}

// die ends an edge with its programs and maps, which then nothing holds: nothing of it
// goes on when its process has ended.
func (e *edge) die() error {
	if err := e.RemovePins(); err != nil {
		return err
	}
	return e.kill()
}

// again starts an edge that was killed.
func (f *Network) again(e *edge) func(context.Context) error {
	return func(ctx context.Context) error {
		<-e.Command.Done()
		return f.start(ctx, e)
	}
}
