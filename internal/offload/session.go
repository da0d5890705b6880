package offload

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// leastUnit is what the smallest underlay leaves room for; a VNI has 24 bits.
	leastUnit = 256
	maxVNI    = 1<<24 - 1
	// lateFrames is how long frames may come after the prober said that all are sent;
	// earlier it is over when quietFrames passed without one.
	lateFrames, quietFrames = time.Second, 20 * time.Millisecond
)

// session is one probe by a remote. All but what mu guards is the responder's.
type session struct {
	peer    netip.AddrPort
	opened  message // the answer that was given
	last    time.Time
	stopped message // the answer to the end of burst, when it was given
	tap     *tap
	closed  chan struct{}
	owned   sync.WaitGroup

	mu      sync.Mutex
	burst   uint32 // changed by the responder alone
	pattern pattern
	checked bool
	seen    []uint64 // a bit for each unit
	tally   tally
	first   time.Time // by the kernel's clock
	latest  time.Time // by this process's
}

func newSession(peer netip.AddrPort, opened message, t *tap) *session {
	s := &session{
		peer: peer, opened: opened, last: time.Now(), tap: t, closed: make(chan struct{}),
		pattern: newPattern(opened.Session^opened.Token, int(opened.Unit)), seen: make([]uint64, maxUnits/64),
	}
	s.owned.Go(s.read)
	return s
}

func (s *session) close() {
	close(s.closed)
	s.tap.close()
	s.owned.Wait()
}

// start begins to count for another burst.
func (s *session) start(m message) {
	if m.Burst == s.burst { // the answer was lost
		return
	}
	s.tap.dropped()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.burst = m.Burst
	s.tally, s.first, s.latest = tally{}, time.Time{}, time.Now()
	s.checked = m.Checked != 0
	clear(s.seen)
}

// stop waits for the last frames and says what was counted.
func (s *session) stop(m message) message {
	if s.stopped.Burst == m.Burst { // the answer was lost
		return s.stopped
	}
	look := time.NewTicker(quietFrames / 10)
	defer look.Stop()
	for deadline := time.Now().Add(lateFrames); time.Now().Before(deadline) && !s.over(m.Units); {
		<-look.C
	}
	dropped := s.tap.dropped()
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := m
	answer.Kind, answer.tally = kindStopped, s.tally
	answer.Dropped = dropped
	s.stopped = answer
	return answer
}

// over reports whether all that was sent came, and nothing more does.
func (s *session) over(units uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	quiet := time.Since(s.latest)
	return s.tally.Seen >= units && quiet > quietFrames/4 || quiet > quietFrames
}

// read counts frames until the tap is closed.
func (s *session) read() {
	buffer := make([]byte, snapLength)
	for {
		a, ok, err := s.tap.receive(buffer)
		if err != nil {
			select {
			case <-s.closed:
				return
			case <-time.After(pauseAfter / 10): // such as an interface that went down
			}
			continue
		}
		s.count(a, ok)
	}
}

// count looks at one frame; ok says that its outer headers are right.
func (s *session) count(a receipt, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var u units
	if ok {
		u, ok = s.pattern.check(a.frame, s.checked && a.ready)
	}
	s.latest = time.Now()
	if ok && u.burst != s.burst { // it stood in a queue for long
		return
	}
	if s.tally.Frames == 0 && s.tally.Corrupt == 0 {
		s.first = a.at
	}
	s.tally.Nanos = uint64(max(0, a.at.Sub(s.first)))
	if !ok || uint64(u.first)+uint64(u.n) > maxUnits {
		s.tally.Corrupt++
		return
	}
	s.tally.Frames++
	if u.n > 1 {
		s.tally.Uncut++
	}
	for unit := u.first; unit < u.first+u.n; unit++ {
		bit := uint64(1) << (unit % 64)
		if s.seen[unit/64]&bit != 0 {
			s.tally.Duplicate++
			continue
		}
		s.seen[unit/64] |= bit
		s.tally.Seen++
	}
}
