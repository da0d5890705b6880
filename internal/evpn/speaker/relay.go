package speaker

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/evpn/message"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/printable"
)

// relay reads GoBGP's log: it is the only place where GoBGP says what
// a notification said, and with graceful restart why a session ended. What an operator wants to know
// of it goes on in this project's words, the rest for debugging. See docs/decisions/0025-gobgp-log.md.
type relay struct {
	log     *slog.Logger
	mu      sync.Mutex
	reports map[netip.Addr]*report
	budget  budget
	ups     budget      // of sessions that come up and end: no nonsense of another neighbour hides those
	closed  atomic.Bool // what GoBGP says while it ends is for nobody
}

// report is what was read of a neighbour.
type report struct {
	mu        sync.Mutex
	conf      overlay.BGPNeighbour
	up        bool
	malformed uint64
	failure   string
	refused   bool              // failure is that one end refused the other's OPEN
	at        time.Time         // of failure, or of the session's end
	limited   bool              // by its number of prefixes
	left      bool              // it was shut down by its operator
	counts    map[string]uint64 // of what was discarded, by what it is
}

func newRelay(log *slog.Logger) *relay {
	return &relay{log: log, reports: make(map[netip.Addr]*report)}
}

// of returns a neighbour's, nil of one that is unknown.
func (r *relay) of(addr netip.Addr) *report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reports[addr]
}

func (r *relay) add(n overlay.BGPNeighbour) *report {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep := r.reports[n.Addr]
	if rep == nil {
		rep = &report{at: time.Now(), counts: make(map[string]uint64)}
		r.reports[n.Addr] = rep
	}
	rep.mu.Lock()
	rep.conf = n
	rep.mu.Unlock()
	return rep
}

func (r *relay) remove(addr netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reports, addr)
}

// advertise logs within a budget: a neighbour that sends nonsense must not fill a disk.
func (r *relay) advertise(level slog.Level, what string, args ...any) {
	r.within(&r.budget, level, what, args)
}

// session logs that one came up or ended.
func (r *relay) session(level slog.Level, what string, args ...any) {
	r.within(&r.ups, level, what, args)
}

func (r *relay) within(b *budget, level slog.Level, what string, args []any) {
	r.mu.Lock()
	spare, lost := b.take(time.Now())
	r.mu.Unlock()
	if lost != 0 {
		args = append(args, "unsaid", lost)
	}
	if spare {
		r.log.Log(context.Background(), level, what, args...)
	}
}

const (
	budgetRate  = 10 // lines a second
	budgetBurst = 50
)

// budget lets a burst through, and then so many a second.
type budget struct {
	left float64
	last time.Time
	lost int
}

// take says whether there is some left, and how many were refused before.
func (b *budget) take(now time.Time) (bool, int) {
	b.left = min(budgetBurst, b.left+now.Sub(b.last).Seconds()*budgetRate)
	b.last = now
	if b.left < 1 {
		b.lost++
		return false, 0
	}
	b.left--
	lost := b.lost
	b.lost = 0
	return true, lost
}

// mostFailure is how long a reason may be: a neighbour may have written a part of it (RFC 9003).
const mostFailure = 1024

func (r *report) fail(why string) { r.ended(0, why) }

// ended notes a NOTIFICATION of either end; code 0: there was none.
func (r *report) ended(code uint8, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure, r.refused, r.at = printable.Bounded(why, mostFailure), code == bgp.BGP_ERROR_OPEN_MESSAGE_ERROR, time.Now()
}

// refusalStands is for how long a refused OPEN says more than a connection that is not made: a neighbour that only opens
// sessions comes again within that time.
const refusalStands = 3 * time.Minute

// unreached notes that no connection was made.
func (r *report) unreached(why string) {
	r.mu.Lock()
	stands := r.refused && time.Since(r.at) < refusalStands
	r.mu.Unlock()
	if !stands {
		r.fail(why)
	}
}

func (r *report) set(up bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.up, r.at = up, time.Now()
	if up {
		r.failure, r.refused, r.limited, r.left = "", false, false, false
	}
}

func (r *report) read() (failure string, malformed uint64, limited bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure, r.malformed, r.limited
}

// leaves says whether the neighbour was shut down, and will not come back by itself.
func (r *report) leaves() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left
}

// silent says for how long nothing was heard of a session that is to come.
func (r *report) silent(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Sub(r.at)
}

// misread counts routes that could not be understood.
func (r *report) misread(routes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.malformed += uint64(routes)
}

// failed notes that no connection to a neighbour could be made.
func (r *relay) failed(addr netip.Addr, err error) {
	if of := r.of(addr); of != nil {
		of.unreached(unreachable(of.configured(), err))
	}
}

// refused notes that a connection was ended before GoBGP read what the neighbour said.
func (r *relay) refused(addr netip.Addr, n *message.Notification) {
	of := r.of(addr)
	if of == nil {
		return
	}
	if n.Code == bgp.BGP_ERROR_UPDATE_MESSAGE_ERROR {
		of.misread(1)
	}
	of.ended(n.Code, "this edge ended the session: "+n.Why)
}

// mostDiscarded is how many kinds of what is not used are told apart: there are 256 route types and attributes, but more families.
const mostDiscarded = 512

// discarded counts what a neighbour said and is not used, and logs what is malformed.
func (r *relay) discarded(addr netip.Addr, d message.Discard) {
	of := r.of(addr)
	if of == nil {
		return
	}
	of.mu.Lock()
	if _, known := of.counts[d.What]; !known && len(of.counts) >= mostDiscarded {
		d.What = "others"
	}
	of.counts[d.What] += uint64(max(1, d.Routes))
	if d.Why != "" {
		of.malformed += uint64(d.Routes)
	}
	name := of.conf.Name
	of.mu.Unlock()
	switch {
	case d.Why == "":
	case d.Routes == 0:
		r.advertise(slog.LevelWarn, "malformed attribute is left out", event.Is(event.BGPMalformed), "neighbour", name, "what", d.What, "why", d.Why)
	default:
		r.advertise(slog.LevelWarn, "malformed routes are taken as withdrawn", event.Is(event.BGPMalformed), "neighbour", name, "what", d.What, "why", d.Why, "routes", d.Routes)
	}
}

// unused are those counts.
func (r *report) unused() map[string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}

func (r *report) configured() overlay.BGPNeighbour {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conf
}

// handler is the slog.Handler that GoBGP gets, for all of it or one neighbour.
type handler struct {
	relay *relay
	of    *report
	addr  string
}

// Enabled: for debugging GoBGP speaks of every message.
func (h handler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// WithAttrs finds the neighbour that a logger is for.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if addr, err := netip.ParseAddr(a.Value.String()); err == nil && a.Key == "Key" {
			h.addr, h.of = a.Value.String(), h.relay.of(addr)
		}
	}
	return h
}

// WithGroup is not used by GoBGP.
func (h handler) WithGroup(string) slog.Handler { return h }

// Handle reads a record.
func (h handler) Handle(_ context.Context, record slog.Record) error {
	attrs := make(map[string]slog.Value)
	record.Attrs(func(a slog.Attr) bool {
		attrs[a.Key] = a.Value
		return true
	})
	if h.relay.closed.Load() {
		return nil
	}
	if h.of != nil && h.read(record.Message, attrs) {
		return nil
	}
	if record.Level >= slog.LevelWarn {
		args := []any{"neighbour", h.addr}
		for key, value := range attrs {
			args = append(args, key, value.String())
		}
		h.relay.advertise(slog.LevelDebug, "GoBGP: "+record.Message, args...)
	}
	return nil
}

// What GoBGP's log says of a neighbour and is read.
const (
	receivedNotification = "received notification"
	sentNotification     = "sent notification"
	prefixLimit          = "prefix limit reached"
	malformedUpdate      = "Session will be reset due to malformed BGP update message"
	malformedMessage     = "Session will be reset due to malformed BGP message"
	malformedHeader      = "Session will be reset due to malformed BGP Header"
)

// read takes what is known of GoBGP's messages of a neighbour, and says whether it did.
func (h handler) read(text string, attrs map[string]slog.Value) bool {
	number := func(key string) uint8 {
		if v := attrs[key]; v.Kind() == slog.KindInt64 {
			return uint8(v.Int64())
		}
		return 0
	}
	conf := h.of.configured()
	switch text {
	case receivedNotification:
		h.notified(conf, number("Code"), number("Subcode"), attrs)
	case sentNotification:
		// What follows of a session that was ended is no cause.
		failure, _, limited := h.of.read()
		switch {
		case failure != "" && limited:
		case number("Code") == bgp.BGP_ERROR_HOLD_TIMER_EXPIRED:
			h.of.fail(silentFor(conf))
		default:
			h.of.ended(number("Code"), "this edge ended the session: "+notification(conf, number("Code"), number("Subcode"), "", true))
		}
	case prefixLimit:
		h.limit(conf, attrs)
	case malformedUpdate, malformedMessage, malformedHeader:
		h.of.misread(1)
		h.of.fail(fmt.Sprintf("a message of it cannot be read (%s): look at what it advertises", attrs["Error"].String()))
	default:
		return false
	}
	return true
}

// notified reads why a neighbour ended the session. A hard reset (RFC 8538 section 3.1) has
// the reason within. A process that is stopped says that the session was taken out of its
// configuration, so that alone is no farewell.
func (h handler) notified(conf overlay.BGPNeighbour, code, subCode uint8, attrs map[string]slog.Value) {
	if data, _ := attrs["Data"].Any().([]byte); code == bgp.BGP_ERROR_CEASE && subCode == bgp.BGP_ERROR_SUB_HARD_RESET && len(data) >= 2 {
		code, subCode = data[0], data[1]
	}
	h.of.ended(code, "it ended the session: "+notification(conf, code, subCode, attrs["Communicated-Reason"].String(), false))
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.of.left = code == bgp.BGP_ERROR_CEASE && subCode == bgp.BGP_ERROR_SUB_ADMINISTRATIVE_SHUTDOWN
}

func (h handler) limit(conf overlay.BGPNeighbour, attrs map[string]slog.Value) {
	family := attrs["Family"].String()
	if _, warning := attrs["Pct"]; warning {
		h.relay.advertise(slog.LevelWarn, "neighbour advertises nearly as many prefixes as it may", event.Is(event.BGPLimit), "neighbour", conf.Name,
			"family", family, "maximumPrefixes", conf.MaxPrefixes, "percent", warnPercent)
		return
	}
	h.relay.advertise(slog.LevelWarn, "neighbour advertised more prefixes than it may", event.Is(event.BGPLimit), "neighbour", conf.Name,
		"family", family, "maximumPrefixes", conf.MaxPrefixes)
	h.of.fail(fmt.Sprintf("it advertised more than maximumPrefixes (%d) of %s: raise that, or have it advertise less; it is tried again after %s, or by `selvage bgp reset %s`",
		conf.MaxPrefixes, family, limitPause, conf.Name))
	h.of.mu.Lock()
	h.of.limited = true
	h.of.mu.Unlock()
}
