package topo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/await"
)

// Failover is a network of edges in which something that forwards can be killed for real,
// and comes back.
type Failover struct {
	Lab *Lab
	// Source and Target are the ends of the flows that go through what is killed; Addr is
	// the target's.
	Source, Target *Host
	Addr           netip.Addr
	// Faults are the ways to kill.
	Faults []Fault
	// Description is one line for reports.
	Description string

	ready func(context.Context) error
	steps func(ctx context.Context, since time.Time) (FailoverSteps, error)

	mu    sync.Mutex // the lab may close while an edge is started again
	edges []*failoverEdge
}

// Fault is a way to kill something.
type Fault struct {
	Name   string // of the case: "link-down"
	Words  string // what is done
	inject func(context.Context) error
	mend   func(context.Context) error
}

// Inject does it.
func (f Fault) Inject(ctx context.Context) error {
	if err := f.inject(ctx); err != nil {
		return fmt.Errorf("inject %s: %w", f.Name, err)
	}
	return nil
}

// Mend undoes it.
func (f Fault) Mend(ctx context.Context) error {
	if err := f.mend(ctx); err != nil {
		return fmt.Errorf("mend %s: %w", f.Name, err)
	}
	return nil
}

// FailoverSteps are when the edges did what ends a fault, by their own word. A step that
// none of them tells of is zero.
type FailoverSteps struct {
	Noticed   time.Time // liveness told the last of those that had to act
	Written   time.Time // the last of them had its tables changed
	Announced time.Time // the new owner had told its network of the addresses
}

// readyTime bounds how long all may take to be as before. Edges hold a path back for a
// minute at most.
const readyTime = 75 * time.Second

// Ready waits until every edge says that all is as it was at the start.
func (f *Failover) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	for {
		err := await.That(ctx, "all to be as before", func() error { return f.ready(ctx) })
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// Steps are those after a fault that was injected at a time.
func (f *Failover) Steps(ctx context.Context, since time.Time) (FailoverSteps, error) {
	return f.steps(ctx, since)
}

// failoverEdge is an edge that may be killed and started again.
type failoverEdge struct {
	*Edge
	host           *Host
	binary, config string
}

// newFailover has its edges stopped when the lab closes.
func newFailover(l *Lab) *Failover {
	f := &Failover{Lab: l}
	l.onClose("stop the edges", f.stop)
	return f
}

func (f *Failover) stop(ctx context.Context) error {
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
func (f *Failover) edge(h *Host, binary, config string) (*failoverEdge, error) {
	if err := h.thread.run(first); err != nil {
		return nil, fmt.Errorf("priority of edges in %s: %w", h.Name, err)
	}
	e := &failoverEdge{host: h, binary: binary, config: config}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.edges = append(f.edges, e)
	return e, nil
}

// first has what this thread starts run before all that is not urgent: in a network of hosts
// of their own no edge waits for another host's work, and one that waits for 150 ms is taken
// for dead.
func first() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) }

// start runs an edge, for the first time or again, which takes over the data path that it
// finds.
func (f *Failover) start(ctx context.Context, e *failoverEdge) error {
	running, err := e.host.StartEdge(ctx, e.binary, e.host.EdgeName(), e.config)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e.Edge = running
	return nil
}

// kill ends an edge's process by SIGKILL, without waiting until it is gone.
func (e *failoverEdge) kill() error {
	if err := syscall.Kill(-e.Command.PID(), syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill edge %s: %w", e.Name, err)
	}
	return nil
}

// die ends an edge with its programs and maps, which then nothing holds: nothing of it
// goes on when its process has ended.
func (e *failoverEdge) die() error {
	if err := os.RemoveAll(filepath.Join(edgePins, e.Name)); err != nil {
		return fmt.Errorf("data path of edge %s: %w", e.Name, err)
	}
	return e.kill()
}

// again starts an edge that was killed.
func (f *Failover) again(e *failoverEdge) func(context.Context) error {
	return func(ctx context.Context) error {
		<-e.Command.Done()
		return f.start(ctx, e)
	}
}

// ports are interfaces of the hosts between the edges, which can be cut.
type ports struct {
	host  *Host
	names []string
}

// down cuts the links: both ends see that.
func (p ports) down(context.Context) error {
	var errs []error
	for _, name := range p.names {
		errs = append(errs, p.host.Down(name))
	}
	return errors.Join(errs...)
}

func (p ports) up(context.Context) error {
	var errs []error
	for _, name := range p.names {
		errs = append(errs, p.host.Up(name))
	}
	return errors.Join(errs...)
}

// holeTable is the table of nftables that a black hole is.
const holeTable = "hole"

// blackHole returns faults' two halves: the host drops what it forwards from and to the
// ports, whose links stay up. family is "inet" for a router and "bridge" for a switch.
func (p ports) blackHole(family string) (dig, fill func(context.Context) error) {
	rules := fmt.Sprintf("table %s %s {\n\tchain forward {\n\t\ttype filter hook forward priority 0;\n", family, holeTable)
	for _, name := range p.names {
		rules += fmt.Sprintf("\t\tiifname %s drop\n\t\toifname %s drop\n", name, name)
	}
	rules += "\t}\n}\n"
	return func(ctx context.Context) error { return p.host.nft(ctx, holeTable, rules) },
		func(ctx context.Context) error {
			_, err := p.host.Output(ctx, "nft", "delete table "+family+" "+holeTable)
			return err
		}
}
