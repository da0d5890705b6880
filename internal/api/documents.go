package api

import (
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// Status is the edge at a glance.
type Status struct {
	Name    string    `json:"name"`
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	NetNS   uint64    `json:"netns"` // inode of its network namespace
	Started time.Time `json:"started"`
	Config  string    `json:"config"`

	Adopted   bool          `json:"adopted"` // took over a running data path
	TEP       netip.Addr    `json:"tep"`
	Segments  []SegmentInfo `json:"segments"`
	Ports     Tally         `json:"ports"`
	TEPs      Tally         `json:"teps"`
	FDB       Usage         `json:"fdb"`
	Flows     Usage         `json:"flows"`                   // the cache of tc
	Transit   *Usage        `json:"transit_flows,omitempty"` // that of the transit programs
	Firewall  *FirewallUse  `json:"firewall,omitempty"`
	NAT       *NATUse       `json:"nat,omitempty"`
	BGP       *BGPUse       `json:"bgp,omitempty"`
	FlowCache bool          `json:"flow_cache"`
	LookUps   uint64        `json:"flow_look_ups"` // in both
	Hits      uint64        `json:"flow_hits"`
	Misses    uint64        `json:"flow_misses"` // look-ups of flows without a decision
	Dropped   uint64        `json:"dropped_packets"`
	// Verdict is "ok", "degraded" or "broken": the worst of Problems, what an operator should
	// look at.
	Verdict  problem.Verdict   `json:"verdict"`
	Problems []problem.Problem `json:"problems"`
}

// SegmentInfo is one segment and its size: a configured one, one between routers
// (NAME-l3), or the plain network at an uplink, which has no tunnels.
type SegmentInfo struct {
	Name          string                `json:"name"`
	VNI           overlay.VNI           `json:"vni"`           // 0 at an uplink
	Encapsulation overlay.Encapsulation `json:"encapsulation"` // "" at an uplink
	UDPPort       uint16                `json:"udp_port"`      // 0 with nvgre
	Ports         int                   `json:"ports"`
	Remotes       int                   `json:"remotes"`
	Router        string                `json:"router,omitempty"` // whose interface the segment is
	Gateway       []netip.Prefix        `json:"gateway"`          // addresses of the router there
	Generation    uint32                `json:"generation"`
	ClampMSS      bool                  `json:"clamp_mss"` // the MSS of TCP is lowered to what the tunnel carries
}

// Tally counts objects of which some work.
type Tally struct {
	Up    int `json:"up"`
	Total int `json:"total"`
}

// Usage is the filling of a table.
type Usage struct {
	Used int    `json:"used"`
	Size uint32 `json:"size"`
}

// PortInfo is one local attachment: a port, one VLAN of a trunk, or an uplink.
type PortInfo struct {
	Name      string `json:"name"`
	Interface string `json:"interface"`
	Ifindex   int    `json:"ifindex"`          // 0 while the interface is absent
	VLAN      uint16 `json:"vlan"`             // 0: untagged frames
	Trunk     string `json:"trunk,omitempty"`  // of one that has VLANs, the configured port
	Router    string `json:"router,omitempty"` // whose uplink it is
	Segment   string `json:"segment"`
	State     string `json:"state"` // "up", "down", "absent"
	// Hook is "tcx", or of an uplink where packets that pass through are taken: "xdp",
	// "xdpgeneric" or "tcx", and "" while that is not known; HookWhy says why not "xdp".
	Hook      string `json:"hook"`
	HookWhy   string `json:"hook_why,omitempty"`
	Deliver   string `json:"deliver"` // "peer" or "redirect", "" while absent
	MTU       int    `json:"mtu"`
	RxPackets uint64 `json:"rx_packets"` // from the port into the overlay
	RxBytes   uint64 `json:"rx_bytes"`
	TxPackets uint64 `json:"tx_packets"` // from the overlay to the port
	TxBytes   uint64 `json:"tx_bytes"`
	Drops     uint64 `json:"drops"`
	// Limits are those of the port.
	Limits []LimitInfo `json:"limits"`
}

// LimitInfo is one limit of a port or segment, and what is used of it.
type LimitInfo struct {
	Kind        string `json:"kind"` // of the owner: "port" or "segment"
	Owner       string `json:"owner"`
	Limit       string `json:"limit"`
	Description string `json:"description"`
	Unit        string `json:"unit"`     // "entries" or "per-second"
	Used        int    `json:"used"`     // entries; of a rate 0
	Max         uint32 `json:"max"`      // 0: no limit
	Exceeded    uint64 `json:"exceeded"` // entries that were evicted or refused, or packets above the rate
	Mode        string `json:"mode"`     // "enforce"; "observe": it is counted only
}

// OwnerDropInfo counts packets of one owner that were dropped.
type OwnerDropInfo struct {
	Kind string `json:"kind"` // "port", "segment" or "remote"
	// Owner is "" for the packets of none of that kind, of one that is gone, and of those that
	// the table had no room for.
	Owner string `json:"owner"`
	DropInfo
}

// InterfaceInfo is an interface that packets may pass through, between tunnels and
// uplinks.
type InterfaceInfo struct {
	Name    string   `json:"name"`
	Ifindex int      `json:"ifindex"` // 0 while it does not exist
	Roles   []string `json:"roles"`   // "underlay", "uplink"
	Hook    string   `json:"hook"`    // "xdp", "xdpgeneric" or "tcx", "" while not known
	HookWhy string   `json:"hook_why,omitempty"`
	// TakesRedirected: transit programs of other interfaces send through this one;
	// otherwise what they would send there is left to tc, and RedirectWhy says why.
	TakesRedirected bool   `json:"takes_redirected"`
	RedirectWhy     string `json:"redirect_why,omitempty"`
	MTU             int    `json:"mtu"`
}

// TEPInfo is one remote: an edge with one or several tunnel endpoints. What stands
// for its way is that of the preferred path that there is; the path MTU is the least.
type TEPInfo struct {
	Address   netip.Addr `json:"address"` // its first
	Name      string     `json:"name,omitempty"`
	Segments  []string   `json:"segments"`
	Interface string     `json:"interface"`
	NextHop   netip.Addr `json:"next_hop"`
	NextMAC   string     `json:"next_mac"` // "" while unresolved
	State     string     `json:"state"`    // "resolved", "unresolved", "no route"
	MTU       int        `json:"mtu"`      // of the underlay interface or the route
	// PathMTU is what tunnels obey; its state is "confirmed", "unanswered",
	// "probing", "reported by ICMP" or "not probed", and "" without a route.
	PathMTU      int    `json:"path_mtu"`
	PathMTUState string `json:"path_mtu_state"`
	// ReportedMTU is what an ICMP message said and a probe is looking into, 0: nothing.
	ReportedMTU int    `json:"reported_mtu,omitempty"`
	InnerMTU    int    `json:"inner_mtu"`
	RxPackets   uint64 `json:"rx_packets"`
	RxBytes     uint64 `json:"rx_bytes"`
	TxPackets   uint64 `json:"tx_packets"`
	TxBytes     uint64 `json:"tx_bytes"`
	// Paths are those that have a route.
	Paths []PathInfo `json:"paths"`
}

// PathInfo is a way from one of this edge's TEPs to one of a remote's, by one of the next hops of its route.
type PathInfo struct {
	Local     netip.Addr `json:"local"`
	Remote    netip.Addr `json:"remote"`
	Interface string     `json:"interface"`
	NextHop   netip.Addr `json:"next_hop"`
	// Weight is that of the next hop among those of the route; 0 where it is the only one.
	Weight int `json:"weight,omitempty"`
	// State is "up", "down" or "unknown", which is usable, as liveness says; "dead"
	// when it is out of use for something else.
	State        string      `json:"state"`
	Age          float64     `json:"state_s"` // for how long
	Why          string      `json:"why"`
	Failures     int         `json:"failures"` // in a row
	MTU          int         `json:"mtu"`      // as of a TEPInfo
	PathMTU      int         `json:"path_mtu"`
	PathMTUState string      `json:"path_mtu_state"`
	ReportedMTU  int         `json:"reported_mtu,omitempty"` // as of a TEPInfo
	Shares       []ShareInfo `json:"shares"`
	// PacketShare is its part of all packets to the remote between the last two
	// readings of the edge, nil when there were none.
	PacketShare *float64 `json:"packet_share,omitempty"`
	TxPackets   uint64   `json:"tx_packets"`
	TxBytes     uint64   `json:"tx_bytes"`
}

// ShareInfo is the part of the flows to a remote that one path takes, 0 to 1.
type ShareInfo struct {
	TEPs  []string `json:"teps"` // of segments that are pinned to these; none: of the others
	Share float64  `json:"share"`
}

// FDBEntry is one MAC address of one segment.
type FDBEntry struct {
	Segment string      `json:"segment"`
	MAC     overlay.MAC `json:"mac"`
	Port    string      `json:"port,omitempty"`
	Remote  netip.Addr  `json:"remote,omitzero"`
	Static  bool        `json:"static"`
	// Origin is "learned", "static" or "bgp".
	Origin string  `json:"origin"`
	Sticky bool    `json:"sticky,omitempty"` // BGP says that it does not move
	Age    float64 `json:"age_s"`
	Moves  uint32  `json:"moves"`
	Frozen float64 `json:"frozen_s,omitempty"` // for so long it stays where it is: it moved too often
	Other  string  `json:"other,omitempty"`    // frozen: the port or remote where it was seen too
}

// NeighbourInfo is one IP address of one segment and its MAC address.
type NeighbourInfo struct {
	Segment string      `json:"segment"`
	Address netip.Addr  `json:"address"`
	MAC     overlay.MAC `json:"mac"`
	Port    string      `json:"port,omitempty"` // where the MAC address is
	Remote  netip.Addr  `json:"remote,omitzero"`
	Static  bool        `json:"static"`
	Origin  string      `json:"origin"` // as of an FDBEntry
	Age     float64     `json:"age_s"`
}

// RouteInfo is one route of one router.
type RouteInfo struct {
	Router string            `json:"router"`
	Prefix netip.Prefix      `json:"prefix"`
	Kind   overlay.RouteKind `json:"type"`
	Origin string            `json:"origin"`         // "connected", "static", "bgp" or "leaked"
	From   string            `json:"from,omitempty"` // the router that it was leaked from
	Hops   []HopInfo         `json:"hops"`
}

// HopInfo is where a route leads.
type HopInfo struct {
	Segment string     `json:"segment"`
	Address netip.Addr `json:"address,omitzero"` // next hop in the segment, or
	Remote  netip.Addr `json:"remote,omitzero"`  // remote whose router has the MAC address
	MAC     string     `json:"mac"`              // "" while unresolved and of a connected network
	State   string     `json:"state"`            // "connected", "resolved", "unresolved", "no route", "down": out of use
	Why     string     `json:"why,omitempty"`    // of a next hop that is down
}

// TraceInfo is what the data path would do with one packet.
type TraceInfo struct {
	Packet  string      `json:"packet"` // the frame in words
	Frame   string      `json:"frame"`  // in hex
	Steps   []TraceStep `json:"steps"`
	Verdict string      `json:"verdict"`
	Out     string      `json:"out"`     // the frame that leaves, in hex; "" without one
	Headers []string    `json:"headers"` // of Out in words, the outermost first
}

// TraceStep is what one stage decided.
type TraceStep struct {
	Stage string `json:"stage"`
	What  string `json:"what"`
}

// FlowInfo is one entry of the flow cache.
type FlowInfo struct {
	Segment    string      `json:"segment"`               // where it came in
	OutSegment string      `json:"out_segment,omitempty"` // of a routed flow, where it goes
	In         string      `json:"in"`                    // port name or remote address
	Out        string      `json:"out"`                   // port name, remote address, "flood" or ""
	SrcMAC     overlay.MAC `json:"src_mac"`
	DstMAC     overlay.MAC `json:"dst_mac"`
	Proto      string      `json:"proto"` // "tcp", "udp", "icmp", a number, or the ethertype
	Src        netip.Addr  `json:"src,omitzero"`
	Dst        netip.Addr  `json:"dst,omitzero"`
	SrcPort    uint16      `json:"src_port"`
	DstPort    uint16      `json:"dst_port"`
	// Of a translated flow, what source and destination become; of ICMP with its identifier.
	ToSrc    netip.AddrPort `json:"to_src,omitzero"`
	ToDst    netip.AddrPort `json:"to_dst,omitzero"`
	FastPath bool           `json:"fast_path"`
	Why      string         `json:"why"` // why it is not on the fast path, "" when it is
	Packets  uint64         `json:"packets"`
	Bytes    uint64         `json:"bytes"`
	Idle     float64        `json:"idle_s"`
	// Rate is nil where the flows were read once.
	Rate *FlowRate `json:"rate,omitempty"`
}

// FlowRate is what a flow carried between two readings.
type FlowRate struct {
	Packets float64 `json:"packets_per_s"`
	Bytes   float64 `json:"bytes_per_s"`
}

// FlowCacheInfo is the use of the flow cache: counters since the data path was
// loaded, and rates where two readings were compared.
type FlowCacheInfo struct {
	ReadAt   time.Time   `json:"read_at"`
	Enabled  bool        `json:"enabled"`
	Alarm    string      `json:"alarm"`             // "off", "thrashing" or ""
	Problem  string      `json:"problem,omitempty"` // the alarm in words
	LookUps  uint64      `json:"look_ups"`
	HitRatio float64     `json:"hit_ratio"` // of look-ups; 0 without any
	Caches   []CacheInfo `json:"caches"`
	Events   []EventInfo `json:"events"` // hits, misses by reason, and what else befell decisions
	Rates    *CacheRates `json:"rates,omitempty"`
}

// CacheInfo is one table of decisions.
type CacheInfo struct {
	Name  string `json:"name"` // "tc", or "transit": that of the transit programs
	Used  int    `json:"used"`
	Size  int    `json:"size"`
	Bytes uint64 `json:"memory_bytes"`
	// Evicted are decisions that made room for those of other flows; nil where the
	// kernel does it and does not count.
	Evicted *uint64 `json:"evicted,omitempty"`
}

// EventInfo is one event's counter.
type EventInfo struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	LookUp      bool   `json:"look_up"` // is the outcome of one
	Count       uint64 `json:"count"`
}

// CacheRates is what happened between two readings.
type CacheRates struct {
	Seconds  float64            `json:"seconds"`
	LookUps  float64            `json:"look_ups_per_s"`
	HitRatio float64            `json:"hit_ratio"`
	Events   map[string]float64 `json:"events_per_s"`
	// Evicted is by cache. That of tc is what misses and growth tell: an upper bound
	// while it is at least half full, else 0.
	Evicted map[string]float64 `json:"evicted_per_s"`
}

// DropInfo is one reason's counter.
type DropInfo struct {
	Reason      string `json:"reason"`
	Description string `json:"description"`
	Packets     uint64 `json:"packets"`
	Bytes       uint64 `json:"bytes"`
}

// Count counts one more, which is up or not.
func (t *Tally) Count(up bool) {
	t.Total++
	if up {
		t.Up++
	}
}

// DefaultRuntimeDir holds the socket, the lock and the record of host changes of every edge.
const DefaultRuntimeDir = "/run/selvage"

// DefaultStateDir holds what outlasts a reboot: the revisions of the configuration, and drains.
const DefaultStateDir = "/var/lib/selvage"
