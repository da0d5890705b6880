package agent

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/kube/internal/plan"
)

// readiness is what /readyz says: what the last look at the node found. A roll-over goes on to the next node when it is nil.
type readiness struct {
	found atomic.Pointer[error]
}

func (r *readiness) set(err error) { r.found.Store(&err) }

// check is of /readyz.
func (r *readiness) check(*http.Request) error {
	if found := r.found.Load(); found != nil {
		return *found
	}
	return errors.New("the agent has not looked at its node yet")
}

// unserved is why the node's edge does not serve what the plan gives it, nil where it does. What the plan cannot give the node is no
// reason, and neither is a drain that somebody asked for.
func unserved(p plan.Plan, f Found) error {
	var errs []error
	if f.Failed != "" {
		errs = append(errs, errors.New(f.Failed))
	}
	for _, c := range p.Policies {
		if lacks := f.Lacks[c.Key]; lacks != "" && c.Problem == "" {
			errs = append(errs, fmt.Errorf("policy %s: %s", c.Key, lacks))
		}
	}
	for _, g := range f.Egress.Groups {
		own := slices.IndexFunc(g.Members, func(m api.GatewayInfo) bool { return m.Self })
		if own < 0 || f.Egress.Drain != nil {
			continue
		}
		if m := g.Members[own]; m.State != "serving" {
			errs = append(errs, fmt.Errorf("gateway %s: this node is %s: %s", p.Gateways[g.Name], m.State, m.Why))
		}
	}
	return errors.Join(errs...)
}
