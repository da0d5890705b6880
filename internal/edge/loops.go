package edge

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fault"
	"github.com/selvage/selvage/internal/problem"
)

const (
	// loopProbeEvery is how often each port sends a loop probe.
	loopProbeEvery = 5 * time.Second
	// A port is cut for so long after the last probe came back, at first and at most: it doubles
	// when the loop is there again.
	loopCut, loopCutMost = 15 * time.Second, 5 * time.Minute
	// loopQuiet is for how long there is no loop before the first time counts again.
	loopQuiet = 10 * time.Minute
	// remotePatience is how many probes come back from a remote before this edge cuts its port: of
	// two edges that one layer 2 joins, one is enough, and the one with the higher address is first.
	remotePatience = 4

	cutLooped = "cut ports of loops"
)

// loops are the ports that are cut off, as a probe of theirs came back.
type loops struct {
	log    *slog.Logger
	state  *state
	faults *fault.Faults
	urgent func(func()) // has the writer do it before what it is about to write
	tep    netip.Addr   // the first of this edge

	mu    sync.Mutex
	ports map[string]*loop
	found chan struct{}
	// probed is when probes were sent last. The edge's loop has it alone.
	probed time.Time
}

type loop struct {
	datapath.Loop
	seen  int       // probes that came back in a row
	last  time.Time // the last of them
	cut   bool
	times int       // cut one after the other
	until time.Time // of the cut
}

// cutFor is how long it is cut after a probe came back.
func (l *loop) cutFor() time.Duration { return min(loopCut<<min(l.times-1, 8), loopCutMost) }

// isThere reports whether probes come back still.
func (l *loop) isThere(now time.Time) bool { return now.Sub(l.last) <= 3*loopProbeEvery }

func newLoops(e *edge) loops {
	return loops{
		log: e.log, state: &e.state, faults: e.faults, urgent: e.writer.Urgent, tep: e.state.config.Underlay.TEP,
		ports: map[string]*loop{}, found: make(chan struct{}, 1),
	}
}

// returned takes news of a probe that came back.
func (l *loops) returned(r datapath.Loop, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.ports[r.Younger]
	if p == nil {
		p = &loop{}
		l.ports[r.Younger] = p
	}
	if !p.isThere(now) {
		p.seen = 0
	}
	p.Loop, p.last = r, now
	p.seen++
	if !p.cut {
		if l.isPatient(r) && p.seen < remotePatience {
			return
		}
		p.cut = true
		p.times++
		background.Notify(l.found)
	}
	p.until = now.Add(p.cutFor())
}

// pass ends the cuts whose time is over, and says whether there are any others than before.
func (l *loops) pass(now time.Time) (thawed []datapath.Loop) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, p := range l.ports {
		switch {
		case p.cut && !now.Before(p.until):
			p.cut = false
			thawed = append(thawed, p.Loop)
		case !p.cut && now.Sub(p.last) > loopQuiet:
			delete(l.ports, name)
		}
	}
	return thawed
}

// cut are the ports that are cut now.
func (l *loops) cut() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ports := map[string]bool{}
	for name, p := range l.ports {
		if p.cut {
			ports[name] = true
		}
	}
	return ports
}

// problems are the loops of now.
func (l *loops) problems(now time.Time) (list []problem.Problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, p := range l.ports {
		switch {
		case p.cut:
			list = append(list, problem.Error("port %s is cut off from floods, as a loop joins port %s with %s: remove the cable or bridge between them; "+
				"it is thawed %s after the loop is gone", name, p.Port, loopPlace(p.Loop), p.cutFor()))
		case p.seen > 0 && p.isThere(now):
			list = append(list, problem.Warning("a loop joins port %s with %s, which is expected to cut it", p.Port, loopPlace(p.Loop)))
		}
	}
	slices.SortFunc(list, func(a, b problem.Problem) int { return slices.Compare([]string{a.Text}, []string{b.Text}) })
	return list
}

func loopPlace(l datapath.Loop) string {
	if l.Remote {
		return "remote " + l.At
	}
	if l.At == l.Port {
		return "itself"
	}
	return "port " + l.At
}

// follow cuts ports whose probes came back, and probes again in time.
func (l *loops) follow() {
	select {
	case <-l.found:
		l.cutAll()
	default:
	}
	if now := time.Now(); now.Sub(l.probed) >= loopProbeEvery {
		l.probed = now
		l.watch()
	}
}

// watch probes for loops, and lets ports back whose loop is gone.
func (l *loops) watch() {
	if l.state.dp == nil {
		return
	}
	thawed := l.pass(time.Now())
	for _, r := range thawed {
		l.log.Info("port thawed: its loop is gone", "port", r.Younger, "joined", r.Port, "with", r.At)
	}
	if len(thawed) > 0 {
		l.cutAll()
	}
	l.faults.Report("probe for loops", l.state.dp.HostEvents.ProbeLoops())
}

// cutAll cuts the ports of loops.
func (l *loops) cutAll() {
	cut := l.cut()
	for name := range cut {
		l.log.Warn("port cut off: its segment has a loop", "port", name)
	}
	l.state.mu.Lock()
	var err error
	l.urgent(func() { err = l.state.dp.Ports.CutPorts(cut) })
	l.state.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("%d ports: %w", len(cut), err)
	}
	l.faults.Report(cutLooped, err)
}

// isPatient reports whether the remote of a loop shall cut its port first.
func (l *loops) isPatient(r datapath.Loop) bool {
	remote, err := netip.ParseAddr(r.At)
	return r.Remote && err == nil && l.tep.Less(remote)
}
