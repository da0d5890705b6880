package evpn

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// world is a table, and what followed from its changes.
type world struct {
	*testing.T
	table *Table
	now   time.Time
	tables
	last   Changes
	events []string
}

func newWorld(t *testing.T, e overlay.Edge) *world {
	w := &world{T: t, table: NewTable(e), now: start, tables: newTables()}
	w.configure(e)
	return w
}

func (w *world) take(c Changes) {
	w.tables.apply(c)
	w.last = c
	for _, e := range c.Events {
		w.events = append(w.events, e.What)
	}
}

func (w *world) configure(e overlay.Edge) { w.take(w.table.Configure(e, w.now)) }

func (w *world) receive(from netip.Addr, routes ...Route) {
	w.now = w.now.Add(time.Second)
	var updates []Update
	for _, r := range routes {
		updates = append(updates, Update{Neighbour: from, Route: r})
	}
	w.take(w.table.Receive(updates, w.now))
}

func (w *world) withdraw(from netip.Addr, r Route) {
	w.take(w.table.Receive([]Update{{Neighbour: from, Route: r, Withdrawn: true}}, w.now))
}

func (w *world) appear(hosts ...Host) {
	w.now = w.now.Add(time.Second)
	w.take(w.table.Hosts(hosts, nil, w.now))
}

func (w *world) vanish(hosts ...Host) { w.take(w.table.Hosts(nil, hosts, w.now)) }

func (w *world) session(s Session) {
	s.At = w.now
	w.take(w.table.Session(s))
}

// lastsForTime checks whether the table has to be told the time.
func (w *world) lastsForTime(want bool) {
	w.Helper()
	if got := w.table.LastsForTime(); got != want {
		w.Errorf("something lasts for a time: %t, want %t", got, want)
	}
}

// is checks one table against lines "KEY: VALUE".
func (w *world) is(name string, got map[string]string, want ...string) {
	w.Helper()
	var have []string
	for _, k := range slices.Sorted(maps.Keys(got)) {
		have = append(have, k+": "+got[k])
	}
	slices.Sort(want)
	if !slices.Equal(have, want) {
		w.Errorf("%s are\n  %s\nwant\n  %s", name, strings.Join(have, "\n  "), strings.Join(want, "\n  "))
	}
}

// happened checks the events since it was asked last.
func (w *world) happened(want ...string) {
	w.Helper()
	if !slices.Equal(w.events, want) {
		w.Errorf("events are %q, want %q", w.events, want)
	}
	w.events = nil
}

// announces checks what is announced of a host, in short, and what is withdrawn.
func (w *world) announces(want ...string) {
	w.Helper()
	var have []string
	for _, s := range w.table.Routes() {
		if r := s.Route; !s.Neighbour.IsValid() && r.Type == MACIP && !r.DefaultGateway {
			have = append(have, short(r))
		}
	}
	if !slices.Equal(have, want) {
		w.Errorf("announces %q, want %q", have, want)
	}
}

func short(r Route) string {
	text := fmt.Sprintf("%s VNI %d", r.MAC, r.VNI)
	if r.Addr.IsValid() {
		text = fmt.Sprintf("%s %s VNI %d", r.MAC, r.Addr, r.VNI)
	}
	if r.L3VNI != 0 {
		text += fmt.Sprintf("/%d by %s", r.L3VNI, r.RouterMAC)
	}
	text += fmt.Sprintf(" to %v", r.Targets)
	if r.Sequence > 0 {
		text += fmt.Sprint(" sequence ", r.Sequence)
	}
	if r.Sticky {
		text += " sticky"
	}
	return text
}

// status is what became of a route of a neighbour in a segment or router.
func (w *world) status(from netip.Addr, k Key, in string) Status {
	w.Helper()
	for _, s := range w.table.Routes() {
		if s.Neighbour == from && s.Route.Key == k && s.For == in {
			return s
		}
	}
	w.Fatalf("no route of %s for %q with key %+v", from, in, k)
	return Status{}
}

// host is a route of blue by which m is at the remote, without an address.
func host(m overlay.MAC, remote netip.Addr) Route {
	return Route{
		Key: Key{Type: MACIP, RD: overlay.AddrDistinguisher(remote, 10), MAC: m}, NextHop: remote, VNI: 10,
		Targets: []overlay.RouteTarget{target(10)}, Encapsulation: overlay.VXLAN, LocalPref: 100,
	}
}

func (r Route) with(change func(*Route)) Route {
	r.Targets = slices.Clone(r.Targets)
	change(&r)
	return r
}

func (r Route) sequence(n uint32) Route { return r.with(func(r *Route) { r.Sequence = n }) }

func (r Route) addr(a string) Route { return r.with(func(r *Route) { r.Addr = addr(a) }) }

// routed adds what symmetric IRB needs.
func (r Route) routed() Route {
	return r.with(func(r *Route) {
		r.L3VNI, r.RouterMAC, r.Targets = 99, mac(0xa0), append(r.Targets, target(99))
	})
}

// network is a route of red to a prefix.
func network(p string, remote netip.Addr) Route {
	return Route{
		Key: Key{Type: Prefix, RD: overlay.AddrDistinguisher(remote, 99), Prefix: prefix(p)}, NextHop: remote, VNI: 99,
		Targets: []overlay.RouteTarget{target(99)}, RouterMAC: mac(0xa0), LocalPref: 100,
	}
}

func unicast(p string, nextHop netip.Addr, path ...uint32) Route {
	return Route{Key: Key{Type: Unicast, Prefix: prefix(p), Uplink: "wan"}, NextHop: nextHop, LocalPref: 100, ASPath: path}
}

func at(segment string, m overlay.MAC) Host { return Host{Segment: segment, MAC: m} }

func with(h Host, a string) Host {
	h.Addr = addr(a)
	return h
}

func list(addrs ...string) (l []netip.Addr) {
	for _, a := range addrs {
		l = append(l, addr(a))
	}
	return l
}
