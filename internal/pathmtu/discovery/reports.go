package discovery

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/host"
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

// obey lowers the MTUs of paths to what is obeyed without a confirmation. It forgets what is too
// old, and what a probe has decided since.
func (d *Discovery) obey(probed map[overlay.Pair]int, results map[overlay.Pair]pathmtu.Result, now time.Time) {
	maps.DeleteFunc(d.obeyed, func(pair overlay.Pair, obeyed report) bool {
		found := results[pair]
		return found.State == pathmtu.Confirmed && found.When.After(obeyed.at) || now.Sub(obeyed.at) > reportLife
	})
	for pair, obeyed := range d.obeyed {
		if known, ok := probed[pair]; !ok || obeyed.mtu < known {
			probed[pair] = obeyed.mtu
		}
	}
}

// Follow has what ICMP messages said about paths confirmed by probes, or decides without. It reports whether tables are
// to obey another MTU now. config and hostState are those in force.
func (d *Discovery) Follow(from Reports, config overlay.Edge, hostState host.State) (lower bool) {
	all, err := from.PathReports()
	d.o.Report(readReports, err)
	maps.DeleteFunc(d.asked, func(pair overlay.Pair, _ time.Time) bool { return all[pair].MTU == 0 })
	if len(all) == 0 {
		return false
	}
	results, now := d.results(), time.Now()
	for pair, message := range all {
		at := now.Add(-message.Age)
		found, probed := results[pair]
		switch {
		case probed && found.State == pathmtu.Confirmed && found.When.After(at):
			outcome := reportRefuted
			if found.MTU <= message.MTU {
				outcome = reportConfirmed
			}
			d.decide(from, pair, message, outcome)
		case probed && found.State != pathmtu.Unanswered && now.Sub(at) < reportLife:
			d.recheck(pair, message, at)
		case d.mayObey(config, hostState, pair, message, now):
			d.decide(from, pair, message, reportUnconfirmed)
			lower = true
		default:
			d.decide(from, pair, message, reportRefused)
		}
	}
	return lower
}

// recheck asks the probes once for each message.
func (d *Discovery) recheck(pair overlay.Pair, message datapath.PathReport, at time.Time) {
	const sameReport = time.Second / 2 // by how much the time of one message may differ between looks
	if asked, ok := d.asked[pair]; ok && at.Sub(asked).Abs() < sameReport {
		return
	}
	d.asked[pair] = at
	d.recheckBy(pair, message.MTU)
}

// mayObey takes a report that embeds a packet of a tunnel, VNI and all, for true. It reports
// whether that changes something.
func (d *Discovery) mayObey(config overlay.Edge, hostState host.State, pair overlay.Pair, message datapath.PathReport, now time.Time) bool {
	most := 0 // of its next hops: a message does not say which one it is about
	for _, one := range plan.PathsOf(config, hostState, pair) {
		most = max(most, hostState.Routes[one].MTU)
	}
	mtu := max(message.VNIMTU, leastReported(config, pair.Remote))
	if message.VNIMTU == 0 || mtu >= most || message.Age > reportLife {
		return false
	}
	if known, ok := d.applied[pair]; ok && mtu >= known {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.obeyed[pair] = report{mtu, now}
	return true
}

// leastReported is the smallest path MTU that is obeyed without a probe: inside it is the
// minimum of IPv6, whatever the encapsulation.
func leastReported(config overlay.Edge, remote netip.Addr) int {
	const large = 2 * innerMinimum
	return innerMinimum + large - plan.InnerMTU(config, config.Remote(remote).Addrs[0], large)
}

// decide ends a report.
func (d *Discovery) decide(from Reports, pair overlay.Pair, message datapath.PathReport, outcome string) {
	d.o.Report(decideReport, from.DecidePath(pair))
	d.mu.Lock()
	d.outcomes[outcome]++
	d.mu.Unlock()
	level := slog.LevelDebug // what changes nothing: anybody can cause it, every second
	if outcome == reportConfirmed || outcome == reportUnconfirmed {
		level = slog.LevelInfo
	}
	d.o.Log.Log(context.Background(), level, "the underlay reported a path MTU", "local", pair.Local, "remote", pair.Remote, "mtu", message.MTU, "outcome", outcome)
}

// Expire reports whether a message is no longer to be obeyed, as no probe has confirmed it for too long. The next Probe
// forgets it.
func (d *Discovery) Expire() bool {
	for _, obeyed := range d.obeyed {
		if time.Since(obeyed.at) > reportLife {
			return true
		}
	}
	return false
}
