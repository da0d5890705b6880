package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os/user"
	"strconv"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/overlay"
)

// Identity is who asks, and what that one may do.
type Identity struct {
	Name string
	Role overlay.Role
	From string // an address, or the unix socket
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
		return Identity{Name: "somebody", Role: overlay.RoleAdmin, From: fromSocket}
	}
	id := Identity{Name: "uid " + strconv.FormatUint(uint64(uid), 10), Role: overlay.RoleRead, From: fromSocket}
	if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
		id.Name = u.Username
	}
	if uid == 0 {
		id.Role = overlay.RoleAdmin
	}
	return id
}

// roles is which role each path needs. What is not here needs admin, and a test says that all are here.
var roles = map[string]overlay.Role{
	"/healthz": overlay.RoleNone,
	"/readyz":  overlay.RoleNone,
	"/metrics": overlay.RoleRead,
	"/":        overlay.RoleRead, // says that there is no such document

	"/v1/status":         overlay.RoleRead,
	"/v1/config":         overlay.RoleRead, // without passwords
	"/v1/config/history": overlay.RoleRead,
	"/v1/ports":          overlay.RoleRead,
	"/v1/interfaces":     overlay.RoleRead,
	"/v1/teps":           overlay.RoleRead,
	"/v1/fdb":            overlay.RoleRead,
	"/v1/neighbours":     overlay.RoleRead,
	"/v1/routes":         overlay.RoleRead,
	"/v1/flows":          overlay.RoleRead,
	"/v1/flow-cache":     overlay.RoleRead,
	"/v1/drops":          overlay.RoleRead,
	"/v1/drops/owners":   overlay.RoleRead,
	"/v1/limits":         overlay.RoleRead,
	"/v1/trace":          overlay.RoleRead,
	"/v1/rules":          overlay.RoleRead,
	"/v1/firewall":       overlay.RoleRead,
	"/v1/sessions":       overlay.RoleRead,
	"/v1/egress":         overlay.RoleRead,
	"/v1/nat":            overlay.RoleRead,
	"/v1/nat/sessions":   overlay.RoleRead,
	"/v1/nat/port-usage": overlay.RoleRead,
	"/v1/bgp":            overlay.RoleRead,
	"/v1/bgp/routes":     overlay.RoleRead,
	"/v1/bgp/moves":      overlay.RoleRead,
	"/v1/events":         overlay.RoleRead,
	"/v1/log":            overlay.RoleRead,

	"/v1/live":                 overlay.RoleRead, // changes take admin
	"/v1/live/{kind}/{key...}": overlay.RoleRead,

	"/v1/what-if":        overlay.RoleOperate, // takes a policy to compile, and changes nothing
	"/v1/prove":          overlay.RoleOperate, // sends packets
	"/v1/teps/probe":     overlay.RoleOperate,
	"/v1/egress/drain":   overlay.RoleOperate,
	"/v1/egress/undrain": overlay.RoleOperate,
	"/v1/bgp/thaw":       overlay.RoleOperate,
	"/v1/bgp/reset":      overlay.RoleOperate,
	"/v1/log/level":      overlay.RoleOperate,
	"/v1/monitor":        overlay.RoleOperate, // shows packets of others

	"/v1/debug/goroutines": overlay.RoleOperate,
	"/v1/debug/memory":     overlay.RoleOperate,

	"/v1/config/apply":    overlay.RoleAdmin,
	"/v1/config/confirm":  overlay.RoleAdmin,
	"/v1/config/reload":   overlay.RoleAdmin,
	"/v1/config/rollback": overlay.RoleAdmin,
}

// changeRoles is which role changes need by paths where all others may read.
var changeRoles = map[string]overlay.Role{
	"/v1/live":                 overlay.RoleAdmin,
	"/v1/live/{kind}/{key...}": overlay.RoleAdmin,
}

// roleOf is the role that a path needs.
func roleOf(path string) overlay.Role {
	if role, ok := roles[path]; ok {
		return role
	}
	return overlay.RoleAdmin
}

// changeRoleOf is the role that a change by a path needs: more than to read.
func changeRoleOf(path string) overlay.Role {
	if role, ok := changeRoles[path]; ok {
		return role
	}
	if role := roleOf(path); role.Allows(overlay.RoleOperate) {
		return role
	}
	return overlay.RoleOperate
}

// routes are the paths of the API, each for those who have its role.
type routes struct {
	mux   *http.ServeMux
	paths []string
	audit func(context.Context, Audit) // nil: nobody writes it down
}

// HandleFunc serves a path.
func (s *routes) HandleFunc(path string, h http.HandlerFunc) {
	s.paths = append(s.paths, path)
	needed := roleOf(path)
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			if needed == overlay.RoleNone || allows(w, IdentityOf(r), needed) {
				h(w, r)
			}
			return
		}
		s.change(w, r, changeRoleOf(path), h)
	})
}

// change serves what is no question, and writes it down. Who asks is who events of it name.
func (s *routes) change(w http.ResponseWriter, r *http.Request, needed overlay.Role, h http.HandlerFunc) {
	id, begin, answered := IdentityOf(r), time.Now(), &outcome{ResponseWriter: w}
	r = r.WithContext(event.WithActor(r.Context(), actor(r, id)))
	if s.audit != nil {
		defer func() {
			s.audit(r.Context(), Audit{Identity: id, Method: r.Method, Path: short(r.URL.RequestURI()), Status: answered.status, Took: time.Since(begin)})
		}()
	}
	if allows(answered, id, needed) {
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
		a.For = event.Bounded(r.Header.Get(api.ForHeader), mostFor)
	}
	return a
}

// mostFor bounds the name of on whose behalf somebody asks.
const mostFor = 64

// allows reports whether id has a role, and answers where that is not so.
func allows(w http.ResponseWriter, id Identity, needed overlay.Role) bool {
	if id.Role.Allows(needed) {
		return true
	}
	text := "only root may change the edge: try sudo"
	if id.From != fromSocket {
		text = fmt.Sprintf("client %s has the role %s and this takes %s: see spec.http.clients of the edge", id.Name, id.Role, needed)
	}
	api.Answer(w, http.StatusForbidden, api.Refusal{Error: text})
	return false
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
		args := []any{"who", a.Name, "role", string(a.Role), "from", a.From, "method", a.Method, "path", a.Path,
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
