package listeners

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/apiserver"
	"github.com/selvage/selvage/internal/overlay"
)

// serviceOf is which service a path belongs to.
func serviceOf(path string) overlay.HTTPService {
	switch path {
	case "/healthz", "/readyz":
		return overlay.ServeHealth
	case "/metrics":
		return overlay.ServeMetrics
	}
	return overlay.ServeAPI
}

// door is a listener with what is behind it.
type door struct {
	*listener
	set *Set
}

// ServeHTTP implements http.Handler.
func (d door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := &noted{ResponseWriter: w, status: http.StatusOK}
	defer func() { d.tally.answered(answer.status) }()
	s, service := d.settings.Load(), serviceOf(r.URL.Path)
	if !slices.Contains(s.Serve, service) {
		api.Answer(answer, http.StatusNotFound, api.Refusal{Error: "this listener serves " + words(s.Serve) + " alone"})
		return
	}
	id, ok := d.identify(answer, r, s, service)
	if !ok {
		return
	}
	r.Body = http.MaxBytesReader(answer, r.Body, maxBody)
	d.set.behind.ServeHTTP(answer, apiserver.WithIdentity(r, id))
}

// identify finds out who asks, or answers that nobody knows.
func (d door) identify(w http.ResponseWriter, r *http.Request, s *settings, service overlay.HTTPService) (apiserver.Identity, bool) {
	from := addrOf(r.RemoteAddr)
	id := apiserver.Identity{Name: anonymousNetworkOf, From: from.String()}
	switch {
	case service == overlay.ServeHealth:
		return id, true
	case !s.Authenticated && service == overlay.ServeMetrics:
		id.Role = overlay.RoleRead
		return id, true
	}
	now := time.Now()
	if r.TLS != nil && s.pair != nil {
		if c := s.clients.byCertificate(r.TLS.PeerCertificates, s.pair.roots, now); c != nil {
			id.Name, id.Role = c.Name, c.Role
			return id, true
		}
	}
	token, given := bearer(r.Header.Get("Authorization"))
	if d.set.strangers.isBarred(from, now) {
		w.Header().Set("Retry-After", "60")
		api.Answer(w, http.StatusTooManyRequests, api.Refusal{Error: "too many attempts from " + from.String() + ": wait a minute"})
		return id, false
	}
	if given {
		if c := s.clients.byToken(token); c != nil {
			id.Name, id.Role = c.Name, c.Role
			return id, true
		}
	}
	d.tally.failures.Add(1)
	d.set.strangers.fail(from, now)
	d.set.logStranger(s.Name, from, given, r)
	w.Header().Set("WWW-Authenticate", `Bearer realm="selvage"`)
	api.Answer(w, http.StatusUnauthorized, api.Refusal{Error: "say who you are, with a token or certificate of one of spec.http.clients of the edge"})
	return id, false
}

func words(list []overlay.HTTPService) string {
	var all []string
	for _, s := range list {
		all = append(all, string(s))
	}
	return strings.Join(all, " and ")
}

// noted notes the status of an answer.
type noted struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (n *noted) WriteHeader(status int) {
	n.status = status
	n.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (n *noted) Unwrap() http.ResponseWriter { return n.ResponseWriter }
