package bfd

import (
	"cmp"
	"time"
)

const (
	// slowInterval is the least between packets of a session that is not up, RFC
	// 5880 section 6.8.3.
	slowInterval = time.Second
	// anyInterval is the other end's required interval before it said one, section
	// 6.8.1.
	anyInterval = time.Microsecond
)

// Timers are what this end wants of a session.
type Timers struct {
	Interval   time.Duration // between packets, in both directions; whole microseconds
	Multiplier uint8         // so many intervals without a packet are a failure
}

// session is one end of a BFD session: the variables of RFC 5880 section 6.8.1 and
// what changes them. It has neither clock nor socket: the caller says what time it
// is, sends packet() when due says so and calls expire after the deadline.
type session struct {
	state, remoteState sessionState
	diag, remoteDiag   diagnostic
	service            Service
	holds              bool // this end does not use the session yet
	mine, yours        uint32
	reflector          uint32 // discriminator of the other end that reflects (RFC 7880); 0: it is a session
	timers             Timers

	// What is announced, and what is in use: section 6.8.3 has a change wait for the
	// end of a poll sequence where the other end would see a failure otherwise.
	desiredTx, requiredRx time.Duration
	tx, rx                time.Duration
	polling, pollAgain    bool

	remoteTx, remoteRx time.Duration
	remoteMultiplier   uint8
	remoteDemand       bool

	sent     time.Time // the last periodic packet
	pause    time.Duration
	hurry    bool      // a change has yet to be told
	deadline time.Time // zero while nothing is awaited

	random func() float64 // in [0, 1)
}

// newSession makes a session whose first packet is due now.
func newSession(now time.Time, discriminator uint32, t Timers, random func() float64) *session {
	s := &session{
		state: down, remoteState: down, mine: discriminator, timers: t,
		remoteRx: anyInterval, sent: now, random: random,
	}
	s.desiredTx, s.requiredRx = s.wanted()
	s.tx, s.rx = s.desiredTx, s.requiredRx
	return s
}

// wanted are the intervals to announce in this state.
func (s *session) wanted() (desiredTx, requiredRx time.Duration) {
	if s.state != up {
		return max(s.timers.Interval, slowInterval), s.timers.Interval
	}
	return s.timers.Interval, s.timers.Interval
}

// renegotiate announces the wanted intervals. In an up session sending slower and
// expecting faster wait for the other end's answer.
func (s *session) renegotiate() {
	desired, required := s.wanted()
	if desired != s.desiredTx || required != s.requiredRx {
		s.desiredTx, s.requiredRx = desired, required
		s.pollAgain, s.polling = s.polling, true
	}
	if s.state != up || desired < s.tx {
		s.tx = desired
	}
	if s.state != up || required > s.rx {
		s.rx = required
	}
}

func (s *session) become(state sessionState, why diagnostic) {
	if s.state == state {
		return
	}
	s.state, s.diag, s.hurry = state, why, true
	s.renegotiate()
}

// set changes what this end wants.
func (s *session) set(t Timers) {
	s.timers = t
	s.renegotiate()
}

// disable takes the session out of use and tells the other end, section 6.8.16.
func (s *session) disable() { s.become(adminDown, adminDiagnostic) }

// receive obeys a packet that parse let through and that is of this session,
// section 6.8.6. A packet with the poll bit is to be answered at once.
func (s *session) receive(now time.Time, p packet) {
	s.yours, s.remoteState, s.remoteDiag = p.mine, p.state, p.diag
	s.remoteTx, s.remoteRx, s.remoteMultiplier = p.desiredTx, p.requiredRx, p.multiplier
	if p.final && s.polling {
		s.polling, s.pollAgain = s.pollAgain, false
		if !s.polling {
			s.tx, s.rx = s.desiredTx, s.requiredRx
		}
	}
	if s.state != adminDown {
		s.follow(p)
	}
	s.remoteDemand = p.demand && s.state == up && p.state == up
	s.deadline = now.Add(s.detection())
}

// follow is the state machine of section 6.2.
func (s *session) follow(p packet) {
	if s.reflector != 0 {
		s.followReflector(p)
		return
	}
	switch {
	case p.state == adminDown:
		if s.state != down {
			s.become(down, neighborDown)
		}
	case s.state == down && p.state == down:
		s.become(initial, noDiagnostic)
	case s.state == down && p.state == initial:
		s.become(up, noDiagnostic)
	case s.state == initial && (p.state == initial || p.state == up):
		s.become(up, noDiagnostic)
	case s.state == up && p.state == down:
		s.become(down, neighborDown)
	}
}

// detection is how long the other end may be silent, section 6.8.4.
func (s *session) detection() time.Duration {
	return time.Duration(s.remoteMultiplier) * max(s.rx, s.remoteTx)
}

// expire is to be called when the deadline has passed. What the other end said is
// forgotten with it.
func (s *session) expire() { s.end(detectionTime) }

// loseLink is to be called when the only link of the session is lost. There is no way to tell the other end at once.
func (s *session) loseLink() {
	s.end(pathDown)
	s.hurry = false
}

func (s *session) end(why diagnostic) {
	if s.state == initial || s.state == up {
		s.become(down, why)
	}
	s.yours, s.remoteState, s.remoteRx, s.remoteDemand = 0, down, anyInterval, false
	s.deadline = time.Time{}
}

// due is when the next periodic packet is to be sent, section 6.8.7; zero when the
// other end wants none.
func (s *session) due() time.Time {
	switch {
	case s.hurry:
		return s.sent
	case s.remoteRx == 0, s.remoteDemand && !s.polling:
		return time.Time{}
	}
	// What was chosen at random for this pause stays, the interval may be another now.
	return s.sent.Add(min(s.pause, s.interval()))
}

// interval is between packets, without jitter.
func (s *session) interval() time.Duration { return max(s.tx, s.remoteRx) }

// packet is the next packet to send; final answers a poll and is not periodic.
func (s *session) packet(now time.Time, final bool) packet {
	if !final {
		s.sent, s.hurry = now, false
		// 75 to 100 % of the interval. With a multiplier of one, 90 %: the packet must
		// not be late.
		span := 0.25
		if s.timers.Multiplier == 1 {
			span = 0.15
		}
		s.pause = time.Duration(float64(s.interval()) * (0.75 + span*s.random()))
	}
	return packet{
		state: s.state, diag: s.said(), poll: s.polling && !final, final: final, multiplier: s.timers.Multiplier,
		demand: s.reflector != 0, mine: s.mine, yours: cmp.Or(s.reflector, s.yours), desiredTx: s.desiredTx, requiredRx: s.requiredRx,
	}
}
