package gateway

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
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
	fresh     int   // of these, that were not here before
	failovers []int // by which they came
}

// Uplinks are the networks that are told where addresses are.
type Uplinks interface {
	// Announce announces those of places that this edge owns, while no table changes.
	Announce(places []Place, owns func(Place) bool)
}

// Announcer tells the networks of the uplinks where addresses are now.
type Announcer struct {
	role    *Role
	uplinks Uplinks
	came    chan Announcement
	ended   chan struct{}
}

// NewAnnouncer makes one for the addresses of a role.
func NewAnnouncer(role *Role, uplinks Uplinks) *Announcer {
	return &Announcer{role: role, uplinks: uplinks, came: make(chan Announcement, 1), ended: make(chan struct{})}
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
			n.announce(a.places)
			now := time.Now()
			n.role.announced(a, now)
			for _, after := range repeats {
				due = append(due, repeat{a.places, now.Add(after)})
			}
			slices.SortStableFunc(due, func(a, b repeat) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
		case <-timer.C:
			if len(due) > 0 && !time.Now().Before(due[0].at) {
				n.announce(due[0].places)
				due = due[1:]
			}
		}
		timer.Stop()
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
