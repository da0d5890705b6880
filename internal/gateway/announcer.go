package gateway

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// repeats are after how long addresses are announced again: an announcement may be lost, and
// a switch may still hear one of the former owner's last packets.
var repeats = []time.Duration{100 * time.Millisecond, time.Second}

// announceSome are announced before others may change tables again.
const announceSome = 32

// Place is an address at an uplink.
type Place struct {
	Uplink string
	Addr   netip.Addr
}

// Announcement is addresses that came to this edge.
type Announcement struct {
	places    []Place
	fresh     int     // of these, that were not here before
	unproven  []Place // of these, that no gateway of the group is known to have had
	failovers []int   // by which they came
}

// Uplinks are the networks that are told where addresses are.
type Uplinks interface {
	// Announce announces those of places that this edge owns, while no table changes.
	Announce(places []Place, owns func(Place) bool)
}

// Prober finds addresses that other hosts have.
type Prober interface {
	// Free says which of places no other host has. It may take a second.
	Free(ctx context.Context, places []Place) []Place
}

// Announcer tells the networks of the uplinks where addresses are now.
type Announcer struct {
	role    *Role
	uplinks Uplinks
	prober  Prober // nil: all are free
	came    chan Announcement
	ended   chan struct{}
}

// NewAnnouncer makes one for the addresses of a role.
func NewAnnouncer(role *Role, uplinks Uplinks, prober Prober) *Announcer {
	return &Announcer{role: role, uplinks: uplinks, prober: prober, came: make(chan Announcement, 1), ended: make(chan struct{})}
}

// Announce hands over addresses that came to this edge.
func (n *Announcer) Announce(a Announcement) {
	if len(a.places) == 0 {
		return
	}
	select {
	case n.came <- a:
	case <-n.ended:
	}
}

// repeat is an announcement that is due again.
type repeat struct {
	places []Place
	at     time.Time
}

// Run announces what came until ctx ends. It runs once.
func (n *Announcer) Run(ctx context.Context) {
	defer close(n.ended)
	var due []repeat
	free := make(chan []Place)
	var probes sync.WaitGroup
	defer probes.Wait()
	tell := func(places []Place) {
		n.announce(places)
		now := time.Now()
		for _, after := range repeats {
			due = append(due, repeat{places, now.Add(after)})
		}
		slices.SortStableFunc(due, func(a, b repeat) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	}
	for {
		wait := time.Hour
		if len(due) > 0 {
			wait = time.Until(due[0].at)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case a := <-n.came:
			tell(n.proven(a))
			n.role.announced(a, time.Now())
			if n.prober != nil && len(a.unproven) > 0 {
				probes.Go(func() { n.probe(ctx, a.unproven, free) })
			}
		case places := <-free:
			tell(places)
		case <-timer.C:
			if len(due) > 0 && !time.Now().Before(due[0].at) {
				n.announce(due[0].places)
				due = due[1:]
			}
		}
		timer.Stop()
	}
}

// proven are the places that are announced at once: a takeover waits for nobody.
func (n *Announcer) proven(a Announcement) []Place {
	if n.prober == nil {
		return a.places
	}
	return slices.DeleteFunc(slices.Clone(a.places), func(p Place) bool { return slices.Contains(a.unproven, p) })
}

// probe hands on those of places that no other host has.
func (n *Announcer) probe(ctx context.Context, places []Place, free chan<- []Place) {
	select {
	case free <- n.prober.Free(ctx, places):
	case <-ctx.Done():
	}
}

func (n *Announcer) announce(places []Place) {
	for some := range slices.Chunk(places, announceSome) {
		n.uplinks.Announce(some, n.role.owns)
	}
}

func (r *Role) owns(p Place) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owned[p]
}
