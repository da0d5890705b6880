// Package speaker has the BGP sessions of an edge, with GoBGP in the process (RFC 4271,
// 4760, 7432, 8950). GoBGP's connections are package transport's.
//
// Its one invariant: what Receive gets of a neighbour is what the neighbour said, in its
// order, and nothing else. A session that is lost is told as such, and never as routes that
// were withdrawn; what becomes of its routes is package evpn's to decide. Routes of one
// neighbour are not told to another.
package speaker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/server"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/evpn/transport"
	"github.com/selvage/selvage/internal/overlay"
)

// Options are what a speaker needs.
type Options struct {
	Config overlay.BGP
	// NextHop is that of announced routes which name none.
	NextHop netip.Addr
	// Adopted: the data path of a former process went on while there was none, so neighbours
	// that kept its routes may go on with them.
	Adopted bool
	// Receive and Session are called by one goroutine, in the order of what they tell.
	Receive func([]evpn.Update)
	Session func(evpn.Session)
	Log     *slog.Logger

	deaf time.Duration // 0 is the constant
}

// Speaker has sessions with neighbours. Its methods may be called at any time, and but for
// Close also from Receive and Session.
type Speaker struct {
	options   Options
	bgp       *server.BgpServer
	transport *transport.Transport
	relay     *relay
	exports   *exports
	inbox     inbox
	sessions  *sessions
	listed    listed
	cancel    context.CancelFunc
	done      chan struct{} // the goroutine that calls Receive and Session has ended
	served    chan struct{} // GoBGP's has
}

// Start runs a speaker. Sessions come up by themselves, and again when they were lost.
func Start(ctx context.Context, o Options) (*Speaker, error) {
	if err := check(o.Config); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.deaf = cmp.Or(o.deaf, deaf)
	relay, connections := newRelay(o.Log), make(chan net.Conn)
	bgp := server.NewBgpServer(server.LoggerOption(slog.New(handler{relay: relay}), nil))
	if err := feed(bgp, connections); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Speaker{options: o, bgp: bgp, relay: relay, inbox: newInbox(), cancel: cancel, done: make(chan struct{}), served: make(chan struct{})}
	s.transport = transport.New(transport.Options{AS: o.Config.AS, RouterID: o.Config.RouterID, To: connections,
		Failed: relay.failed, Refused: relay.refused, Discarded: relay.discarded, Log: o.Log})
	s.exports = newExports(s.bgp)
	s.sessions = &sessions{options: o, bgp: s.bgp, transport: s.transport, relay: s.relay, exports: s.exports, inbox: s.inbox, neighbours: make(map[netip.Addr]*neighbour)}
	s.listed = listed{bgp: s.bgp, log: o.Log}
	go func() {
		defer close(s.served)
		s.bgp.Serve()
	}()
	go s.run(ctx)
	if err := s.start(ctx, o.Config); err != nil {
		return nil, errors.Join(err, s.Close(false))
	}
	return s, nil
}

func (s *Speaker) start(ctx context.Context, b overlay.BGP) error {
	if err := s.bgp.StartBgp(ctx, &api.StartBgpRequest{Global: &api.Global{Asn: b.AS, RouterId: b.RouterID.String(), ListenPort: -1}}); err != nil {
		return fmt.Errorf("start BGP: %w", err)
	}
	if err := s.transport.Listen(b.Listen); err != nil {
		return fmt.Errorf("listen for BGP at %v: %w", b.Listen, err)
	}
	if err := s.exports.setPolicies(); err != nil {
		return err
	}
	err := s.bgp.WatchEvent(ctx, server.WatchEventMessageCallbacks{
		OnPathUpdate: func(paths []*apiutil.Path, _ time.Time) { s.inbox.put(ctx, told{paths: paths}) },
		OnPathEor:    func(p *apiutil.Path, _ time.Time) { s.inbox.put(ctx, told{end: p}) },
		OnPeerUpdate: func(p *apiutil.WatchEventMessage_PeerEvent, at time.Time) { s.inbox.put(ctx, told{peer: p, at: at}) },
	}, server.WatchUpdate(false, "", ""), server.WatchPeer(), server.WatchEor(false))
	if err != nil {
		return fmt.Errorf("watch sessions: %w", err)
	}
	return s.Configure(b)
}

// check refuses what GoBGP cannot do.
func check(b overlay.BGP) error {
	if b.AS == 0 || !b.RouterID.Is4() {
		return fmt.Errorf("bgp: an AS and a router ID of IPv4's form are needed, not %d and %s", b.AS, b.RouterID)
	}
	for _, l := range b.Listen {
		if l.Port() != b.Listen[0].Port() {
			return fmt.Errorf("bgp.listen: ports %d and %d: give all addresses the same port", b.Listen[0].Port(), l.Port())
		}
	}
	for _, n := range b.Neighbours {
		for _, p := range policiesOf(b, n.Export) {
			for _, st := range p.Statements {
				if st.LocalPref != nil && *st.LocalPref == 0 {
					return fmt.Errorf("policy %s: localPref 0 cannot be exported: take 1", p.Name)
				}
			}
		}
	}
	return nil
}

// Configure makes the sessions those of the configuration; those of neighbours that stay as
// they are go on. AS, router ID and listen are those of the start, or there is an error that
// says so.
func (s *Speaker) Configure(b overlay.BGP) error {
	if err := check(b); err != nil {
		return err
	}
	return s.sessions.configure(b)
}

// Refresh opens the session with a neighbour anew. With soft it stays: what the neighbour
// said is told again as the policies are now, and it is told all that is announced.
func (s *Speaker) Refresh(addr netip.Addr, soft bool) error { return s.sessions.refresh(addr, soft) }

// Fail ends a session at once, for a cause that is not BGP's to see.
func (s *Speaker) Fail(addr netip.Addr, why string) { s.sessions.fail(addr, why) }

var errClosed = errors.New("the BGP speaker is closed")

// Announce tells neighbours of routes, or what is new of them. The error names those that
// cannot be told; the others are.
func (s *Speaker) Announce(routes []evpn.Route) error {
	return s.exports.add(routes, s.options.NextHop)
}

// Withdraw takes announced routes back; those that are not announced are none.
func (s *Speaker) Withdraw(keys []evpn.Key) error { return s.exports.take(keys) }

// Close ends all sessions, and returns when nothing runs any more. With keep neighbours are
// not told, so that those with graceful restart go on with what this edge announced; else
// the sessions are ended by a Cease. Receive and Session are not called afterwards.
func (s *Speaker) Close(keep bool) error {
	if !s.sessions.close() {
		return nil
	}
	s.listed.end()
	s.cancel()
	<-s.done
	s.relay.closed.Store(true)
	s.transport.Close()
	err := s.bgp.StopBgp(context.Background(), &api.StopBgpRequest{AllowGracefulRestart: keep})
	s.bgp.Stop()
	<-s.served
	if err != nil {
		return fmt.Errorf("end BGP: %w", err)
	}
	return nil
}
