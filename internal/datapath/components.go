package datapath

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

// programs are the loaded programs and maps, and what they are loaded with.
type programs struct {
	cfg    Config
	kernel kernel.Kernel
	objs   objects
	words  vocabulary

	filling filling
}

// numbers are what the maps hold, by the names that the model uses.
type numbers struct {
	prog     *programs
	maps     numberMaps
	names    names
	vports   []bpfVport // by end id; 0 is never used
	segments []bpfSegment
	reached  reached
	routers  []bpfRouter
	egresses []bpfEgressPolicy         // by number; 0 is never used. Egress.changing is held while they change
	edges    map[netip.Addr]netip.Addr // remote's address → its first
	underway underway
}

// reached is how many of the numbers of ends and segments have ever been given, from 0 on: what is looked for among those in
// use is not looked for among all that there could be. The least free number is given first.
type reached struct{ vports, segments int }

// givenVports are the ends up to the last that was ever given.
func (nu *numbers) givenVports() []bpfVport { return nu.vports[:nu.reached.vports] }

// givenSegments are likewise.
func (nu *numbers) givenSegments() []bpfSegment { return nu.segments[:nu.reached.segments] }

// lookReached begins with what the tables have.
func (nu *numbers) lookReached() {
	for id := range nu.vports {
		if nu.vports[id].Kind != bpfVportKindVPORT_NONE {
			nu.reached.vports = id + 1
		}
	}
	for id := range nu.segments {
		if nu.segments[id].Used != 0 {
			nu.reached.segments = id + 1
		}
	}
}

// names gives the model's words for numbers in the maps.
type names struct {
	ports    map[uint32]string // end → port name
	segments map[uint32]string // segment → name
	routers  map[uint32]string // router → name
	segIDs   map[string]uint32
	routeIDs map[string]uint32 // router's name → router
	portIDs  map[string]uint32
	tepIDs   map[netip.Addr]uint32   // remote's first address → the end that stands for it
	pathIDs  map[overlay.Pair]uint32 // → end

	egresses  map[uint32]string // egress → name
	egressIDs map[string]uint32
	tagged    [2]map[uint32]uint32 // NameTag → router, egress

	incomplete bool // some objects of the tables have no number
}

// assigner gives numbers to what the tables name.
type assigner struct {
	prog    *programs
	numbers *numbers
	limits  *Limits
	traffic *Traffic
	fresh   newOwners // of the last Apply
}

// Changes have decisions be taken again when what they rest on is another. Time is one.
type Changes struct {
	prog    *programs
	maps    changeMaps
	numbers *numbers
	memory  []byte     // of the map segments
	pulsing sync.Mutex // held while a pulse is changed: Steer runs beside others
	beaten  uint64     // when the last epoch of the transit programs began
}

// Limits are what ports, remotes and segments may take of what all share, and what they have.
type Limits struct {
	prog          *programs
	maps          limitMaps
	numbers       *numbers
	usages        []byte                           // of the map owner_usages
	limitedTables [bpfLimitedCountCOUNT_MAX]uint32 // sizes
}

// Traffic is the counters of packets.
type Traffic struct {
	prog    *programs
	maps    trafficMaps
	numbers *numbers
}

// Hosts are the FDB and the neighbour table: what was learned, what BGP says and what is configured.
type Hosts struct {
	prog    *programs
	maps    hostMaps
	numbers *numbers
	changes *Changes
	limits  *Limits
	hosting sync.Mutex // held while entries are replaced or removed: Age runs beside PutBGPMACs
	members map[membership]bool
}

// HostEvents tell of hosts that come to ports, and tell others of them.
type HostEvents struct {
	prog           *programs
	maps           hostEventMaps
	numbers        *numbers
	traffic        *Traffic
	hosts          *Hosts
	loopEdge       uint64            // names this edge in loop probes
	loopTokens     map[uint32]uint64 // secrets of ports, by vport
	wire           openWire
	publishedNames atomic.Pointer[hostEventNames] // for FollowHostEvents, which runs beside Apply
}

// Routes are the routers' tables, with their next hops and groups of those.
type Routes struct {
	prog        *programs
	maps        routeMaps
	numbers     *numbers
	changes     *Changes
	hops        []bpfNexthop
	hopIDs      map[bpfNexthop]uint16 // of those that are taken
	groupRoutes []int                 // by how many routes each group is used
	freeable    bool                  // some group or next hop may be used by nobody
	groups      []bpfNexthopGroup
	routes      map[bpfRouteKey]bpfRoute
	sets        map[string]uint32 // groups by their set of next hops
}

// Paths are the ways to remotes, and which flows go by which.
type Paths struct {
	prog    *programs
	maps    pathMaps
	numbers *numbers
	changes *Changes
	traffic *Traffic
	// silent is how many messages were kept when PathReports last found none, plus one; or 0.
	silent atomic.Uint64
}

// Links are the attached programs.
type Links struct {
	prog    *programs
	maps    linkMaps
	pins    *Pins
	links   map[hook]*attachment
	refused map[hook]refusedTransit // transit programs
	adopted bool
}

// Ports writes ports, remotes and segments, and who is a member of which.
type Ports struct {
	prog     *programs
	maps     portMaps
	numbers  *numbers
	changes  *Changes
	firewall *Firewall
	egress   *Egress
	paths    *Paths
	cut      map[string]bool // ports that are part of loops
}

// NATSessions are the connections that are translated.
type NATSessions struct {
	prog      *programs
	maps      natSessionMaps
	numbers   *numbers
	table     conntrackTable[bpfNatSession, bpfNatGcStats]
	natEvents ring[bpfNatEvent]
}

// egressPolicies are the rules by which packets leave. rules is nil where no policy is; inForce is what
// its image was made with.
type egressPolicies struct {
	prog    *programs
	numbers *numbers
	rules   *policy.Policy
	inForce policy.Numbers
}

// Flows are the cached decisions.
type Flows struct {
	prog    *programs
	maps    flowMaps
	numbers *numbers
	changes *Changes
	limits  *Limits
	traffic *Traffic
	hosts   *Hosts
	routes  *Routes
	quiet   quiet
}

// Tracer tells a packet's way in words.
type Tracer struct {
	prog     *programs
	maps     traceMaps
	numbers  *numbers
	firewall *Firewall
	routes   *Routes
}

// Monitors are sessions that watch packets.
type Monitors struct {
	prog     *programs
	maps     monitorMaps
	numbers  *numbers
	firewall *Firewall
	routes   *Routes
	changing sync.Mutex // held while the table of sessions is changed
}

// carrier takes connections and sessions from tables of other sizes into the present ones.
type carrier struct {
	prog     *programs
	pins     *Pins
	firewall *Firewall
	sessions *NATSessions
}
