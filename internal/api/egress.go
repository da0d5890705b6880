package api

import (
	"context"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// EgressInfo is how packets leave the overlay with other addresses.
type EgressInfo struct {
	Policies []EgressPolicyInfo `json:"policies"`
	Groups   []GatewayGroupInfo `json:"groups"`
	// Failovers are the last changes of gateways' states, the oldest first.
	Failovers   []Failover        `json:"failovers"`
	Replication []ReplicationInfo `json:"replication"`
	// Refused are connections of replication that did not become one.
	Refused  []RefusedInfo     `json:"replication_refused,omitempty"`
	Drain    *DrainInfo        `json:"drain,omitempty"` // of this edge, while it is asked for
	Problems []problem.Problem `json:"problems"`
}

// NATUse is translation at a glance.
type NATUse struct {
	Sessions Usage `json:"sessions"`
	Policies int   `json:"policies"`
	// State is this edge's as a gateway, "" where it is none.
	State string `json:"state,omitempty"`
}

// EgressPolicyInfo is one policy, or an uplink's own translation.
type EgressPolicyInfo struct {
	Name           string              `json:"name"` // "uplink/NAME" of an uplink's own
	Router         string              `json:"router"`
	VNI            overlay.VNI         `json:"vni,omitempty"`
	Gateways       string              `json:"gateways,omitempty"` // name of the group
	Uplink         string              `json:"uplink,omitempty"`
	Matches        string              `json:"matches,omitempty"` // which packets go by it
	Except         []netip.Prefix      `json:"except,omitempty"`  // destinations that do not
	Mapping        string              `json:"mapping"`           // "address-and-port-dependent" or "endpoint-independent"
	AddressPooling string              `json:"address_pooling"`   // "paired" or "arbitrary"
	Ports          overlay.PortRange   `json:"ports"`
	Limit          uint32              `json:"limit"` // sessions of a source, 0: none
	Sessions       int                 `json:"sessions"`
	Sources        []EgressSourcesInfo `json:"sources"`
	// UplinkAddress: there is no pool, and sources get the address of the uplink of their gateway.
	UplinkAddress bool `json:"uplink_address,omitempty"`
	// Addresses are those of the pool, or of this gateway's uplink.
	Addresses []EgressAddressInfo `json:"addresses"`
}

// EgressSourcesInfo is which part of the sources of one family a gateway serves, 0 to 1.
type EgressSourcesInfo struct {
	Gateway netip.Addr `json:"gateway,omitzero"` // unset: nobody serves them
	Family  string     `json:"family"`           // "ipv4" or "ipv6"
	Share   float64    `json:"share"`
}

// EgressAddressInfo is one address that sources become.
type EgressAddressInfo struct {
	Address netip.Addr `json:"address"`
	// Owner is the gateway that answers for it, unset when all are gone; Server gives it to
	// new connections.
	Owner    netip.Addr `json:"owner,omitzero"`
	Server   netip.Addr `json:"server,omitzero"`
	Here     bool       `json:"here"`     // this edge is the owner
	Sessions int        `json:"sessions"` // that this edge knows, replicas too
	// Other is the MAC address of another host that says that it has the address, as this edge sees it.
	Other overlay.MAC `json:"other,omitzero"`
}

// GatewayGroupInfo is edges that stand in for each other.
type GatewayGroupInfo struct {
	Name    string              `json:"name"`
	Mode    overlay.GatewayMode `json:"mode"`
	Members []GatewayInfo       `json:"members"`
}

// GatewayInfo is one of them.
type GatewayInfo struct {
	Address netip.Addr `json:"address"`
	Name    string     `json:"name,omitempty"`
	Self    bool       `json:"self"`
	State   string     `json:"state"` // "serving", "draining" or "gone"
	Since   time.Time  `json:"since"`
	Why     string     `json:"why"`
}

// Failover is a gateway whose state changed, and when that was obeyed here.
type Failover struct {
	Number  int        `json:"number"` // counts up from 1
	Group   string     `json:"group"`
	Gateway netip.Addr `json:"gateway"`
	From    string     `json:"from"`
	To      string     `json:"to"`
	Why     string     `json:"why"`
	Seen    time.Time  `json:"seen"`    // the event itself, such as a session that ended
	Written time.Time  `json:"written"` // sources go by the new tables
	// Announced is when the networks of the uplinks had been told of all addresses that came
	// here, nil when none did.
	Announced *time.Time `json:"announced,omitempty"`
	Addresses int        `json:"addresses"` // that came here
}

// RefusedInfo is how many connections of replication were refused for one reason.
type RefusedInfo struct {
	Why         string `json:"why"`
	Connections uint64 `json:"connections"`
}

// ReplicationInfo is a connection that tells another gateway of sessions.
type ReplicationInfo struct {
	Gateway   netip.Addr `json:"gateway"`
	Port      uint16     `json:"port"`
	Connected bool       `json:"connected"`
	Since     time.Time  `json:"since"`
	Synced    bool       `json:"synced"` // all that it has is known here
	Why       string     `json:"why,omitempty"`
	Sent      uint64     `json:"sent_records"`
	Received  uint64     `json:"received_records"`
	Conflicts uint64     `json:"conflicts"` // records that would not fit what is here
	Resyncs   uint64     `json:"resyncs"`
	// Differs are the group, and its policies, that the other gateway has configured otherwise.
	Differs []string `json:"differs,omitempty"`
}

// DrainInfo is a drain of this edge.
type DrainInfo struct {
	Asked    time.Time `json:"asked"`
	Deadline time.Time `json:"deadline"`
	Done     bool      `json:"done"`            // it has given everything up
	Active   *int      `json:"active_sessions"` // with packets lately; nil before the first look
}

// NATInfo is how translation does: as of its last sweep over the sessions, but for the
// events.
type NATInfo struct {
	SweptAt  time.Time         `json:"swept_at"`
	Sessions int               `json:"sessions"` // of connections
	Mappings int               `json:"mappings"` // ports that are held for all peers
	Replicas int               `json:"replicas"` // sessions that another gateway made and uses
	States   []StateInfo       `json:"states"`
	Tables   []TableInfo       `json:"tables"`
	Events   []EventInfo       `json:"events"`
	LogLost  uint64            `json:"log_lost"` // lines not written because of their rate
	Problems []problem.Problem `json:"problems"`
}

// NATSessionList is one of sessions of NAT.
type NATSessionList = ConnectionList[NATSessionInfo]

// NATSessionInfo is one connection whose addresses are translated. Packets come with a delay
// of up to 10 s.
type NATSessionInfo struct {
	Policy       string     `json:"policy"` // "" when it is gone
	Router       string     `json:"router"`
	Proto        string     `json:"proto"`
	Inside       netip.Addr `json:"inside"`
	InsidePort   uint16     `json:"inside_port"` // of an ICMP echo all are identifiers
	Egress       netip.Addr `json:"egress"`
	EgressPort   uint16     `json:"egress_port"`
	Outside      netip.Addr `json:"outside,omitzero"` // unset: a port that is held for all
	OutsidePort  uint16     `json:"outside_port"`
	Via          netip.Addr `json:"via,omitzero"` // edge that the source is behind, unset: this one
	State        string     `json:"state"`
	Answered     bool       `json:"answered"`
	Forwarded    bool       `json:"forwarded"` // opened from outside
	Independent  bool       `json:"independent"`
	Mapping      bool       `json:"mapping"`
	Replica      bool       `json:"replica"`
	Age          float64    `json:"age_s"`
	Idle         float64    `json:"idle_s"`
	Left         float64    `json:"left_s"`       // until it goes without another packet
	OrigPackets  uint64     `json:"orig_packets"` // from who opened it
	OrigBytes    uint64     `json:"orig_bytes"`
	ReplyPackets uint64     `json:"reply_packets"`
	ReplyBytes   uint64     `json:"reply_bytes"`
}

// PortUsageInfo is how many ports of an egress address are in use for one peer.
type PortUsageInfo struct {
	Policy      string     `json:"policy"`
	Router      string     `json:"router"`
	Proto       string     `json:"proto"`
	Egress      netip.Addr `json:"egress"`
	Outside     netip.Addr `json:"outside"`
	OutsidePort uint16     `json:"outside_port"`
	Used        int        `json:"used"`
	Size        int        `json:"size"` // 0: the address is no longer translated to
}

// NATTopKinds are what sessions of NAT can be summed up by.
var NATTopKinds = []string{"sources", "destinations", "addresses", "policies"}

// EgressClient asks about egress and NAT.
type EgressClient struct{ c *Client }

// Egress is the client's part about egress and NAT.
func (c *Client) Egress() EgressClient { return EgressClient{c} }

// Info fetches policies, gateways and failovers.
func (e EgressClient) Info(ctx context.Context) (EgressInfo, error) {
	return Fetch[EgressInfo](ctx, e.c, "egress")
}

// Drain has the edge give its work as a gateway away: new connections at once, and all when
// the others have ended or after a timeout.
func (e EgressClient) Drain(ctx context.Context, timeout time.Duration) (EgressInfo, error) {
	return post[EgressInfo](ctx, e.c, "egress/drain?"+url.Values{ArgTimeout: {timeout.String()}}.Encode(), nil)
}

// Undrain ends that.
func (e EgressClient) Undrain(ctx context.Context) (EgressInfo, error) {
	return post[EgressInfo](ctx, e.c, "egress/undrain", nil)
}

// NAT fetches how translation does.
func (e EgressClient) NAT(ctx context.Context) (NATInfo, error) {
	return Fetch[NATInfo](ctx, e.c, "nat")
}

// NATSessions fetches the NAT sessions that q chooses, the busiest first, or their sums.
func (e EgressClient) NATSessions(ctx context.Context, q ConnectionQuery) (NATSessionList, error) {
	return Fetch[NATSessionList](ctx, e.c, "nat/sessions?"+q.values().Encode())
}

// PortUsages fetches which ports are the scarcest, limit lines at most.
func (e EgressClient) PortUsages(ctx context.Context, limit int) ([]PortUsageInfo, error) {
	return Fetch[[]PortUsageInfo](ctx, e.c, "nat/port-usage?"+url.Values{ArgLimit: {strconv.Itoa(limit)}}.Encode())
}
