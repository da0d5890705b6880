package writer

import (
	"maps"
	"slices"

	"github.com/selvage/selvage/internal/host"
)

// LinkLost has what goes by a link, by its index, be taken for dead until tables are in force of a host that was observed
// after that (Losses). It reports whether something went by it: then Steer has flows leave.
func (w *Writer) LinkLost(ifindex int) (used bool) {
	n := w.losses.Add(1)
	w.queue.Urgent(func() {
		if used = w.view.uses(ifindex); used {
			w.lost[ifindex] = n
		}
	})
	return used
}

// Losses is how many links were lost by now. Who observes the host asks before that, for Snapshot.Losses.
func (w *Writer) Losses() uint64 { return w.losses.Load() }

// uses reports whether a link is one of the underlay or an uplink's.
func (v *view) uses(ifindex int) bool {
	names := slices.Clone(v.Edge.Underlay.Interfaces)
	for _, r := range v.Edge.Routers {
		for _, u := range r.Uplinks {
			names = append(names, u.Interface)
		}
	}
	return slices.ContainsFunc(names, func(name string) bool {
		link, ok := v.HostState.Links[name]
		return ok && link.Index == ifindex
	})
}

// hostOf is the host of s, without the links that were lost after it was observed.
func (w *Writer) hostOf(s Snapshot) host.State {
	state, own := s.HostState, false
	for name, link := range s.HostState.Links {
		if w.lost[link.Index] > s.Losses {
			if !own {
				state.Links, own = maps.Clone(state.Links), true
			}
			link.Up = false
			state.Links[name] = link
		}
	}
	return state
}
