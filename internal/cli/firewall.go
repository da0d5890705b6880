package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/observe"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/policy"
)

type rulesCmd struct {
	query
	Section  string `placeholder:"NAME" xor:"what" help:"Show only rules of this section. The default rules are in section 'default'."`
	Unused   bool   `help:"Show only rules that have not matched since their counters started."`
	Shadowed bool   `help:"Show only rules that can never match, because an earlier rule covers them."`
	WhatIf   string `placeholder:"FILE" xor:"what" help:"List open connections that the firewall of this configuration file would cut. Nothing is applied."`
	Limit    int    `default:"20" help:"With --what-if, list at most this many connections."`
}

// Run lists the rules, or says what others would do.
func (c *rulesCmd) Run(ctx context.Context, s *streams) error {
	if c.WhatIf != "" {
		return c.whatIf(ctx, s)
	}
	only := func(r api.RuleInfo) bool {
		return (c.Section == "" || r.Section == c.Section) && (!c.Unused || r.Unused) && (!c.Shadowed || r.ShadowedBy != "")
	}
	return show(ctx, c.query, s.out, filtered((*api.Client).Rules, only), observe.Rules)
}

func (c *rulesCmd) whatIf(ctx context.Context, s *streams) error {
	if c.Unused || c.Shadowed {
		return usageError{errors.New("--unused and --shadowed select rules in force: they cannot be combined with --what-if")}
	}
	if err := checkLimit(c.Limit); err != nil {
		return err
	}
	next, err := config.Load(c.WhatIf)
	if err != nil {
		return usageError{err}
	}
	question := func(client *api.Client, ctx context.Context) (api.WhatIfInfo, error) {
		return client.WhatIf(ctx, api.WhatIfQuery{Firewall: next.Firewall, Places: plan.Places(next), Limit: c.Limit})
	}
	return show(ctx, c.query, s.out, question, observe.WhatIf)
}

type sessionsCmd struct {
	watchedQuery
	Port             string `placeholder:"NAME" help:"Show only connections of this port; for a trunk, of all its VLANs."`
	connectionFilter `set:"ends=source or destination"`
	Rule             string `placeholder:"SECTION/NAME" help:"Show only connections that this rule or section allowed."`
	Limit            int    `default:"100" help:"Show at most this many lines; 0 shows all."`
	Top              string `xor:"kind" placeholder:"WHAT" help:"Sum up by ports, sources, destinations or rules, the most connections first."`
	Stats            bool   `xor:"kind" help:"Show statistics of the connection tables: states, use, memory and alarms."`
}

// Run lists tracked connections, or sums them up.
func (c *sessionsCmd) Run(ctx context.Context, s *streams) error {
	return c.repeat(ctx, s, func(s *streams) error { return c.print(ctx, s) })
}

func (c *sessionsCmd) print(ctx context.Context, s *streams) error {
	if c.Stats {
		if c.Port != "" || c.Rule != "" || c.connectionFilter != (connectionFilter{}) {
			return usageError{errors.New("--stats covers all connections: it takes no filters")}
		}
		return show(ctx, c.query, s.out, (*api.Client).Firewall, observe.Firewall)
	}
	q, err := c.connectionFilter.question(api.ConnectionQuery{Port: c.Port, Rule: c.Rule, Limit: c.Limit, Top: c.Top}, api.TopKinds)
	if err != nil {
		return usageError{err}
	}
	question := func(client *api.Client, ctx context.Context) (api.SessionList, error) {
		return client.Sessions(ctx, q)
	}
	return show(ctx, c.query, s.out, question, func(w observe.Writer, list api.SessionList) error {
		if c.Top != "" {
			return observe.TopSessions(w, list)
		}
		return observe.Sessions(w, list)
	})
}

// mostWarnings are those about one file: a generated policy may give thousands.
const mostWarnings = 50

// vet compiles the egress policies and the firewall of a good configuration, and warns of
// rules that can never decide.
func vet(s *streams, file string, e overlay.Edge) error {
	if e.Egress != nil && len(e.Egress.Policies) > 0 {
		if _, err := policy.Compile(plan.EgressRules(e)); err != nil {
			return fmt.Errorf("%s: spec.egress: %w", file, err)
		}
	}
	if e.Firewall == nil {
		return nil
	}
	compiled, err := policy.Compile(*e.Firewall, plan.Places(e))
	if err != nil {
		return fmt.Errorf("%s: spec.firewall: %w", file, err)
	}
	rules := compiled.Rules()
	name := func(i int) string { return rules[i].Section + "/" + rules[i].Name }
	shadows := compiled.Shadowed()
	for i, shadow := range shadows {
		if i == mostWarnings {
			fmt.Fprintf(s.err, "%s: warning: %d more rules never decide: see them with `selvage rules --shadowed` when the edge runs\n", file, len(shadows)-i)
			break
		}
		if shadow.Duplicate {
			fmt.Fprintf(s.err, "%s: warning: rule %s is the same as %s before it: remove one\n", file, name(shadow.Rule), name(shadow.By))
			continue
		}
		fmt.Fprintf(s.err, "%s: warning: rule %s never decides, %s before it matches all that it does: remove it, or move it up\n",
			file, name(shadow.Rule), name(shadow.By))
	}
	return nil
}
