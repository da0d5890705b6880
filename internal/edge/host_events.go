package edge

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/bgp"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/plan"
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
	mu     sync.Mutex
	ports  []string // whose turn is next first
	moved  map[string][]datapath.Move
	frozen alarm.FrozenMACs
	// next is not before this time: to announce costs a walk of all neighbours.
	next time.Time
	// nextLook is that of a look at all hosts because some events were lost; the age tick looks, too.
	nextLook time.Time
}

// add has a move wait, unless its port has too many that do. mu is held.
func (a *hostEvents) add(m datapath.Move) {
	waiting := a.moved[m.Port]
	if len(waiting) >= mostHostEvents {
		return
	}
	if len(waiting) == 0 {
		a.ports = append(a.ports, m.Port)
	}
	if a.moved == nil {
		a.moved = make(map[string][]datapath.Move)
	}
	a.moved[m.Port] = append(waiting, m)
}

// take takes the next ones, of each port in turn.
func (a *hostEvents) take() (list []datapath.Move) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.ports) > 0 && len(list) < mostMoves {
		port := a.ports[0]
		a.ports = a.ports[1:]
		list, a.moved[port] = append(list, a.moved[port][0]), a.moved[port][1:]
		if len(a.moved[port]) > 0 {
			a.ports = append(a.ports, port)
		} else {
			delete(a.moved, port)
		}
	}
	return list
}

// followHostEvents hears of hosts that come to ports until unfollowHostEvents, which must be
// before the data path is closed.
func (e *edge) followHostEvents() {
	dp := e.state.dp
	if dp == nil {
		return
	}
	e.endHostEvents = goWait(context.Background(), func(ctx context.Context) {
		for {
			err := dp.HostEvents.FollowHostEvents(ctx, e.arrived)
			if ctx.Err() != nil {
				return
			}
			e.faults.report(followHosts, err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(followPause):
			}
		}
	})
}

func (e *edge) unfollowHostEvents() {
	if e.endHostEvents != nil {
		e.endHostEvents()
		e.endHostEvents = nil
	}
}

// arrived takes news of hosts. It waits for nobody.
func (e *edge) arrived(list []datapath.HostEvent) {
	now := time.Now()
	if slices.Contains(list, datapath.HostEvent{}) {
		wake(e.learned.missed)
	}
	came := make([]bgp.Host, 0, len(list))
	e.hostEvents.mu.Lock()
	for _, a := range list {
		if a.Loop != (datapath.Loop{}) {
			e.loops.returned(a.Loop, e.isPatient(a.Loop), now)
			continue
		}
		if a.Frozen > 0 {
			e.log.Warn("MAC address frozen: it moved too often", "mac", a.MAC, "segment", a.Segment, "at", alarm.FrozenAt(a), "seen_at", a.Other, "for", a.Frozen)
			e.hostEvents.frozen.Add(a, now)
			continue
		}
		came = append(came, bgp.Host{Host: evpn.Host{Segment: a.Segment, MAC: a.MAC, Addr: a.Addr, ND: a.ND}, Port: a.Port})
		if a.Segment != "" && !a.Addr.IsValid() {
			e.hostEvents.add(datapath.Move{Segment: a.Segment, Port: a.Port, MAC: a.MAC, WasRemote: a.WasRemote})
		}
	}
	e.hostEvents.mu.Unlock()
	if b := e.bgp.Load(); b != nil && len(came) > 0 {
		b.HostsCame(came)
	}
}

// announceMoves tells remotes that speak no BGP of hosts that came to this edge. New MAC addresses
// of a port keep the loop from nothing else: it takes a part of its time at most.
func (e *edge) announceMoves() {
	begin := time.Now()
	if begin.Before(e.hostEvents.next) {
		return
	}
	received := make(map[string]bool)
	for _, s := range e.state.configured.Segments {
		received[s.Name] = s.EVPN == nil || len(s.Remotes) > 0
	}
	moved := slices.DeleteFunc(e.hostEvents.take(), func(m datapath.Move) bool { return !received[m.Segment] })
	if len(moved) == 0 {
		return
	}
	for _, m := range moved {
		if m.WasRemote {
			e.log.Info("host moved to this edge", "mac", m.MAC, "segment", m.Segment, "port", m.Port)
		}
	}
	took, err := alarm.Timed(func() error { return e.state.dp.HostEvents.Announce(moved) })
	e.hostEvents.next = begin.Add(announceShare * took)
	e.faults.report("announce moved hosts", err)
}

// lookMissedHosts looks for those that no event told of, not all the time.
func (e *edge) lookMissedHosts() {
	if !time.Now().Before(e.hostEvents.nextLook) {
		e.lookHosts()
	}
}

// lookHosts compares the hosts at ports with those that neighbours were told of, and asks
// those that are about to be forgotten whether they are there.
func (e *edge) lookHosts() {
	b := e.bgp.Load()
	if b == nil {
		return
	}
	begin := time.Now()
	took, err := alarm.Timed(func() error { return b.Look(e.state.config.FDB.Ageing) })
	e.hostEvents.nextLook = begin.Add(announceShare * took)
	e.faults.report("read the hosts at ports", err)
}

// lookPorts looks for hosts when ports have come, gone, or lost their link: then a host is not
// there, as for the kernel's bridge.
func (e *edge) lookPorts(hostState host.State) {
	var there []string
	down := make(map[string]bool)
	for _, a := range plan.Attachments(e.state.config) {
		if link, ok := hostState.Links[a.Interface]; ok {
			there = append(there, fmt.Sprint(a.Name, " ", link.Index, " ", link.Up))
			down[a.Name] = !link.Up
		}
	}
	if !slices.Equal(there, e.learned.ports) {
		e.learned.ports = there
		if b := e.bgp.Load(); b != nil {
			e.faults.report("forget the hosts of ports without a link", b.PortsLost(down))
		}
		e.lookHosts()
	}
}
