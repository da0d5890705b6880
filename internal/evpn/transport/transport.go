// Package transport has the TCP connections of a BGP speaker: it dials, listens, and closes one of two that collide (RFC 4271
// section 6.8, RFC 2385, RFC 5082). GoBGP gets one at a time, which reads through package message.
//
// Its one invariant: a connection that GoBGP does not get, or has to give up, is closed, and its neighbour told by a NOTIFICATION.
// It knows nothing of routes and of what a session is for.
package transport

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"reflect"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/evpn/message"
)

const (
	// dialPause is the least time between two connections that are dialled, as RFC 4271's IdleHoldTimer has it: a neighbour may end
	// each at once.
	dialPause = 2 * time.Second
	// undecided is how long a second connection may wait for what becomes of the first.
	undecided = 10 * time.Second
	// writeTime is how long a NOTIFICATION may take, and its reader.
	writeTime = time.Second
)

// Neighbour is where one is, and what its connections are like.
type Neighbour struct {
	Addr     netip.Addr
	Port     uint16
	Local    netip.Addr // unset: any
	Password string     // of TCP MD5
	// TTL is that of sent packets, MinTTL that which received ones have at least; 0: any.
	TTL, MinTTL int
	Passive     bool
	Retry       time.Duration
	Families    []message.Family
	AS          uint32
}

// Options are what a Transport needs.
type Options struct {
	AS       uint32
	RouterID netip.Addr
	// To gets connections, one of a neighbour at a time.
	To chan<- net.Conn
	// Failed is told that no connection could be made, Refused that one was ended here, Discarded what a neighbour said and is not used.
	// They are called from any goroutine.
	Failed    func(netip.Addr, error)
	Refused   func(netip.Addr, *message.Notification)
	Discarded func(netip.Addr, message.Discard)
	Log       *slog.Logger
}

// Transport has the connections of all neighbours.
type Transport struct {
	options Options
	ctx     context.Context
	cancel  context.CancelFunc
	work    sync.WaitGroup

	mu        sync.Mutex
	links     map[netip.Addr]*link
	listeners []*net.TCPListener
}

// link is a neighbour's connections.
type link struct {
	Neighbour
	wanted bool // GoBGP waits for a connection
	// current is GoBGP's, second one that came while there was that, or before GoBGP was there.
	current, second *Conn
	dialled         time.Time // the last attempt
	stop            context.CancelFunc
}

// New returns a Transport without neighbours.
func New(o Options) *Transport {
	t := &Transport{options: o, links: make(map[netip.Addr]*link)}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// Set adds a neighbour, or gives it another configuration. Connections are made after Want.
func (t *Transport) Set(n Neighbour) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return nil // it is closed
	}
	l := t.links[n.Addr]
	if l == nil {
		l = &link{stop: func() {}}
		t.links[n.Addr] = l
	}
	l.stop()
	if c := l.second; c != nil && !reflect.DeepEqual(l.Neighbour, n) { // it was taken as the neighbour was before
		l.second = nil
		t.work.Go(func() { c.refuse(rejected) })
	}
	l.Neighbour, l.wanted = n, false
	for _, listener := range t.listeners {
		if err := setPassword(listener, n.Addr, n.Password); err != nil {
			return fmt.Errorf("password of neighbour %s: %w", n.Addr, err)
		}
	}
	return nil
}

// Remove forgets a neighbour. The connection that GoBGP has is GoBGP's to close.
func (t *Transport) Remove(addr netip.Addr) {
	t.mu.Lock()
	l := t.links[addr]
	if l == nil {
		t.mu.Unlock()
		return
	}
	delete(t.links, addr)
	l.stop()
	second := l.second
	for _, listener := range t.listeners {
		_ = setPassword(listener, addr, "") // there may have been none
	}
	t.mu.Unlock()
	if second != nil {
		second.refuse(rejected)
	}
}

// Want says that GoBGP waits for a connection with a neighbour: one that is there, or one that is dialled.
func (t *Transport) Want(addr netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.links[addr]
	if l == nil || t.ctx.Err() != nil {
		return
	}
	l.stop()
	l.wanted = true
	if c := l.second; c != nil {
		l.second = nil
		t.pass(l, c)
		return
	}
	if l.Passive {
		return
	}
	ctx, stop := context.WithCancel(t.ctx)
	l.stop = stop
	wait := max(0, time.Until(l.dialled.Add(jittered(dialPause))))
	n := l.Neighbour
	t.work.Go(func() { t.dial(ctx, l, n, wait) })
}

// jittered is up to a quarter less (RFC 4271 section 10).
func jittered(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/4))
}

// dial tries until there is a connection.
func (t *Transport) dial(ctx context.Context, l *link, n Neighbour, wait time.Duration) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		t.mu.Lock()
		l.dialled = time.Now()
		t.mu.Unlock()
		wait = jittered(max(n.Retry, dialPause))
		conn, err := dialer(n, wait).DialContext(ctx, "tcp", netip.AddrPortFrom(n.Addr, n.Port).String())
		if err == nil {
			t.arrived(n.Addr, conn.(*net.TCPConn), true)
			return
		}
		if ctx.Err() != nil {
			return
		}
		t.options.Failed(n.Addr, err)
	}
}

// pass hands GoBGP a connection; t.mu is held.
func (t *Transport) pass(l *link, c *Conn) {
	l.stop()
	l.wanted, l.current = false, c
	t.work.Go(func() {
		select {
		case t.options.To <- c:
		case <-t.ctx.Done():
			c.refuse(rejected)
		}
	})
}

// arrived takes in a connection with a neighbour. It is the second one while GoBGP does not wait for any.
func (t *Transport) arrived(addr netip.Addr, conn *net.TCPConn, dialled bool) {
	t.mu.Lock()
	l := t.links[addr]
	if l == nil || t.ctx.Err() != nil || !dialled && l.Local.IsValid() && l.Local != addrOf(conn.LocalAddr()) {
		t.mu.Unlock()
		t.options.Log.Debug("BGP connection is closed: it belongs to no neighbour", "from", addr, "to", conn.LocalAddr())
		_ = conn.Close()
		return
	}
	c := t.newConn(l, conn, dialled)
	if l.wanted {
		t.pass(l, c)
		t.mu.Unlock()
		return
	}
	before := l.second
	l.second = c
	t.work.Go(func() { t.hold(l, c) })
	t.mu.Unlock()
	if before != nil {
		before.refuse(message.Collision())
	}
}

// rejected is what a connection is told for which there is no session (RFC 4486).
var rejected = &message.Notification{Code: 6, Subcode: 5, Why: "there is no session for its connection now"}

// hold reads the OPEN of a second connection, and ends it when it is not decided in time what becomes of it.
func (t *Transport) hold(l *link, c *Conn) {
	timer := time.AfterFunc(undecided, func() { t.overdue(l, c) })
	defer context.AfterFunc(t.ctx, func() { t.overdue(l, c) })()
	if c.await() != nil {
		timer.Stop()
		t.mu.Lock()
		gone := l.second == c
		t.mu.Unlock()
		if gone { // else it is GoBGP's to notice
			_ = c.Close()
		}
		return
	}
	select {
	case <-c.decided:
	case <-t.ctx.Done():
	}
	timer.Stop()
}

// overdue ends the wait of a second connection: for a first one that never said anything, by its end.
func (t *Transport) overdue(l *link, c *Conn) {
	t.mu.Lock()
	first := l.current
	switch {
	case l.second != c:
		t.mu.Unlock()
		return
	case first != nil && !first.opened.Load() && c.opened.Load() && t.ctx.Err() == nil:
		t.mu.Unlock()
		first.refuse(message.Collision())
		return
	}
	l.second = nil
	t.mu.Unlock()
	if first == nil {
		c.refuse(rejected)
	} else {
		c.refuse(message.Collision())
	}
}

// collide decides between two connections once that can be (RFC 4271 section 6.8): the one stays that was dialled by the end with the
// higher router ID, and an established one in any case. Of a first one without an OPEN it is known as soon as it would lose.
func (t *Transport) collide(l *link) {
	t.mu.Lock()
	first, second := l.current, l.second
	if first == nil || second == nil || !second.opened.Load() {
		t.mu.Unlock()
		return
	}
	loser := first
	if first.established.Load() || first.dialled != second.dialled && first.dialled == t.prevails(l, second) {
		loser = second
	}
	if loser == second {
		if !first.opened.Load() {
			t.mu.Unlock()
			return // it may be dead
		}
		l.second = nil
	}
	t.mu.Unlock()
	loser.refuse(message.Collision())
}

// prevails reports whether the connections that this end dials stay; of equal router IDs the AS decides (RFC 6286 section 2.3).
func (t *Transport) prevails(l *link, c *Conn) bool {
	id, _ := c.id.Load().(netip.Addr)
	return id.Less(t.options.RouterID) || id == t.options.RouterID && l.AS < t.options.AS
}

// closed forgets a connection.
func (t *Transport) closed(l *link, c *Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.current == c {
		l.current = nil
	}
	if l.second == c {
		l.second = nil
	}
}

// Close ends everything but the connections that GoBGP has.
func (t *Transport) Close() {
	t.mu.Lock()
	t.cancel() // nothing is started from here on
	for _, l := range t.listeners {
		_ = l.Close()
	}
	t.mu.Unlock()
	t.work.Wait()
}
