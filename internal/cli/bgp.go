package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/observe"
	"github.com/selvage/selvage/internal/overlay"
)

type bgpCmd struct {
	Neighbours bgpNeighboursCmd `cmd:"" aliases:"neighbors" default:"withargs" help:"List BGP sessions, or show the details of one."`
	Routes     bgpRoutesCmd     `cmd:"" help:"List received and advertised routes, and why some are not used."`
	Moves      bgpMovesCmd      `cmd:"" help:"List recent MAC moves, and MAC addresses that are frozen because they moved too often."`
	Thaw       bgpThawCmd       `cmd:"" help:"Unfreeze a MAC address."`
	Reset      bgpResetCmd      `cmd:"" help:"Refresh the routes of a session in both directions (soft reset). With --hard, restart the session."`
}

type bgpNeighboursCmd struct {
	watchedQuery
	Neighbour string `arg:"" optional:"" placeholder:"NEIGHBOUR" help:"Show the details of this neighbour, by name or address."`
}

// Run lists sessions.
func (c *bgpNeighboursCmd) Run(ctx context.Context, s *streams) error {
	return c.repeat(ctx, s, func(s *streams) error { return c.print(ctx, s) })
}

func (c *bgpNeighboursCmd) print(ctx context.Context, s *streams) error {
	question := func(client *api.Client, ctx context.Context) (api.BGPInfo, error) {
		info, err := client.BGP().Info(ctx)
		if err != nil || c.Neighbour == "" {
			return info, err
		}
		all := info.Neighbours
		names := make([]string, len(all))
		for i, n := range all {
			names[i] = n.Name
		}
		info.Neighbours = slices.DeleteFunc(all, func(n api.BGPNeighbourInfo) bool { return n.Name != c.Neighbour && n.Address.String() != c.Neighbour })
		if len(info.Neighbours) == 0 {
			err = usageError{fmt.Errorf("there is no neighbour %q; there are: %s", c.Neighbour, strings.Join(names, ", "))}
		}
		return info, err
	}
	return show(ctx, c.query, s.out, question, func(w observe.Writer, info api.BGPInfo) error {
		if c.Neighbour != "" {
			return observe.BGPNeighbour(w, info.Neighbours[0])
		}
		return observe.BGP(w, info)
	})
}

type bgpRoutesCmd struct {
	query
	Type      string      `placeholder:"TYPE" help:"Show only routes of this type: mac, multicast, prefix or unicast."`
	Segment   string      `placeholder:"NAME" xor:"for" help:"Show only routes of this segment."`
	Router    string      `placeholder:"NAME" xor:"for" help:"Show only routes of this router."`
	VNI       overlay.VNI `name:"vni" placeholder:"N" help:"Show only routes with this VNI (L2 or L3)."`
	MAC       overlay.MAC `name:"mac" placeholder:"MAC" help:"Show only routes of this MAC address."`
	IP        prefixFlag  `name:"ip" placeholder:"ADDRESS" help:"Show only hosts in this prefix and prefixes that overlap it; an address or a prefix."`
	Neighbour string      `placeholder:"NAME" help:"Show only routes from this neighbour, by name or address. 'self' shows what this edge advertises."`
	Unused    bool        `help:"Show only routes that are not used."`
}

// routeTypes are those of --type.
var routeTypes = []string{api.BGPRouteMAC, api.BGPRouteMulticast, api.BGPRoutePrefix, api.BGPRouteUnicast}

// Run lists routes.
func (c *bgpRoutesCmd) Run(ctx context.Context, s *streams) error {
	q := api.BGPRouteQuery{
		Type: c.Type, Segment: c.Segment, Router: c.Router, VNI: c.VNI, MAC: c.MAC, Neighbour: c.Neighbour, Unused: c.Unused, Addr: c.IP.Prefix,
	}
	switch {
	case c.Type != "" && !slices.Contains(routeTypes, c.Type):
		return usageError{fmt.Errorf("--type: %q is none of %s", c.Type, strings.Join(routeTypes, ", "))}
	case c.VNI > overlay.MaxVNI:
		return usageError{fmt.Errorf("--vni: %d is more than %d", c.VNI, overlay.MaxVNI)}
	}
	question := func(client *api.Client, ctx context.Context) ([]api.BGPRouteInfo, error) {
		return client.BGP().Routes(ctx, q)
	}
	return show(ctx, c.query, s.out, question, observe.BGPRoutes)
}

type bgpMovesCmd struct {
	query
	Segment string `placeholder:"NAME" help:"Show only this segment."`
}

// Run lists moves and frozen MAC addresses.
func (c *bgpMovesCmd) Run(ctx context.Context, s *streams) error {
	question := func(client *api.Client, ctx context.Context) (api.BGPMovesInfo, error) {
		info, err := client.BGP().Moves(ctx)
		if c.Segment != "" {
			info.Moves = slices.DeleteFunc(info.Moves, func(m api.BGPMove) bool { return m.Segment != c.Segment })
			info.Frozen = slices.DeleteFunc(info.Frozen, func(f api.BGPFrozen) bool { return f.Segment != c.Segment })
		}
		return info, err
	}
	return show(ctx, c.query, s.out, question, observe.BGPMoves)
}

type bgpThawCmd struct {
	query
	Segment string      `arg:"" help:"Segment of the MAC address."`
	MAC     overlay.MAC `arg:"" name:"mac" help:"Frozen MAC address."`
}

// Run thaws a MAC address, and lists the others.
func (c *bgpThawCmd) Run(ctx context.Context, s *streams) error {
	question := func(client *api.Client, ctx context.Context) (api.BGPMovesInfo, error) {
		return client.BGP().Thaw(ctx, c.Segment, c.MAC)
	}
	return show(ctx, c.query, s.out, question, observe.BGPMoves)
}

type bgpResetCmd struct {
	query
	Neighbour string `arg:"" help:"Name or address of the neighbour."`
	Hard      bool   `help:"Close the session and open it again. Traffic on its routes may stop."`
}

// Run has all routes of a session exchanged and judged again, or begins it anew.
func (c *bgpResetCmd) Run(ctx context.Context, s *streams) error {
	question := func(client *api.Client, ctx context.Context) (api.BGPInfo, error) {
		return client.BGP().Reset(ctx, c.Neighbour, !c.Hard)
	}
	return show(ctx, c.query, s.out, question, observe.BGP)
}
