package edge

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fault"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/pathmtu"
	"github.com/selvage/selvage/internal/plan"
)

// What ICMP messages of the underlay say about paths. Anybody can send them, so a probe decides
// (RFC 8899 section 4.6.2, RFC 8201 section 6). Only where probing is off, or the remote answers
// no probes, a message is obeyed without one, and never below what leaves inner IPv6 its minimum.

const (
	// reportLife is how long an ICMP message about a path is obeyed without being
	// confirmed (RFC 1191 section 6.3, RFC 8201 section 4: ten minutes).
	reportLife = 10 * time.Minute
	// innerMinimum is the least MTU of a link of IPv6 (RFC 8200 section 5), in bytes.
	innerMinimum = 1280
)

// report is an ICMP message about a path.
type report struct {
	mtu int
	at  time.Time
}

// What became of reports.
const (
	reportConfirmed   = "confirmed"   // a probe found the path to be as small, or smaller
	reportRefuted     = "refuted"     // a probe found it larger
	reportUnconfirmed = "unconfirmed" // obeyed without a probe
	reportRefused     = "refused"     // nothing can confirm it, and it does not say enough to be obeyed
)

// reportOutcomes are all, in the order of the metrics.
var reportOutcomes = []string{reportConfirmed, reportRefuted, reportUnconfirmed, reportRefused}

// reports are those that probes are looking into, and those that are obeyed.
// obeyed and outcomes are changed under the mu of state.
type reports struct {
	log       *slog.Logger
	state     *state
	faults    *fault.Faults
	paths     *paths
	reconcile func()

	asked    map[overlay.Pair]time.Time // probes were asked to look into the message of that time
	obeyed   map[overlay.Pair]report    // without a confirmation
	outcomes map[string]uint64          // how many came to what
}

func newReports(e *edge) reports {
	return reports{
		log: e.log, state: &e.state, faults: e.faults, paths: &e.paths, reconcile: e.reconcile,
		asked: make(map[overlay.Pair]time.Time), obeyed: make(map[overlay.Pair]report), outcomes: make(map[string]uint64),
	}
}

// obey lowers the MTUs of paths to what is obeyed without a confirmation. It forgets what is too
// old, and what a probe has decided since.
func (r *reports) obey(probed map[overlay.Pair]int, results map[overlay.Pair]pathmtu.Result, now time.Time) {
	maps.DeleteFunc(r.obeyed, func(pair overlay.Pair, obeyed report) bool {
		found := results[pair]
		return found.State == pathmtu.Confirmed && found.When.After(obeyed.at) || now.Sub(obeyed.at) > reportLife
	})
	for pair, obeyed := range r.obeyed {
		if known, ok := probed[pair]; !ok || obeyed.mtu < known {
			probed[pair] = obeyed.mtu
		}
	}
}

// follow has what ICMP messages said about paths confirmed by probes, or decides without.
func (r *reports) follow() {
	all, err := r.state.dp.Paths.PathReports()
	r.faults.Report(readReports, err)
	maps.DeleteFunc(r.asked, func(pair overlay.Pair, _ time.Time) bool { return all[pair].MTU == 0 })
	if len(all) == 0 {
		return
	}
	results, now, lower := r.paths.results(), time.Now(), false
	for pair, message := range all {
		at := now.Add(-message.Age)
		found, probed := results[pair]
		switch {
		case probed && found.State == pathmtu.Confirmed && found.When.After(at):
			outcome := reportRefuted
			if found.MTU <= message.MTU {
				outcome = reportConfirmed
			}
			r.decide(pair, message, outcome)
		case probed && found.State != pathmtu.Unanswered && now.Sub(at) < reportLife:
			r.recheck(pair, message, at)
		case r.mayObey(pair, message, now):
			r.decide(pair, message, reportUnconfirmed)
			lower = true
		default:
			r.decide(pair, message, reportRefused)
		}
	}
	if lower {
		r.reconcile()
	}
}

// recheck asks the probes once for each message.
func (r *reports) recheck(pair overlay.Pair, message datapath.PathReport, at time.Time) {
	const sameReport = time.Second / 2 // by how much the time of one message may differ between looks
	if asked, ok := r.asked[pair]; ok && at.Sub(asked).Abs() < sameReport {
		return
	}
	r.asked[pair] = at
	r.paths.recheck(pair, message.MTU)
}

// mayObey takes a report that embeds a packet of a tunnel, VNI and all, for true. It reports
// whether that changes something.
func (r *reports) mayObey(pair overlay.Pair, message datapath.PathReport, now time.Time) bool {
	most := 0 // of its next hops: a message does not say which one it is about
	for _, one := range plan.PathsOf(r.state.config, r.state.hostState, pair) {
		most = max(most, r.state.hostState.Routes[one].MTU)
	}
	mtu := max(message.VNIMTU, r.leastReported(pair.Remote))
	if message.VNIMTU == 0 || mtu >= most || message.Age > reportLife {
		return false
	}
	if known, ok := r.paths.probed[pair]; ok && mtu >= known {
		return false
	}
	r.state.mu.Lock()
	defer r.state.mu.Unlock()
	r.obeyed[pair] = report{mtu, now}
	return true
}

// leastReported is the smallest path MTU that is obeyed without a probe: inside it is the
// minimum of IPv6, whatever the encapsulation.
func (r *reports) leastReported(remote netip.Addr) int {
	const large = 2 * innerMinimum
	return innerMinimum + large - plan.InnerMTU(r.state.config, r.state.config.Remote(remote).Addrs[0], large)
}

// decide ends a report.
func (r *reports) decide(pair overlay.Pair, message datapath.PathReport, outcome string) {
	r.faults.Report(decideReport, r.state.dp.Paths.DecidePath(pair))
	r.state.mu.Lock()
	r.outcomes[outcome]++
	r.state.mu.Unlock()
	level := slog.LevelDebug // what changes nothing: anybody can cause it, every second
	if outcome == reportConfirmed || outcome == reportUnconfirmed {
		level = slog.LevelInfo
	}
	r.log.Log(context.Background(), level, "the underlay reported a path MTU", "local", pair.Local, "remote", pair.Remote, "mtu", message.MTU, "outcome", outcome)
}

// expire ends the obedience to what no probe has confirmed for too long.
func (r *reports) expire() {
	for _, obeyed := range r.obeyed {
		if time.Since(obeyed.at) > reportLife {
			r.reconcile()
			return
		}
	}
}

// read reads what is known of path MTUs. mu is held.
func (r *reports) read() (known, error) {
	reported, err := r.state.dp.Paths.PathReports()
	return known{r.paths.results(), maps.Clone(r.obeyed), reported, maps.Clone(r.outcomes)}, err
}
