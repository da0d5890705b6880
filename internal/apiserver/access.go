package apiserver

import (
	"context"
	"log/slog"
	"net/http"
	"os/user"
	"strconv"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/printable"
)

// Identity is who asks, and what that one may do.
type Identity struct {
	Name      string
	From      string // an address, or the unix socket
	MayChange bool   // and see packets; others may only read
}

// identityKey is the key of an Identity in the context of a request.
type identityKey struct{}

// WithIdentity is a request of id. Without one a request is that of whoever is at the other end of the unix socket.
func WithIdentity(r *http.Request, id Identity) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), identityKey{}, id))
}

// fromSocket is where those are who ask by the unix socket.
const fromSocket = "unix socket"

// IdentityOf is who asks. By the unix socket root may do all, and others whom the group lets in may read.
func IdentityOf(r *http.Request) Identity {
	if id, ok := r.Context().Value(identityKey{}).(Identity); ok {
		return id
	}
	uid, known := r.Context().Value(peerKey{}).(uint32)
	if !known {
		return Identity{Name: "unknown", From: fromSocket, MayChange: true}
	}
	id := Identity{Name: "uid " + strconv.FormatUint(uint64(uid), 10), From: fromSocket, MayChange: uid == 0}
	if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
		id.Name = u.Username
	}
	return id
}

// routes are the paths of the API.
type routes struct {
	mux   *http.ServeMux
	audit func(context.Context, Audit) // nil: without an audit log
}

// HandleFunc serves a path for those who may change the edge: what changes it, shows packets of others, or the inside of the process.
func (s *routes) HandleFunc(path string, h http.HandlerFunc) {
	s.handle(path, h, func(w http.ResponseWriter, r *http.Request) {
		if allows(w, IdentityOf(r)) {
			h(w, r)
		}
	})
}

// read serves a path that all may read. Other methods take the right to change.
func (s *routes) read(path string, h http.HandlerFunc) { s.handle(path, h, h) }

// handle serves questions by ask, and what is none by change.
func (s *routes) handle(path string, change, ask http.HandlerFunc) {
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			ask(w, r)
			return
		}
		s.change(w, r, change)
	})
}

// change serves a request to change something, and audits it. Its events name who asks.
func (s *routes) change(w http.ResponseWriter, r *http.Request, h http.HandlerFunc) {
	id, begin, answered := IdentityOf(r), time.Now(), &outcome{ResponseWriter: w}
	r = r.WithContext(event.WithActor(r.Context(), actor(r, id)))
	if s.audit != nil {
		defer func() {
			s.audit(r.Context(), Audit{Identity: id, Method: r.Method, Path: short(r.URL.RequestURI()), Status: answered.status, Took: time.Since(begin)})
		}()
	}
	if allows(answered, id) {
		h(answered, r)
	}
}

// actor is who asks, and on whose behalf.
func actor(r *http.Request, id Identity) event.Actor {
	a := event.ActorOf(r.Context())
	if id.From != fromSocket {
		a = event.Actor{How: event.ByHTTPS, Address: id.From}
	}
	if a.How != "" {
		a.User = id.Name
		a.For = printable.Bounded(r.Header.Get(api.ForHeader), mostFor)
	}
	return a
}

// mostFor bounds the name of on whose behalf somebody asks.
const mostFor = 64

// allows reports whether id may change the edge, and answers where it may not.
func allows(w http.ResponseWriter, id Identity) bool {
	if !id.MayChange {
		api.Answer(w, http.StatusForbidden, api.Refusal{Error: "only root may change the edge: try sudo"})
	}
	return id.MayChange
}

// Audit is one request to change something: who, from where, what, and what came of it.
type Audit struct {
	Identity
	Method, Path string
	Status       int // of the answer; 0: the client went away
	Took         time.Duration
}

// AuditTo writes each as a line of the log. One that was denied is an event; what others change are events by themselves.
func AuditTo(log *slog.Logger) func(context.Context, Audit) {
	return func(ctx context.Context, a Audit) {
		args := []any{"who", a.Name, "from", a.From, "method", a.Method, "path", a.Path,
			"status", a.Status, "outcome", a.Outcome(), "took", a.Took.Round(time.Millisecond)}
		if a.Status == http.StatusForbidden {
			log.WarnContext(ctx, "audit", append(args, event.Is(event.RequestRefused))...)
			return
		}
		log.InfoContext(ctx, "audit", args...)
	}
}

// Outcome is what came of it in a word.
func (a Audit) Outcome() string {
	switch {
	case a.Status == 0:
		return "unanswered"
	case a.Status < http.StatusBadRequest:
		return "done"
	case a.Status == http.StatusForbidden:
		return "denied"
	case a.Status < http.StatusInternalServerError:
		return "refused"
	}
	return "failed"
}

// outcome notes the status of an answer.
type outcome struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (o *outcome) WriteHeader(status int) {
	if o.status == 0 {
		o.status = status
	}
	o.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (o *outcome) Write(b []byte) (int, error) {
	if o.status == 0 {
		o.status = http.StatusOK
	}
	return o.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (o *outcome) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// short bounds what others wrote.
func short(text string) string {
	const most = 200
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
