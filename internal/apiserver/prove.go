package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/selvage/selvage/internal/api"
)

const (
	// defaultProve and mostProve bound how long an answer to a probe is waited for; all of a
	// proof takes several times that, and at most proveLasts.
	defaultProve, mostProve = 2 * time.Second, 5 * time.Second
	proveLasts              = 50 * time.Second
)

// proveHandler serves proofs.
func proveHandler(p Prover) http.HandlerFunc {
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
		document, err := p.Prove(ctx, q)
		reply(w, document, err)
	}
}
