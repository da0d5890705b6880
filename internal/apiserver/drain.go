package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/gateway"
)

// defaultDrain is how long a drain waits for connections to end.
const defaultDrain = 5 * time.Minute

// drainHandler serves the wish that this edge gives its work away.
func (d documents) drainHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	timeout := defaultDrain
	if text := r.URL.Query().Get(api.ArgTimeout); text != "" {
		var err error
		if timeout, err = time.ParseDuration(text); err != nil || timeout < 0 {
			reply(w, nil, api.BadRequest{Err: fmt.Errorf("%s: %q is not a duration of 0s or more, such as 5m", api.ArgTimeout, text)})
			return
		}
	}
	now := time.Now()
	document, err := d.setDrain(r.Context(), &gateway.Drain{Asked: now, Deadline: now.Add(timeout), Done: timeout == 0})
	reply(w, document, err)
}

// undrainHandler serves its end.
func (d documents) undrainHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	document, err := d.setDrain(r.Context(), nil)
	reply(w, document, err)
}

// isChange refuses a request that is not to change something.
func isChange(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodPost {
		return true
	}
	w.Header().Set("Allow", http.MethodPost)
	api.Answer(w, http.StatusMethodNotAllowed, api.Refusal{Error: r.Method + " is not allowed here, use POST"})
	return false
}

// setDrain makes the wish known, and says how egress is then.
func (d documents) setDrain(ctx context.Context, wish *gateway.Drain) (api.EgressInfo, error) {
	_, err := read(d.o.Edge, "egress", func(e *State) (struct{}, error) {
		switch {
		case !gateway.IsMember(e.Config):
			return struct{}{}, api.BadRequest{Err: errors.New("this edge is not a member of any group in spec.egress.gateways: there is nothing to drain")}
		case wish != nil && e.Config.Underlay.Liveness == nil:
			return struct{}{}, api.BadRequest{Err: errors.New("other edges would not notice the drain: configure spec.underlay.bfd, which tells them")}
		}
		return struct{}{}, nil
	})
	if err != nil {
		return api.EgressInfo{}, err
	}
	d.o.Drainer.SetDrain(ctx, wish)
	return d.egress()
}
