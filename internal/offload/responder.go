package offload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

const (
	// sessionLife ends a session whose prober fell silent, and sessionPause is the least time
	// from one to the next: probes of a remote cost at most a part of the time.
	sessionLife  = 3 * time.Second
	sessionPause = time.Second
	// pauseAfter is how long a socket that fails rests.
	pauseAfter = 100 * time.Millisecond
)

// Turn is whose turn it is: an edge probes or is probed, one path at a time, since each
// takes the time of the other.
type Turn struct{ mu sync.Mutex }

// Responder answers the probes of known remotes at one local address.
type Responder struct {
	local netip.Addr
	sock  *socket
	turn  *Turn
	enter func() error
	log   *slog.Logger

	mu      sync.Mutex
	remotes map[netip.Addr]bool

	cancel context.CancelFunc
	owned  sync.WaitGroup

	session *session // of its goroutine
	ended   time.Time
}

// Listen answers at local from now on, in the network namespace of the calling thread,
// which enter has another thread enter.
func Listen(local netip.Addr, port uint16, turn *Turn, enter func() error, log *slog.Logger) (*Responder, error) {
	sock, err := openSocket(local, port)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &Responder{local: local, sock: sock, turn: turn, enter: enter, log: log, remotes: map[netip.Addr]bool{}, cancel: cancel}
	r.owned.Go(func() { r.run(ctx) })
	return r, nil
}

// Set says which addresses may probe.
func (r *Responder) Set(remotes []netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.remotes)
	for _, a := range remotes {
		r.remotes[a] = true
	}
}

// Close ends the answering.
func (r *Responder) Close() error {
	r.cancel()
	err := r.sock.close()
	r.owned.Wait()
	return err
}

// run answers until ctx ends. Its thread, on which taps are opened, ends with it.
func (r *Responder) run(ctx context.Context) {
	runtime.LockOSThread()
	if err := r.enter(); err != nil {
		r.log.Error("offload probes are not answered", "err", err)
		return
	}
	defer r.endSession()
	for ctx.Err() == nil {
		m, from, err := r.sock.receive(time.Now().Add(sessionLife / 4))
		switch {
		case err == nil:
			r.take(m, from)
		case !errors.Is(err, os.ErrDeadlineExceeded):
			select {
			case <-ctx.Done():
			case <-time.After(pauseAfter):
			}
		}
		if r.session != nil && time.Since(r.session.last) > sessionLife {
			r.endSession()
		}
	}
}

func (r *Responder) take(m message, from netip.AddrPort) {
	r.mu.Lock()
	known := r.remotes[from.Addr()]
	r.mu.Unlock()
	if !known {
		return
	}
	reply, ok := r.reply(m, from)
	if !ok {
		return
	}
	if err := r.sock.send(from, reply); err != nil {
		r.log.Debug("answer an offload probe", "remote", from, "err", err)
	}
}

// reply is false for what deserves no answer.
func (r *Responder) reply(m message, from netip.AddrPort) (message, bool) {
	if m.Kind == kindOpen {
		return r.open(m, from), true
	}
	s := r.session
	if s == nil || s.peer != from || s.opened.Session != m.Session || s.opened.Token != m.Token {
		return m, false
	}
	s.last = time.Now()
	answer := m
	switch m.Kind {
	case kindStart:
		s.start(m)
		answer.Kind = kindStarted
	case kindStop:
		if m.Burst != s.burst {
			return m, false
		}
		answer = s.stop(m)
		s.last = time.Now()
	case kindClose:
		r.endSession()
		answer.Kind = kindClosed
	default:
		return m, false
	}
	return answer, true
}

// open begins a session, unless it is another's turn.
func (r *Responder) open(m message, from netip.AddrPort) message {
	if s := r.session; s != nil && s.peer == from && s.opened.Session == m.Session {
		return s.opened // the answer was lost
	}
	answer := m
	answer.Kind, answer.Status, answer.Token = kindOpened, statusBusy, 0
	if r.session != nil || time.Since(r.ended) < sessionPause || !r.turn.mu.TryLock() {
		return answer
	}
	answer.Status, answer.Token = statusOpen, rand.Uint64()
	s, err := r.begin(answer, from)
	if err != nil {
		r.turn.mu.Unlock()
		r.ended = time.Now()
		r.log.Warn("an offload probe cannot be answered", "remote", from.Addr(), "err", err)
		answer.Status, answer.Token = statusNo, 0
		return answer
	}
	r.session = s
	return answer
}

// begin opens the tap of a session.
func (r *Responder) begin(opened message, from netip.AddrPort) (*session, error) {
	if opened.Unit < leastUnit || opened.Unit > largest/2 || opened.VNI == 0 || opened.VNI > maxVNI {
		return nil, fmt.Errorf("it asks for frames of %d bytes with VNI %d, which no prober of ours does", opened.Unit, opened.VNI)
	}
	t, err := openTap(r.local, from.Addr(), opened.Port, overlay.VNI(opened.VNI))
	if err != nil {
		return nil, err
	}
	return newSession(from, opened, t), nil
}

func (r *Responder) endSession() {
	s := r.session
	if s == nil {
		return
	}
	r.session, r.ended = nil, time.Now()
	s.close()
	r.turn.mu.Unlock()
}
