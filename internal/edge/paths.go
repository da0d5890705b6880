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
	"github.com/selvage/selvage/internal/reconcile"
)

const (
	// reportLife is how long an ICMP message about a path is obeyed without being
	// confirmed (RFC 1191 section 6.3, RFC 8201 section 4: ten minutes).
	reportLife = 10 * time.Minute
	// sameReport is by how much the time of one message may differ between looks.
	sameReport = time.Second
)

// paths is what is known of the MTU on the way to the remotes: what probes found,
// and what ICMP messages said and the data path obeys. Of it, probes and probed
// are changed under the edge's mu.
type paths struct {
	probes map[netip.Addr]followed // by the TEP that they leave from
	found  chan struct{}           // has a mark when any of them has news
	probed map[overlay.Pair]int    // path MTUs in bytes of an IP packet
	seen   map[netip.Addr]report   // messages that probes were asked to look into
}

type report struct {
	mtu int
	at  time.Time
}

// followed are probes whose news are passed on until end.
type followed struct {
	PathProbes
	end func()
}

func newPaths() paths {
	return paths{probes: make(map[netip.Addr]followed), found: make(chan struct{}, 1), seen: make(map[netip.Addr]report)}
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
		for _, pair := range reconcile.Pairs(e.config) {
			if way, ok := reconcile.PathOf(e.config, hostState, pair); ok && pair.Local == local {
				ceilings[pair.Remote] = way.MTU
			}
		}
		probes.Set(ceilings)
	}
	probed := make(map[overlay.Pair]int)
	for pair, r := range e.paths.results() {
		if r.MTU > 0 {
			probed[pair] = r.MTU
		}
	}
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

// followPaths has what ICMP messages said about paths confirmed by probes. The
// data path obeys a message at once; it forgets it when probes know better, or
// after reportLife.
func (e *edge) followPaths() {
	reports, err := e.dp.PathMTUs()
	e.reportProblem(readMTUs, err)
	if err != nil {
		return
	}
	results, now := e.paths.results(), time.Now()
	maps.DeleteFunc(e.paths.seen, func(remote netip.Addr, _ report) bool { return reports[remote].MTU == 0 })
	for remote, r := range reports {
		at := now.Add(-time.Duration(r.AgeNS))
		if e.paths.confirmed(remote, at, results) || now.Sub(at) > reportLife {
			e.forget(remote)
		} else {
			e.recheck(remote, r, at)
		}
	}
}

// confirmed reports whether every path to the address was probed after at, and the
// tables have what was found.
func (p *paths) confirmed(remote netip.Addr, at time.Time, results map[overlay.Pair]pathmtu.Result) bool {
	probed := false
	for pair, found := range results {
		if pair.Remote != remote {
			continue
		}
		if found.State != pathmtu.Confirmed || !found.When.After(at) || p.probed[pair] != found.MTU {
			return false
		}
		probed = true
	}
	return probed
}

func (e *edge) forget(remote netip.Addr) {
	e.mu.Lock()
	e.pathSelector.mu.Lock()
	err := e.dp.ForgetPathMTU(remote)
	e.pathSelector.mu.Unlock()
	e.mu.Unlock()
	e.reportProblem(forgetMTU, err)
	delete(e.paths.seen, remote)
}

// recheck asks the probes once for each message.
func (e *edge) recheck(remote netip.Addr, r datapath.PathMTU, at time.Time) {
	known, ok := e.paths.seen[remote]
	if len(e.paths.probes) == 0 || ok && known.mtu == r.MTU && at.Sub(known.at) < sameReport {
		return
	}
	e.paths.seen[remote] = report{r.MTU, at}
	for _, probes := range e.paths.probes {
		probes.Recheck(remote)
	}
	e.log.Info("the underlay reported a path MTU", "remote", remote, "mtu", r.MTU)
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
	reports map[netip.Addr]datapath.PathMTU
	results map[overlay.Pair]pathmtu.Result
}

// readPaths reads what is known of path MTUs. mu is held.
func (e *edge) readPaths() (known, error) {
	reports, err := e.dp.PathMTUs()
	return known{reports, e.paths.results()}, err
}

// mtu is what tunnels of a path obey, of which the tables have table bytes, and why.
func (k known) mtu(pair overlay.Pair, table int) (mtu int, state string) {
	if r := k.reports[pair.Remote]; r.MTU > 0 && r.MTU < table {
		return r.MTU, pathReported
	}
	switch k.results[pair].State {
	case pathmtu.Confirmed:
		return table, pathConfirmed
	case pathmtu.Unanswered:
		return table, pathUnanswered
	case pathmtu.Probing:
		return table, pathProbing
	}
	return table, pathNotProbed
}
