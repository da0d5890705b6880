// Package loop finds loops of layer 2 that join ports of an edge with each other or with remotes. Probes of ports that
// come back show them, and a port of each loop is cut off from floods while they do.
//
// Its one invariant: a port that is cut comes back by itself when the loop is gone. Do not use it for MAC addresses
// that move between places: those are frozen where they were.
package loop

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/problem"
)

const (
	// probeEvery is how often each port sends a loop probe.
	probeEvery = 5 * time.Second
	// A port is cut for so long after the last probe came back, at first and at most: it doubles
	// when the loop is there again.
	cutFirst, cutMost = 15 * time.Second, 5 * time.Minute
	// quiet is for how long there is no loop before the first time counts again.
	quiet = 10 * time.Minute
	// remotePatience is how many probes come back from a remote before this edge cuts its port: of
	// two edges that one layer 2 joins, one is enough, and the one with the higher address is first.
	remotePatience = 4

	cutPorts = "cut ports of loops"
)

// Ports are those of an edge. The goroutine of Tick alone calls them.
type Ports interface {
	// ProbeLoops sends a loop probe out of each port.
	ProbeLoops() error
	// CutPorts has these ports, by name, be cut off from floods, and no others.
	CutPorts(names map[string]bool) error
}

// Options are what a Guard needs.
type Options struct {
	Ports Ports
	TEP   netip.Addr // the first of this edge
	Log   *slog.Logger
	// Report keeps an error as a problem until it is called with nil.
	Report func(what string, err error)
}

// Guard cuts ports off of which a probe came back.
type Guard struct {
	o Options

	mu    sync.Mutex
	ports map[string]*loop
	found chan struct{} // has a mark when there is another port to cut
	// due is when probes are to be sent next. The goroutine of Tick has it alone.
	due time.Time
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
func (l *loop) cutFor() time.Duration { return min(cutFirst<<min(l.times-1, 8), cutMost) }

// isThere reports whether probes come back still.
func (l *loop) isThere(now time.Time) bool { return now.Sub(l.last) <= 3*probeEvery }

// New knows of no loop.
func New(o Options) *Guard {
	return &Guard{o: o, ports: map[string]*loop{}, found: make(chan struct{}, 1)}
}

// Returned takes news of a probe that came back. It waits for nobody.
func (g *Guard) Returned(r datapath.Loop, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.ports[r.Younger]
	if p == nil {
		p = &loop{}
		g.ports[r.Younger] = p
	}
	if !p.isThere(now) {
		p.seen = 0
	}
	p.Loop, p.last = r, now
	p.seen++
	if !p.cut {
		if g.isPatient(r) && p.seen < remotePatience {
			return
		}
		p.cut = true
		p.times++
		background.Notify(g.found)
	}
	p.until = now.Add(p.cutFor())
}

// pass ends the cuts whose time is over, and says whether there are any others than before.
func (g *Guard) pass(now time.Time) (thawed []datapath.Loop) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, p := range g.ports {
		switch {
		case p.cut && !now.Before(p.until):
			p.cut = false
			thawed = append(thawed, p.Loop)
		case !p.cut && now.Sub(p.last) > quiet:
			delete(g.ports, name)
		}
	}
	return thawed
}

// cut are the ports that are cut now.
func (g *Guard) cut() map[string]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	ports := map[string]bool{}
	for name, p := range g.ports {
		if p.cut {
			ports[name] = true
		}
	}
	return ports
}

// Problems are the loops of now.
func (g *Guard) Problems(now time.Time) (list []problem.Problem) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, p := range g.ports {
		switch {
		case p.cut:
			list = append(list, problem.Error("port %s is cut off from floods, as a loop joins port %s with %s: remove the cable or bridge between them; "+
				"it is thawed %s after the loop is gone", name, p.Port, placeOf(p.Loop), p.cutFor()))
		case p.seen > 0 && p.isThere(now):
			list = append(list, problem.Warning("a loop joins port %s with %s, which is expected to cut it", p.Port, placeOf(p.Loop)))
		}
	}
	slices.SortFunc(list, func(a, b problem.Problem) int { return slices.Compare([]string{a.Text}, []string{b.Text}) })
	return list
}

func placeOf(l datapath.Loop) string {
	if l.Remote {
		return "remote " + l.At
	}
	if l.At == l.Port {
		return "itself"
	}
	return "port " + l.At
}

// Tick cuts ports whose probes came back, and probes again in time. It is to be called often, by one goroutine.
func (g *Guard) Tick() {
	select {
	case <-g.found:
		g.cutAll()
	default:
	}
	now := time.Now()
	if now.Before(g.due) {
		return
	}
	if g.due = g.due.Add(probeEvery); g.due.Before(now) { // the first, or ticks were late
		g.due = now.Add(probeEvery)
	}
	g.watch()
}

// watch probes for loops, and lets ports back whose loop is gone.
func (g *Guard) watch() {
	thawed := g.pass(time.Now())
	for _, r := range thawed {
		g.o.Log.Info("port thawed: its loop is gone", event.Is(event.PortThawed), "port", r.Younger, "joined", r.Port, "with", r.At)
	}
	if len(thawed) > 0 {
		g.cutAll()
	}
	g.o.Report("probe for loops", g.o.Ports.ProbeLoops())
}

// cutAll cuts the ports of loops.
func (g *Guard) cutAll() {
	cut := g.cut()
	for name := range cut {
		g.o.Log.Warn("port cut off: its segment has a loop", event.Is(event.PortCut), "port", name)
	}
	err := g.o.Ports.CutPorts(cut)
	if err != nil {
		err = fmt.Errorf("%d ports: %w", len(cut), err)
	}
	g.o.Report(cutPorts, err)
}

// isPatient reports whether the remote of a loop shall cut its port first.
func (g *Guard) isPatient(r datapath.Loop) bool {
	remote, err := netip.ParseAddr(r.At)
	return r.Remote && err == nil && g.o.TEP.Less(remote)
}
