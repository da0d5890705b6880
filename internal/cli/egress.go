package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/observe"
)

type egressCmd struct {
	Show    egressShowCmd    `cmd:"" default:"withargs" help:"List policies, gateways, addresses and their owners, and recent failovers."`
	Drain   egressDrainCmd   `cmd:"" help:"Drain this edge: move its flows to the other gateways, for maintenance."`
	Undrain egressUndrainCmd `cmd:"" help:"End the drain: this edge serves again."`
}

type egressShowCmd struct {
	query
	Policy string `placeholder:"NAME" help:"Show only this policy."`
}

// Run shows how packets leave the overlay.
func (c *egressShowCmd) Run(ctx context.Context, s *streams) error {
	question := func(client *api.Client, ctx context.Context) (api.EgressInfo, error) {
		info, err := client.Egress().Info(ctx)
		if c.Policy != "" {
			info.Policies = slices.DeleteFunc(info.Policies, func(p api.EgressPolicyInfo) bool { return p.Name != c.Policy })
		}
		return info, err
	}
	return show(ctx, c.query, s.out, question, observe.Egress)
}

type egressDrainCmd struct {
	query
	Timeout time.Duration `default:"5m" help:"Move the remaining connections after this time; 0s moves them at once."`
}

// Run begins a drain.
func (c *egressDrainCmd) Run(ctx context.Context, s *streams) error {
	if c.Timeout < 0 {
		return usageError{fmt.Errorf("--timeout: %s is negative; give a time such as 5m, or 0s", c.Timeout)}
	}
	question := func(client *api.Client, ctx context.Context) (api.EgressInfo, error) {
		return client.Egress().Drain(ctx, c.Timeout)
	}
	return show(ctx, c.query, s.out, question, observe.Gateways)
}

type egressUndrainCmd struct{ query }

// Run ends it.
func (c *egressUndrainCmd) Run(ctx context.Context, s *streams) error {
	question := func(client *api.Client, ctx context.Context) (api.EgressInfo, error) {
		return client.Egress().Undrain(ctx)
	}
	return show(ctx, c.query, s.out, question, observe.Gateways)
}

type natCmd struct {
	watchedQuery
	Policy           string `placeholder:"NAME" help:"Show only sessions of this policy. The policy of an uplink is called uplink/NAME."`
	Router           string `placeholder:"NAME" help:"Show only sessions of this router."`
	connectionFilter `set:"ends=inside, egress or outside address"`
	Limit            int    `default:"100" help:"Show at most this many lines; 0 shows all."`
	Top              string `xor:"kind" placeholder:"WHAT" help:"Sum up by sources, destinations, addresses (egress addresses) or policies, the most sessions first."`
	PortUsage        bool   `xor:"kind" help:"Show how many ports of each egress address are in use per destination, the fullest first."`
	Stats            bool   `xor:"kind" help:"Show statistics of the NAT tables: states, use, memory and alarms."`
}

// Run lists sessions, or sums them up.
func (c *natCmd) Run(ctx context.Context, s *streams) error {
	return c.repeat(ctx, s, func(s *streams) error { return c.print(ctx, s) })
}

func (c *natCmd) print(ctx context.Context, s *streams) error {
	q, err := c.question()
	if err != nil {
		return usageError{err}
	}
	switch {
	case c.Stats:
		question := func(client *api.Client, ctx context.Context) (api.NATInfo, error) { return client.Egress().NAT(ctx) }
		return show(ctx, c.query, s.out, question, observe.NAT)
	case c.PortUsage:
		question := func(client *api.Client, ctx context.Context) ([]api.PortUsageInfo, error) {
			return client.Egress().PortUsages(ctx, c.Limit)
		}
		return show(ctx, c.query, s.out, question, observe.Pressures)
	}
	question := func(client *api.Client, ctx context.Context) (api.NATSessionList, error) {
		return client.Egress().NATSessions(ctx, q)
	}
	return show(ctx, c.query, s.out, question, func(w observe.Writer, list api.NATSessionList) error {
		if c.Top != "" {
			return observe.TopNATSessions(w, list)
		}
		return observe.NATSessions(w, list)
	})
}

// question checks what was asked.
func (c *natCmd) question() (api.ConnectionQuery, error) {
	q := api.ConnectionQuery{Policy: c.Policy, Router: c.Router, Limit: c.Limit, Top: c.Top}
	if (c.PortUsage || c.Stats) && (c.Policy != "" || c.Router != "" || c.connectionFilter != connectionFilter{}) {
		return q, errors.New("--port-usage and --stats cover all sessions: they take no filters")
	}
	return c.connectionFilter.question(q, api.NATTopKinds)
}
