package edge

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
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
	// mostAsked bounds how many hosts are asked at a time whether they are there.
	mostAsked = 512
	// followPause is before hosts are followed again after an error.
	followPause = time.Second
	// neighbourLives is how many times longer than its MAC address an IP address is known
	// without a word of it.
	neighbourLives = 4

	followHosts = "follow the hosts at ports"
)

// hostEvents are hosts that came to ports, of which remotes that speak no BGP are told. Ports
// take turns, so that one with many hosts delays no other's.
type hostEvents struct {
	mu     sync.Mutex
	ports  []string // whose turn is next first
	moved  map[string][]datapath.Move
	frozen frozenMACs
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
	dp := e.dp
	if dp == nil {
		return
	}
	e.endHostEvents = goWait(context.Background(), func(ctx context.Context) {
		for {
			err := dp.HostEvents.FollowHostEvents(ctx, e.arrived)
			if ctx.Err() != nil {
				return
			}
			e.reportProblem(followHosts, err)
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
	came := make([]datapath.HostEvent, 0, len(list))
	e.hostEvents.mu.Lock()
	for _, a := range list {
		if a.Loop != (datapath.Loop{}) {
			e.loops.returned(a.Loop, e.isPatient(a.Loop), now)
			continue
		}
		if a.Frozen > 0 {
			e.log.Warn("MAC address frozen: it moved too often", "mac", a.MAC, "segment", a.Segment, "at", frozenPlace(a), "seen_at", a.Other, "for", a.Frozen)
			e.hostEvents.frozen.add(a, now)
			continue
		}
		came = append(came, a)
		if a.Segment != "" && !a.Addr.IsValid() {
			e.hostEvents.add(datapath.Move{Segment: a.Segment, Port: a.Port, MAC: a.MAC, WasRemote: a.WasRemote})
		}
	}
	e.hostEvents.mu.Unlock()
	if b := e.bgp.Load(); b != nil && len(came) > 0 {
		b.post(func() { b.appear(came, now) })
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
	for _, s := range e.configured.Segments {
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
	took, err := timed(func() error { return e.dp.HostEvents.Announce(moved) })
	e.hostEvents.next = begin.Add(announceShare * took)
	e.reportProblem("announce moved hosts", err)
}

// localHost is since when a host is at a port, and what is known of its address.
type localHost struct {
	came time.Time
	nd   overlay.NDFlags
}

// appear tells neighbours of hosts that came to ports at a time.
func (b *bgp) appear(list []datapath.HostEvent, now time.Time) {
	var hosts []evpn.Host
	add := func(h evpn.Host, nd overlay.NDFlags) {
		b.local[h] = localHost{now, nd}
		if h.ND = nd; !slices.Contains(hosts, h) {
			hosts = append(hosts, h)
		}
	}
	var silent []asking // that came without a word of their addresses
	for _, a := range list {
		if !b.segments[a.Segment] {
			continue
		}
		host := evpn.Host{Segment: a.Segment, MAC: a.MAC}
		if _, known := b.local[host]; !known || !a.Addr.IsValid() {
			add(host, 0)
		}
		if host.Addr = a.Addr; a.Addr.IsValid() {
			add(host, a.ND)
			continue
		}
		b.mu.Lock()
		addrs := b.table.Addresses(a.Segment, a.MAC)
		b.mu.Unlock()
		if len(addrs) > 0 {
			silent = append(silent, asking{a.Segment, a.Port, a.MAC, addrs})
		}
	}
	if len(hosts) > 0 {
		b.act(b.change(func(t *evpn.Table) evpn.Changes { return t.Hosts(hosts, nil, now) }), time.Time{})
	}
	b.reportProblem("ask hosts for their addresses", b.e.askHosts(silent))
}

// asking is a host that is to answer for its addresses.
type asking struct {
	segment, port string
	mac           overlay.MAC
	addrs         []netip.Addr
}

// askHosts must be called in the network namespace.
func (e *edge) askHosts(list []asking) error {
	if len(list) == 0 {
		return nil
	}
	s := &e.pathSelector
	var errs []error
	for some := range slices.Chunk(list, announceSome) {
		s.mu.Lock()
		for _, a := range some {
			if s.snapshot.dp != nil {
				errs = append(errs, s.snapshot.dp.HostEvents.SolicitHost(a.segment, a.port, a.mac, a.addrs))
			}
		}
		s.mu.Unlock()
	}
	return errors.Join(errs...)
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
	var hosts []datapath.LocalHost
	took, err := timed(func() (err error) {
		hosts, err = e.dp.Hosts.Hosts()
		return err
	})
	e.hostEvents.nextLook = begin.Add(announceShare * took)
	e.reportProblem("read the hosts at ports", err)
	if err != nil {
		return
	}
	b.post(func() { b.look(hosts, begin) })
	e.reportProblem("probe idle hosts", e.askHosts(idle(hosts, instances(e.configured), e.config.FDB.Ageing)))
}

// lookPorts looks for hosts when ports have come, gone, or lost their link: then a host is not
// there, as for the kernel's bridge.
func (e *edge) lookPorts(hostState host.State) {
	var there []string
	down := make(map[string]bool)
	for _, a := range plan.Attachments(e.config) {
		if link, ok := hostState.Links[a.Interface]; ok {
			there = append(there, fmt.Sprint(a.Name, " ", link.Index, " ", link.Up))
			down[a.Name] = !link.Up
		}
	}
	if !slices.Equal(there, e.learned.ports) {
		e.learned.ports = there
		e.reportProblem("forget the hosts of ports without a link", e.forgetHosts(down))
		e.lookHosts()
	}
}

// forgetHosts forgets who was learned at ports.
func (e *edge) forgetHosts(ports map[string]bool) error {
	segments := instances(e.configured)
	if len(segments) == 0 {
		return nil
	}
	hosts, err := e.dp.Hosts.Hosts()
	errs := []error{err}
	s := &e.pathSelector
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range hosts {
		if ports[h.Port] && segments[h.Segment] && !h.Addr.IsValid() && s.snapshot.dp != nil {
			errs = append(errs, s.snapshot.dp.Hosts.Forget(h.Segment, h.MAC))
		}
	}
	return errors.Join(errs...)
}

// look takes over which hosts there were at a time.
func (b *bgp) look(list []datapath.LocalHost, at time.Time) {
	seen := make(map[evpn.Host]bool, len(list))
	var appeared, vanished []evpn.Host
	fresh := make(map[string]int) // by port
	for _, h := range list {
		if !b.segments[h.Segment] || h.Origin == datapath.OriginBGP {
			continue
		}
		host := evpn.Host{Segment: h.Segment, MAC: h.MAC, Addr: h.Addr}
		seen[host] = true
		if l, known := b.local[host]; !known && fresh[h.Port] < mostHostEvents || known && l.nd != h.ND && l.came.Before(at) {
			if !known { // more of one port at the next look
				fresh[h.Port]++
			}
			b.local[host] = localHost{at, h.ND}
			host.ND = h.ND
			appeared = append(appeared, host)
		}
	}
	for host, l := range b.local {
		if !seen[host] && l.came.Before(at) {
			delete(b.local, host)
			vanished = append(vanished, host)
		}
	}
	if len(appeared)+len(vanished) > 0 {
		b.act(b.change(func(t *evpn.Table) evpn.Changes { return t.Hosts(appeared, vanished, time.Now()) }), time.Time{})
	}
}

// idle are the hosts of segments that nothing was heard of for three quarters of the time
// after which they are forgotten, and those whose addresses only BGP tells.
func idle(hosts []datapath.LocalHost, segments map[string]bool, ageing time.Duration) (list []asking) {
	type place struct {
		hostLocation
		port string
	}
	addrs, due := make(map[place][]netip.Addr), make(map[place]bool)
	var order []place
	for _, h := range hosts {
		if !segments[h.Segment] || h.Static {
			continue
		}
		at, life := place{hostLocation{h.Segment, h.MAC}, h.Port}, ageing
		if h.Addr.IsValid() {
			addrs[at], life = append(addrs[at], h.Addr), neighbourLives*ageing
		}
		late := ageing > 0 && time.Duration(h.IdleNS) >= life/4*3
		if (late || h.Origin == datapath.OriginBGP) && !due[at] {
			due[at], order = true, append(order, at)
		}
	}
	for _, at := range order {
		if len(addrs[at]) > 0 && len(list) < mostAsked {
			list = append(list, asking{at.segment, at.port, at.mac, addrs[at]})
		}
	}
	return list
}

// tellBGP lets the goroutine know what the routers may tell others, and that tables are in
// force which took so long to make; 0: they are the former ones.
func (e *edge) tellBGP(took time.Duration) {
	b := e.bgp.Load()
	if b == nil {
		return
	}
	s := &e.pathSelector
	s.mu.Lock()
	prefixes := s.prefixes()
	s.mu.Unlock()
	b.post(func() {
		b.offer(prefixes)
		if took > 0 {
			b.rateLimit.least = took
			b.flush()
			b.speak()
		}
	})
}

// prefixes are what the routers may tell others. mu is held.
func (s *pathSelector) prefixes() map[string]map[overlay.RouteSource][]netip.Prefix {
	owned := make([]plan.OwnedAddress, 0, len(s.gateways.owned))
	for p := range s.gateways.owned {
		owned = append(owned, plan.OwnedAddress{Uplink: p.uplink, Addr: p.addr})
	}
	all := make(map[string]map[overlay.RouteSource][]netip.Prefix)
	for _, r := range s.snapshot.config.Routers {
		all[r.Name] = plan.Prefixes(s.snapshot.config, s.snapshot.hostState, r, owned)
	}
	return all
}

// offer tells the table of prefixes that are others than before.
func (b *bgp) offer(all map[string]map[overlay.RouteSource][]netip.Prefix) {
	for router, prefixes := range all {
		for _, source := range plan.Sources {
			list := prefixes[source]
			if was, reported := b.reported[router][source]; reported && slices.Equal(was, list) {
				continue
			}
			b.act(b.change(func(t *evpn.Table) evpn.Changes { return t.Prefixes(router, source, list) }), time.Time{})
		}
		b.reported[router] = withAll(prefixes)
	}
	for router := range b.reported {
		if _, there := all[router]; !there {
			delete(b.reported, router)
		}
	}
}

// withAll has all sources be there.
func withAll(prefixes map[overlay.RouteSource][]netip.Prefix) map[overlay.RouteSource][]netip.Prefix {
	for _, source := range plan.Sources {
		prefixes[source] = slices.Clip(prefixes[source])
	}
	return prefixes
}
