package discovery

import (
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/pathmtu"
	"github.com/selvage/selvage/internal/plan"
)

// probeSource is where probes leave: a TEP and, of a pair whose route has several next hops, the interface
// of one; 0 leaves it to the routing table.
type probeSource struct {
	tep     netip.Addr
	ifindex int
}

// followed are probes whose news are passed on until end.
type followed struct {
	Probes
	end func()
}

// follow passes the news of probes on.
func (d *Discovery) follow(probes Probes) followed {
	return followed{probes, background.OnEach(probes.Changed(), func(struct{}) { background.Notify(d.found) })}
}

// results are those of pairs. Of several next hops the least counts: an ICMP message does not say which of
// them it is about, and inner hosts see one MTU however their flows move.
func (d *Discovery) results() map[overlay.Pair]pathmtu.Result {
	all := make(map[overlay.Pair]pathmtu.Result)
	for source, probes := range d.probes {
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

// probesWanted are the ceilings of the paths to probe, by where probes leave and by remote.
func probesWanted(config overlay.Edge, hostState host.State) map[probeSource]map[netip.Addr]int {
	wanted := make(map[probeSource]map[netip.Addr]int)
	if !config.Underlay.ProbeMTU {
		return wanted
	}
	for _, t := range config.Underlay.Local() {
		if hostState.TEPs[t.Addr] {
			wanted[probeSource{tep: t.Addr}] = make(map[netip.Addr]int)
		}
	}
	for _, pair := range plan.Pairs(config) {
		for _, one := range plan.PathsOf(config, hostState, pair) {
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
func (d *Discovery) openProbes(source probeSource) error {
	if _, ok := d.probes[source]; ok {
		return nil
	}
	probes, err := d.o.Open(source.tep, source.ifindex, d.o.Log)
	if errors.Is(err, unix.EADDRNOTAVAIL) { // it is still being checked for duplicates
		return nil
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.probes[source] = d.follow(probes)
	return nil
}

func (d *Discovery) endProbes(source probeSource) error {
	d.mu.Lock()
	was := d.probes[source]
	delete(d.probes, source)
	d.mu.Unlock()
	was.end()
	return was.Close()
}

// recheckBy asks probes to look into what was reported of a path.
func (d *Discovery) recheckBy(pair overlay.Pair, mtu int) {
	for source, probes := range d.probes {
		if source.tep == pair.Local {
			probes.Recheck(pair.Remote, mtu) // which ignores remotes that it does not probe
		}
	}
}
