package speaker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"

	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/evpn/transport"
	"github.com/selvage/selvage/internal/overlay"
)

const (
	// limitPause is how long a neighbour that announced too much is left alone.
	limitPause = time.Minute
	// quiet is how long one that has no End-of-RIB must have said nothing to have said all.
	quiet = 2 * time.Second
	// deaf is how long a neighbour may take connections and say nothing; GoBGP would wait four
	// minutes (RFC 4271 section 8.2.2).
	deaf = 10 * time.Second
	// patience is how long one that has, but does not send it, may take.
	patience = time.Minute
)

// neighbour is one and its session.
type neighbour struct {
	conf   overlay.BGPNeighbour
	report *report
	state  bgp.FSMState
	since  time.Time
	up     bool
	// awaited are the families whose End-of-RIB is to come; complete: none is any more.
	awaited      []bgp.Family
	complete     bool
	negotiated   []bgp.Family
	capabilities []bgp.ParameterCapabilityInterface
	routerID     netip.Addr
	marks        bool // it sends End-of-RIB
	received     time.Time
	flaps        uint32
	// revive is when it is taken out of its pause; zero: it is in none.
	revive time.Time
	// refused are its routes that the import policies do not let in.
	routesMu sync.Mutex
	refused  map[evpn.Key]bool
}

// sessions are those with the neighbours of a configuration, as GoBGP tells of them and as they are configured.
type sessions struct {
	options   Options
	bgp       *server.BgpServer
	transport *transport.Transport
	relay     *relay
	exports   *exports
	inbox     inbox // to which goes what is to be told

	mu         sync.Mutex
	config     overlay.BGP
	neighbours map[netip.Addr]*neighbour
	closed     bool
}

// configure makes the sessions those of the configuration.
func (s *sessions) configure(b overlay.BGP) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	old := s.config
	if old.AS != 0 && (old.AS != b.AS || old.RouterID != b.RouterID || !slices.Equal(old.Listen, b.Listen)) {
		return fmt.Errorf("bgp: as, routerID and listen are those of the start: close the speaker and start a new one")
	}
	s.config = b
	if err := s.exports.configure(b); err != nil {
		return err
	}
	var errs []error
	for addr := range s.neighbours {
		if !slices.ContainsFunc(b.Neighbours, func(n overlay.BGPNeighbour) bool { return n.Addr == addr }) {
			errs = append(errs, s.end(addr))
		}
	}
	for _, n := range b.Neighbours {
		errs = append(errs, s.set(old, n))
	}
	return errors.Join(errs...)
}

// close has no session opened any more, and reports whether that is new.
func (s *sessions) close() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.closed
	s.closed = true
	return first
}

// set brings a neighbour to its configuration. Its session goes on unless what it agreed on
// changed; other policies have all its routes judged anew.
func (s *sessions) set(old overlay.BGP, n overlay.BGPNeighbour) error {
	known := s.neighbours[n.Addr]
	if known == nil {
		s.neighbours[n.Addr] = &neighbour{conf: n, report: s.relay.add(n), since: time.Now(), refused: make(map[evpn.Key]bool)}
		return s.add(n, s.options.Adopted)
	}
	before := known.conf
	known.conf = n
	s.relay.add(n)
	if sameSession(before, n) && old.Restart == s.config.Restart {
		if !reflect.DeepEqual(policiesOf(old, before.Import), policiesOf(s.config, n.Import)) || before.Uplink != n.Uplink {
			s.inbox.send(func() { s.reread(n.Addr) })
		}
		return nil
	}
	s.down(known, "its configuration changed", false)
	return s.restart(n)
}

// sameSession is whether neighbours differ in what no session depends on.
func sameSession(a, b overlay.BGPNeighbour) bool {
	for _, n := range []*overlay.BGPNeighbour{&a, &b} {
		n.Name, n.Uplink, n.Announce, n.Import, n.Export, n.Liveness = "", "", nil, nil, nil, false
	}
	return reflect.DeepEqual(a, b)
}

func (s *sessions) add(n overlay.BGPNeighbour, restarting bool) error {
	if err := s.transport.Set(connectionOf(s.config, n)); err != nil {
		return err
	}
	if err := s.bgp.AddPeer(context.Background(), &api.AddPeerRequest{Peer: peerOf(s.config, n, restarting)}); err != nil {
		return fmt.Errorf("neighbour %s: %w", n.Name, err)
	}
	return nil
}

func (s *sessions) remove(addr netip.Addr) error {
	if err := s.bgp.DeletePeer(context.Background(), &api.DeletePeerRequest{Address: addr.String()}); err != nil {
		return fmt.Errorf("neighbour %s: %w", addr, err)
	}
	return nil
}

// restart makes a neighbour new to GoBGP, which lets one whose session was lost wait for
// five seconds, and refuses its connections meanwhile. The
// new session is one of a speaker that restarted and whose forwarding went on: without that a
// neighbour throws away what it kept, though only the session was lost.
func (s *sessions) restart(n overlay.BGPNeighbour) error {
	if err := s.remove(n.Addr); err != nil {
		return err
	}
	return s.add(n, true)
}

// end takes a neighbour out of the configuration.
func (s *sessions) end(addr netip.Addr) error {
	delete(s.neighbours, addr)
	s.relay.remove(addr)
	s.transport.Remove(addr)
	s.inbox.send(func() { s.options.Session(evpn.Session{Neighbour: addr, Ended: true, At: time.Now()}) })
	return s.remove(addr)
}

// down notes that there is no session with a neighbour, and has it told. One that left for
// good has no routes any more.
func (s *sessions) down(n *neighbour, why string, left bool) {
	if why != "" {
		n.report.fail(why)
	}
	if !n.up {
		return
	}
	n.report.set(false)
	n.up, n.complete = false, false
	n.flaps++
	n.state, n.since = bgp.BGP_FSM_IDLE, time.Now()
	advertised := evpn.Session{Neighbour: n.conf.Addr, Ended: left, At: n.since}
	s.inbox.send(func() { s.options.Session(advertised) })
}

// changed takes in what a session of GoBGP became.
func (s *sessions) changed(p *apiutil.Peer, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.neighbours[p.State.NeighborAddress]
	if n == nil {
		return
	}
	// The end of a session that this edge itself took away has no reason.
	idle := p.State.SessionState == bgp.BGP_FSM_IDLE
	if idle && p.State.DisconnectReason == api.PeerState_DISCONNECT_REASON_UNSPECIFIED {
		s.down(n, "", false) // it had come up meanwhile
		return
	}
	if n.state != p.State.SessionState {
		n.state, n.since = p.State.SessionState, at
	}
	switch {
	case p.State.SessionState == bgp.BGP_FSM_ACTIVE:
		s.transport.Want(n.conf.Addr)
	case p.State.SessionState == bgp.BGP_FSM_ESTABLISHED:
		s.established(n, p, at)
	case idle:
		s.lost(n, p)
	}
}

func (s *sessions) established(n *neighbour, p *apiutil.Peer, at time.Time) {
	n.up, n.complete, n.received, n.routerID, n.capabilities = true, false, at, p.State.RouterID, p.State.RemoteCap
	n.report.set(true)
	n.admit()
	n.negotiated, n.marks = nil, false
	for _, c := range p.State.RemoteCap {
		switch c := c.(type) {
		case *bgp.CapMultiProtocol:
			if slices.ContainsFunc(n.conf.Families, func(f overlay.BGPFamily) bool { return families[f] == c.CapValue }) {
				n.negotiated = append(n.negotiated, c.CapValue)
			}
		case *bgp.CapGracefulRestart:
			n.marks = true
		}
	}
	n.awaited = slices.Clone(n.negotiated)
	s.relay.session(slog.LevelInfo, "BGP session is up", event.Is(event.BGPUp), "neighbour", n.conf.Name, "address", n.conf.Addr)
	for _, f := range n.conf.Families {
		if !slices.Contains(n.negotiated, families[f]) {
			s.relay.advertise(slog.LevelWarn, "neighbour does not exchange a family: configure it there", event.Is(event.BGPFamily), "neighbour", n.conf.Name, "family", f)
		}
	}
	addr := n.conf.Addr
	s.inbox.send(func() { s.options.Session(evpn.Session{Neighbour: addr, Up: true, At: at}) })
}

func (s *sessions) lost(n *neighbour, p *apiutil.Peer) {
	failure, _, _ := n.report.read()
	left := n.report.leaves()
	if failure == "" {
		failure = reasonOf(n.conf, p.State)
		n.report.fail(failure)
	}
	if n.up {
		s.relay.session(slog.LevelWarn, "BGP session is lost", event.Is(event.BGPDown), "neighbour", n.conf.Name, "address", n.conf.Addr, "why", failure)
	}
	s.down(n, "", left)
	if p.State.AdminState == api.PeerState_ADMIN_STATE_PFX_CT {
		n.revive = time.Now().Add(limitPause)
		return
	}
	s.again(n)
}

// again has a session opened anew.
func (s *sessions) again(n *neighbour) {
	n.revive = time.Time{}
	if s.closed {
		return
	}
	if err := s.restart(n.conf); err != nil {
		n.revive = time.Now().Add(time.Second)
		s.relay.advertise(slog.LevelError, "session cannot be reopened", "neighbour", n.conf.Name, "why", err)
	}
}

// tick does what is due.
func (s *sessions) tick(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.neighbours {
		if !n.revive.IsZero() && now.After(n.revive) {
			s.again(n)
		}
		if !n.up && !n.conf.Passive && n.revive.IsZero() && n.report.silent(now) > s.options.deaf {
			n.report.fail(unanswered(n.conf))
			s.again(n)
		}
		if n.up && !n.complete && now.Sub(n.received) > quiet && (!n.marks || now.Sub(n.since) > patience) {
			s.completed(n)
		}
	}
}

// tickEvery is how often tick is to be called.
func (s *sessions) tickEvery() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	every := settled
	for _, n := range s.neighbours {
		switch {
		case n.up && !n.complete:
			return settling
		case !n.up:
			every = absent
		}
	}
	return every
}

// ended notes the End-of-RIB of a family.
func (s *sessions) ended(p *apiutil.Path) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.neighbours[p.PeerAddress.Unmap()]
	if n == nil || !n.up || n.complete {
		return
	}
	n.awaited = slices.DeleteFunc(n.awaited, func(f bgp.Family) bool { return f == p.Family })
	if len(n.awaited) == 0 {
		s.completed(n)
	}
}

func (s *sessions) completed(n *neighbour) {
	n.complete = true
	addr := n.conf.Addr
	s.inbox.send(func() { s.options.Session(evpn.Session{Neighbour: addr, Up: true, Complete: true, At: time.Now()}) })
}

// refresh opens the session with a neighbour anew, or with soft has both sides' routes told again.
func (s *sessions) refresh(addr netip.Addr, soft bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.neighbours[addr]
	switch {
	case s.closed:
		return errClosed
	case n == nil:
		return fmt.Errorf("%s is no neighbour of this edge", addr)
	case !n.up && soft:
		return fmt.Errorf("neighbour %s: there is no session: %s", n.conf.Name, n.why())
	case !n.up:
		s.again(n)
		return nil
	case soft:
		s.inbox.send(func() { s.reread(addr) })
	}
	err := s.bgp.ResetPeer(context.Background(), &api.ResetPeerRequest{Address: addr.String(), Soft: soft,
		Direction: api.ResetPeerRequest_DIRECTION_OUT, Communication: "reset by command"})
	if err != nil {
		return fmt.Errorf("neighbour %s: %w", n.conf.Name, err)
	}
	return nil
}

// why is why there is no session.
func (n *neighbour) why() string {
	if failure, _, _ := n.report.read(); failure != "" {
		return failure
	}
	return "it is being opened"
}

// fail ends a session at once.
func (s *sessions) fail(addr netip.Addr, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.neighbours[addr]
	if n == nil || !n.up || s.closed {
		return
	}
	s.relay.session(slog.LevelWarn, "BGP session is ended", event.Is(event.BGPDown), "neighbour", n.conf.Name, "address", addr, "why", why)
	s.down(n, why, false)
	s.again(n)
}
