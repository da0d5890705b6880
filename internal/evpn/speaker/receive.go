package speaker

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/selvage/selvage/internal/background"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
)

const (
	batchMost = 4096
	batchWait = 2 * time.Millisecond
	// settling is how often it is looked what is due while a neighbour that is up has not said all, absent while one is not
	// up, and settled while all are and have.
	settling = 250 * time.Millisecond
	absent   = time.Second
	settled  = 10 * time.Second
)

// batch collects updates until there are many, or some have waited long enough.
type batch struct {
	updates []evpn.Update
	due     *time.Timer
}

func (b *batch) add(updates []evpn.Update) {
	if len(b.updates) == 0 && len(updates) != 0 {
		b.due.Reset(batchWait)
	}
	b.updates = append(b.updates, updates...)
}

// flush tells what was collected.
func (s *Speaker) flush(b *batch) {
	if len(b.updates) != 0 {
		s.options.Receive(b.updates)
		b.updates = nil
	}
}

// run tells what was received until ctx is done.
func (s *Speaker) run(ctx context.Context) {
	defer close(s.done)
	tick := background.NewTicker(s.sessions.tickEvery())
	defer tick.Stop()
	b := &batch{due: time.NewTimer(batchWait)}
	defer b.due.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-b.due.C:
			s.flush(b)
		case now := <-tick.C:
			s.sessions.tick(now)
			tick.Set(s.sessions.tickEvery())
		case <-s.inbox.wake:
			s.flush(b)
			s.errands()
			tick.Set(s.sessions.tickEvery())
		case e := <-s.inbox.events:
			s.take(b, e)
			if e.peer != nil {
				tick.Set(s.sessions.tickEvery())
			}
		}
	}
}

// take takes in an event. What it has to tell goes before what the next one has.
func (s *Speaker) take(b *batch, e told) {
	if e.paths != nil {
		b.add(s.sessions.received(e.paths))
		if len(b.updates) >= batchMost {
			s.flush(b)
		}
		return
	}
	s.flush(b)
	switch {
	case e.peer != nil && e.peer.Type == apiutil.PEER_EVENT_STATE:
		s.sessions.changed(&e.peer.Peer, e.at)
	case e.end != nil:
		s.sessions.ended(e.end)
	}
	s.errands()
}

func (s *Speaker) errands() {
	for _, errand := range s.inbox.errands() {
		errand()
	}
}

// received makes updates of what a neighbour said. What it said in a session that is over
// was told before that was.
func (s *sessions) received(paths []*apiutil.Path) []evpn.Update {
	if len(paths) == 0 {
		return nil
	}
	addr := paths[0].PeerAddress.Unmap()
	s.mu.Lock()
	n := s.neighbours[addr]
	if n == nil || !n.up {
		s.mu.Unlock()
		return nil
	}
	n.received = time.Now()
	in := s.intakeOf(n)
	s.mu.Unlock()
	return in.updates(paths)
}

// intake is what is needed to read routes of a neighbour.
type intake struct {
	neighbour *neighbour
	name      string
	addr      netip.Addr
	uplink    string
	as        uint32
	external  bool // the neighbour is of another AS
	policies  []overlay.RoutePolicy
	relay     *relay
}

func (s *sessions) intakeOf(n *neighbour) intake {
	return intake{neighbour: n, name: n.conf.Name, addr: n.conf.Addr, uplink: n.conf.Uplink, as: s.config.AS, external: n.conf.AS != s.config.AS,
		policies: policiesOf(s.config, n.conf.Import), relay: s.relay}
}

func (in *intake) updates(paths []*apiutil.Path) []evpn.Update {
	out := make([]evpn.Update, 0, len(paths))
	for _, p := range paths {
		if u, ok := in.update(p); ok {
			out = append(out, u)
		}
	}
	return out
}

// update reads one route. A route that cannot be used takes the place of the one before it,
// as RFC 7606 has it, so it is told as withdrawn.
func (in *intake) update(p *apiutil.Path) (evpn.Update, bool) {
	r, err := decodeKey(p.Nlri)
	if err == nil && !p.Withdrawal {
		r, err = decode(p.Nlri, p.Attrs)
	}
	if err != nil {
		in.neighbour.report.misread(1)
		in.relay.advertise(slog.LevelWarn, "malformed route is not used", event.Is(event.BGPMalformed), "neighbour", in.name, "route", nlriString(p.Nlri), "why", err)
	}
	if r.Type == evpn.Unicast {
		if !r.Prefix.IsValid() {
			return evpn.Update{}, false // nothing of it could be read
		}
		r.Uplink = in.uplink
	}
	u := evpn.Update{Neighbour: in.addr, Route: r, Withdrawn: p.Withdrawal || err != nil}
	if !u.Withdrawn {
		r.Looped = slices.Contains(r.ASPath, in.as)
		if in.external { // its preferences are for its own AS (RFC 4271 section 5.1.5)
			r.LocalPref = defaultLocalPref
		}
		v := classify(in.policies, &r)
		in.neighbour.refuse(r.Key, v.reject || r.Looped)
		v.amend(&r, in.as)
		u.Route, u.Withdrawn = r, v.reject
		return u, true
	}
	in.neighbour.refuse(r.Key, false)
	return u, true
}

// admit forgets which routes were refused, in a session that is over.
func (n *neighbour) admit() {
	n.routesMu.Lock()
	defer n.routesMu.Unlock()
	clear(n.refused)
}

// refuse notes whether the policies let a route in.
func (n *neighbour) refuse(key evpn.Key, refused bool) {
	n.routesMu.Lock()
	defer n.routesMu.Unlock()
	if refused {
		n.refused[key] = true
	} else if len(n.refused) != 0 {
		delete(n.refused, key)
	}
}

// nlriString is for a log, of what came from a wire.
func nlriString(nlri bgp.NLRI) string {
	if nlri == nil {
		return "none"
	}
	return nlri.String()
}

// reread tells all that a neighbour said once more, as the policies are now.
func (s *sessions) reread(addr netip.Addr) {
	s.mu.Lock()
	n := s.neighbours[addr]
	if n == nil || !n.up {
		s.mu.Unlock()
		return
	}
	in := s.intakeOf(n)
	negotiated := slices.Clone(n.negotiated)
	s.mu.Unlock()
	for _, f := range negotiated {
		var updates []evpn.Update
		err := s.bgp.ListPath(apiutil.ListPathRequest{TableType: api.TableType_TABLE_TYPE_ADJ_IN, Name: addr.String(), Family: f},
			func(_ bgp.NLRI, paths []*apiutil.Path) {
				updates = append(updates, in.updates(paths)...)
			})
		if err != nil {
			s.relay.advertise(slog.LevelError, "routes cannot be read again", "neighbour", in.name, "why", err)
		}
		for part := range slices.Chunk(updates, batchMost) {
			s.options.Receive(part)
		}
	}
}
