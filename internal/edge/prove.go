package edge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/prove"
	"github.com/selvage/selvage/internal/prove/proof"
)

const (
	// defaultProve and mostProve bound how long an answer to a probe is waited for; all of a
	// proof takes several times that, and at most proveLasts.
	defaultProve, mostProve = 2 * time.Second, 5 * time.Second
	proveLasts              = 50 * time.Second
)

// proveHandler serves proofs.
func (e *edge) proveHandler() http.HandlerFunc {
	p := proof.NewProver(provenEdge{e})
	return func(w http.ResponseWriter, r *http.Request) {
		if !isChange(w, r) {
			return
		}
		q := api.ProveQuery{What: r.URL.Query().Get(api.ArgWhat), Timeout: defaultProve}
		if text := r.URL.Query().Get(api.ArgTimeout); text != "" {
			var err error
			if q.Timeout, err = time.ParseDuration(text); err != nil || q.Timeout < 10*time.Millisecond || q.Timeout > mostProve {
				reply(w, nil, api.BadRequest{Err: fmt.Errorf("%s: %q is not a duration from 10ms to %s", api.ArgTimeout, text, mostProve)})
				return
			}
		}
		ctx, cancel := context.WithTimeout(r.Context(), proveLasts)
		defer cancel()
		// The server's own limit is for answers that are there at once.
		err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(proveLasts + writeTimeout))
		if errors.Is(err, http.ErrNotSupported) {
			err = nil
		}
		var document api.ProveInfo
		if err == nil {
			document, err = p.Prove(ctx, q)
		}
		reply(w, document, err)
	}
}

// provenEdge lends an edge to those that prove that it works.
type provenEdge struct{ e *edge }

func (p provenEdge) Facts() (f proof.Facts, err error) {
	if b := p.e.bgp.Load(); b != nil {
		f.Advertised = b.State().Statuses()
	}
	return read(p.e, "proof", func() (proof.Facts, error) {
		f.Config, f.Host, f.Self, f.Routes = p.e.config, p.e.hostState, self(p.e.config), p.e.pathSelector.routes()
		known, err := p.e.readPaths()
		if err != nil {
			return f, err
		}
		lives := p.e.pathSelector.results()
		for _, path := range p.e.pathSelector.inForce().pathPolicies.Paths {
			f.Paths = append(f.Paths, proof.Path{
				TunnelPath: path, Life: lives[path.Pair].State, EndpointLife: lives[path.Endpoints()].State, MTUState: known.state(path.Endpoints()),
			})
		}
		if f.Neighbours, err = p.e.dp.Hosts.Neighbours(); err != nil {
			return f, err
		}
		f.FDB, err = p.e.dp.Hosts.FDB()
		return f, err
	})
}

// Open has the sockets opened by the goroutine of Run, for its network namespace.
func (p provenEdge) Open(tunnels []prove.Tunnel, timeout time.Duration) (*prove.Prober, error) {
	return inLoop(p.e, func() (*prove.Prober, error) {
		o := prove.Options{MAC: prove.MAC(self(p.e.config)), Timeout: timeout}
		for _, name := range p.e.config.Underlay.Interfaces {
			if link, ok := p.e.hostState.Links[name]; ok && link.Up {
				o.Interfaces = append(o.Interfaces, link.Index)
			}
		}
		return prove.Open(o, tunnels)
	})
}
