package bgp

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/evpn"
)

// DefaultMaxWaiting is how many updates of a neighbour wait at most: more than a full Internet table
// has, and of the same order as what GoBGP keeps of such a neighbour anyway.
const DefaultMaxWaiting = 2_000_000

const (
	// takeMost are taken at a time: what is left can still be overtaken.
	takeMost = 4096
	// mostHosts that came to ports wait.
	mostHosts = 65_536
)

// inbox is what is left for the goroutine to do, in order. Nobody waits to leave something, so it
// is bounded otherwise: of updates for one NLRI of one neighbour, and of jobs with one key, the last
// counts. It takes the place at the end, and a withdrawal that of those before all others: packets go astray until
// it is done, however many routes are being installed.
type inbox struct {
	mostUpdates int
	wake        chan struct{} // has a mark when there is something

	mu    sync.Mutex
	items list.List
	// withdrawals of routes of which nothing else waits.
	withdrawals list.List
	at          map[any]*list.Element
	routes      map[routeKey]int // updates that wait
	// waiting are the updates of each neighbour, sessions how often its session changed: what was
	// said in another session is not overtaken.
	waiting  map[netip.Addr]int
	sessions map[netip.Addr]uint64
	hosts    int
}

// item is an update, or a job.
type item struct {
	key    any
	update *evpn.Update
	at     time.Time // the update was received
	do     func()
	hosts  int // that the job is about
	in     *list.List
}

// routeKey is what tells routes apart, in all sessions.
type routeKey struct {
	neighbour netip.Addr
	route     evpn.Key
}

func keyOf(u *evpn.Update) routeKey { return routeKey{u.Neighbour, u.Route.Key} }

// updateKey is what tells updates apart.
type updateKey struct {
	neighbour netip.Addr
	session   uint64
	route     evpn.Key
}

func newInbox(mostUpdates int) *inbox {
	return &inbox{
		mostUpdates: mostUpdates, wake: make(chan struct{}, 1), at: make(map[any]*list.Element), routes: make(map[routeKey]int),
		waiting: make(map[netip.Addr]int), sessions: make(map[netip.Addr]uint64),
	}
}

// post has do done after what was posted before.
func (i *inbox) post(do func()) { i.postLast(nil, do) }

// postLast is post, in the place of what was posted with the same key and waits still.
func (i *inbox) postLast(key any, do func()) {
	i.mu.Lock()
	i.put(&item{key: key, do: do})
	i.mu.Unlock()
	i.mark()
}

// postHosts is post of a job about hosts that came. It reports whether there was room.
func (i *inbox) postHosts(hosts int, do func()) bool {
	i.mu.Lock()
	if i.hosts+hosts > mostHosts && i.hosts > 0 {
		i.mu.Unlock()
		return false
	}
	i.hosts += hosts
	i.put(&item{do: do, hosts: hosts})
	i.mu.Unlock()
	i.mark()
	return true
}

// postSession is post of the change of a neighbour's session.
func (i *inbox) postSession(neighbour netip.Addr, do func()) {
	i.mu.Lock()
	i.sessions[neighbour]++
	i.put(&item{do: do})
	i.mu.Unlock()
	i.mark()
}

// receive has updates wait. Those of neighbours of which too many would are dropped, and the
// neighbours returned: their sessions have to begin anew.
func (i *inbox) receive(updates []evpn.Update, at time.Time) (overflowed []netip.Addr) {
	i.mu.Lock()
	for n := range updates {
		u := &updates[n]
		i.put(&item{key: updateKey{u.Neighbour, i.sessions[u.Neighbour], u.Route.Key}, update: u, at: at})
		if i.waiting[u.Neighbour] > i.mostUpdates {
			i.drop(u.Neighbour)
			overflowed = append(overflowed, u.Neighbour)
		}
	}
	i.mu.Unlock()
	i.mark()
	return overflowed
}

// put appends an item, and takes out the one that it replaces. mu is held.
func (i *inbox) put(it *item) {
	if it.key != nil {
		if before := i.at[it.key]; before != nil {
			i.remove(before)
		}
	}
	it.in = &i.items
	if u := it.update; u != nil {
		if u.Withdrawn && i.routes[keyOf(u)] == 0 {
			it.in = &i.withdrawals
		}
		i.waiting[u.Neighbour]++
		i.routes[keyOf(u)]++
	}
	e := it.in.PushBack(it)
	if it.key != nil {
		i.at[it.key] = e
	}
}

// remove takes an item out. mu is held.
func (i *inbox) remove(e *list.Element) *item {
	it := e.Value.(*item)
	it.in.Remove(e)
	if it.key != nil {
		delete(i.at, it.key)
	}
	if it.update != nil {
		if i.waiting[it.update.Neighbour]--; i.waiting[it.update.Neighbour] == 0 {
			delete(i.waiting, it.update.Neighbour)
		}
		if i.routes[keyOf(it.update)]--; i.routes[keyOf(it.update)] == 0 {
			delete(i.routes, keyOf(it.update))
		}
	}
	i.hosts -= it.hosts
	return it
}

// drop takes out all updates of a neighbour. mu is held.
func (i *inbox) drop(neighbour netip.Addr) {
	for _, waiting := range []*list.List{&i.items, &i.withdrawals} {
		for e := waiting.Front(); e != nil; {
			next := e.Next()
			if it := e.Value.(*item); it.update != nil && it.update.Neighbour == neighbour {
				i.remove(e)
			}
			e = next
		}
	}
}

// take takes the next ones out: a job, or updates that were received at one time.
func (i *inbox) take() (do func(), updates []evpn.Update, at time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	from := &i.items
	if i.withdrawals.Len() > 0 {
		from = &i.withdrawals
	}
	for e := from.Front(); e != nil && len(updates) < takeMost; e = from.Front() {
		it := e.Value.(*item)
		if len(updates) > 0 && (it.update == nil || !it.at.Equal(at)) {
			break
		}
		i.remove(e)
		if it.update == nil {
			return it.do, nil, at
		}
		updates, at = append(updates, *it.update), it.at
	}
	return nil, updates, at
}

// len is how many wait.
func (i *inbox) len() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.items.Len() + i.withdrawals.Len()
}

func (i *inbox) mark() {
	select {
	case i.wake <- struct{}{}:
	default:
	}
}
