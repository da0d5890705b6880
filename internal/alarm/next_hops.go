package alarm

import (
	"sync"

	"github.com/selvage/selvage/internal/datapath"
)

// NoNeighbour is the drop reason of packets whose next hop was asked for its MAC address.
const NoNeighbour = "no-neighbour"

// Drops are counters by reason.
type Drops interface {
	Drops() ([]datapath.Drop, error)
}

// NextHops watches over packets that found no MAC address of their next hop.
type NextHops struct {
	o            Options
	mu           sync.Mutex
	before, last uint64 // at the last two looks
}

// NewNextHops has seen nothing.
func NewNextHops(o Options) *NextHops { return &NextHops{o: o} }

// Begin takes the first look: what a previous process counted is no news.
func (h *NextHops) Begin(drops Drops) {
	h.Look(drops)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before = h.last
}

// Look takes a look.
func (h *NextHops) Look(drops Drops) {
	n, err := countAsked(drops)
	h.o.Report(readDrops, err)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before, h.last = h.last, n
}

// AreMissing reports whether packets wanted a MAC address in vain since the look before the last
// one: a next hop is asked when a packet needs it, so one that nobody needs is no problem.
func (h *NextHops) AreMissing(drops Drops) (bool, error) {
	n, err := countAsked(drops)
	h.mu.Lock()
	defer h.mu.Unlock()
	return err == nil && n > h.before, err
}

func countAsked(drops Drops) (uint64, error) {
	list, err := drops.Drops()
	for _, d := range list {
		if d.Reason == NoNeighbour {
			return d.Packets, err
		}
	}
	return 0, err
}
