package writer

import (
	"errors"
	"slices"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// What BGP learned is written into the tables that are in force. What has no place in them before the
// next tables is returned as later. These are the methods of bgp.Writer.

// inTurn has something of BGP done. What only takes away waits for nothing: packets go astray until then.
func (w *Writer) inTurn(withdrawal bool, do func()) {
	if withdrawal {
		w.queue.Urgent(do)
	} else {
		w.queue.Ordinary(do)
	}
}

// none reports whether there is no such element.
func none[T any](list []T, is func(T) bool) bool { return !slices.ContainsFunc(list, is) }

// PutBGPMACs leaves for later those behind remotes that the tables do not have.
func (w *Writer) PutBGPMACs(list []rib.BGPMAC) (later []rib.BGPMAC, err error) {
	w.inTurn(none(list, func(m rib.BGPMAC) bool { return m.Remote.IsValid() }), func() {
		ready := make([]rib.BGPMAC, 0, len(list))
		for _, m := range list {
			if w.view.dp == nil || m.Remote.IsValid() && !w.view.reach[m.Segment][m.Remote] {
				later = append(later, m)
			} else {
				ready = append(ready, m)
			}
		}
		if len(ready) > 0 {
			err = w.view.dp.Learner.PutBGPMACs(ready)
		}
	})
	return later, err
}

// PutARPEntries leaves all for later until there are tables.
func (w *Writer) PutARPEntries(list []rib.ARPEntry) (later []rib.ARPEntry, err error) {
	w.inTurn(none(list, func(a rib.ARPEntry) bool { return a.MAC != overlay.MAC{} }), func() {
		if w.view.dp == nil {
			later = list
			return
		}
		err = w.view.dp.Learner.PutARPEntries(list)
	})
	return later, err
}

// PutRoutes has routes by remotes that the tables do not have wait in the routing, of which the
// next tables are made.
func (w *Writer) PutRoutes(list []rib.LearnedRoute) (later []rib.Place, err error) {
	w.inTurn(none(list, func(r rib.LearnedRoute) bool { return len(r.Via) > 0 }), func() {
		v := &w.view
		w.note(list)
		places := v.routing.Learn(list)
		if v.dp != nil && len(places) > 0 {
			err = v.dp.Routes.PutRoutes(v.routing.Rewritten(places))
		}
		for _, route := range list {
			at := rib.Place{Router: route.Router, Prefix: route.Prefix}
			if inForce, _ := v.routing.At(at); v.dp == nil || len(inForce.Hops)+len(inForce.Down) < len(route.Via) {
				later = append(later, at)
			}
		}
	})
	return later, err
}

// note has the tables that are planned know what was learned since.
func (w *Writer) note(list []rib.LearnedRoute) {
	if w.planning {
		w.since = append(w.since, list...)
	}
}

// ReplaceRoutes has these be all that was learned.
func (w *Writer) ReplaceRoutes(list []rib.LearnedRoute) {
	w.queue.Ordinary(func() {
		w.replaced, w.since = w.planning, nil
		w.view.routing.Forget()
		w.view.routing.Learn(list)
	})
}

// Forget forgets the MAC addresses of hosts; IP addresses go with them.
func (w *Writer) Forget(hosts []evpn.Host) error {
	var errs []error
	w.queue.Urgent(func() {
		for _, h := range hosts {
			if w.view.dp != nil && !h.Addr.IsValid() {
				errs = append(errs, w.view.dp.Hosts.Forget(h.Segment, h.MAC))
			}
		}
	})
	return errors.Join(errs...)
}
