package edge

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
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/fault"
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

// hostEvents are hosts that came to ports, of which remotes that speak no BGP are told. Ports
// take turns, so that one with many hosts delays no other's.
type hostEvents struct {
	log    *slog.Logger
	state  *state
	faults *fault.Faults
	loops  *loops
	bgp    hostListener
	end    func() // of following

	mu     sync.Mutex
	ports  []string // whose turn is next first
	moved  map[string][]datapath.Move
	frozen alarm.FrozenMACs
	// next is not before this time: to announce costs a walk of all neighbours.
	next time.Time
}

// hostListener is told of hosts at ports, too. It waits for nobody.
type hostListener interface {
	hostsCame(list []bgp.Host)
	hostsMissed() // some may have come that nobody told of
}

func newHostEvents(e *edge) hostEvents {
	return hostEvents{log: e.log, state: &e.state, faults: e.faults, loops: &e.loops, bgp: &e.bgp}
}

// add has a move wait, unless its port has too many that do. mu is held.
func (h *hostEvents) add(m datapath.Move) {
	waiting := h.moved[m.Port]
	if len(waiting) >= mostHostEvents {
		return
	}
	if len(waiting) == 0 {
		h.ports = append(h.ports, m.Port)
	}
	if h.moved == nil {
		h.moved = make(map[string][]datapath.Move)
	}
	h.moved[m.Port] = append(waiting, m)
}

// take takes the next ones, of each port in turn.
func (h *hostEvents) take() (list []datapath.Move) {
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

// follow hears of hosts that come to ports until unfollow, which must be
// before the data path is closed.
func (h *hostEvents) follow() {
	dp := h.state.dp
	if dp == nil {
		return
	}
	h.end = background.Start(context.Background(), func(ctx context.Context) {
		for {
			err := dp.HostEvents.FollowHostEvents(ctx, h.arrived)
			if ctx.Err() != nil {
				return
			}
			h.faults.Report(followHosts, err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(followPause):
			}
		}
	})
}

func (h *hostEvents) unfollow() {
	if h.end != nil {
		h.end()
		h.end = nil
	}
}

// arrived takes news of hosts. It waits for nobody.
func (h *hostEvents) arrived(list []datapath.HostEvent) {
	now := time.Now()
	if slices.Contains(list, datapath.HostEvent{}) {
		h.bgp.hostsMissed()
	}
	came := make([]bgp.Host, 0, len(list))
	h.mu.Lock()
	for _, a := range list {
		if a.Loop != (datapath.Loop{}) {
			h.loops.returned(a.Loop, now)
			continue
		}
		if a.Frozen > 0 {
			h.log.Warn("MAC address frozen: it moved too often", "mac", a.MAC, "segment", a.Segment, "at", alarm.FrozenAt(a), "seen_at", a.Other, "for", a.Frozen)
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
		h.bgp.hostsCame(came)
	}
}

// announceMoves tells remotes that speak no BGP of hosts that came to this edge. New MAC addresses
// of a port keep the loop from nothing else: it takes a part of its time at most.
func (h *hostEvents) announceMoves() {
	begin := time.Now()
	if begin.Before(h.next) {
		return
	}
	received := make(map[string]bool)
	for _, s := range h.state.configured.Segments {
		received[s.Name] = s.EVPN == nil || len(s.Remotes) > 0
	}
	moved := slices.DeleteFunc(h.take(), func(m datapath.Move) bool { return !received[m.Segment] })
	if len(moved) == 0 {
		return
	}
	for _, m := range moved {
		if m.WasRemote {
			h.log.Info("host moved to this edge", "mac", m.MAC, "segment", m.Segment, "port", m.Port)
		}
	}
	took, err := alarm.Timed(func() error { return h.state.dp.HostEvents.Announce(moved) })
	h.next = begin.Add(announceShare * took)
	h.faults.Report("announce moved hosts", err)
}
