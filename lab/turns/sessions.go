package turns

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/experiment"
	"github.com/selvage/selvage/lab/place"
	"github.com/selvage/selvage/lab/result"
)

// Role is what a place is in a run, as "client".
type Role struct {
	Name  string
	Place place.Place
}

// Sessions are those of a run: one for each place, whatever it is in it.
type Sessions struct {
	roles    []Role
	places   []place.Place
	sessions []*agent.Session // of places
}

// Open opens all sessions, side by side unless a password is asked for. They have to be closed.
func Open(ctx context.Context, console *experiment.Console, f *Flags, roles ...Role) (*Sessions, error) {
	o := f.options(console)
	s := &Sessions{roles: roles}
	for _, r := range roles {
		if !slices.Contains(s.places, r.Place) {
			s.places = append(s.places, r.Place)
		}
	}
	var err error
	if s.sessions, err = place.OpenAll(ctx, s.places, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Of is the session of a role.
func (s *Sessions) Of(role string) *agent.Session {
	at := slices.IndexFunc(s.roles, func(r Role) bool { return r.Name == role })
	return s.sessions[slices.Index(s.places, s.roles[at].Place)]
}

// Close ends all sessions that were opened; what was changed is restored.
func (s *Sessions) Close() error { return place.CloseAll(s.sessions) }

// Err is why a session has ended, or nil.
func (s *Sessions) Err() error {
	for _, session := range s.sessions {
		if err := session.Err(); err != nil {
			return err
		}
	}
	return nil
}

// rolesOf are the roles of a place, and the first of them is whose name its figures have.
func (s *Sessions) rolesOf(i int) (names []string) {
	for _, r := range s.roles {
		if r.Place == s.places[i] {
			names = append(names, r.Name)
		}
	}
	return names
}

// Describe writes down who takes part and how far clocks differ, and tells it.
func (s *Sessions) Describe(ctx context.Context, note func(format string, args ...any), r *result.Result) error {
	for i, session := range s.sessions {
		clock, err := session.Clock(ctx)
		if err != nil {
			return err
		}
		examined, err := session.Examine(ctx)
		if err != nil {
			return err
		}
		r.Preflight = append(r.Preflight, examined.Facts)
		h := session.Hello
		r.Places = append(r.Places, session.Place(s.rolesOf(i)[0], clock))
		about := fmt.Sprintf("%s, Linux %s, %s, %s; clock %s", h.Name, h.Kernel, h.Arch, result.Counted(h.Cores, "core"), clock)
		for _, role := range s.rolesOf(i) {
			r.Parameters[role], r.Parameters[fmt.Sprintf("%s %s", role, session)] = result.Words(session.String()), result.Words(about)
		}
		note("%-6s %s: %s", strings.Join(s.rolesOf(i), ", "), session, about)
		for _, dir := range h.Restored {
			note("%s: undid and removed what a killed agent had left: %s", session, dir)
		}
		if h.NotRestored != "" {
			note("%s: left by a killed agent: %s", session, h.NotRestored)
		}
	}
	return nil
}

// WouldPut says what opening the sessions puts at their places.
func (s *Sessions) WouldPut(console *experiment.Console) {
	for _, session := range s.sessions {
		fmt.Fprintf(console.Out, "%s: would put the agent into a directory like %s, and remove it\n", session, session.Hello.Dir)
	}
}
