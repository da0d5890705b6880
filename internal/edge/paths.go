package edge

import (
	"errors"
	"maps"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/host"
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
	probes PathProbes // nil without probing
	tep    netip.Addr // that the probes have
	probed reconcile.Probed
	seen   map[netip.Addr]report // messages that probes were asked to look into
}

type report struct {
	mtu int
	at  time.Time
}

func (p *paths) changed() <-chan struct{} {
	if p.probes == nil {
		return nil
	}
	return p.probes.Changed()
}

func (p *paths) results() map[netip.Addr]pathmtu.Result {
	if p.probes == nil {
		return nil
	}
	return p.probes.Results()
}

func (p *paths) close() error {
	if p.probes == nil {
		return nil
	}
	return p.probes.Close()
}

// probe makes the probes be those of configuration and view, and returns what
// they found by now.
func (e *edge) probe(view host.View) reconcile.Probed {
	const what = "probe path MTUs"
	wanted := e.config.Underlay.ProbeMTU && view.TEPPresent
	if e.paths.probes != nil && (!wanted || e.paths.tep != e.config.Underlay.TEP) {
		e.fault(what, e.setProbes(nil))
	}
	if !wanted {
		return nil
	}
	if e.paths.probes == nil {
		probes, err := e.opts.OpenProbes(e.config.Underlay.TEP, e.log)
		if errors.Is(err, unix.EADDRNOTAVAIL) { // it is still being checked for duplicates
			return nil
		}
		e.fault(what, err)
		if err != nil {
			return nil
		}
		e.fault(what, e.setProbes(probes))
	}
	ceilings := make(map[netip.Addr]int)
	for _, remote := range reconcile.Remotes(e.config) {
		if path, ok := reconcile.Path(e.config, view, remote); ok {
			ceilings[remote] = path.MTU
		}
	}
	e.paths.probes.Set(ceilings)
	probed := make(reconcile.Probed)
	for remote, r := range e.paths.probes.Results() {
		if r.MTU > 0 {
			probed[remote] = r.MTU
		}
	}
	return probed
}

// setProbes replaces the probes and ends the former ones.
func (e *edge) setProbes(probes PathProbes) error {
	e.mu.Lock()
	was := e.paths.probes
	e.paths.probes, e.paths.tep = probes, e.config.Underlay.TEP
	e.mu.Unlock()
	if was == nil {
		return nil
	}
	return was.Close()
}

// followPaths has what ICMP messages said about paths confirmed by probes. The
// data path obeys a message at once; it forgets it when probes know better, or
// after reportLife.
func (e *edge) followPaths() {
	reports, err := e.dp.PathMTUs()
	e.fault("read the path MTUs that ICMP messages reported", err)
	if err != nil {
		return
	}
	results, now := e.paths.results(), time.Now()
	maps.DeleteFunc(e.paths.seen, func(remote netip.Addr, _ report) bool { return reports[remote].MTU == 0 })
	for remote, r := range reports {
		at := now.Add(-time.Duration(r.AgeNS))
		found := results[remote]
		// Not before the tables have what was found.
		confirmed := found.State == pathmtu.Confirmed && found.When.After(at) && e.paths.probed[remote] == found.MTU
		if confirmed || now.Sub(at) > reportLife {
			e.forget(remote)
		} else {
			e.recheck(remote, r, at)
		}
	}
}

func (e *edge) forget(remote netip.Addr) {
	e.mu.Lock()
	err := e.dp.ForgetPathMTU(remote)
	e.mu.Unlock()
	e.fault("forget a path MTU", err)
	delete(e.paths.seen, remote)
}

// recheck asks the probes once for each message.
func (e *edge) recheck(remote netip.Addr, r datapath.PathMTU, at time.Time) {
	known, ok := e.paths.seen[remote]
	if e.paths.probes == nil || ok && known.mtu == r.MTU && at.Sub(known.at) < sameReport {
		return
	}
	if e.paths.seen == nil {
		e.paths.seen = make(map[netip.Addr]report)
	}
	e.paths.seen[remote] = report{r.MTU, at}
	e.paths.probes.Recheck(remote)
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

// pathMTU is what tunnels to remote obey and why. mu is held.
func (e *edge) pathMTU(remote netip.Addr, path host.Path, reports map[netip.Addr]datapath.PathMTU, results map[netip.Addr]pathmtu.Result) (mtu int, state string) {
	mtu = e.paths.probed.MTU(remote, path)
	if r := reports[remote]; r.MTU > 0 && r.MTU < mtu {
		return r.MTU, pathReported
	}
	switch results[remote].State {
	case pathmtu.Confirmed:
		return mtu, pathConfirmed
	case pathmtu.Unanswered:
		return mtu, pathUnanswered
	case pathmtu.Probing:
		return mtu, pathProbing
	}
	return mtu, pathNotProbed
}
