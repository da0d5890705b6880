package bfd

import (
	"testing"
	"time"
)

// What an end says of itself goes with the next packet, which is due at once, and only
// while the session is up: in others the diagnostic says why they are not.
func TestServiceIsTold(t *testing.T) {
	for _, c := range []struct {
		in   sessionState
		want diagnostic
		due  bool
	}{
		{up, concatenatedPathDown, true}, {down, detectionTime, false}, {adminDown, adminDiagnostic, false}, {initial, noDiagnostic, false},
	} {
		s := in(c.in)
		s.packet(start, false)
		s.serve(OutOfService)
		if due := !s.due().After(start); due != c.due {
			t.Errorf("%s: due at once: %t, want %t", c.in, due, c.due)
		}
		if p := s.packet(start, false); p.diag != c.want {
			t.Errorf("%s: diagnostic %d, want %d", c.in, p.diag, c.want)
		}
		if s.due().Equal(start) {
			t.Errorf("%s: due again", c.in)
		}
	}
}

// Nothing new is nothing to tell.
func TestServiceIsToldOnce(t *testing.T) {
	s := in(up)
	s.serve(Draining)
	s.packet(start, false)
	s.serve(Draining)
	if !s.due().After(start) {
		t.Error("the same is told again")
	}
	s.serve(InService)
	if p := s.packet(start, false); p.diag != noDiagnostic {
		t.Errorf("diagnostic %d after the end of draining", p.diag)
	}
}

// The remote's service counts while both ends are up; a failure of the session is no
// end of its service, but a state of its own.
func TestRemoteService(t *testing.T) {
	p := newPatient(t)
	p.hear(down, initial, up)
	say := func(state sessionState, d diagnostic) (changed bool) {
		p.now = p.now.Add(time.Second)
		packet := from(state)
		packet.diag = d
		p.s.receive(p.now, packet)
		return p.h.observe(p.now, p.s)
	}
	for _, c := range []struct {
		state   sessionState
		diag    diagnostic
		want    Service
		changed bool
	}{
		{up, noDiagnostic, InService, false},
		{up, adminDiagnostic, Draining, true},
		{up, adminDiagnostic, Draining, false},
		{up, concatenatedPathDown, OutOfService, true},
		{up, neighborDown, InService, true}, // about a former session
		{up, concatenatedPathDown, OutOfService, true},
		{down, concatenatedPathDown, InService, true},
		{initial, concatenatedPathDown, InService, false}, // it says nothing yet
		{up, concatenatedPathDown, OutOfService, true},    // up again, and held back
	} {
		changed := say(c.state, c.diag)
		if p.h.service != c.want || changed != c.changed {
			t.Errorf("%s with diagnostic %d: %s, changed %t, want %s, %t", c.state, c.diag, p.h.service, changed, c.want, c.changed)
		}
		if changed && c.state == up && p.h.serviceSince != p.now {
			t.Errorf("%s since %s, want %s", p.h.service, p.h.serviceSince, p.now)
		}
	}
}

// An end that does not serve yet is never taken for one that does: its session is up here one packet
// before it can say so.
func TestUpComesWithTheService(t *testing.T) {
	p := newPatient(t)
	p.hear(down, initial)
	if p.s.state != up || p.h.state != Unknown {
		t.Errorf("session %s, pair %s: want a session that is up, of a remote that has said nothing", p.s.state, p.h.state)
	}
	said := from(up)
	said.diag = concatenatedPathDown
	p.s.receive(p.now, said)
	p.h.observe(p.now, p.s)
	if p.h.state != Up || p.h.service != OutOfService {
		t.Errorf("%s, %s: want up and out of service at once", p.h.state, p.h.service)
	}
}

// The other end learns of it long before the next periodic packet.
func TestServiceTravels(t *testing.T) {
	b := newBench(t)
	near, far := b.monitor(b.near), b.monitor(b.far)
	to, back := peerOf(near4, far4, 2), peerOf(far4, near4, 2)
	to.Timers.Interval, back.Timers.Interval = time.Minute, time.Minute
	far.SetService(Draining) // before there is a session
	b.set(b.near, near, to)
	b.set(b.far, far, back)
	drains := func(r Result) bool { return r.State == Up && r.Service == Draining }
	b.await(near, to.Pair, "draining", drains)
	for _, service := range []Service{OutOfService, InService, Draining} {
		select {
		case <-near.Changed():
		default:
		}
		far.SetService(service)
		select {
		case <-near.Changed():
		case <-time.After(patience):
			t.Fatalf("no word of %s within %s", service, patience)
		}
		if r := near.Results()[to.Pair]; r.Service != service || r.State != Up {
			t.Errorf("%s and %s, want up and %s", r.State, r.Service, service)
		}
	}
	if r := far.Results()[back.Pair]; r.Service != InService {
		t.Errorf("the near end is %s, and said nothing", r.Service)
	}
}

// An end that holds the other back says so, unless it serves nobody anyway.
func TestHoldIsTold(t *testing.T) {
	p := newPatient(t)
	p.hear(down, initial, up)
	p.silence()
	p.hear(down, initial, up)
	p.want(Down, "held back for 1s")
	if got := p.s.packet(p.now, false); got.diag != reversePathDown || got.state != up {
		t.Errorf("%s with diagnostic %d, want up and %d", got.state, got.diag, reversePathDown)
	}
	p.s.serve(OutOfService)
	if got := p.s.packet(p.now, false); got.diag != concatenatedPathDown {
		t.Errorf("diagnostic %d of an end that is out of service", got.diag)
	}
	p.s.serve(InService)
	p.pass(firstHold)
	p.want(Up, "answers")
	if p.s.due().After(p.now) {
		t.Error("the end of the hold is not told at once")
	}
	if got := p.s.packet(p.now, false); got.diag != noDiagnostic {
		t.Errorf("diagnostic %d after the hold", got.diag)
	}
}

func TestHoldIsHeard(t *testing.T) {
	p := newPatient(t)
	p.hear(down, initial, up)
	for _, c := range []struct {
		diag  diagnostic
		holds bool
	}{{reversePathDown, true}, {reversePathDown, true}, {noDiagnostic, false}} {
		packet := from(up)
		packet.diag = c.diag
		before := p.h.holds
		p.s.receive(p.now, packet)
		if changed := p.h.observe(p.now, p.s); p.h.holds != c.holds || changed != (before != c.holds) || p.h.service != InService {
			t.Errorf("diagnostic %d: holds %t, %s, changed %t", c.diag, p.h.holds, p.h.service, changed)
		}
	}
}
