package cli

import (
	"context"
	"errors"
	"net/netip"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/observe"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/trace"
)

type neighboursListCmd struct {
	query
	entryFilter
	Addr   prefixFlag `placeholder:"ADDRESS" help:"Show only this address, or the addresses of this prefix."`
	Origin string     `placeholder:"ORIGIN" help:"Show only entries of this origin: learned, static or bgp."`
	Limit  int        `help:"Show at most this many entries; 0 shows all." default:"0"`
}

// Run lists IP addresses of hosts.
func (c *neighboursListCmd) Run(ctx context.Context, s *streams) error {
	if err := checkOrigin(c.Origin, api.Origins); err != nil {
		return err
	}
	q, err := c.question(c.Limit)
	if err != nil {
		return err
	}
	q.Addr, q.Origin = c.Addr.Prefix, c.Origin
	return showEntries(ctx, c.query, s, (*api.Client).Neighbours, q, observe.Neighbours)
}

type routesCmd struct {
	query
	Address netip.Addr `arg:"" optional:"" help:"Show only the longest matching route of each router for this address."`
	Router  string     `placeholder:"NAME" help:"Show only this router."`
	Origin  string     `placeholder:"ORIGIN" help:"Show only routes of this origin: connected, static, bgp or leaked."`
}

// Run lists the routes of routers.
func (c *routesCmd) Run(ctx context.Context, s *streams) error {
	if err := checkOrigin(c.Origin, []string{"connected", "static", "bgp", "leaked"}); err != nil {
		return err
	}
	only := func(r api.RouteInfo) bool {
		return (c.Router == "" || r.Router == c.Router) && (c.Origin == "" || r.Origin == c.Origin)
	}
	routes := func(client *api.Client, ctx context.Context) ([]api.RouteInfo, error) {
		return client.Routes(ctx, c.Address)
	}
	return show(ctx, c.query, s.out, filtered(routes, only), observe.Routes)
}

type traceCmd struct {
	query
	Port    string      `placeholder:"NAME" xor:"from" help:"Port where the packet arrives. VLAN 10 of trunk p0 is p0.10."`
	Remote  netip.Addr  `placeholder:"ADDRESS" xor:"from" help:"Remote from which the packet arrives, through a tunnel of --segment."`
	Segment string      `placeholder:"NAME" help:"Segment of the tunnel."`
	SrcMAC  overlay.MAC `placeholder:"MAC" help:"Source MAC address; by default that of the source IP address."`
	DstMAC  overlay.MAC `placeholder:"MAC" help:"Destination MAC address; by default that of the destination or the gateway."`
	VLAN    uint16      `name:"vlan" placeholder:"ID" help:"802.1Q tag of the packet."`
	Size    int         `placeholder:"BYTES" help:"Size of the IP packet."`
	TTL     uint8       `name:"ttl" placeholder:"N" help:"TTL or hop limit; 64 by default."`
	Packet  string      `arg:"" help:"The packet in words, as in 'tcp 10.0.0.1:1000 > 10.1.0.2:80 syn'. The first word is tcp, udp, icmp, ip, fragment, arp or raw."`
}

// Run shows what an edge would do with a packet.
func (c *traceCmd) Run(ctx context.Context, s *streams) error {
	if c.Port == "" && !c.Remote.IsValid() {
		return usageError{errors.New("say where the packet comes from: give --port, or --remote with --segment")}
	}
	if _, err := trace.Parse(c.Packet); err != nil {
		return usageError{err}
	}
	question := func(client *api.Client, ctx context.Context) (api.TraceInfo, error) {
		return client.Trace(ctx, api.TraceQuery{
			Port: c.Port, Remote: c.Remote, Segment: c.Segment, Packet: c.Packet,
			SrcMAC: c.SrcMAC, DstMAC: c.DstMAC, VLAN: c.VLAN, Size: c.Size, TTL: int(c.TTL),
		})
	}
	return show(ctx, c.query, s.out, question, observe.Trace)
}
