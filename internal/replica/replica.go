// Package replica tells the gateways of a group of each other's sessions, over TCP between
// their first tunnel endpoints, so that connections survive when one takes over from another.
//
// Its one invariant: what a gateway got from another is, once they are synchronised, all that
// the other had, less what is on its way: one that is too slow, or missed something, is cut
// off and told everything again. It carries records as bytes and knows nothing of what is in
// them. Connections are TLS 1.3, by certificates that both ends derive from the key of the
// configuration. Do not use it without a key where others reach the port: they would be believed.
package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Link is a connection to another gateway: one for each port, whatever groups share it.
type Link struct {
	Local, Remote netip.Addr
	Port          uint16
	Key           []byte // nil: whoever reaches the port is believed
	// Parts are hashes of what both ends have to be configured with alike, by its name.
	Parts map[string]Part
}

// Part is a hash.
type Part = [16]byte

// ID names the link.
func (l Link) ID() ID { return ID{l.Remote, l.Port} }

// dials reports whether this end is the one that opens the connection: the lower address.
func (l Link) dials() bool { return l.Local.Less(l.Remote) }

func (l Link) same(o Link) bool {
	return l.Local == o.Local && l.ID() == o.ID() && slices.Equal(l.Key, o.Key)
}

// ID is the other end of a link.
type ID struct {
	Remote netip.Addr
	Port   uint16
}

func (id ID) String() string { return netip.AddrPortFrom(id.Remote, id.Port).String() }

// Format is what records are like.
type Format struct {
	Len     int    // bytes of each
	Version uint16 // ends of different versions do not talk to each other
}

// Store is the sessions of this edge. Its methods are called by many goroutines. Records
// are whole ones behind each other, good until the method returns.
type Store interface {
	// Snapshot calls do with all sessions that are for the link, some at a time.
	Snapshot(link ID, do func(records []byte)) error
	Put(link ID, records []byte) error
	Delete(link ID, records []byte) error
}

// State is what is known of a link.
type State struct {
	Connected bool
	Since     time.Time // of Connected
	// Synced says that the other end has sent all that it had when the connection began.
	Synced bool
	Why    string // it is not connected
	// Refusal is that of the last handshake, "" unless it is Why.
	Refusal Refusal
	// Differs are the names of parts that are others at the other end, in order.
	Differs []string
	// Sent and Received count records, Resyncs the connections that were cut because the
	// other end was too slow or something was missed.
	Sent, Received, Resyncs uint64
}

// Options are what a Replicator needs.
type Options struct {
	Format Format
	Store  Store
	Log    *slog.Logger
	// Enter has the thread of the calling goroutine, which is locked to it, be in the network
	// namespace of the gateway's tunnel endpoints for good.
	Enter func() error
}

// Replicator keeps links. Its methods may be called from many goroutines.
type Replicator struct {
	Options
	most int // records that may wait for a slow end

	mu        sync.Mutex
	links     map[ID]*link
	listeners map[netip.AddrPort]*listener
	closed    bool
	refusals  map[Refusal]uint64
	strangers time.Time // when a line about them was logged

	changed   chan struct{}
	snapshots sync.Mutex // one is read at a time: each walks all sessions
	owned     sync.WaitGroup
}

// New makes a Replicator without links. The caller closes it.
func New(o Options) (*Replicator, error) {
	if o.Format.Len <= 0 || o.Format.Len*recordsMost > maxPayload {
		return nil, fmt.Errorf("replicate sessions: records of %d bytes", o.Format.Len)
	}
	return &Replicator{
		Options: o, most: queueMost, links: map[ID]*link{}, listeners: map[netip.AddrPort]*listener{},
		refusals: map[Refusal]uint64{}, changed: make(chan struct{}, 1),
	}, nil
}

// Close ends all links.
func (r *Replicator) Close() error {
	r.mu.Lock()
	was := r.closed
	r.closed = true
	r.mu.Unlock()
	if was {
		return nil
	}
	err := r.set(nil)
	r.owned.Wait()
	return err
}

// Changed receives after a link was connected, synchronised or lost.
func (r *Replicator) Changed() <-chan struct{} { return r.changed }

// States are those of all links.
func (r *Replicator) States() map[ID]State {
	r.mu.Lock()
	defer r.mu.Unlock()
	states := make(map[ID]State, len(r.links))
	for id, l := range r.links {
		states[id] = l.read()
	}
	return states
}

// Set says which links there are. One that stays as it was goes on. The error says which
// addresses cannot be listened on; the next Set tries again.
func (r *Replicator) Set(links []Link) error {
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if closed {
		return errors.New("replicate sessions: it has ended")
	}
	return r.set(links)
}

func (r *Replicator) set(links []Link) error {
	wanted := make(map[ID]Link, len(links))
	for _, l := range links {
		wanted[l.ID()] = l
	}
	for _, gone := range r.drop(wanted) {
		gone.end()
	}
	var errs []error
	r.mu.Lock()
	for _, id := range slices.SortedFunc(maps.Keys(wanted), ID.compare) {
		if l := r.links[id]; l != nil {
			l.setParts(wanted[id].Parts)
			continue
		}
		l, err := r.open(wanted[id])
		if err != nil {
			errs = append(errs, fmt.Errorf("replication of sessions with %s: %w", id, err))
			continue
		}
		r.links[id] = l
	}
	r.mu.Unlock()
	return errors.Join(append(errs, r.listen(links))...)
}

func (id ID) compare(o ID) int {
	return cmp.Or(id.Remote.Compare(o.Remote), cmp.Compare(id.Port, o.Port))
}

// drop takes out the links that are not wanted, or wanted otherwise.
func (r *Replicator) drop(wanted map[ID]Link) (gone []*link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, l := range r.links {
		if want, ok := wanted[id]; !ok || !l.Link.same(want) {
			delete(r.links, id)
			gone = append(gone, l)
		}
	}
	return gone
}

// Put tells the link of sessions that are new, or go on.
func (r *Replicator) Put(id ID, records []byte) { r.queue(id, kindPut, records) }

// Delete tells it of sessions that ended.
func (r *Replicator) Delete(id ID, records []byte) { r.queue(id, kindDelete, records) }

func (r *Replicator) queue(id ID, k kind, records []byte) {
	r.mu.Lock()
	l := r.links[id]
	r.mu.Unlock()
	if l == nil || len(records) == 0 {
		return
	}
	if s := l.session(); s != nil {
		s.queue(k, records)
	}
}

// Resync cuts all connections, after something was missed.
func (r *Replicator) Resync(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		if s := l.session(); s != nil {
			s.cut(errors.New(why))
		}
	}
}

func (r *Replicator) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// connect serves a connection of l until it ends or ctx does. It calls shaken when the handshake is over, whatever its end.
func (r *Replicator) connect(ctx context.Context, l *link, c net.Conn, shaken func()) error {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	conn, err := shake(c, l.tls, r.Format, !l.dials())
	shaken()
	if err != nil {
		if ctx.Err() == nil {
			r.countRefused(refusalOf(err))
		}
		return err
	}
	return r.serve(l, conn)
}

// serve exchanges records over a connection whose ends know each other.
func (r *Replicator) serve(l *link, c net.Conn) error {
	s := newSession(r, l, c)
	l.attach(s)
	r.notify()
	err := s.run()
	l.detach(s, err)
	r.notify()
	return err
}
