package gateway

import (
	"fmt"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/nat"
)

const (
	// heedAfter is how long this edge goes on taking new connections after it said that it
	// drains: until all others have heard.
	heedAfter = 200 * time.Millisecond
	// sayAfter is how long it waits before it says that it serves: until the networks of its
	// uplinks have heard.
	sayAfter = 100 * time.Millisecond
	// holdGrace is how long it serves on when another gateway that serves holds it back.
	holdGrace = 500 * time.Millisecond
)

// service is what others are told of a state, and of whether this edge serves while it takes another gateway for gone.
func service(s nat.State, apart bool) bfd.Service {
	switch {
	case s == nat.Draining:
		return bfd.Draining
	case s == nat.Gone:
		return bfd.OutOfService
	case apart:
		return bfd.Apart
	}
	return bfd.InService
}

// ownState is this edge's: what it should be, what others are told and what its tables
// obey. Who goes says so first; who comes has its tables first.
type ownState struct {
	target, reported, heeded nat.State
	why                      string
	at                       time.Time // of target
}

// follow is the own state at now, with target from then on, and when it changes again
// by itself; zero when it does not.
func (o ownState) follow(target nat.State, why string, now time.Time) (next ownState, again time.Time) {
	next = o
	if target != o.target || o.at.IsZero() {
		next.target, next.at = target, now
	}
	next.why = why
	if o.at.IsZero() { // nobody has heard of it
		next.reported, next.heeded = target, target
		return next, time.Time{}
	}
	late := func(after time.Duration) bool {
		if due := next.at.Add(after); now.Before(due) {
			again = due
			return false
		}
		return true
	}
	if target >= o.reported || late(sayAfter) {
		next.reported = target
	}
	if target != nat.Draining || o.heeded > nat.Draining || late(heedAfter) {
		next.heeded = target
	}
	return next, again
}

// Drain is the operator's wish that this edge gives its work away.
type Drain struct {
	Asked    time.Time `json:"asked"`
	Deadline time.Time `json:"deadline"`
	Done     bool      `json:"done"`
}

// state is what the wish asks for.
func (d *Drain) state(now time.Time) (s nat.State, why string) {
	switch {
	case d == nil:
		return nat.Serving, "it serves"
	case d.Done || !now.Before(d.Deadline):
		return nat.Gone, "it was drained: `selvage egress undrain` brings it back"
	}
	return nat.Draining, fmt.Sprintf("it drains, until %s at the latest", d.Deadline.Format(time.TimeOnly))
}
