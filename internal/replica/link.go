package replica

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/event"
)

const (
	shakeTimeout = 3 * time.Second
	dialTimeout  = 2 * time.Second
	// Between tries to connect: doubled each time, and what chance makes of it.
	firstPause, longestPause = 50 * time.Millisecond, 2 * time.Second
	// shakesMost bounds the connections that have not proven who they are, shakesOfOne those from one address.
	shakesMost, shakesOfOne = 16, 4
	// reportEvery is the least time between two lines that say why a link has no connection.
	reportEvery = 10 * time.Second
)

// link is a Link with its connection, as long as it has one.
type link struct {
	Link
	tls    *tls.Config
	ctx    context.Context
	cancel context.CancelFunc
	owned  sync.WaitGroup

	mu       sync.Mutex
	now      *session
	state    State // but for the counters of now
	parts    map[string]Part
	other    map[string]Part // of the other end, as it said last
	logged   string          // why there is no connection, in the last line about it
	loggedAt time.Time
}

// open makes a link, which dials if that is this end's part.
func (r *Replicator) open(want Link) (*link, error) {
	config, err := tlsConfig(want)
	if err != nil {
		return nil, err
	}
	l := &link{Link: want, tls: config, parts: want.Parts, state: State{Since: time.Now(), Why: "not yet tried"}}
	if !want.dials() {
		l.state.Why = "the other gateway, which is to open it, has not"
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	if want.dials() {
		l.owned.Go(func() { r.dial(l) })
	}
	return l, nil
}

// end ends the link and waits for what it runs.
func (l *link) end() {
	l.cancel()
	l.owned.Wait()
}

func (l *link) session() *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *link) read() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state
	s.Differs = differences(l.parts, l.other)
	if l.now != nil {
		s.Synced = l.now.synced.Load()
		s.Sent += l.now.sent.Load()
		s.Received += l.now.received.Load()
	}
	return s
}

// attach makes s the link's connection. A former one, which the other end no longer has,
// is cut.
func (l *link) attach(s *session) {
	l.mu.Lock()
	was := l.now
	l.now, l.other = s, nil
	l.state.Connected, l.state.Since, l.state.Why, l.state.Refusal = true, time.Now(), "", ""
	l.logged = ""
	l.mu.Unlock()
	if was != nil {
		was.cut(errors.New("the other end opened another connection"))
	}
}

// detach ends that.
func (l *link) detach(s *session, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Sent += s.sent.Load()
	l.state.Received += s.received.Load()
	if s.resync.Load() {
		l.state.Resyncs++
	}
	if l.now == s {
		l.now = nil
		l.state.Connected, l.state.Since = false, time.Now()
		if l.ctx.Err() == nil {
			s.r.Log.Warn("sessions are not replicated any more", event.Is(event.SyncDown), "gateway", l.Remote, "port", l.Port, "why", fmt.Sprint(why))
		}
		l.explain(why)
		l.logged, l.loggedAt = l.state.Why, time.Now()
	}
}

// explain keeps why there is no connection; mu is held.
func (l *link) explain(why error) {
	if why != nil {
		l.state.Why, l.state.Refusal = why.Error(), refusalOf(why)
	}
}

// enter has the goroutine be in the network namespace for good.
func (r *Replicator) enter() error {
	runtime.LockOSThread()
	return r.Enter()
}

// dial keeps the link connected.
func (r *Replicator) dial(l *link) {
	if err := r.enter(); err != nil {
		r.Log.Error("replication of sessions", "gateway", l.Remote, "err", err)
		return
	}
	dialer := net.Dialer{
		Timeout: dialTimeout, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(l.Local, 0)), KeepAlive: -1, Control: freebind,
	}
	pause := firstPause
	for l.ctx.Err() == nil {
		c, err := dialer.DialContext(l.ctx, "tcp", netip.AddrPortFrom(l.Remote, l.Port).String())
		if err == nil {
			began := time.Now()
			done := make(chan error, 1)
			go func() { done <- r.connect(l.ctx, l, c, func() {}) }() // on a thread that is not bound to this goroutine
			if err = <-done; time.Since(began) > shakeTimeout {
				pause = firstPause
			}
		}
		r.report(l, err)
		select {
		case <-l.ctx.Done():
		case <-time.After(time.Duration(float64(pause) * (0.75 + 0.5*rand.Float64()))):
		}
		pause = min(2*pause, longestPause)
	}
}

// report keeps why the link has no connection, and logs it when that is news. What happens to another connection
// while there is one is not.
func (r *Replicator) report(l *link, err error) {
	if err == nil || l.ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil {
		return
	}
	l.explain(err)
	if now := time.Now(); l.state.Why != l.logged && now.Sub(l.loggedAt) >= reportEvery {
		l.logged, l.loggedAt = l.state.Why, now
		r.Log.Warn("replication of sessions", "gateway", l.Remote, "port", l.Port, "err", err)
	}
}

// listener takes the connections of gateways with lower addresses.
type listener struct {
	net.Listener
	cancel context.CancelFunc
}

// listen opens and closes listeners as links need them.
func (r *Replicator) listen(links []Link) error {
	wanted := make(map[netip.AddrPort]bool)
	for _, l := range links {
		if !l.dials() {
			wanted[netip.AddrPortFrom(l.Local, l.Port)] = true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for at, l := range r.listeners {
		if !wanted[at] {
			delete(r.listeners, at)
			l.cancel()
			errs = append(errs, l.Close())
		}
	}
	for at := range wanted {
		if r.listeners[at] == nil {
			errs = append(errs, r.listenAt(at))
		}
	}
	return errors.Join(errs...)
}

// listenAt opens one; mu is held. It uses a thread of its own, as the caller's may be in
// another network namespace.
func (r *Replicator) listenAt(at netip.AddrPort) error {
	type opened struct {
		net.Listener
		error
	}
	result := make(chan opened)
	go func() {
		if err := r.enter(); err != nil {
			result <- opened{error: err}
			return
		}
		config := net.ListenConfig{Control: freebind, KeepAlive: -1}
		l, err := config.Listen(context.Background(), "tcp", at.String())
		result <- opened{l, err}
	}()
	o := <-result
	if o.error != nil {
		return fmt.Errorf("replication of sessions: listen on %s: %w", at, o.error)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.listeners[at] = &listener{o.Listener, cancel}
	r.owned.Go(func() { r.accept(ctx, o.Listener, at) })
	return nil
}

// accept takes connections from gateways of links until the listener is closed.
func (r *Replicator) accept(ctx context.Context, from net.Listener, at netip.AddrPort) {
	var owned sync.WaitGroup
	defer owned.Wait()
	shaking := gate{from: map[netip.Addr]int{}}
	for {
		c, err := from.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many files
			select {
			case <-ctx.Done():
				return
			case <-time.After(firstPause):
			}
			continue
		}
		from, l := r.linkOf(c, at)
		switch {
		case l == nil:
			r.refuse(c, from, UnknownAddress)
			continue
		case !shaking.enter(from):
			r.refuse(c, from, TooMany)
			continue
		}
		owned.Go(func() {
			leave := sync.OnceFunc(func() { shaking.leave(from) })
			defer leave()
			both, stop := context.WithCancel(l.ctx)
			defer stop()
			defer context.AfterFunc(ctx, stop)()
			r.report(l, r.connect(both, l, c, leave))
		})
	}
}

// linkOf is where a connection is from, and the link that it may belong to.
func (r *Replicator) linkOf(c net.Conn, at netip.AddrPort) (from netip.Addr, l *link) {
	peer, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return from, nil
	}
	from = peer.AddrPort().Addr().Unmap()
	r.mu.Lock()
	defer r.mu.Unlock()
	l = r.links[ID{from, at.Port()}]
	if l == nil || l.dials() || l.Local != at.Addr() {
		return from, nil
	}
	return from, l
}

// freebind lets an address be used before the host has it.
func freebind(network, _ string, c syscall.RawConn) error {
	level, option := unix.IPPROTO_IP, unix.IP_FREEBIND
	if network == "tcp6" {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_FREEBIND
	}
	var err error
	return errors.Join(c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, 1) }), err)
}
