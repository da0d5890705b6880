// Package bgp runs BGP EVPN for an edge. It joins the sessions (evpn/speaker), the table of routes
// (evpn.Table), the tables of the data path that follow it, and the hosts of which neighbours hear.
//
// Its one invariant: one goroutine changes the table, and nobody waits to leave it something. What
// waits is bounded. It knows nothing of the edge around it: who starts a Process gives it all that
// it needs. Do not decide here what a route means; that is package evpn's.
package bgp

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/evpn/speaker"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// Speaker has sessions with BGP neighbours.
type Speaker interface {
	Announcer
	Sessions
	Configure(c overlay.BGP) error
	Close(keep bool) error
}

// Announcer tells neighbours of routes.
type Announcer interface {
	Announce(routes []evpn.Route) error
	Withdraw(keys []evpn.Key) error
}

// Sessions are those with neighbours.
type Sessions interface {
	// Neighbours are the sessions with numbers of received routes, which take long to count;
	// Sessions are without.
	Neighbours() []speaker.Neighbour
	Sessions() []speaker.Neighbour
	// Established is how many sessions there are, and how many of them said all.
	Established() (sessions, complete int)
	Refresh(neighbour netip.Addr, soft bool) error
	Fail(neighbour netip.Addr, why string)
}

// Writer writes what was learned into the tables of the data path that are in force. What has no
// place in them before the next tables is returned as later. An error may be of parts; it names what
// the tables have no room for (rib.LeftOut).
type Writer interface {
	PutBGPMACs(list []rib.BGPMAC) (later []rib.BGPMAC, err error)
	PutARPEntries(list []rib.ARPEntry) (later []rib.ARPEntry, err error)
	// PutRoutes remembers the routes for the next tables too.
	PutRoutes(list []rib.LearnedRoute) (later []rib.Place, err error)
	// ReplaceRoutes has these be all that the next tables know.
	ReplaceRoutes(list []rib.LearnedRoute)
	// Forget ends what the packets of hosts told of their being at ports.
	Forget(hosts []evpn.Host) error
}

// Hosts reads hosts from the data path. Its methods are called by who calls Look, PortsLost and
// Sweep, but for Solicit, which the goroutine of a Process calls too.
type Hosts interface {
	// AtPorts are those at ports of this edge.
	AtPorts() ([]Host, error)
	// ByBGP is what the data path has of BGP.
	ByBGP() ([]rib.BGPMAC, []rib.ARPEntry, error)
	// Solicit has hosts answer for their addresses.
	Solicit(list []Solicitation) error
}

// Host is one at a port.
type Host struct {
	evpn.Host
	Port   string
	ByBGP  bool // nobody but BGP says so of its address
	Static bool
	Idle   time.Duration // since its last packet
}

// Solicitation is a host that is to answer for its addresses.
type Solicitation struct {
	Segment, Port string
	MAC           overlay.MAC
	Addrs         []netip.Addr
}

// Options are what a Process needs.
type Options struct {
	Edge overlay.Edge // as it is configured, with BGP
	// NextHop is that of announced routes which name none.
	NextHop netip.Addr
	// Settling: a former process learned something, which stays until the neighbours said all anew.
	Settling bool
	// Linger is how long after the neighbours said all it stays.
	Linger time.Duration
	// MaxWaiting is how many updates of a neighbour may wait; 0 is DefaultMaxWaiting.
	MaxWaiting int

	Open   func(context.Context, speaker.Options) (Speaker, error)
	Writer Writer
	Hosts  Hosts
	Events Events
	// Enter has the thread of the goroutine be in the edge's network namespace; nil: it is.
	Enter func() error
	Log   *slog.Logger
	Now   func() time.Time // nil is time.Now
}

// Events is what a Process tells who started it. Its methods return at once.
type Events interface {
	// RemotesChanged: Learned returns others.
	RemotesChanged()
	// Settled: the neighbours said all; Sweep is due.
	Settled()
	// HostsMissed: not all hosts that came were taken in; Look is due.
	HostsMissed()
	// Session came up, ended, or was completed.
	Session(s evpn.Session)
	// Problem keeps err as a problem until the same thing works again, with nil.
	Problem(what string, err error)
}

// Names of problems.
const (
	// ProblemRun is of sessions that cannot be had.
	ProblemRun = "run BGP"
	// ProblemWrite is of what the data path did not take.
	ProblemWrite    = "install BGP routes in the data path"
	problemAnnounce = "advertise to BGP neighbours"
	problemForget   = "forget hosts that moved away"
	problemResolve  = "find the remotes of MAC addresses learned by BGP"
	problemSolicit  = "ask hosts for their addresses"
	problemProbe    = "probe idle hosts"
	problemEnd      = "end BGP sessions"
)
