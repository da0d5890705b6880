package speaker

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"

	"github.com/selvage/selvage/internal/overlay"
)

// Neighbour is how the session with one is.
type Neighbour struct {
	Name        string
	Addr        netip.Addr
	AS          uint32
	RouterID    netip.Addr // unset until there was a session
	State       string     // "idle", "active", "opensent", "openconfirm" or "established"
	Since       time.Time  // in this state
	Established bool
	Complete    bool // it said all that it has
	Families    []FamilyCounts
	// Capabilities are those of the neighbour, in words.
	Capabilities []string
	// Hold and Keepalive are what was agreed on.
	Hold, Keepalive time.Duration
	Flaps           uint32 // sessions that were lost
	Malformed       uint64 // routes that could not be understood
	// Discarded is what of it is not used, before anything is asked of a route, by what it is.
	Discarded map[string]uint64
	LastError string // why there is no session, and the cure; "" while there is one
	Restart   RestartState
}

// FamilyCounts are the routes of a family.
type FamilyCounts struct {
	Family     overlay.BGPFamily
	Negotiated bool
	// Received are those that the neighbour said, Accepted those of them that the policies
	// let in, Advertised what it is told.
	Received, Accepted, Advertised uint64
	Limit                          uint32 // maximumPrefixes, 0: none
}

// RestartState is how the neighbour and this edge treat each other's routes when a session
// is lost.
type RestartState struct {
	Negotiated bool          // graceful restart (RFC 4724)
	Time       time.Duration // that the neighbour asks for
	LongLived  bool          // and for longer (RFC 9494)
	Stale      time.Duration // that the neighbour asks for then
}

// Neighbours are the sessions, in the order of the configuration. Timers and numbers of received routes are
// a while old where there are many: GoBGP counts all routes for them, and hears nobody meanwhile.
func (s *Speaker) Neighbours() []Neighbour { return s.sessions.list(s.listed.ask()) }

// Sessions are the same without timers and numbers of received routes.
func (s *Speaker) Sessions() []Neighbour { return s.sessions.list(nil) }

// Established is how many sessions there are, and of how many of these the neighbour said all.
func (s *Speaker) Established() (sessions, complete int) {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	for _, n := range s.sessions.neighbours {
		if n.up {
			sessions++
		}
		if n.up && n.complete {
			complete++
		}
	}
	return sessions, complete
}

func (s *sessions) list(peers map[netip.Addr]*api.Peer) []Neighbour {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Neighbour, 0, len(s.config.Neighbours))
	for _, conf := range s.config.Neighbours {
		if n := s.neighbours[conf.Addr]; n != nil {
			out = append(out, s.advertise(n, peers[conf.Addr]))
		}
	}
	return out
}

// listed is what GoBGP said of its neighbours.
type listed struct {
	bgp   *server.BgpServer
	log   *slog.Logger
	mu    sync.Mutex // held while it is asked, which it must not be once it has ended
	peers map[netip.Addr]*api.Peer
	until time.Time // when it may be asked again
	ended bool
}

// listPause is how many times as long as a list of the neighbours takes there is none.
const listPause = 20

// ask returns GoBGP's neighbours as they are, or as they were a while ago.
func (l *listed) ask() map[netip.Addr]*api.Peer {
	l.mu.Lock()
	defer l.mu.Unlock()
	begin := time.Now()
	if l.ended || begin.Before(l.until) {
		return l.peers
	}
	out := make(map[netip.Addr]*api.Peer)
	err := l.bgp.ListPeer(context.Background(), &api.ListPeerRequest{}, func(p *api.Peer) {
		if addr, err := netip.ParseAddr(p.GetState().GetNeighborAddress()); err == nil {
			out[addr] = p
		}
	})
	if err != nil {
		l.log.Debug("GoBGP's neighbours cannot be listed", "why", err)
	}
	now := time.Now()
	l.peers, l.until = out, now.Add(listPause*now.Sub(begin))
	return out
}

// end has GoBGP not be asked any more.
func (l *listed) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

func (s *sessions) advertise(n *neighbour, p *api.Peer) Neighbour {
	failure, malformed, _ := n.report.read()
	out := Neighbour{
		Name: n.conf.Name, Addr: n.conf.Addr, AS: n.conf.AS, RouterID: n.routerID, State: stateName(n.state), Since: n.since,
		Established: n.up, Complete: n.complete, Flaps: n.flaps, Malformed: malformed, Discarded: n.report.unused(), LastError: failure,
	}
	if n.up {
		out.Capabilities = capabilityNames(n.capabilities)
		out.Restart = restartState(n.capabilities)
		timers := p.GetTimers().GetState()
		out.Hold = time.Duration(timers.GetNegotiatedHoldTime()) * time.Second
		out.Keepalive = time.Duration(timers.GetKeepaliveInterval()) * time.Second
	}
	refused := make(map[bgp.Family]uint64)
	n.routesMu.Lock()
	for key := range n.refused {
		refused[familyOf(key)]++
	}
	n.routesMu.Unlock()
	for _, name := range n.conf.Families {
		f := families[name]
		c := FamilyCounts{Family: name, Negotiated: n.up && slices.Contains(n.negotiated, f), Limit: n.conf.MaxPrefixes}
		for _, a := range p.GetAfiSafis() {
			if st := a.GetState(); n.up && st.GetFamily().GetAfi() == api.Family_Afi(f.Afi()) && st.GetFamily().GetSafi() == api.Family_Safi(f.Safi()) {
				c.Received = st.GetReceived()
				c.Accepted = st.GetAccepted() - min(refused[f], st.GetAccepted())
			}
		}
		if c.Negotiated {
			c.Advertised = s.exports.counts(n.conf.Addr, f)
		}
		out.Families = append(out.Families, c)
	}
	return out
}

func stateName(s bgp.FSMState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "BGP_FSM_"))
}

func capabilityNames(capabilities []bgp.ParameterCapabilityInterface) []string {
	var out []string
	for _, c := range capabilities {
		name := c.Code().String()
		switch c := c.(type) {
		case *bgp.CapMultiProtocol:
			name += " " + c.CapValue.String()
		case *bgp.CapFourOctetASNumber:
			name += fmt.Sprintf(" %d", c.CapValue)
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func restartState(capabilities []bgp.ParameterCapabilityInterface) (r RestartState) {
	for _, c := range capabilities {
		switch c := c.(type) {
		case *bgp.CapGracefulRestart:
			r.Negotiated, r.Time = true, time.Duration(c.Time)*time.Second
		case *bgp.CapLongLivedGracefulRestart:
			for _, t := range c.Tuples {
				r.LongLived, r.Stale = true, max(r.Stale, time.Duration(t.RestartTime)*time.Second)
			}
		}
	}
	return r
}
