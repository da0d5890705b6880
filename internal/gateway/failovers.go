package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/nat"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// mostFailovers are remembered.
const mostFailovers = 256

// record remembers whose state changed, and returns the numbers of what it wrote. mu is held.
func (r *Role) record(config overlay.Edge, all map[netip.Addr]Status, written time.Time) (numbers []int) {
	if r.states == nil || config.Egress == nil {
		return nil
	}
	for _, group := range config.Egress.Gateways {
		for _, m := range group.Members {
			was, known := r.states[m]
			is := all[m]
			if !known || was.State == is.State {
				continue
			}
			r.last++
			numbers = append(numbers, r.last)
			r.failovers = append(r.failovers, api.Failover{
				Number: r.last, Group: group.Name, Gateway: m, From: was.State.String(), To: is.State.String(), Why: is.Why,
				Seen: is.At, Written: written,
			})
			tell(r.log, config, r.failovers[len(r.failovers)-1])
		}
	}
	r.failovers = r.failovers[max(0, len(r.failovers)-mostFailovers):]
	return numbers
}

// tell logs that a gateway has another role, which tables obey by now.
func tell(log *slog.Logger, config overlay.Edge, f api.Failover) {
	name, level := Name(config, f.Gateway), slog.LevelInfo
	if f.To != nat.Serving.String() {
		level = slog.LevelWarn
	}
	log.Log(context.Background(), level, "gateway is "+f.To, event.Is(event.GatewayRole), "gateway", name, "group", f.Group, "from", f.From, "to", f.To, "why", f.Why)
	if f.To == nat.Gone.String() {
		log.Warn("failover: sources of this gateway go by others", event.Is(event.FailoverStarted), "gateway", name, "group", f.Group, "why", f.Why, "failover", f.Number)
	}
}

// ended logs that a failover is over.
func ended(log *slog.Logger, config overlay.Edge, f api.Failover, at time.Time) {
	log.Info("failover is over", event.Is(event.FailoverEnded), "gateway", Name(config, f.Gateway), "group", f.Group, "failover", f.Number,
		"addresses", f.Addresses, "duration", at.Sub(f.Seen).Round(time.Microsecond))
}

// endedWithout logs that failovers are over by which no address came here. mu is held.
func (r *Role) endedWithout(numbers []int, at time.Time) {
	for _, f := range r.failovers {
		if slices.Contains(numbers, f.Number) && f.To == nat.Gone.String() {
			ended(r.log, r.config, f, at)
		}
	}
}

// announced completes the failovers by which addresses came here.
func (r *Role) announced(a Announcement, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.failovers {
		if f := &r.failovers[i]; slices.Contains(a.failovers, f.Number) {
			f.Announced, f.Addresses = &at, a.fresh
			if f.To == nat.Gone.String() {
				ended(r.log, r.config, *f, at)
			}
		}
	}
}

// groupProblems are what an operator should know of groups.
func groupProblems(config overlay.Edge, all map[netip.Addr]Status, now time.Time) (problems []problem.Problem) {
	if config.Egress == nil { // nothing was judged yet
		return nil
	}
	for _, g := range config.Egress.Gateways {
		if len(g.Members) < 2 {
			continue
		}
		if config.Underlay.Liveness == nil {
			problems = append(problems, problem.Warning(
				"egress: group %s has %d gateways but no liveness detection: configure spec.underlay.bfd", g.Name, len(g.Members)))
			continue
		}
		problems = append(problems, splitProblems(config, g, all, now)...)
		var out []string
		for _, m := range g.Members {
			if j := all[m]; j.State != nat.Serving {
				out = append(out, fmt.Sprintf("%s is %s (%s)", Name(config, m), j.State, j.Why))
			}
		}
		slices.Sort(out)
		switch len(g.Members) - len(out) {
		case 0:
			problems = append(problems, problem.Error("egress: no gateway of group %s is serving: %s: check them and the network to them", g.Name, strings.Join(out, ", ")))
		case 1:
			problems = append(problems, problem.Warning("egress: only one gateway of group %s is left: %s: the next failure ends its connections", g.Name, strings.Join(out, ", ")))
		}
	}
	return problems
}

// splitProblems are gateways of a group that take another one for gone, while this edge hears all of them: they do not hear each other.
// Who sees a gateway die later than another does is not told of that.
func splitProblems(config overlay.Edge, g overlay.GatewayGroup, all map[netip.Addr]Status, now time.Time) (problems []problem.Problem) {
	for _, m := range g.Members {
		if all[m].State == nat.Gone {
			return nil
		}
	}
	for _, m := range g.Members {
		if since := all[m].apart; !since.IsZero() && now.Sub(since) >= Patience {
			problems = append(problems, problem.Error(
				"egress: gateway %s does not hear another gateway of group %s, and this edge hears both: they answer for the same addresses, and new connections fail: "+
					"check the network between the gateways, or drain one of them", Name(config, m), g.Name))
		}
	}
	return problems
}
