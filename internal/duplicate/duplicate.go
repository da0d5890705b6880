// Package duplicate finds hosts that have an address of this edge too: a tunnel endpoint, an uplink's own, or one that egress policies give
// (RFC 5227, RFC 4862).
//
// Its one invariant: an address that another gateway of a group may have served is announced at once; only one that is new here is asked
// for first. Do not use it for addresses of guests, which the data path guards.
package duplicate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

const (
	// newProbes are sent for an address before it is announced, and heldProbes for one that is here already.
	newProbes, heldProbes = 3, 2
	// lookEvery is how often each address is asked for. One that another host has is asked for and defended each defendEvery (DEFEND_INTERVAL of
	// RFC 5227), and confirmed after confirmAfter: of two gateways one may have just taken it over.
	lookEvery    = time.Minute
	defendEvery  = 10 * time.Second
	confirmAfter = 2 * time.Second
	// checkEvery is how often it is looked whether the data path refused messages from the edge's own addresses.
	checkEvery = 3 * time.Second
	// mostAsked bounds the addresses of a look at one link.
	mostAsked = 1024

	fault = "ask whether other hosts have addresses of this edge"
)

// IsMinor reports whether a fault is one with which packets still go where they should.
func IsMinor(what string) bool { return what == fault }

// Address is one of this edge. That of a tunnel endpoint has no uplink.
type Address struct {
	gateway.Place
	Link
	Shared bool // by egress policies: in their pool
}

func (a Address) String() string {
	switch {
	case a.Uplink == "":
		return fmt.Sprintf("tunnel endpoint %s at interface %s", a.Addr, a.Interface)
	case a.Shared:
		return fmt.Sprintf("egress address %s at uplink %s", a.Addr, a.Uplink)
	}
	return fmt.Sprintf("address %s of uplink %s", a.Addr, a.Uplink)
}

// Options are what a Watch needs.
type Options struct {
	// Addresses are those that this edge has, and what may be one of its MAC addresses. It is called in the network namespace.
	Addresses func() (list []Address, own []overlay.MAC)
	// Refused is how many messages with sender addresses of this edge the data path refused.
	Refused func() (uint64, error)
	// Ask is the function Ask of this package, and Defend likewise.
	Ask    func(ctx context.Context, l Link, addrs []netip.Addr, probes int) (map[netip.Addr]overlay.MAC, error)
	Defend func(l Link, addrs []netip.Addr, router bool) error
	// Withhold has this edge answer for none of these egress addresses, and for the others.
	Withhold func(map[gateway.Place]bool)
	// Enter has the calling thread be in the network namespace of the edge.
	Enter  func() error
	Log    *slog.Logger
	Report func(what string, err error)
}

// Watch asks for addresses. Run is for one goroutine.
type Watch struct {
	o       Options
	asked   chan question
	ended   chan struct{}
	refused uint64
	known   bool // refused is
	doubted bool // since the last look another host said that it has an address of this edge
	due     time.Time
	looked  time.Time

	mu    sync.Mutex
	found map[gateway.Place]*conflict
}

// conflict is an address that another host has.
type conflict struct {
	Address
	mac      overlay.MAC
	times    int  // it was found in a row
	withheld bool // it was found before this edge announced the address
}

func (c *conflict) isConfirmed() bool { return c.withheld || c.times > 1 }

// question is which of places are free.
type question struct {
	places []gateway.Place
	free   chan []gateway.Place
}

// New knows of no conflict yet.
func New(o Options) *Watch {
	return &Watch{o: o, asked: make(chan question), ended: make(chan struct{}), found: map[gateway.Place]*conflict{}}
}

// Free asks whether other hosts have addresses, which takes probeEvery for each probe, and says which are free. It implements gateway.Prober.
func (w *Watch) Free(ctx context.Context, places []gateway.Place) []gateway.Place {
	q := question{places, make(chan []gateway.Place, 1)}
	select {
	case w.asked <- q:
	case <-w.ended:
		return places
	case <-ctx.Done():
		return nil
	}
	select {
	case free := <-q.free:
		return free
	case <-w.ended:
		return places
	case <-ctx.Done():
		return nil
	}
}

// Run looks until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	defer close(w.ended)
	runtime.LockOSThread()
	if err := w.o.Enter(); err != nil {
		w.o.Log.Error(fault, "err", err) // the links may still be found from here
	}
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	for {
		w.look(ctx, time.Now())
		timer := time.NewTimer(time.Until(w.due))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case q := <-w.asked:
			q.free <- w.probe(ctx, q.places)
		case <-check.C:
			if w.isRefused() {
				w.due, w.doubted = w.looked.Add(defendEvery), true
			}
		case <-timer.C:
		}
		timer.Stop()
	}
}

// isRefused reports whether the data path refused more messages since the last time.
func (w *Watch) isRefused() bool {
	n, err := w.o.Refused()
	if err != nil {
		return false
	}
	more := w.known && n > w.refused
	w.refused, w.known = n, true
	return more && !w.isFound() // of what is found it is known when to ask again
}

func (w *Watch) isFound() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.found) > 0
}

// probe says which of places are free. Those that are not are withheld. What another host has is asked for once more: of
// gateways that start together each answers for all addresses until it hears of the others.
func (w *Watch) probe(ctx context.Context, places []gateway.Place) (free []gateway.Place) {
	list, own := w.o.Addresses()
	list = slices.DeleteFunc(list, func(a Address) bool { return !a.Shared || !slices.Contains(places, a.Place) })
	others := w.ask(ctx, list, own, newProbes)
	if len(others) > 0 {
		list = slices.DeleteFunc(list, func(a Address) bool { _, taken := others[a.Place]; return !taken })
		again := w.ask(ctx, list, own, newProbes)
		maps.DeleteFunc(others, func(p gateway.Place, mac overlay.MAC) bool { return again[p] != mac })
	}
	list, _ = w.o.Addresses() // an address that went to another gateway meanwhile is that gateway's
	for _, a := range list {
		if mac, taken := others[a.Place]; taken {
			w.add(a, mac, true)
			w.due = time.Now().Add(defendEvery)
		}
	}
	w.withhold()
	return slices.DeleteFunc(slices.Clone(places), func(p gateway.Place) bool { _, taken := others[p]; return taken })
}

// ask asks for addresses by link.
func (w *Watch) ask(ctx context.Context, list []Address, own []overlay.MAC, probes int) map[gateway.Place]overlay.MAC {
	byLink := map[Link][]Address{}
	for _, a := range list {
		if len(byLink[a.Link]) < mostAsked {
			byLink[a.Link] = append(byLink[a.Link], a)
		}
	}
	found := map[gateway.Place]overlay.MAC{}
	var failed error
	for link, some := range byLink {
		addrs := make([]netip.Addr, len(some))
		for i, a := range some {
			addrs[i] = a.Addr
		}
		others, err := w.o.Ask(ctx, link, addrs, probes)
		if err != nil && ctx.Err() == nil && !isAway(err) {
			failed = fmt.Errorf("interface %s: %w", link.Interface, err)
		}
		for _, a := range some {
			if mac, is := others[a.Addr]; is && !slices.Contains(own, mac) {
				found[a.Place] = mac
			}
		}
	}
	w.o.Report(fault, failed)
	return found
}

// isAway reports whether the interface is down or absent: that is a problem of its own, and no host can be asked.
func isAway(err error) bool {
	return errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO)
}

// add notes what was found.
func (w *Watch) add(a Address, mac overlay.MAC, withheld bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.found[a.Place]
	if c == nil {
		c = &conflict{withheld: withheld}
		w.found[a.Place] = c
	}
	was := c.isConfirmed() && c.times > 0
	c.Address, c.mac = a, mac
	c.times++
	if c.isConfirmed() && !was {
		w.o.Log.Warn("another host has an address of this edge", event.Is(event.AddressConflict), "address", a.Addr, "mac", mac, "interface", a.Interface, "uplink", a.Uplink, "withheld", c.withheld)
	}
}

// look asks for all addresses when that is due, and for those that others have more often.
func (w *Watch) look(ctx context.Context, now time.Time) {
	if now.Before(w.due) {
		return
	}
	w.looked = now
	list, own := w.o.Addresses()
	others := w.ask(ctx, list, own, heldProbes)
	if ctx.Err() != nil {
		return
	}
	for _, a := range list {
		if mac, taken := others[a.Place]; taken {
			w.add(a, mac, false)
		}
	}
	w.defend(list, others)
	w.settle(others)
}

// defend tells the networks of addresses that another host has too, or has had: what was told of it meanwhile is in neighbours' tables.
func (w *Watch) defend(list []Address, others map[gateway.Place]overlay.MAC) {
	told := map[Link][]netip.Addr{}
	w.mu.Lock()
	for _, a := range list {
		c, taken := w.found[a.Place], others[a.Place] != overlay.MAC{}
		switch {
		case a.Uplink == "" || c != nil && c.withheld:
		case taken && c.isConfirmed(), !taken && (c != nil || w.doubted):
			told[a.Link] = append(told[a.Link], a.Addr)
		}
	}
	w.doubted = false
	w.mu.Unlock()
	for link, addrs := range told {
		w.o.Report(fault, w.o.Defend(link, addrs, true))
	}
}

// settle forgets what is over, and says when to look again.
func (w *Watch) settle(others map[gateway.Place]overlay.MAC) {
	wait := lookEvery
	w.mu.Lock()
	for p, c := range w.found {
		if _, still := others[p]; !still {
			if delete(w.found, p); c.isConfirmed() {
				w.o.Log.Info("no other host has the address any more", event.Is(event.AddressConflict), "address", p.Addr, "mac", c.mac, "interface", c.Interface, "uplink", c.Uplink)
			}
			continue
		}
		if wait = min(wait, defendEvery); !c.isConfirmed() {
			wait = confirmAfter
		}
	}
	w.mu.Unlock()
	w.due = time.Now().Add(wait)
	w.withhold()
}

// withhold has the edge answer for none of the addresses that others had first.
func (w *Watch) withhold() {
	w.mu.Lock()
	places := map[gateway.Place]bool{}
	for p, c := range w.found {
		if c.withheld {
			places[p] = true
		}
	}
	w.mu.Unlock()
	w.o.Withhold(places)
}

// Others are the hosts that have addresses of this edge.
func (w *Watch) Others() map[gateway.Place]overlay.MAC {
	w.mu.Lock()
	defer w.mu.Unlock()
	others := map[gateway.Place]overlay.MAC{}
	for p, c := range w.found {
		if c.isConfirmed() {
			others[p] = c.mac
		}
	}
	return others
}

// Problems are the addresses that others have.
func (w *Watch) Problems() (list []problem.Problem) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range slices.SortedFunc(maps.Keys(w.found), func(a, b gateway.Place) int { return a.Addr.Compare(b.Addr) }) {
		switch c := w.found[p]; {
		case !c.isConfirmed():
		case c.withheld:
			list = append(list, problem.Error("%s: the host with MAC address %s has it, so this edge does not answer for it and replies to its sources are lost: "+
				"take the address from that host, or out of the pool", c, c.mac))
		case c.Uplink == "":
			list = append(list, problem.Error("%s: the host with MAC address %s has it too, and gets packets for this edge: give each edge its own tunnel endpoint", c, c.mac))
		default:
			list = append(list, problem.Error("%s: the host with MAC address %s has it too, and gets packets for it: take the address from that host, or use another one", c, c.mac))
		}
	}
	return list
}
