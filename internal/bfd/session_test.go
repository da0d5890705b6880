package bfd

import (
	"math/rand/v2"
	"testing"
	"time"
)

var (
	start = time.Unix(1000, 0)
	quick = Timers{50 * time.Millisecond, 3}
)

// half stands for chance: the middle of the jitter.
func half() float64 { return 0.5 }

// in returns a session in this state that has heard of remote discriminator 9.
func in(state sessionState) *session {
	s := newSession(start, 7, quick, half)
	s.receive(start, packet{state: down, multiplier: 3, mine: 9, desiredTx: time.Second, requiredRx: 50 * time.Millisecond})
	switch state {
	case up:
		s.receive(start, from(initial))
	case down:
		s.expire()
	case adminDown:
		s.disable()
	}
	if s.state != state {
		panic("a session in " + s.state.String())
	}
	return s
}

func from(state sessionState) packet {
	return packet{state: state, multiplier: 3, mine: 9, yours: 7, desiredTx: 50 * time.Millisecond, requiredRx: 50 * time.Millisecond}
}

// The state machine of RFC 5880 section 6.2 and 6.8.6, every state and event.
func TestStates(t *testing.T) {
	for _, c := range []struct {
		in, event, want sessionState
		diag            diagnostic
	}{
		{down, adminDown, down, detectionTime},
		{down, down, initial, noDiagnostic},
		{down, initial, up, noDiagnostic},
		{down, up, down, detectionTime},
		{initial, adminDown, down, neighborDown},
		{initial, down, initial, noDiagnostic},
		{initial, initial, up, noDiagnostic},
		{initial, up, up, noDiagnostic},
		{up, adminDown, down, neighborDown},
		{up, down, down, neighborDown},
		{up, initial, up, noDiagnostic},
		{up, up, up, noDiagnostic},
		{adminDown, adminDown, adminDown, adminDiagnostic},
		{adminDown, down, adminDown, adminDiagnostic},
		{adminDown, initial, adminDown, adminDiagnostic},
		{adminDown, up, adminDown, adminDiagnostic},
	} {
		s := in(c.in)
		s.receive(start, from(c.event))
		if s.state != c.want || s.diag != c.diag {
			t.Errorf("%s and the other end %s: %s with diagnostic %d, want %s with %d", c.in, c.event, s.state, s.diag, c.want, c.diag)
		}
		if s.state != c.in && s.due().After(start) {
			t.Errorf("%s to %s is not told at once", c.in, s.state)
		}
	}
}

func TestExpire(t *testing.T) {
	for state, want := range map[sessionState]sessionState{down: down, initial: down, up: down, adminDown: adminDown} {
		s := in(state)
		s.expire()
		if s.state != want || s.yours != 0 || !s.deadline.IsZero() {
			t.Errorf("%s: %s, discriminator %d, deadline %s after the silence", state, s.state, s.yours, s.deadline)
		}
		if p := s.packet(start, false); want == down && (p.diag != detectionTime || p.desiredTx < slowInterval) {
			t.Errorf("%s: announces %+v, want diagnostic 1 and at least a second", state, p)
		}
	}
}

// A session that is not up sends once a second, less jitter; up, as the slower end
// asks.
func TestIntervals(t *testing.T) {
	for _, c := range []struct {
		name       string
		state      sessionState
		remoteRx   time.Duration
		multiplier uint8
		least      time.Duration
		most       time.Duration
	}{
		{"down", down, 50 * time.Millisecond, 3, 750 * time.Millisecond, time.Second},
		{"init", initial, 50 * time.Millisecond, 3, 750 * time.Millisecond, time.Second},
		{"up", up, 10 * time.Millisecond, 3, 37500 * time.Microsecond, 50 * time.Millisecond},
		{"up, the other end is slow", up, 2 * time.Second, 3, 1500 * time.Millisecond, 2 * time.Second},
		{"multiplier of one", up, 50 * time.Millisecond, 1, 37500 * time.Microsecond, 45 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := in(c.state)
			s.timers.Multiplier = c.multiplier
			s.remoteRx = c.remoteRx
			for chance, want := range map[float64]time.Duration{0: c.least, 1: c.most} {
				s.random = func() float64 { return chance }
				s.packet(start, false)
				if got := s.due().Sub(start); got.Round(time.Microsecond) != want {
					t.Errorf("sends after %s at chance %v, want %s", got, chance, want)
				}
			}
		})
	}
}

func TestSilentOnRequest(t *testing.T) {
	s := in(up)
	s.packet(start, false)
	p := from(up)
	p.final, p.demand = true, true
	s.receive(start, p)
	if due := s.due(); !due.IsZero() {
		t.Errorf("sends at %s to an end in demand mode (section 6.6)", due)
	}
	p.demand, p.requiredRx = false, 0
	s.receive(start, p)
	if due := s.due(); !due.IsZero() {
		t.Errorf("sends at %s to an end that wants no packets (section 6.8.7)", due)
	}
	p.state = down
	s.receive(start, p)
	if due := s.due(); due.IsZero() || due.After(start) {
		t.Error("a state that changed is not told")
	}
}

// A silent end takes multiplier times the slower interval to be missed.
func TestDetectionTime(t *testing.T) {
	s := in(up)
	p := from(up)
	p.final = true // of the poll that followed the change to up
	for _, c := range []struct {
		multiplier uint8
		remoteTx   time.Duration
		want       time.Duration
	}{
		{3, 50 * time.Millisecond, 150 * time.Millisecond},
		{3, 10 * time.Millisecond, 150 * time.Millisecond},
		{5, 200 * time.Millisecond, time.Second},
		{1, 50 * time.Millisecond, 50 * time.Millisecond},
	} {
		p.multiplier, p.desiredTx = c.multiplier, c.remoteTx
		s.receive(start, p)
		if got := s.deadline.Sub(start); got != c.want {
			t.Errorf("waits %s for an end that sends each %s times %d, want %s", got, c.remoteTx, c.multiplier, c.want)
		}
	}
}

// In an up session sending slower and expecting faster wait for the answer to the
// poll; the other way round they need not (section 6.8.3).
func TestPollSequence(t *testing.T) {
	s := in(up)
	if p := s.packet(start, false); !p.poll || p.desiredTx != 50*time.Millisecond {
		t.Fatalf("after the change to up it announces %+v, want a poll with the wanted interval", p)
	}
	final := from(up)
	final.final = true
	s.receive(start, final)
	if p := s.packet(start, false); p.poll {
		t.Fatal("it polls on after the answer")
	}
	s.set(Timers{200 * time.Millisecond, 3})
	if p := s.packet(start, false); !p.poll || p.desiredTx != 200*time.Millisecond || p.requiredRx != 200*time.Millisecond {
		t.Errorf("announces %+v, want a poll with 200 ms", p)
	}
	if s.tx != 50*time.Millisecond || s.rx != 200*time.Millisecond {
		t.Errorf("sends each %s and expects each %s before the answer, want 50ms and 200ms", s.tx, s.rx)
	}
	s.set(Timers{20 * time.Millisecond, 3}) // while the poll is under way
	if s.tx != 20*time.Millisecond || s.rx != 200*time.Millisecond {
		t.Errorf("sends each %s and expects each %s before the answer, want 20ms and 200ms", s.tx, s.rx)
	}
	s.receive(start, final) // may answer the former
	if p := s.packet(start, false); !p.poll || s.rx != 200*time.Millisecond {
		t.Errorf("the second change is not polled: %+v, expects each %s", p, s.rx)
	}
	s.receive(start, final)
	if p := s.packet(start, false); p.poll || s.tx != 20*time.Millisecond || s.rx != 20*time.Millisecond {
		t.Errorf("after both answers %+v, sends each %s, expects each %s", p, s.tx, s.rx)
	}
}

func TestAnswerToPoll(t *testing.T) {
	s := in(up)
	s.packet(start, false)
	due := s.due()
	if p := s.packet(start.Add(time.Millisecond), true); !p.final || p.poll || p.yours != 9 {
		t.Errorf("answers with %+v, want final and not poll", p)
	}
	if s.due() != due {
		t.Error("an answer moved the periodic packets")
	}
}

// exchange is two ends and a network, in virtual time.
type exchange struct {
	t    *testing.T
	now  time.Time
	ends [2]*session
	lost func(from int) bool
	wire []flying
	ups  [2]int // changes to up
}

type flying struct {
	to     int
	when   time.Time
	packet packet
}

func newExchange(t *testing.T, a, b Timers) *exchange {
	chance := rand.New(rand.NewPCG(1, 2)).Float64
	return &exchange{
		t: t, now: start, lost: func(int) bool { return false },
		ends: [2]*session{newSession(start, 1, a, chance), newSession(start.Add(300*time.Millisecond), 2, b, chance)},
	}
}

const flight = 3 * time.Millisecond

// run lets d pass in steps of a millisecond.
func (x *exchange) run(d time.Duration) {
	for end := x.now.Add(d); x.now.Before(end); x.now = x.now.Add(time.Millisecond) {
		rest := x.wire[:0]
		var landed []flying
		for _, f := range x.wire {
			if f.when.After(x.now) {
				rest = append(rest, f)
			} else {
				landed = append(landed, f)
			}
		}
		x.wire = rest
		for _, f := range landed {
			was := x.ends[f.to].state
			x.ends[f.to].receive(x.now, f.packet)
			if x.ends[f.to].state == up && was != up {
				x.ups[f.to]++
			}
			if f.packet.poll {
				x.send(f.to, true)
			}
		}
		for i, s := range x.ends {
			if !s.deadline.IsZero() && !x.now.Before(s.deadline) {
				s.expire()
			}
			if due := s.due(); !due.IsZero() && !x.now.Before(due) {
				x.send(i, false)
			}
		}
	}
}

func (x *exchange) send(end int, final bool) {
	p, why := parse(x.ends[end].packet(x.now, final).marshal())
	if why != "" {
		x.t.Fatalf("end %d sends what is dropped for %q", end, why)
	}
	if !x.lost(end) {
		x.wire = append(x.wire, flying{1 - end, x.now.Add(flight), p})
	}
}

func (x *exchange) want(a, b sessionState) {
	x.t.Helper()
	if x.ends[0].state != a || x.ends[1].state != b {
		x.t.Errorf("after %s the ends are %s and %s, want %s and %s", x.now.Sub(start), x.ends[0].state, x.ends[1].state, a, b)
	}
}

func TestExchange(t *testing.T) {
	for _, timers := range [][2]Timers{{quick, quick}, {quick, {300 * time.Millisecond, 5}}, {{2 * time.Second, 2}, quick}, {{10 * time.Millisecond, 1}, quick}} {
		x := newExchange(t, timers[0], timers[1])
		x.run(6 * time.Second)
		x.want(up, up)
		x.run(time.Minute)
		if x.ups != [2]int{1, 1} {
			t.Errorf("%v: up %v times without any loss", timers, x.ups)
		}
		slower := max(timers[0].Interval, timers[1].Interval)
		for i, s := range x.ends {
			if s.polling || s.interval() != slower {
				t.Errorf("%v: end %d sends each %s, polling %v, want %s", timers, i, s.interval(), s.polling, slower)
			}
		}
		x.lost = func(int) bool { return true }
		x.run(max(x.ends[0].detection(), x.ends[1].detection()) + 2*flight)
		x.want(down, down)
		x.lost = func(int) bool { return false }
		x.run(6 * time.Second)
		x.want(up, up)
		x.ends[0].disable()
		x.run(2 * flight)
		x.want(adminDown, down)
	}
}

// Where one direction is dead, the end that still hears learns it from the other.
func TestOneWay(t *testing.T) {
	x := newExchange(t, quick, quick)
	x.run(5 * time.Second)
	x.lost = func(from int) bool { return from == 0 }
	x.run(160 * time.Millisecond)
	x.want(down, down)
	if s := x.ends[0]; s.diag != neighborDown || s.remoteDiag != detectionTime {
		t.Errorf("diagnostics %d and the other end's %d, want 3 and 1", s.diag, s.remoteDiag)
	}
	x.run(10 * time.Second)
	if x.ends[1].state == up {
		t.Error("the deaf end is up")
	}
}

// Changes of timers at both ends, also together, never cost the session.
func TestTimersChangeWithoutFailure(t *testing.T) {
	x := newExchange(t, quick, quick)
	x.run(5 * time.Second)
	chance := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		x.ends[chance.IntN(2)].set(Timers{time.Duration(10+chance.IntN(500)) * time.Millisecond, uint8(2 + chance.IntN(4))})
		x.run(time.Duration(chance.IntN(1500)) * time.Millisecond)
	}
	x.want(up, up)
	if x.ups != [2]int{1, 1} {
		t.Errorf("the ends came up %v times", x.ups)
	}
}

// Of a lost link nobody is told by it.
func TestLoseLink(t *testing.T) {
	s := newSession(time.Time{}, 1, quick, func() float64 { return 0 })
	s.state, s.hurry = up, false
	s.loseLink()
	if s.state != down || s.diag != pathDown || s.hurry {
		t.Errorf("%+v", s)
	}
}
