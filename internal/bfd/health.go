package bfd

import (
	"fmt"
	"time"
)

// State says whether a pair of endpoints may be used.
type State string

// The states of a pair.
const (
	Unknown State = "unknown" // it never answered, which most peers do not; usable
	Up      State = "up"
	Down    State = "down" // it answered before, or said itself that it is out of use
)

const (
	// firstHold is how long a pair that failed once must answer before it counts as
	// usable again. The time doubles with each further failure.
	firstHold = time.Second
	// maxHold bounds that, and a pair that was up for so long has a clean record.
	maxHold = time.Minute
)

// health is what a session's states mean for the use of its pair. Like the session
// it is told the time.
type health struct {
	state    State
	since    time.Time
	turned   time.Time // when the session last came up or ended
	why      string
	failures int       // in a row
	flaps    uint64    // failures in all
	held     time.Time // until when a session that is up again is not used; zero: not held
	session  sessionState
	remote   sessionState
	// service is what the other end says of itself.
	service      Service
	serviceSince time.Time
	holds        bool // it holds this end back
}

func newHealth(now time.Time) health {
	return health{state: Unknown, since: now, serviceSince: now, why: "it has not answered yet", session: down, remote: down}
}

// observe takes in the session's state and reports whether the pair's changed, or what
// the other end does for others. A session counts as up when both ends have said that it is: only
// then the other end says what it does, and a gateway that comes back empty must not be taken for one that serves.
func (h *health) observe(now time.Time, s *session) bool {
	old, served, wasHolding, wasHeld := h.state, h.service, h.holds, h.isHeld()
	h.holds = s.heldByRemote()
	if h.service = s.remoteService(); h.service != served {
		h.serviceSince = now
	}
	h.follow(now, s)
	if !h.held.IsZero() && !now.Before(h.held) {
		h.become(now, Up, "it answers")
	}
	s.hold(h.isHeld())
	return h.state != old || h.service != served || h.holds != wasHolding || h.isHeld() != wasHeld
}

// follow takes in the states of both ends.
func (h *health) follow(now time.Time, s *session) {
	was, wasRemote := h.session, h.remote
	h.session, h.remote = s.state, s.remoteState
	if s.state == up && s.remoteState != up && was != up {
		h.session = initial // it has not said yet what it does for others
	}
	switch {
	case h.session == up && was != up:
		h.answered(now)
	case s.remoteState == adminDown && (wasRemote != adminDown || was == up):
		h.become(now, Down, "the remote took it out of use")
	case h.session != up && was == up:
		h.failed(now, s)
	}
}

// isHeld reports whether the session is up and not used yet.
func (h *health) isHeld() bool { return !h.held.IsZero() }

func (h *health) become(now time.Time, state State, why string) {
	if h.state != state {
		h.since = now
	}
	h.state, h.why, h.held, h.turned = state, why, time.Time{}, now
}

// answered makes the pair usable, at once or after its hold.
func (h *health) answered(now time.Time) {
	if h.failures == 0 {
		h.become(now, Up, "it answers")
		return
	}
	wait := hold(h.failures)
	h.held, h.turned, h.why = now.Add(wait), now, fmt.Sprintf("it answers, and is held back for %s after %s", wait, failures(h.failures))
}

// failed counts a failure, from one on when the pair was up for long.
func (h *health) failed(now time.Time, s *session) {
	if h.state == Up && now.Sub(h.since) >= maxHold {
		h.failures = 0
	}
	h.failures++
	h.flaps++
	why := "the remote ended the session"
	switch {
	case s.diag == pathDown:
		why = "its link was lost"
	case s.diag == detectionTime:
		why = fmt.Sprintf("no packet for %s", s.detection())
	case s.remoteDiag == detectionTime:
		why = "the remote receives nothing from here"
	}
	h.become(now, Down, why)
}

// hold is the wait after n failures.
func hold(n int) time.Duration {
	wait := firstHold
	for range n - 1 {
		if wait = 2 * wait; wait >= maxHold {
			return maxHold
		}
	}
	return wait
}

func failures(n int) string {
	if n == 1 {
		return "a failure"
	}
	return fmt.Sprintf("%d failures", n)
}
