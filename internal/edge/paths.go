package edge

import (
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fault"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/pathmtu"
	"github.com/selvage/selvage/internal/plan"
)

// paths is what is known of the MTU on the way to the remotes: what probes found, and what
// else tunnels obey. Of it, probes and probed are changed under the mu of state.
type paths struct {
	log    *slog.Logger
	state  *state
	faults *fault.Faults
	open   func(tep netip.Addr, ifindex int, log *slog.Logger) (PathProbes, error)
	// obey lowers MTUs to what is obeyed without a confirmation. mu is held.
	obey func(probed map[overlay.Pair]int, results map[overlay.Pair]pathmtu.Result, now time.Time)

	probes map[probeSource]followed
	found  chan struct{}        // has a mark when any of them has news
	probed map[overlay.Pair]int // path MTUs in bytes of an IP packet, of the tables
}

// probeSource is where probes leave: a TEP and, of a pair whose route has several next hops, the interface
// of one; 0 leaves it to the routing table.
type probeSource struct {
	tep     netip.Addr
	ifindex int
}

// followed are probes whose news are passed on until end.
type followed struct {
	PathProbes
	end func()
}

func newPaths(e *edge) paths {
	return paths{
		log: e.log, state: &e.state, faults: e.faults, open: e.opts.OpenProbes, obey: e.reports.obey,
		probes: make(map[probeSource]followed), found: make(chan struct{}, 1),
	}
}

// follow passes the news of probes on.
func (p *paths) follow(probes PathProbes) followed {
	return followed{probes, background.OnEach(probes.Changed(), func(struct{}) { background.Notify(p.found) })}
}

// results are those of pairs. Of several next hops the least counts: an ICMP message does not say which of
// them it is about, and inner hosts see one MTU however their flows move.
func (p *paths) results() map[overlay.Pair]pathmtu.Result {
	all := make(map[overlay.Pair]pathmtu.Result)
	for source, probes := range p.probes {
		for remote, r := range probes.Results() {
			pair := overlay.Pair{Local: source.tep, Remote: remote}
			if other, ok := all[pair]; ok {
				r = joint(r, other)
			}
			all[pair] = r
		}
	}
	return all
}

// joint is what two results about one pair come to.
func joint(a, b pathmtu.Result) pathmtu.Result {
	if a.MTU == 0 || b.MTU != 0 && b.MTU < a.MTU {
		a, b = b, a
	}
	r := pathmtu.Result{State: pathmtu.Unanswered, MTU: a.MTU, When: a.When}
	switch confirmed := pathmtu.Confirmed; {
	case a.State == pathmtu.Probing || b.State == pathmtu.Probing:
		r.State, r.When = pathmtu.Probing, time.Time{}
	case a.State == confirmed || b.State == confirmed:
		r.State = confirmed
		if b.When.Before(r.When) && b.State == confirmed || a.State != confirmed {
			r.When = b.When
		}
	}
	return r
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
func (p *paths) probe(hostState host.State) map[overlay.Pair]int {
	var errs []error
	wanted := p.probesWanted(hostState)
	for source := range wanted {
		errs = append(errs, p.openProbes(source))
	}
	for source := range p.probes {
		if wanted[source] == nil {
			errs = append(errs, p.endProbes(source))
		}
	}
	p.faults.Report(probeMTUs, errors.Join(errs...))
	for source, probes := range p.probes {
		probes.Set(wanted[source])
	}
	results := p.results()
	probed := make(map[overlay.Pair]int)
	for pair, r := range results {
		if r.MTU > 0 {
			probed[pair] = r.MTU
		}
	}
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	p.obey(probed, results, time.Now())
	return probed
}

// probesWanted are the ceilings of the paths to probe, by where probes leave and by remote.
func (p *paths) probesWanted(hostState host.State) map[probeSource]map[netip.Addr]int {
	wanted := make(map[probeSource]map[netip.Addr]int)
	if !p.state.config.Underlay.ProbeMTU {
		return wanted
	}
	for _, t := range p.state.config.Underlay.Local() {
		if hostState.TEPs[t.Addr] {
			wanted[probeSource{tep: t.Addr}] = make(map[netip.Addr]int)
		}
	}
	for _, pair := range plan.Pairs(p.state.config) {
		for _, one := range plan.PathsOf(p.state.config, hostState, pair) {
			path, source := hostState.Routes[one], probeSource{tep: pair.Local}
			if !hostState.TEPs[pair.Local] {
				continue
			}
			if one.Via != (overlay.Via{}) {
				source.ifindex = path.Ifindex
			}
			if wanted[source] == nil {
				wanted[source] = make(map[netip.Addr]int)
			}
			wanted[source][pair.Remote] = path.MTU
		}
	}
	return wanted
}

// openProbes has source probe, if it does not yet.
func (p *paths) openProbes(source probeSource) error {
	if _, ok := p.probes[source]; ok {
		return nil
	}
	probes, err := p.open(source.tep, source.ifindex, p.log)
	if errors.Is(err, unix.EADDRNOTAVAIL) { // it is still being checked for duplicates
		return nil
	}
	if err != nil {
		return err
	}
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	p.probes[source] = p.follow(probes)
	return nil
}

func (p *paths) endProbes(source probeSource) error {
	p.state.mu.Lock()
	was := p.probes[source]
	delete(p.probes, source)
	p.state.mu.Unlock()
	was.end()
	return was.Close()
}

// recheck asks probes to look into what was reported of a path.
func (p *paths) recheck(pair overlay.Pair, mtu int) {
	for source, probes := range p.probes {
		if source.tep == pair.Local {
			probes.Recheck(pair.Remote, mtu) // which ignores remotes that it does not probe
		}
	}
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
