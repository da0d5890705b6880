package event

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/problem"
)

// Bounds of one event.
const (
	mostText   = 1024 // bytes of its text
	mostField  = 512  // bytes of a field
	mostFields = 32
)

// Event is one thing that happened.
type Event struct {
	// Number is one more than that of the event before, also over restarts of the process.
	Number   uint64           `json:"number"`
	Time     time.Time        `json:"time"`
	Kind     Kind             `json:"kind"`
	Severity problem.Severity `json:"severity"`
	Object   Object           `json:"object"`
	Text     string           `json:"text"`
	Fields   map[string]any   `json:"fields,omitempty"` // texts, numbers and booleans
	By       *Actor           `json:"by,omitempty"`     // nil: nobody asked for it
}

// Object is what an event is of.
type Object struct {
	Type string `json:"type"` // such as port; edge for the edge itself
	Name string `json:"name,omitempty"`
}

// String has both.
func (o Object) String() string { return strings.TrimSpace(o.Type + " " + o.Name) }

// Actor is who asked for something.
type Actor struct {
	// How says how it was asked: socket, signal, https, or edge when time or a failure did it.
	How     string `json:"how"`
	User    string `json:"user,omitempty"`
	UID     *int   `json:"uid,omitempty"`
	PID     int    `json:"pid,omitempty"`
	For     string `json:"for,omitempty"`     // on whose behalf, by SUDO_USER
	Address string `json:"address,omitempty"` // of the other end
}

// Ways in which something is asked for.
const (
	BySocket = "socket"
	BySignal = "signal"
	ByHTTPS  = "https"
	ByEdge   = "edge"
)

// String names the user, on whose behalf, and the process.
func (a Actor) String() string {
	if a.How == "" {
		return ""
	}
	text := cmp.Or(a.User, a.How)
	if a.For != "" && a.For != a.User {
		text += " for " + a.For
	}
	var more []string
	if a.PID != 0 {
		more = append(more, fmt.Sprintf("PID %d", a.PID))
	}
	if a.Address != "" {
		more = append(more, a.Address)
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	return text
}

type actorKey struct{}

// WithActor has events that are logged with a context say who asked.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// ActorOf is who asked; the zero Actor where that is not known.
func ActorOf(ctx context.Context) Actor {
	a, _ := ctx.Value(actorKey{}).(Actor)
	return a
}

// Filter chooses events. What is zero chooses nothing.
type Filter struct {
	Kinds    []Kind
	Severity problem.Severity // and worse ones
	Object   string           // its name
	After    uint64           // with greater numbers
	Since    time.Time
}

// Has reports whether f chooses an event.
func (f Filter) Has(e Event) bool {
	return e.Number > f.After && !e.Time.Before(f.Since) && (len(f.Kinds) == 0 || slices.Contains(f.Kinds, e.Kind)) &&
		rank(e.Severity) >= rank(f.Severity) && (f.Object == "" || e.Object.Name == f.Object)
}

func rank(s problem.Severity) int { return slices.Index(Severities, s) }

// Severities are all, the least first.
var Severities = []problem.Severity{problem.SeverityNote, problem.SeverityWarning, problem.SeverityError}

// size is about how many bytes an event takes.
func (e Event) size() int {
	n := 200 + len(e.Text)
	for name, value := range e.Fields {
		n += 64 + len(name)
		if text, ok := value.(string); ok {
			n += len(text)
		}
	}
	return n
}
