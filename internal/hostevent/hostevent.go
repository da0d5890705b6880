// Package hostevent follows the hosts that come to ports of an edge, and has those hear of it who have to: BGP,
// remotes that speak none, and who looks for loops. By the same way the data path says that it has reports about paths.
//
// Its one invariant: ports take turns, so that one with many hosts delays no other's, and who brings news waits for
// nobody. Do not use it to find out which hosts there are: events may be lost, the data path knows.
package hostevent

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/bgp"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

const (
	// mostMoves bounds how many hosts remotes are told of in a beat by frames of theirs: a
	// sender of many MAC addresses shall not have each of them sent to all remotes.
	mostMoves = 64
	// mostHostEvents of a port wait for their turn.
	mostHostEvents = 1024
	// announceShare is the least time between announcements, in the processor time of the last.
	announceShare = 10
	// followPause is before hosts are followed again after an error.
	followPause = time.Second

	followHosts = "follow the hosts at ports"
)

// Source is an open data path. Both are called in its network namespace.
type Source interface {
	// FollowHostEvents calls do with hosts that come to ports, until ctx ends. The zero
	// event stands for some that were missed.
	FollowHostEvents(ctx context.Context, do func([]datapath.HostEvent)) error
	// Announce tells remotes of hosts that came to this edge.
	Announce(list []datapath.Move) error
}

// Listener hears of hosts at ports. It waits for nobody.
type Listener interface {
	HostsCame(list []bgp.Host)
	HostsMissed() // some may have come that nobody told of
}

// Loops hears of loop probes that came back. It waits for nobody.
type Loops interface {
	Returned(r datapath.Loop, now time.Time)
}

// Paths hears of reports about paths. It waits for nobody.
type Paths interface {
	Reported() // there may be one that nobody has looked into
}

// Options are what a Follower needs.
type Options struct {
	Listener Listener
	Loops    Loops
	Paths    Paths
	Log      *slog.Logger
	// Report keeps an error as a problem until it is called with nil.
	Report func(what string, err error)
}

// Follower knows of hosts that came to ports and of which remotes are yet to be told. Follow, Unfollow and
// AnnounceMoves are called by one goroutine.
type Follower struct {
	o    Options
	from Source
	end  func() // of following; nil: nothing is followed

	mu     sync.Mutex
	ports  []string // whose turn is next first
	moved  map[string][]datapath.Move
	frozen alarm.FrozenMACs
	// next is not before this time: to announce costs a walk of all neighbours.
	next time.Time
	// waits has a mark when moves wait that did not before.
	waits chan struct{}
}

// New follows nothing yet.
func New(o Options) *Follower {
	return &Follower{o: o, moved: make(map[string][]datapath.Move), waits: make(chan struct{}, 1)}
}

// Waits has a mark when there are moves that AnnounceMoves is to announce, or a loop probe came back.
func (h *Follower) Waits() <-chan struct{} { return h.waits }

// IsWaiting reports whether there are.
func (h *Follower) IsWaiting() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ports) > 0
}

// add has a move wait, unless its port has too many that do. mu is held.
func (h *Follower) add(m datapath.Move) {
	waiting := h.moved[m.Port]
	if len(waiting) >= mostHostEvents {
		return
	}
	if len(waiting) == 0 {
		h.ports = append(h.ports, m.Port)
	}
	h.moved[m.Port] = append(waiting, m)
	background.Notify(h.waits)
}

// take takes the next ones, of each port in turn.
func (h *Follower) take() (list []datapath.Move) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.ports) > 0 && len(list) < mostMoves {
		port := h.ports[0]
		h.ports = h.ports[1:]
		list, h.moved[port] = append(list, h.moved[port][0]), h.moved[port][1:]
		if len(h.moved[port]) > 0 {
			h.ports = append(h.ports, port)
		} else {
			delete(h.moved, port)
		}
	}
	return list
}

// Follow hears of hosts that come to ports of a data path until Unfollow, which must be
// before that is closed.
func (h *Follower) Follow(from Source) {
	h.from = from
	h.end = background.Start(context.Background(), func(ctx context.Context) {
		for {
			err := from.FollowHostEvents(ctx, h.arrived)
			if ctx.Err() != nil {
				return
			}
			h.o.Report(followHosts, err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(followPause):
			}
		}
	})
}

// Unfollow ends that. A second one does nothing.
func (h *Follower) Unfollow() {
	if h.end != nil {
		h.end()
		h.end = nil
	}
}

// arrived takes news of hosts. It waits for nobody.
func (h *Follower) arrived(list []datapath.HostEvent) {
	now := time.Now()
	if slices.Contains(list, datapath.HostEvent{}) {
		h.o.Listener.HostsMissed()
	}
	if slices.ContainsFunc(list, func(a datapath.HostEvent) bool { return a.Reported.IsValid() }) {
		h.o.Paths.Reported()
	}
	came := make([]bgp.Host, 0, len(list))
	h.mu.Lock()
	for _, a := range list {
		if a.Reported.IsValid() {
			continue
		}
		if a.Loop != (datapath.Loop{}) {
			h.o.Loops.Returned(a.Loop, now)
			background.Notify(h.waits)
			continue
		}
		if a.Frozen > 0 {
			h.o.Log.Warn("MAC address frozen: it moved too often", event.Is(event.MACFrozen), "mac", a.MAC, "segment", a.Segment, "at", alarm.FrozenAt(a), "seen_at", a.Other, "for", a.Frozen)
			h.frozen.Add(a, now)
			continue
		}
		came = append(came, bgp.Host{Host: evpn.Host{Segment: a.Segment, MAC: a.MAC, Addr: a.Addr, ND: a.ND}, Port: a.Port})
		if a.Segment != "" && !a.Addr.IsValid() {
			h.add(datapath.Move{Segment: a.Segment, Port: a.Port, MAC: a.MAC, WasRemote: a.WasRemote})
		}
	}
	h.mu.Unlock()
	if len(came) > 0 {
		h.o.Listener.HostsCame(came)
	}
}

// AnnounceMoves tells remotes of segments that speak no BGP of hosts that came to this edge. It is to be called often;
// new MAC addresses take a part of the caller's time at most.
func (h *Follower) AnnounceMoves(segments []overlay.Segment) {
	begin := time.Now()
	if begin.Before(h.next) {
		return
	}
	received := make(map[string]bool)
	for _, s := range segments {
		received[s.Name] = s.EVPN == nil || len(s.Remotes) > 0
	}
	moved := slices.DeleteFunc(h.take(), func(m datapath.Move) bool { return !received[m.Segment] })
	if len(moved) == 0 {
		return
	}
	for _, m := range moved {
		if m.WasRemote {
			h.o.Log.Info("host moved to this edge", event.Is(event.MACMoved), "mac", m.MAC, "segment", m.Segment, "port", m.Port)
		}
	}
	took, err := alarm.Timed(func() error { return h.from.Announce(moved) })
	h.next = begin.Add(announceShare * took)
	h.o.Report("announce moved hosts", err)
}

// Problems are MAC addresses that are frozen now.
func (h *Follower) Problems(now time.Time) []problem.Problem { return h.frozen.Problems(now) }
