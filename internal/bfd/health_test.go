package bfd

import (
	"strings"
	"testing"
	"time"
)

// patient is a session with its health, in virtual time.
type patient struct {
	t   *testing.T
	now time.Time
	s   *session
	h   health
}

func newPatient(t *testing.T) *patient {
	return &patient{t, start, newSession(start, 7, quick, half), newHealth(start)}
}

// hear is the other end in this state; the session obeys.
func (p *patient) hear(states ...sessionState) {
	for _, state := range states {
		p.s.receive(p.now, from(state))
		p.h.observe(p.now, p.s)
	}
}

func (p *patient) silence() {
	p.s.expire()
	p.h.observe(p.now, p.s)
}

func (p *patient) pass(d time.Duration) {
	p.now = p.now.Add(d)
	p.h.observe(p.now, p.s)
}

func (p *patient) want(state State, why string) {
	p.t.Helper()
	if p.h.state != state || !strings.Contains(p.h.why, why) {
		p.t.Errorf("%s (%s), want %s (%s)", p.h.state, p.h.why, state, why)
	}
}

func TestNeverAnswered(t *testing.T) {
	p := newPatient(t)
	p.want(Unknown, "not answered")
	p.silence()
	p.hear(down) // one direction only
	p.silence()
	p.pass(time.Hour)
	p.want(Unknown, "not answered")
	p.hear(down, initial, up)
	p.want(Up, "answers")
	if p.h.since != p.now {
		t.Errorf("up since %s, want %s", p.h.since, p.now)
	}
}

func TestFailureIsNamed(t *testing.T) {
	p := newPatient(t)
	p.hear(down, initial, up)
	p.silence()
	p.want(Down, "no packet for 150ms")
	p = newPatient(t)
	p.hear(down, initial, up)
	deaf := from(down)
	deaf.diag = detectionTime
	p.s.receive(p.now, deaf)
	p.h.observe(p.now, p.s)
	p.want(Down, "receives nothing from here")
}

func TestBackOff(t *testing.T) {
	p := newPatient(t)
	p.hear(down, initial, up)
	for i, hold := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		hold *= time.Second
		p.silence()
		p.want(Down, "no packet")
		p.pass(500 * time.Millisecond)
		p.hear(down, initial, up)
		p.want(Down, "held back for "+hold.String())
		p.pass(hold - time.Millisecond)
		p.want(Down, "held back")
		if p.h.held != p.now.Add(time.Millisecond) {
			t.Errorf("held until %s, want %s", p.h.held, p.now.Add(time.Millisecond))
		}
		p.pass(time.Millisecond)
		p.want(Up, "answers")
		if p.h.failures != i+1 {
			t.Errorf("%d failures, want %d", p.h.failures, i+1)
		}
	}
	p.pass(maxHold) // of good behaviour
	p.silence()
	p.hear(down, initial, up)
	p.want(Down, "held back for 1s after a failure")
}

// A failure while it is held back counts, and the wait begins anew. The session has turned then, though the pair was down before.
func TestFailureWhileHeld(t *testing.T) {
	p := newPatient(t)
	p.hear(down, initial, up)
	p.pass(time.Second)
	p.silence()
	failed := p.now
	p.pass(time.Second)
	p.hear(down, initial, up)
	answered := p.now
	if p.h.since != failed || p.h.turned != answered {
		t.Errorf("down since %s, turned at %s, want %s and %s", p.h.since, p.h.turned, failed, answered)
	}
	p.pass(900 * time.Millisecond)
	p.silence()
	if p.h.since != failed || p.h.turned != p.now {
		t.Errorf("down since %s, turned at %s, want %s and %s", p.h.since, p.h.turned, failed, p.now)
	}
	p.pass(time.Hour)
	p.want(Down, "no packet")
	p.hear(down, initial, up)
	p.want(Down, "held back for 2s after 2 failures")
}

// What the other end does on purpose is no failure.
func TestAdminDownIsGraceful(t *testing.T) {
	p := newPatient(t)
	p.hear(down, initial, up, adminDown)
	p.want(Down, "took it out of use")
	p.silence()
	p.pass(time.Hour)
	p.want(Down, "took it out of use")
	p.hear(down, initial, up)
	p.want(Up, "answers")
	p = newPatient(t)
	p.hear(adminDown)
	p.want(Down, "took it out of use")
}
