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

// BGPUse is BGP at a glance.
type BGPUse struct {
	Neighbours Tally `json:"neighbours"`
	Used       int   `json:"routes_used"`
	Unused     int   `json:"routes_unused"`
	Stale      int   `json:"routes_stale"`
	Advertised int   `json:"routes_advertised"`
	Frozen     int   `json:"frozen_macs"`
}

// BGPInfo is the edge as a BGP speaker.
type BGPInfo struct {
	AS         uint32             `json:"as"`
	RouterID   netip.Addr         `json:"router_id"`
	Neighbours []BGPNeighbourInfo `json:"neighbours"` // in the configuration's order
	Routes     BGPRouteTally      `json:"routes"`
	// Convergence is of updates, from their receipt until the maps say what they do.
	Convergence BGPConvergence `json:"convergence"`
	// Settling: what a former process learned is kept until the neighbours said all anew.
	Settling bool              `json:"settling"`
	Problems []problem.Problem `json:"problems"`
}

// BGPNeighbourInfo is a session.
type BGPNeighbourInfo struct {
	Name     string     `json:"name"`
	Address  netip.Addr `json:"address"`
	AS       uint32     `json:"as"`
	RouterID netip.Addr `json:"router_id,omitzero"` // unset until there was a session
	// State is "idle", "connect", "active", "opensent", "openconfirm" or "established".
	State    string  `json:"state"`
	Age      float64 `json:"state_s"`  // for how long
	Complete bool    `json:"complete"` // it said all that it has
	Why      string  `json:"why"`      // why there is no session, or the last ended, and the cure
	Flaps    uint32  `json:"flaps"`    // sessions that were lost
	// Overflows are those that this edge ended, as too many updates waited for the data path.
	Overflows uint64  `json:"overflows"`
	Liveness  string  `json:"bfd"`    // "up", "down", "unknown", or "off"
	Hold      float64 `json:"hold_s"` // as agreed on
	Keep      float64 `json:"keepalive_s"`
	// Malformed are routes that could not be understood.
	Malformed uint64 `json:"malformed"`
	// Discarded is what the neighbour said and is not used whatever routes there are: EVPN route types and families without a use here,
	// and what is malformed.
	Discarded    []BGPDiscard    `json:"discarded"`
	Families     []BGPFamilyInfo `json:"families"`
	Capabilities []string        `json:"capabilities"`
	Restart      BGPRestartInfo  `json:"graceful_restart"`
}

// BGPDiscard is how much was discarded of one kind.
type BGPDiscard struct {
	What  string `json:"what"`
	Count uint64 `json:"count"` // of routes; of families UPDATEs, of attributes those
}

// BGPFamilyInfo is what is exchanged of an address family.
type BGPFamilyInfo struct {
	Family     overlay.BGPFamily `json:"family"`
	Negotiated bool              `json:"negotiated"` // the neighbour has it too
	Received   uint64            `json:"received"`
	Accepted   uint64            `json:"accepted"` // by policies
	Advertised uint64            `json:"advertised"`
	Limit      uint32            `json:"limit"` // maximumPrefixes, or how many are used; 0: any
}

// BGPRestartInfo is what becomes of routes when a session is lost.
type BGPRestartInfo struct {
	Negotiated bool    `json:"negotiated"`
	Time       float64 `json:"time_s"` // that the neighbour asks for
	LongLived  bool    `json:"long_lived"`
	Stale      float64 `json:"stale_s"` // that the neighbour asks for then
}

// BGPRouteTally counts routes.
type BGPRouteTally struct {
	Received int `json:"received"`
	Used     int `json:"used"`
	Unused   int `json:"unused"`
	// NoRoom are those of the unused ones that tables have no room for.
	NoRoom     int `json:"no_room"`
	Stale      int `json:"stale"` // of the used ones: their session was lost
	Advertised int `json:"advertised"`
	// Why are the unused ones by what is wrong with them.
	Why []BGPWhy `json:"why"`
}

// BGPWhy is how many routes are not used for one reason.
type BGPWhy struct {
	Why    string `json:"why"`
	Routes int    `json:"routes"`
}

// BGPConvergence is a distribution of times in seconds; zero without any.
type BGPConvergence struct {
	Count uint64  `json:"count"`
	P50   float64 `json:"p50_s"`
	P99   float64 `json:"p99_s"`
	Max   float64 `json:"max_s"`
}

// Types of BGPRouteInfo.
const (
	BGPRouteMAC       = "mac"
	BGPRouteMulticast = "multicast"
	BGPRoutePrefix    = "prefix"
	BGPRouteUnicast   = "unicast"
)

// BGPRouteInfo is a route and what became of it. What the type has not is absent.
type BGPRouteInfo struct {
	// Neighbour said it, by name; "": this edge does.
	Neighbour  string       `json:"neighbour"`
	Type       string       `json:"type"` // "mac", "multicast", "prefix" or "unicast"
	RD         string       `json:"rd,omitempty"`
	Tag        uint32       `json:"tag,omitempty"`
	MAC        *overlay.MAC `json:"mac,omitempty"`
	Address    netip.Addr   `json:"address,omitzero"` // of the host
	Originator netip.Addr   `json:"originator,omitzero"`
	Prefix     netip.Prefix `json:"prefix,omitzero"`
	Uplink     string       `json:"uplink,omitempty"`
	VNI        overlay.VNI  `json:"vni,omitempty"`
	L3VNI      overlay.VNI  `json:"l3vni,omitempty"`
	NextHop    netip.Addr   `json:"next_hop,omitzero"`
	Gateway    netip.Addr   `json:"gateway,omitzero"`
	RouterMAC  *overlay.MAC `json:"router_mac,omitempty"`
	// Encapsulation is "" where the route does not say.
	Encapsulation  overlay.Encapsulation `json:"encapsulation,omitempty"`
	Targets        []string              `json:"targets"`
	Sequence       uint32                `json:"sequence,omitempty"`
	Sticky         bool                  `json:"sticky,omitempty"`
	DefaultGateway bool                  `json:"default_gateway,omitempty"`
	Router         bool                  `json:"router,omitempty"` // the host is one (RFC 9047)
	LocalPref      uint32                `json:"local_pref,omitempty"`
	MED            uint32                `json:"med,omitempty"`
	ASPath         []uint32              `json:"as_path"`
	Communities    []string              `json:"communities"`
	Used           bool                  `json:"used"`
	For            string                `json:"for,omitempty"` // segment or router that uses it, or would
	Why            string                `json:"why,omitempty"` // not used: the cause and the cure
	Stale          bool                  `json:"stale,omitempty"`
	Age            float64               `json:"age_s"`
}

// BGPRouteQuery chooses routes. What is zero chooses nothing.
type BGPRouteQuery struct {
	Type      string // of a BGPRouteInfo
	Segment   string
	Router    string
	VNI       overlay.VNI // of either label
	MAC       overlay.MAC
	Addr      netip.Prefix // of hosts in it, and prefixes that overlap with it
	Neighbour string       // a name or an address; "self" is this edge
	Unused    bool         // these alone
}

func (q BGPRouteQuery) values() url.Values {
	v := url.Values{}
	setIf(v, argType, q.Type, q.Type != "")
	setIf(v, ArgSegment, q.Segment, q.Segment != "")
	setIf(v, ArgRouter, q.Router, q.Router != "")
	setIf(v, argVNI, strconv.FormatUint(uint64(q.VNI), 10), q.VNI != 0)
	setIf(v, ArgMAC, q.MAC.String(), q.MAC != overlay.MAC{})
	setIf(v, argIP, q.Addr.String(), q.Addr.IsValid())
	setIf(v, ArgNeighbour, q.Neighbour, q.Neighbour != "")
	setIf(v, argUnused, "true", q.Unused)
	return v
}

// BGPMovesInfo is how MAC addresses moved.
type BGPMovesInfo struct {
	Moves []BGPMove `json:"moves"` // the last ones, the newest first
	// Frozen are those that moved too often: what they are last known to be stays.
	Frozen []BGPFrozen `json:"frozen"`
}

// BGPMove is an event of a host: that it moved here or away, or what is odd about it.
type BGPMove struct {
	At      time.Time   `json:"at"`
	What    string      `json:"what"` // "moved here", "moved away", "frozen", "thawed", …
	Segment string      `json:"segment"`
	MAC     overlay.MAC `json:"mac"`
	Address netip.Addr  `json:"address,omitzero"`
	Remote  netip.Addr  `json:"remote,omitzero"`
	Detail  string      `json:"detail,omitempty"`
}

// BGPFrozen is a MAC address that moved too often.
type BGPFrozen struct {
	Segment string      `json:"segment"`
	MAC     overlay.MAC `json:"mac"`
	Since   time.Time   `json:"since"`
	Detail  string      `json:"detail"`
}

// BGPClient asks about BGP.
type BGPClient struct{ c *Client }

// BGP is the client's part about BGP.
func (c *Client) BGP() BGPClient { return BGPClient{c} }

// Info fetches sessions and counts.
func (b BGPClient) Info(ctx context.Context) (BGPInfo, error) { return Fetch[BGPInfo](ctx, b.c, "bgp") }

// Routes fetches the routes that q chooses, the edge's own too.
func (b BGPClient) Routes(ctx context.Context, q BGPRouteQuery) ([]BGPRouteInfo, error) {
	return Fetch[[]BGPRouteInfo](ctx, b.c, "bgp/routes?"+q.values().Encode())
}

// Moves fetches the last moves and the MAC addresses that are frozen.
func (b BGPClient) Moves(ctx context.Context) (BGPMovesInfo, error) {
	return Fetch[BGPMovesInfo](ctx, b.c, "bgp/moves")
}

// Thaw lets a frozen MAC address move again.
func (b BGPClient) Thaw(ctx context.Context, segment string, mac overlay.MAC) (BGPMovesInfo, error) {
	return post[BGPMovesInfo](ctx, b.c, "bgp/thaw?"+url.Values{ArgSegment: {segment}, ArgMAC: {mac.String()}}.Encode(), nil)
}

// Reset starts the session with a neighbour, by name or address, anew; with soft the
// session stays, and both ends say all routes again.
func (b BGPClient) Reset(ctx context.Context, neighbour string, soft bool) (BGPInfo, error) {
	return post[BGPInfo](ctx, b.c, "bgp/reset?"+url.Values{ArgNeighbour: {neighbour}, ArgSoft: {strconv.FormatBool(soft)}}.Encode(), nil)
}

// ParseBGPRouteQuery reads what values writes.
func ParseBGPRouteQuery(v url.Values) (BGPRouteQuery, error) {
	a := Arguments{Values: v}
	q := BGPRouteQuery{
		Type:    a.OneOf(argType, []string{BGPRouteMAC, BGPRouteMulticast, BGPRoutePrefix, BGPRouteUnicast}),
		Segment: a.Text(ArgSegment), Router: a.Text(ArgRouter), Neighbour: a.Text(ArgNeighbour),
		VNI: overlay.VNI(a.Number(argVNI, 1, int(overlay.MaxVNI))), MAC: a.mac(ArgMAC), Addr: a.prefix(argIP), Unused: a.Flag(argUnused),
	}
	return q, a.End()
}
