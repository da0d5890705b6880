package apiserver

import (
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/bgp/counters"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/internal/problem"
)

// Edge is the edge whose documents are served.
type Edge interface {
	// Read calls do while nothing changes. Its errors name what is read. do must not wait for
	// a client.
	Read(what string, do func(*State) error) error
	// ReadInLoop does so by the goroutine that changes the edge, in its network namespace.
	ReadInLoop(what string, do func(*State) error) error
}

// read makes a document of an edge.
func read[T any](e Edge, what string, do func(*State) (T, error)) (document T, err error) {
	var made T
	err = e.Read(what, func(s *State) (err error) {
		made, err = do(s)
		return err
	})
	if err != nil {
		return document, err
	}
	return made, nil
}

// State is an edge as documents are made of it.
type State struct {
	Process     Process
	Config      overlay.Edge // with what BGP told
	Host        host.State
	Rules       Rules
	DataPath    DataPath
	Paths       Paths
	Alarms      Alarms
	NAT         NAT
	Gateways    Gateways
	Others      map[gateway.Place]overlay.MAC // hosts that have addresses of this edge
	Replication Replication
	BGP         *BGP // nil without
	// TablesFailed says that the last change of the data path failed.
	TablesFailed bool
	// Problems are all but those that are found by reading the data path.
	Problems func() []problem.Problem
}

// Process is what runs the edge.
type Process struct {
	Version, ConfigPath string
	Started             time.Time
	Adopted             bool // a data path that ran already
	NetNS               func() (inode uint64, err error)
}

// Rules are the compiled policies of an edge; nil where there are none.
type Rules struct {
	Firewall *policy.Policy
	// Shadows are rules of the firewall that never decide. To find them takes long with many
	// rules, so it is not to be called in Read.
	Shadows func() []policy.Shadow
	Egress  *policy.Policy
}

// DataPath is what can be read of one, by subject.
type DataPath struct {
	Links    Links
	Hosts    Hosts
	Drops    Drops
	Counters Counters
	Flows    Flows
	Limits   alarm.LimitUsages
	Firewall Firewall
	NAT      NATSessions
	Egress   NATTables
	Tracer   Tracer
	Monitors Monitors // nil: it tells nothing
}

// The subjects of a data path.
type (
	// Links are interfaces whose drivers did not take a transit program, and why.
	Links interface {
		Refused() map[int]string
	}
	// Hosts are where addresses are.
	Hosts interface {
		FDB() ([]datapath.FDBEntry, error)
		Neighbours() ([]datapath.Neighbour, error)
	}
	// Drops are counters by reason, and by name of what was done.
	Drops interface {
		Drops() ([]datapath.Drop, error)
		OwnerDrops(kind datapath.OwnerKind) ([]datapath.OwnerDrop, error)
		Events() (map[string]uint64, error)
	}
	// Counters are of packets, by where they go.
	Counters interface {
		Ports() (map[string]datapath.PortCounters, error)
		TEPs() (map[netip.Addr]datapath.TEPCounters, error)
		Paths() (map[overlay.Pair]datapath.Counters, error)
	}
	// Flows are the cached decisions.
	Flows interface {
		Flows() ([]datapath.Flow, error)
		Stats() (datapath.Stats, error)
		// Totals are Stats with entries as of the last count, and Tables how full tables are, likewise.
		Totals() (datapath.Stats, error)
		Tables() ([]datapath.Table, error)
		CachedSessions(sessions []datapath.Session) ([][2]datapath.Cached, error)
	}
	// Firewall says what the firewall did.
	Firewall interface {
		FirewallTables(c datapath.GCStats) []datapath.Table
		Rules() ([]datapath.RuleCounters, error)
		EachSession(do func(s *datapath.Session) bool) error
	}
	// NATSessions are what is translated.
	NATSessions interface {
		EachNATSession(do func(b *datapath.NATSession) bool) error
	}
	// NATTables are how full tables and ports are.
	NATTables interface {
		NATTables(c datapath.NATGCStats) []datapath.Table
		PortUsages(most, least int) ([]datapath.PortUsage, error)
	}
	// Tracer tells a packet's way. It is called in ReadInLoop alone.
	Tracer interface {
		Trace(in datapath.TraceInput) (datapath.Trace, error)
	}
	// Monitors have programs tell of packets. It is called in ReadInLoop alone.
	Monitors interface {
		StartMonitor(o datapath.MonitorOptions) (MonitorSession, error)
	}
	// MonitorSession is told of packets until Stop. Events are read in Read, the rest anywhere; Prolong beside all.
	MonitorSession interface {
		Events(most int, do func(datapath.PacketEvent)) (more bool, err error)
		Counts() (datapath.MonitorCounts, error)
		Prolong() error
		Quiesce() error
		Stop() error
	}
)

// Paths are the ways to remotes.
type Paths interface {
	InForce() plan.PathPolicies
	Read() (PathReadings, error)
	// Routes are those of routers by now.
	Routes() []plan.Table
}

// PathReadings are what is known of paths.
type PathReadings struct {
	InForce   plan.PathPolicies
	Since     map[overlay.Pair]time.Time // when each went out of use, or came back
	Lives     map[overlay.Pair]bfd.Result
	MTUStates map[overlay.Pair]string // by endpoints: where the MTU comes from
	Reported  map[overlay.Pair]int    // by endpoints: MTUs of ICMP messages that are pending
	Outcomes  []Outcome               // of former ones
}

// Outcome is how often a report of a path MTU came to that.
type Outcome struct {
	Name  string
	Times uint64
}

// Alarms are what watches over the data path.
type Alarms struct {
	NextHops     NextHopAlarm
	FlowCache    FlowCacheAlarm
	Limits       LimitAlarm
	Firewall     alarm.FirewallReading
	PacketShares map[overlay.Pair]float64 // of paths to the same remote
}

// The alarms that are asked.
type (
	// NextHopAlarm reports whether packets miss the MAC address of a next hop.
	NextHopAlarm interface {
		AreMissing(drops alarm.Drops) (bool, error)
	}
	// FlowCacheAlarm is what is wrong with the flow cache, "" where nothing is.
	FlowCacheAlarm interface {
		Alarm(config overlay.FlowCache) (kind, text string)
	}
	// LimitAlarm is of each limit.
	LimitAlarm interface {
		IsExceeded(limit api.LimitInfo) bool
	}
)

// NAT is what the last sweep saw of translation.
type NAT struct {
	GCStats  datapath.NATGCStats
	SweptAt  time.Time
	Fullest  []datapath.PortUsage
	Problems []problem.Problem
}

// Gateways are the states of egress gateways, as this edge sees them.
type Gateways interface {
	States() map[netip.Addr]gateway.Status
	Overview() gateway.Overview
}

// Replication is that of NAT sessions.
type Replication interface {
	Info(config overlay.Edge) []api.ReplicationInfo
	Refused() []api.RefusedInfo
	LogLost() uint64
}

// BGP is that of an edge which speaks it.
type BGP struct {
	State    BGPState
	Sessions BGPSessions
	// Lives are what BFD says of neighbours.
	Lives func() map[netip.Addr]string
}

// What there is of BGP.
type (
	// BGPState is what BGP shows. It waits for no session.
	BGPState interface {
		Use() *api.BGPUse
		Info(now time.Time, lives map[netip.Addr]string) api.BGPInfo
		Routes(q api.BGPRouteQuery, now time.Time) ([]api.BGPRouteInfo, error)
		Moves() api.BGPMovesInfo
		Counters() counters.BGP
	}
	// BGPSessions change what BGP does.
	BGPSessions interface {
		// Thaw has a frozen MAC address move again.
		Thaw(segment string, mac overlay.MAC) error
		// Reset begins a session anew or, softly, has all routes exchanged again.
		Reset(neighbour string, soft bool) error
	}
)
