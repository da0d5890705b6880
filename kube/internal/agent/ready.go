package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/kube/internal/plan"
)

// readiness is what /readyz says: what the last look at the node found. A roll-over goes on to the next node when it is nil.
type readiness struct {
	found   atomic.Pointer[error]
	refused atomic.Pointer[error] // why there is no listener
}

// serveHealth serves /healthz and /readyz, as soon as nobody else has the port: pods are steered meanwhile.
func (a *agent) serveHealth(ctx context.Context) error {
	if a.Health == "" {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := a.readiness.check(r); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	for ctx.Err() == nil {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", a.Health)
		if err == nil {
			a.readiness.refused.Store(nil)
			err = server.Serve(l)
		}
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		a.readiness.refused.Store(&err)
		select {
		case <-ctx.Done():
		case <-time.After(VerifyEach):
		}
	}
	return nil
}

// conflicts is the one about the port, if there is one.
func (r *readiness) conflicts() []string {
	if refused := r.refused.Load(); refused != nil {
		return []string{fmt.Sprintf("pods are steered, but nothing says whether the edge serves: %v: set agent.healthPort", *refused)}
	}
	return nil
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
