package bfd

import (
	"container/heap"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/overlay"
)

// run does what is due until the Monitor is closed. It has a thread of its own,
// before all others of the machine where that is allowed: on a busy one it would be
// late, and both ends would see failures of a network that has none.
func (m *Monitor) run() {
	runtime.LockOSThread() // for good: the priority goes with the thread
	err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0)
	if err != nil {
		m.log.Warn("liveness has no priority over other work, which may look like failures when the machine is busy: allow the edge CAP_SYS_NICE and real-time scheduling (RLIMIT_RTPRIO, cpu.rt_runtime_us)", "err", err)
	}
	var fds []unix.PollFd
	for {
		wait, more := time.Duration(0), false
		if fds, wait, more = m.turn(fds); !more {
			return
		}
		pause, limit := unix.NsecToTimespec(int64(turnPause)), unix.NsecToTimespec(int64(max(0, wait-turnPause)))
		_ = unix.Nanosleep(&pause, nil)
		_, _ = unix.Ppoll(fds, &limit, nil) // what went wrong shows in the next turn
	}
}

// turn receives what has arrived, by what was polled, and does what is due. It
// returns what to poll next and for how long at most.
func (m *Monitor) turn(polled []unix.PollFd) (fds []unix.PollFd, wait time.Duration, more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, 0, false
	}
	ready := make(map[int]bool, len(polled))
	for _, f := range polled {
		ready[int(f.Fd)] = f.Revents != 0
	}
	if ready[m.waker] {
		var counter [8]byte
		_, _ = unix.Read(m.waker, counter[:]) // nothing there is as good
	}
	for key, s := range m.sockets.listeners {
		if ready[s.fd] || s.crowded {
			taken, err := s.drain(drainMost, func(a receipt) { m.handle(key, a) })
			s.crowded = err != nil || taken == drainMost
		}
	}
	for local, s := range m.sockets.senders { // answers of reflectors
		if ready[s.fd] || s.crowded {
			taken, err := s.drain(drainMost, func(a receipt) { m.handle(listenerKey{local: local}, a) })
			s.crowded = err != nil || taken == drainMost
		}
	}
	wait = m.serviceDue()
	fds = append(polled[:0], unix.PollFd{Fd: int32(m.waker), Events: unix.POLLIN})
	for _, s := range m.sockets.all() {
		if s.crowded {
			wait = 0 // but for the pause
			continue
		}
		fds = append(fds, unix.PollFd{Fd: int32(s.fd), Events: unix.POLLIN})
	}
	return fds, wait, true
}

// serviceDue does what is due and returns how long nothing else is; mu is held.
func (m *Monitor) serviceDue() time.Duration {
	left := false
	defer func() {
		if left {
			m.closeLeft()
		}
	}()
	for len(m.queue) > 0 {
		p, now := m.queue[0], time.Now()
		if wait := p.next.Sub(now); wait > 0 {
			return wait
		}
		if !p.leaving.IsZero() && !now.Before(p.leaving) {
			m.remove(p)
			left = true
			continue
		}
		if p.late(now) {
			m.catchUp(p)
		}
		m.tend(time.Now(), p)
	}
	return idle
}

func (m *Monitor) closeLeft() {
	if err := m.sockets.closeUnused(m.byPair); err != nil {
		m.log.Warn("close the sockets of ended sessions", "err", err)
	}
}

// late reports whether the other end seems to have been silent for too long.
func (p *peer) late(now time.Time) bool {
	return !p.session.deadline.IsZero() && !now.Before(p.session.deadline)
}

// catchUp takes what waits in p's socket before p is called dead. When this process
// did not run for a while, that is where the other end's packets are.
func (m *Monitor) catchUp(p *peer) {
	m.drainOf(p)
	if p.late(time.Now()) {
		p.session.expire()
	}
}

// drainOf takes what waits in the socket of p.
func (m *Monitor) drainOf(p *peer) {
	key := listenerKey{p.Local, p.port()}
	s := m.sockets.listeners[key]
	if p.session.reflector != 0 {
		key, s = listenerKey{local: p.Local}, m.sockets.senders[p.Local]
	}
	_, err := s.drain(backlogMost, func(a receipt) { m.handle(key, a) })
	if err != nil {
		m.log.Debug("receive BFD packets", "local", key.local, "err", err)
	}
}

// handle obeys a packet or counts why not; mu is held.
func (m *Monitor) handle(key listenerKey, a receipt) {
	packet, why := parse(a.payload)
	switch {
	case why != "":
	case key.port == 0:
		why = m.reflected(key.local, a, packet)
	case key.port == reflectorPort:
		why = m.reflect(key.local, a, packet)
	default:
		why = m.obey(key, a, packet)
	}
	if why != "" {
		m.dropped[why]++
	}
}

// obey takes a packet of a session; mu is held.
func (m *Monitor) obey(key listenerKey, a receipt, packet packet) Reason {
	p, why := m.sessionOf(key, a, packet)
	if why != "" {
		return why
	}
	now := time.Now()
	p.received++
	p.session.receive(now, packet)
	if packet.poll {
		m.send(p, p.session.packet(now, true))
	}
	m.tend(now, p)
	return ""
}

// sessionOf finds the session of a packet, RFC 5881 section 3, and whether the
// packet may be its, section 5 and RFC 5883 section 4.
//
// RFC 5880 section 6.8.6 has any packet without our discriminator take a session down that is up.
// A remote that does not hear us sends it, with its own discriminator, which nobody guesses. One
// that has restarted has another, and is found by the detection time.
func (m *Monitor) sessionOf(key listenerKey, a receipt, packet packet) (*peer, Reason) {
	p := m.byOwn[packet.yours]
	if packet.yours == 0 {
		p = m.byPair[overlay.Pair{Local: key.local, Remote: a.from}]
	}
	switch {
	case p == nil:
		return nil, NoSession
	case p.Pair != overlay.Pair{Local: key.local, Remote: a.from} || p.port() != key.port:
		return nil, WrongSender
	case a.ttl < sentTTL+1-p.Hops:
		return nil, TooFar
	case p.Hops == 1 && p.Ifindex != 0 && a.ifindex != p.Ifindex:
		return nil, WrongInterface
	case packet.yours == 0 && p.session.state == up && packet.mine != p.session.yours:
		return nil, NotStarting
	}
	return p, ""
}

// tend sends what is due of p, follows its state and says when it is due again;
// mu is held.
func (m *Monitor) tend(now time.Time, p *peer) {
	if due := p.session.due(); !due.IsZero() && !now.Before(due) {
		m.send(p, p.session.packet(now, false))
	}
	before, served := p.health.why, p.health.service
	if p.leaving.IsZero() {
		if p.health.observe(now, p.session) {
			notify(m.changed)
		}
		if p.health.why != before {
			m.log.Info("liveness of a remote", append(p.names(), event.Is(event.BFDState), "state", p.health.state, "why", p.health.why)...)
		}
		if p.health.service != served {
			m.log.Info("service of a remote", append(p.names(), event.Is(event.RemoteService), "service", p.health.service)...)
		}
	}
	p.next = earliest(p.session.due(), p.session.deadline, p.health.held, p.leaving)
	heap.Fix(&m.queue, p.index)
}

func (m *Monitor) send(p *peer, packet packet) {
	err := m.transmit(p, packet.marshal())
	if err == nil {
		p.sent++
	}
	m.failed(p, err)
}

// names are what logs say of the pair.
func (p Peer) names() []any {
	names := []any{"remote", p.Remote, "local", p.Local}
	if p.reflected() {
		names = append(names, "via", p.Via)
	}
	return names
}

// failed logs an error of sending once for as long as it stays.
func (m *Monitor) failed(p *peer, err error) {
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	if failure != "" && failure != p.failure {
		m.log.Warn("a BFD packet cannot be sent", append(p.names(), "err", failure)...)
	}
	p.failure = failure
}

// earliest is the first of times that is set; an hour from now without one.
func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	if first.IsZero() {
		return time.Now().Add(idle)
	}
	return first
}

// queue is a heap of peers by next.
type queue []*peer

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].next.Before(q[j].next) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push is called by package heap.
func (q *queue) Push(x any) {
	p := x.(*peer)
	p.index = len(*q)
	*q = append(*q, p)
}

// Pop is called by package heap.
func (q *queue) Pop() any {
	old := *q
	p := old[len(old)-1]
	*q = old[:len(old)-1]
	return p
}
