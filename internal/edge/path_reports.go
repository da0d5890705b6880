package edge

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/datapath"
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
type reports struct {
	asked    map[overlay.Pair]time.Time // probes were asked to look into the message of that time
	obeyed   map[overlay.Pair]report    // without a confirmation
	outcomes map[string]uint64          // how many came to what
}

func newReports() reports {
	return reports{make(map[overlay.Pair]time.Time), make(map[overlay.Pair]report), make(map[string]uint64)}
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

// followReports has what ICMP messages said about paths confirmed by probes, or decides without.
func (e *edge) followReports() {
	all, err := e.state.dp.Paths.PathReports()
	e.faults.report(readReports, err)
	maps.DeleteFunc(e.paths.asked, func(pair overlay.Pair, _ time.Time) bool { return all[pair].MTU == 0 })
	if len(all) == 0 {
		return
	}
	results, now, lower := e.paths.results(), time.Now(), false
	for pair, r := range all {
		at := now.Add(-r.Age)
		found, probed := results[pair]
		switch {
		case probed && found.State == pathmtu.Confirmed && found.When.After(at):
			outcome := reportRefuted
			if found.MTU <= r.MTU {
				outcome = reportConfirmed
			}
			e.decide(pair, r, outcome)
		case probed && found.State != pathmtu.Unanswered && now.Sub(at) < reportLife:
			e.recheck(pair, r, at)
		case e.mayObey(pair, r, now):
			e.decide(pair, r, reportUnconfirmed)
			lower = true
		default:
			e.decide(pair, r, reportRefused)
		}
	}
	if lower {
		e.reconcile()
	}
}

// recheck asks the probes once for each message.
func (e *edge) recheck(pair overlay.Pair, r datapath.PathReport, at time.Time) {
	const sameReport = time.Second / 2 // by how much the time of one message may differ between looks
	if asked, ok := e.paths.asked[pair]; ok && at.Sub(asked).Abs() < sameReport {
		return
	}
	e.paths.asked[pair] = at
	for source, probes := range e.paths.probes {
		if source.tep == pair.Local {
			probes.Recheck(pair.Remote, r.MTU) // which ignores remotes that it does not probe
		}
	}
}

// mayObey takes a report that embeds a packet of a tunnel, VNI and all, for true. It reports
// whether that changes something.
func (e *edge) mayObey(pair overlay.Pair, r datapath.PathReport, now time.Time) bool {
	most := 0 // of its next hops: a message does not say which one it is about
	for _, one := range plan.PathsOf(e.state.config, e.state.hostState, pair) {
		most = max(most, e.state.hostState.Routes[one].MTU)
	}
	mtu := max(r.VNIMTU, e.leastReported(pair.Remote))
	if r.VNIMTU == 0 || mtu >= most || r.Age > reportLife {
		return false
	}
	if known, ok := e.paths.probed[pair]; ok && mtu >= known {
		return false
	}
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	e.paths.obeyed[pair] = report{mtu, now}
	return true
}

// leastReported is the smallest path MTU that is obeyed without a probe: inside it is the
// minimum of IPv6, whatever the encapsulation.
func (e *edge) leastReported(remote netip.Addr) int {
	const large = 2 * innerMinimum
	return innerMinimum + large - plan.InnerMTU(e.state.config, e.state.config.Remote(remote).Addrs[0], large)
}

// decide ends a report.
func (e *edge) decide(pair overlay.Pair, r datapath.PathReport, outcome string) {
	e.faults.report(decideReport, e.state.dp.Paths.DecidePath(pair))
	e.state.mu.Lock()
	e.paths.outcomes[outcome]++
	e.state.mu.Unlock()
	level := slog.LevelDebug // what changes nothing: anybody can cause it, every second
	if outcome == reportConfirmed || outcome == reportUnconfirmed {
		level = slog.LevelInfo
	}
	e.log.Log(context.Background(), level, "the underlay reported a path MTU", "local", pair.Local, "remote", pair.Remote, "mtu", r.MTU, "outcome", outcome)
}

// expireReports ends the obedience to what no probe has confirmed for too long.
func (e *edge) expireReports() {
	for _, obeyed := range e.paths.obeyed {
		if time.Since(obeyed.at) > reportLife {
			e.reconcile()
			return
		}
	}
}
