package bfd

import (
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/overlay"
)

const (
	// MaxHops is the largest number of links between two endpoints.
	MaxHops = 255
	// idle is how long the Monitor sleeps when nothing is due.
	idle = time.Hour
	// turnPause is between two turns of run: what happens meanwhile is done at once,
	// and a flood takes a part of a core and not all of it.
	turnPause = time.Millisecond
	// drainMost bounds what one turn takes of one socket.
	drainMost = 64
	// backlogMost is more than a socket holds.
	backlogMost = 4096
	// leaveLongest bounds how long the other end of a removed session is told so.
	leaveLongest = time.Second
)

// Peer is a session to have. One with a next hop in its pair is with the other end's reflector, by that
// next hop; there is one without besides.
type Peer struct {
	overlay.Pair
	// Ifindex is the interface of the path; 0 leaves the choice to the routing table.
	Ifindex int
	// SrcMAC and NextMAC are the addresses of a frame to Via.
	SrcMAC, NextMAC overlay.MAC
	// Pinned: packets take Ifindex or no way at all, so the session ends with that link.
	Pinned bool
	// Hops is how many links may lie between the endpoints. With 1 the session is
	// single-hop (RFC 5881, UDP port 3784), otherwise multihop (RFC 5883, 4784).
	// Both ends must agree on that.
	Hops   int
	Timers Timers
}

func (p Peer) check() error {
	switch {
	case !p.Local.IsValid() || !p.Remote.IsValid() || p.Local.Is4() != p.Remote.Is4():
		return fmt.Errorf("BFD with %s from %s: give two addresses of one family", p.Remote, p.Local)
	case p.Hops < 1 || p.Hops > MaxHops:
		return fmt.Errorf("BFD with %s: %d hops: give 1 to %d", p.Remote, p.Hops, MaxHops)
	case p.Timers.Interval < time.Millisecond || p.Timers.Interval > time.Minute || p.Timers.Multiplier == 0:
		return fmt.Errorf("BFD with %s: %d times %s: give 1ms to 1m and 1 to 255", p.Remote, p.Timers.Multiplier, p.Timers.Interval)
	}
	return nil
}

func (p Peer) port() int {
	if p.reflected() {
		return reflectorPort
	}
	if p.Hops > 1 {
		return multihopPort
	}
	return singleHopPort
}

// reflected reports whether the session is one of Seamless BFD: with the other end's reflector.
func (p Peer) reflected() bool { return p.Via != overlay.Via{} }

// Result is what is known of a pair.
type Result struct {
	State State
	Since time.Time // of State
	// Turned is when the session last came up or ended; that is no change of State while the pair is held back.
	Turned time.Time
	Why    string
	// Session is the state of the BFD session in the words of RFC 5880: down, init, up.
	Session  string
	Failures int    // in a row
	Flaps    uint64 // failures in all
	// Service is what the remote says of itself, and ServiceSince when it began to.
	Service      Service
	ServiceSince time.Time
	// Held: the remote answers, and State is Down until it has done so for a while. Holds: the
	// remote says that it does so with this end.
	Held, Holds bool
	// Left: State is Down because the remote took the session out of use, which is no failure.
	Left     bool
	Detects  time.Duration // silence that is a failure; 0 while the other end has not said what it sends
	Sent     uint64        // packets
	Received uint64
}

// Usable reports whether packets may take the pair's path.
func (r Result) Usable() bool { return r.State != Down }

// Monitor runs the sessions of a set of pairs. Its methods may be called from many
// goroutines, Set from one thread's network namespace only: sockets are opened there.
type Monitor struct {
	log *slog.Logger

	mu      sync.Mutex
	byPair  map[overlay.Pair]*peer
	vias    map[overlay.Pair][]*peer // those with next hops, by their endpoints
	byOwn   map[uint32]*peer         // by our discriminator
	queue   queue                    // by next
	sockets sockets
	dropped map[Reason]uint64
	service Service
	closed  bool

	changed chan struct{}
	waker   int // an eventfd
	owned   sync.WaitGroup
}

// peer is a session with its place in the queue. One that is leaving only tells the
// other end so.
type peer struct {
	Peer
	session        *session
	health         health
	leaving        time.Time // until when; zero: it is not
	next           time.Time
	index          int // in the queue
	sent, received uint64
	failure        string // why the last packet was not sent, or ""
}

// NewMonitor starts a Monitor of no pairs, without sockets. The caller closes it.
func NewMonitor(log *slog.Logger) (*Monitor, error) {
	waker, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch remotes by BFD: %w", err)
	}
	m := &Monitor{
		log:     log,
		byPair:  map[overlay.Pair]*peer{},
		vias:    map[overlay.Pair][]*peer{},
		byOwn:   map[uint32]*peer{},
		sockets: sockets{listeners: map[listenerKey]*socket{}, senders: map[netip.Addr]*socket{}},
		dropped: map[Reason]uint64{},
		changed: make(chan struct{}, 1),
		waker:   waker,
	}
	m.owned.Go(m.run)
	return m, nil
}

// Close ends all sessions without a word: the other ends see failures. Leave before
// it tells them. A second Close does nothing.
func (m *Monitor) Close() error {
	m.mu.Lock()
	was := m.closed
	m.closed = true
	m.mu.Unlock()
	if was {
		return nil
	}
	m.wake()
	m.owned.Wait()
	errs := []error{unix.Close(m.waker), m.sockets.frames.close()}
	for _, s := range m.sockets.all() {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// wake ends the waiting of run.
func (m *Monitor) wake() {
	one := binary.NativeEndian.AppendUint64(nil, 1)
	for _, err := unix.Write(m.waker, one); errors.Is(err, unix.EINTR); _, err = unix.Write(m.waker, one) {
	}
}

// Leave ends all sessions and returns when the other ends have been told, or when
// ctx ends. To them that is no failure.
func (m *Monitor) Leave(ctx context.Context) error {
	err := m.Set(nil)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		m.mu.Lock()
		left := len(m.byPair)
		m.mu.Unlock()
		if left == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-tick.C:
		}
	}
}

// Changed receives after a State or Service of Results changed. Changes close to each other
// are one.
func (m *Monitor) Changed() <-chan struct{} { return m.changed }

// Results returns what is known of every pair.
func (m *Monitor) Results() map[overlay.Pair]Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	results := make(map[overlay.Pair]Result, len(m.byPair))
	for pair, p := range m.byPair {
		if p.leaving.IsZero() {
			results[pair] = Result{
				State: p.health.state, Since: p.health.since, Turned: p.health.turned, Why: p.health.why, Session: p.session.state.String(),
				Failures: p.health.failures, Flaps: p.health.flaps, Detects: p.session.detection(), Sent: p.sent, Received: p.received,
				Service: p.health.service, ServiceSince: p.health.serviceSince, Held: p.health.isHeld(), Holds: p.health.holds,
				Left: p.health.remote == adminDown,
			}
		}
	}
	return results
}

// Dropped counts the packets that were not obeyed, by reason.
func (m *Monitor) Dropped() map[Reason]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.dropped)
}

// Set says which sessions there are. One whose pair and number of hops stay goes on,
// with other timers as they are agreed on. The other ends of those that go are told.
// A session whose sockets cannot be opened is not there; the error says why, and the
// next Set tries again.
func (m *Monitor) Set(peers []Peer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errors.New("the BFD monitor is closed")
	}
	now := time.Now()
	var errs []error
	wanted := make(map[overlay.Pair]bool, len(peers))
	for _, p := range peers {
		err := p.check()
		if err == nil {
			err = m.sockets.open(p)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		wanted[p.Pair] = true
		m.set(now, p)
	}
	errs = append(errs, m.openReflectors(wanted))
	for pair, p := range m.byPair {
		if !wanted[pair] && p.leaving.IsZero() {
			p.leave(now)
			m.tend(now, p)
		}
	}
	errs = append(errs, m.sockets.closeUnused(m.byPair))
	m.wake()
	return errors.Join(errs...)
}

// LinkLost has the sessions that are pinned to a link fail at once: what they would find out by silence is
// known, and is diagnostic 5 of RFC 5880 section 4.1. They come back as after any failure.
func (m *Monitor) LinkLost(ifindex int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	now := time.Now()
	for _, p := range m.byPair {
		if !p.Pinned || p.Ifindex != ifindex || !p.leaving.IsZero() || p.session.state != up {
			continue
		}
		m.drainOf(p) // what came before the loss is no answer after it
		p.session.loseLink()
		m.tend(now, p)
	}
	m.wake()
}

// set makes or changes one session; mu is held.
func (m *Monitor) set(now time.Time, want Peer) {
	p := m.byPair[want.Pair]
	if p != nil && p.leaving.IsZero() && p.port() == want.port() {
		p.Peer = want
		p.session.set(want.Timers)
		m.tend(now, p)
		return
	}
	if p != nil {
		m.remove(p)
	}
	p = &peer{Peer: want, health: newHealth(now), session: newSession(now, m.discriminator(), want.Timers, rand.Float64)}
	p.session.serve(m.service)
	if want.reflected() {
		p.session.reflector = reflectorOf(want.Remote)
		m.vias[want.Endpoints()] = append(m.vias[want.Endpoints()], p)
	}
	m.byPair[want.Pair], m.byOwn[p.session.mine] = p, p
	heap.Push(&m.queue, p)
	m.tend(now, p)
}

// discriminator is a random one that is not in use.
func (m *Monitor) discriminator() uint32 {
	for {
		if d := rand.Uint32(); d != 0 && m.byOwn[d] == nil {
			return d
		}
	}
}

func (m *Monitor) remove(p *peer) {
	delete(m.byPair, p.Pair)
	delete(m.byOwn, p.session.mine)
	if all := p.Endpoints(); p.reflected() {
		if m.vias[all] = slices.DeleteFunc(m.vias[all], func(o *peer) bool { return o == p }); len(m.vias[all]) == 0 {
			delete(m.vias, all)
		}
	}
	heap.Remove(&m.queue, p.index)
}

// leave begins to tell the other end, for its detection time as RFC 5880 section
// 6.8.16 has it. One that never answered is not told.
func (p *peer) leave(now time.Time) {
	p.leaving = now
	if p.session.yours != 0 && !p.reflected() { // a reflector keeps nothing
		p.leaving = now.Add(min(leaveLongest, time.Duration(p.Timers.Multiplier)*p.session.interval()))
		p.session.disable()
	}
}

// notify leaves a mark in a channel of capacity one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
