package edge

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/pathmtu"
	"github.com/selvage/selvage/internal/plan"
)

// paths is what is known of the MTU on the way to the remotes: what probes found, and what
// else tunnels obey. Of it, probes, probed and what is in reports are changed under the edge's
// mu.
type paths struct {
	probes map[netip.Addr]followed // by the TEP that they leave from
	found  chan struct{}           // has a mark when any of them has news
	probed map[overlay.Pair]int    // path MTUs in bytes of an IP packet, of the tables
	reports
}

// followed are probes whose news are passed on until end.
type followed struct {
	PathProbes
	end func()
}

func newPaths() paths {
	return paths{probes: make(map[netip.Addr]followed), found: make(chan struct{}, 1), reports: newReports()}
}

// follow passes the news of probes on.
func (p *paths) follow(probes PathProbes) followed {
	return followed{probes, onEach(probes.Changed(), func() {
		select {
		case p.found <- struct{}{}:
		default: // there is a mark
		}
	})}
}

// onEach does f at each of the news until the returned function is called.
func onEach(natEvents <-chan struct{}, f func()) (end func()) {
	return goWait(context.Background(), func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case <-natEvents:
				f()
			}
		}
	})
}

// goWait runs f in a goroutine until the returned function is called, which waits for it.
func goWait(ctx context.Context, f func(context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var owned sync.WaitGroup
	owned.Go(func() { f(ctx) })
	return func() { cancel(); owned.Wait() }
}

func (p *paths) results() map[overlay.Pair]pathmtu.Result {
	all := make(map[overlay.Pair]pathmtu.Result)
	for local, probes := range p.probes {
		for remote, r := range probes.Results() {
			all[overlay.Pair{Local: local, Remote: remote}] = r
		}
	}
	return all
}

func (p *paths) close() error {
	var errs []error
	for _, probes := range p.probes {
		probes.end()
		errs = append(errs, probes.Close())
	}
	p.probes = nil
	return errors.Join(errs...)
}

// probe makes the probes be those of configuration and view, and returns what
// they found by now.
func (e *edge) probe(hostState host.State) map[overlay.Pair]int {
	var errs []error
	wanted := make(map[netip.Addr]bool)
	for _, t := range e.config.Underlay.Local() {
		if wanted[t.Addr] = e.config.Underlay.ProbeMTU && hostState.TEPs[t.Addr]; wanted[t.Addr] {
			errs = append(errs, e.openProbes(t.Addr))
		}
	}
	for local := range e.paths.probes {
		if !wanted[local] {
			errs = append(errs, e.endProbes(local))
		}
	}
	e.reportProblem(probeMTUs, errors.Join(errs...))
	for local, probes := range e.paths.probes {
		ceilings := make(map[netip.Addr]int)
		for _, pair := range plan.Pairs(e.config) {
			if way, ok := plan.PathOf(e.config, hostState, pair); ok && pair.Local == local {
				ceilings[pair.Remote] = way.MTU
			}
		}
		probes.Set(ceilings)
	}
	results := e.paths.results()
	probed := make(map[overlay.Pair]int)
	for pair, r := range results {
		if r.MTU > 0 {
			probed[pair] = r.MTU
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.paths.obey(probed, results, time.Now())
	return probed
}

// openProbes has local probe, if it does not yet.
func (e *edge) openProbes(local netip.Addr) error {
	if _, ok := e.paths.probes[local]; ok {
		return nil
	}
	probes, err := e.opts.OpenProbes(local, e.log)
	if errors.Is(err, unix.EADDRNOTAVAIL) { // it is still being checked for duplicates
		return nil
	}
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.paths.probes[local] = e.paths.follow(probes)
	return nil
}

func (e *edge) endProbes(local netip.Addr) error {
	e.mu.Lock()
	was := e.paths.probes[local]
	delete(e.paths.probes, local)
	e.mu.Unlock()
	was.end()
	return was.Close()
}

// States of path MTUs.
const (
	pathConfirmed  = "confirmed"
	pathUnanswered = "unanswered"
	pathReported   = "reported by ICMP"
	pathProbing    = "probing"
	pathNotProbed  = "not probed"
)

// known is what was read of path MTUs.
type known struct {
	results  map[overlay.Pair]pathmtu.Result
	obeyed   map[overlay.Pair]report
	reported map[overlay.Pair]datapath.PathReport // pending
	outcomes map[string]uint64                    // of former ones
}

// readPaths reads what is known of path MTUs. mu is held.
func (e *edge) readPaths() (known, error) {
	reported, err := e.dp.Paths.PathReports()
	return known{e.paths.results(), maps.Clone(e.paths.obeyed), reported, maps.Clone(e.paths.outcomes)}, err
}

// state is where the path MTU that tunnels of a path obey comes from.
func (k known) state(pair overlay.Pair) string {
	if _, ok := k.obeyed[pair]; ok {
		return pathReported
	}
	switch k.results[pair].State {
	case pathmtu.Confirmed:
		return pathConfirmed
	case pathmtu.Unanswered:
		return pathUnanswered
	case pathmtu.Probing:
		return pathProbing
	}
	return pathNotProbed
}
