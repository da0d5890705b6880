package api

import (
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/internal/problem"
)

// FirewallUse is the firewall at a glance.
type FirewallUse struct {
	Rules       int   `json:"rules"` // with the defaults
	Connections Usage `json:"connections"`
	HalfOpen    Usage `json:"half_open"`
}

// RuleInfo is one rule of the policy, or a default that stands for one. Packets and
// bytes of connections come with a delay of up to 10 s.
type RuleInfo struct {
	Order       int      `json:"order"` // the first that matches decides
	Section     string   `json:"section"`
	Name        string   `json:"name"`
	Action      string   `json:"action"`
	Log         bool     `json:"log"`
	Matches     string   `json:"matches"`
	Connections uint64   `json:"connections"`
	Packets     uint64   `json:"packets"`
	Bytes       uint64   `json:"bytes"`
	LastHit     *float64 `json:"last_hit_s,omitempty"` // how long ago
	Unused      bool     `json:"unused"`               // since its counters began
	ShadowedBy  string   `json:"shadowed_by,omitempty"`
	Duplicate   bool     `json:"duplicate"` // it says the same as the one that shadows it
}

// FirewallInfo is how the firewall does: as of its last sweep over the connections,
// but for the events.
type FirewallInfo struct {
	Rules    int                     `json:"rules"` // with the defaults
	Default  string                  `json:"default"`
	Strict   bool                    `json:"strict"`
	SweptAt  time.Time               `json:"swept_at"`
	States   []StateInfo             `json:"states"`
	Tables   []TableInfo             `json:"tables"`
	HalfOpen map[string]HalfOpenInfo `json:"half_open"` // by port, of ports that have any
	Events   []EventInfo             `json:"events"`
	Problems []problem.Problem       `json:"problems"`
}

// HalfOpenInfo is how many half-open connections a port has.
type HalfOpenInfo struct {
	In    int    `json:"in"`    // opened from outside
	Out   int    `json:"out"`   // opened by the workload
	Limit uint32 `json:"limit"` // of each, 0: none
}

// StateInfo is how many connections are in a state.
type StateInfo struct {
	Name     string `json:"name"`
	Sessions int    `json:"sessions"`
}

// TableInfo is one table of the firewall.
type TableInfo struct {
	Name  string `json:"name"`
	Used  *int   `json:"used,omitempty"` // nil where nobody counts
	Size  int    `json:"size"`           // of logs and policy: bytes, and lines of 64 bytes
	Bytes uint64 `json:"memory_bytes"`
}

// ConnectionList is what a question about connections, or sessions of NAT, found.
type ConnectionList[Info any] struct {
	Total   int `json:"total"`
	Matched int `json:"matched"`
	// Sessions are the busiest of those, Top their sums when these were asked for.
	Sessions []Info    `json:"sessions,omitempty"`
	Top      []TopInfo `json:"top,omitempty"`
}

// SessionList is one of the firewall's connections.
type SessionList = ConnectionList[SessionInfo]

// SessionInfo is one connection that the firewall of one port tracks. Packets come with
// a delay of up to 10 s.
type SessionInfo struct {
	Port         string     `json:"port"`
	Segment      string     `json:"segment"`
	Direction    string     `json:"direction"` // of the packet that opened it
	Proto        string     `json:"proto"`     // "tcp", "udp", "icmp", "icmpv6", "sctp" or a number
	Src          netip.Addr `json:"src"`
	Dst          netip.Addr `json:"dst"`
	SrcPort      uint16     `json:"src_port"` // of an ICMP echo both are the identifier
	DstPort      uint16     `json:"dst_port"`
	PeerPort     string     `json:"peer_port,omitempty"` // of this edge, at the other end
	PeerSegment  string     `json:"peer_segment,omitempty"`
	State        string     `json:"state"`
	Answered     bool       `json:"answered"`
	PickedUp     bool       `json:"picked_up"` // open before it was seen
	Rule         string     `json:"rule"`      // that allowed it, "" when it is gone
	Current      bool       `json:"current"`   // the policy in force was asked
	Age          float64    `json:"age_s"`
	Idle         float64    `json:"idle_s"`
	OrigPackets  uint64     `json:"orig_packets"` // from who opened it
	OrigBytes    uint64     `json:"orig_bytes"`
	ReplyPackets uint64     `json:"reply_packets"`
	ReplyBytes   uint64     `json:"reply_bytes"`
	Path         string     `json:"path,omitempty"` // "fast", "slow", or "idle": no packet lately
	Why          string     `json:"why,omitempty"`  // why it is slow, or what would cut it
}

// TopInfo sums up the sessions of one port, address or rule.
type TopInfo struct {
	What     string `json:"what"`
	Sessions int    `json:"sessions"`
	HalfOpen int    `json:"half_open"` // of these, without an answer
	Packets  uint64 `json:"packets"`
	Bytes    uint64 `json:"bytes"`
}

// WhatIfInfo is what a new policy would do to the sessions that there are.
type WhatIfInfo struct {
	Total    int           `json:"total"`
	Cut      int           `json:"cut"`
	Rules    []WhatIfRule  `json:"rules"`    // by which they would be cut, in the policy's order
	Sessions []SessionInfo `json:"sessions"` // some of these
}

// WhatIfRule is how many sessions one rule of a new policy would cut.
type WhatIfRule struct {
	By       string `json:"by"` // SECTION/NAME, or that the port is gone
	Sessions int    `json:"sessions"`
}

// TopKinds are what the firewall's connections can be summed up by.
var TopKinds = []string{"ports", "sources", "destinations", "rules"}

// WhatIfQuery is a firewall, nil for none, and where it would stand.
type WhatIfQuery struct {
	Firewall *overlay.Firewall `json:"firewall"`
	Places   []policy.Place    `json:"places"`
	Limit    int               `json:"limit"` // of sessions that are named; 0: none
}
