package host

import (
	"errors"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
)

// facts are what is asked of each link's driver. That takes several requests for each, so it is kept until the kernel
// tells of a change of the link; in case that was lost, the oldest are asked again now and then.
type facts struct {
	mu    sync.Mutex
	known map[int]linkFacts // by ifindex
	lost  uint64            // how often something was forgotten
}

type linkFacts struct {
	name     string
	segments bool
	xdp      XDP
	asked    time.Time
}

const (
	factsAge = 30 * time.Second
	// factsMost is how many old ones one look asks again.
	factsMost = 64
)

// forget has a link be asked again, or with 0 all.
func (f *facts) forget(ifindex int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost++
	if ifindex == 0 {
		f.known = nil
		return
	}
	delete(f.known, ifindex)
}

// of is what is known of a link, and when to keep what is asked instead.
func (f *facts) of(link Link) (known linkFacts, ok bool, lost uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known, ok = f.known[link.Index]
	return known, ok && known.name == link.Name, f.lost
}

// keep notes what was asked, unless something changed meanwhile.
func (f *facts) keep(link Link, lost uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost != lost {
		return
	}
	if f.known == nil {
		f.known = map[int]linkFacts{}
	}
	f.known[link.Index] = linkFacts{link.Name, link.Segments, link.XDP, time.Now()}
}

// complete fills in what the driver says. again is how many old facts may be asked anew.
func (h *Host) complete(link Link, again *int) Link {
	known, ok, lost := h.facts.of(link)
	if ok && (time.Since(known.asked) < factsAge || *again <= 0) {
		link.Segments, link.XDP = known.segments, known.xdp
		return link
	}
	if ok {
		*again--
	}
	link.Segments, link.XDP = h.takesSegments(link.Name), h.xdpOf(link)
	h.facts.keep(link, lost)
	return link
}

// Links are those of the names that exist, as Observe would find them now.
func (h *Host) Links(names []string) (map[string]Link, error) {
	links, again := make(map[string]Link, len(names)), factsMost
	for _, name := range names {
		l, err := h.handle.LinkByName(name)
		var none netlink.LinkNotFoundError
		if errors.As(err, &none) {
			continue
		}
		if err != nil {
			return nil, err
		}
		links[name] = h.complete(linkOf(l), &again)
	}
	return links, nil
}
