package bgp

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/bgp/counters"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/evpn/speaker"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

const (
	// mostMoves are remembered.
	mostMoves = 256
	// sessionGrace is how long a session may be missing before that is a problem.
	sessionGrace = 5 * time.Second
	// overflowRemembered is how long a session that was ended as too much waited is a problem.
	overflowRemembered = 10 * time.Minute
	// Events of package evpn that are counted.
	movedHere, movedAway = "moved here", "moved away"
)

// note logs events and remembers them.
func (v *State) note(events []evpn.Event, now time.Time) {
	if len(events) == 0 {
		return
	}
	for _, ev := range events {
		attrs := []any{event.Is(kindOf(ev.What)), "segment", ev.Segment}
		if ev.MAC != (overlay.MAC{}) {
			attrs = append(attrs, "mac", ev.MAC)
		}
		if ev.Addr.IsValid() {
			attrs = append(attrs, "address", ev.Addr)
		}
		if ev.Remote.IsValid() {
			attrs = append(attrs, "remote", ev.Remote)
		}
		if ev.Detail != "" {
			attrs = append(attrs, "detail", ev.Detail)
		}
		v.log.Info("BGP: "+ev.What, attrs...)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, ev := range events {
		if ev.What == movedHere || ev.What == movedAway {
			v.moved++
		}
		v.moves = append(v.moves, api.BGPMove{
			At: now, What: ev.What, Segment: ev.Segment, MAC: ev.MAC, Address: ev.Addr, Remote: ev.Remote, Detail: ev.Detail,
		})
	}
	v.moves = v.moves[max(0, len(v.moves)-mostMoves):]
}

// kindOf is the kind of an event of package evpn.
func kindOf(what string) event.Kind {
	switch what {
	case movedHere, movedAway:
		return event.MACMoved
	case "frozen":
		return event.MACFrozen
	case "thawed":
		return event.MACThawed
	}
	return event.BGPHost
}

// neighbourName is the name of a neighbour, or its address where it has none any more.
func neighbourName(c overlay.BGP, addr netip.Addr) string {
	for _, n := range c.Neighbours {
		if n.Addr == addr {
			return n.Name
		}
	}
	return addr.String()
}

// neighbourCalled finds a neighbour by name or address.
func (v *State) neighbourCalled(name string) (netip.Addr, error) {
	config, _ := v.configuration()
	for _, n := range config.Neighbours {
		if n.Name == name || n.Addr.String() == name {
			return n.Addr, nil
		}
	}
	return netip.Addr{}, api.BadRequest{Err: fmt.Errorf("there is no BGP neighbour %q: see `selvage bgp`", name)}
}

// Problems are what an operator should look at.
func (v *State) Problems(now time.Time) (list []problem.Problem) {
	for _, n := range v.sessions(Sessions.Sessions) {
		if away := now.Sub(n.Since); !n.Established && (away > sessionGrace || n.Flaps > 0) {
			list = append(list, problem.Error("BGP neighbour %s (%s): no session for %s: %s", n.Name, n.Addr, away.Round(time.Second), cmp.Or(n.LastError, n.State)))
		}
	}
	v.mu.Lock()
	is, moves, config := v.surveyed(), v.table.Moves(), v.config
	list = append(append(list, v.overflowProblems(now)...), v.claims.problems()...)
	v.mu.Unlock()
	for _, m := range moves {
		if m.Frozen {
			list = append(list, problem.Warning("segment %s: %s moved %d times and is frozen: find the other host with that MAC address, then `selvage bgp thaw %s %s`",
				m.Segment, m.MAC, m.Moves, m.Segment, m.MAC))
		}
	}
	for _, w := range grouped(is.problems) {
		example := slices.IndexFunc(is.problems, func(s evpn.Status) bool { return s.Problem == w.Why })
		list = append(list, problem.Warning("BGP: %s: %d routes, such as the one from %s for %s: %s: see `selvage bgp routes --unused`",
			w.Why, w.Routes, is.problems[example].Neighbour, cmp.Or(is.problems[example].For, "nobody"), is.problems[example].Why))
	}
	list = append(list, unimportedProblems(config, is)...)
	if is.counts.Stale > 0 {
		list = append(list, problem.Warning("BGP: %d routes in use are stale: the session they came from was lost", is.counts.Stale))
	}
	return list
}

// unimportedProblems are routes that nothing here imports, while a segment has no remote. Where all have some they are no
// mistake: a neighbour may have more segments than this edge.
func unimportedProblems(config overlay.BGP, is survey) (list []problem.Problem) {
	const most = 3
	if len(is.lonely) == 0 {
		return nil
	}
	named := is.lonely[:min(len(is.lonely), most)]
	also := "no remote is known of segment " + strings.Join(named, ", ")
	if more := len(is.lonely) - len(named); more > 0 {
		also += fmt.Sprintf(" and %d more", more)
	}
	for _, u := range is.unimported {
		var names []string
		for _, target := range u.Targets[:min(len(u.Targets), most)] {
			names = append(names, target.String())
		}
		targets := strings.Join(names, ", ")
		if more := len(u.Targets) - most; more > 0 {
			targets += fmt.Sprintf(" and %d more", more)
		}
		list = append(list, problem.Warning("BGP: %d routes of %s are not used: no segment imports %s; %s: compare VNIs and route targets (spec.segments[].evpn) of "+
			"both ends; see `selvage bgp routes --unused`", u.Routes, neighbourName(config, u.Neighbour), targets, also))
	}
	return list
}

// overflowProblems are the sessions that were ended lately, as too much waited. mu is held.
func (v *State) overflowProblems(now time.Time) (list []problem.Problem) {
	for _, n := range v.config.Neighbours {
		if o := v.overflows[n.Addr]; o.times > 0 && now.Sub(o.last) < overflowRemembered {
			list = append(list, problem.Warning("BGP neighbour %s (%s): the session was reset %d times, as too many of its updates waited for the data path: "+
				"have it advertise fewer routes (maximumPrefixes, import), and look for what keeps the edge busy", n.Name, n.Addr, o.times))
		}
	}
	return list
}

// grouped counts by problem, the most frequent first.
func grouped(list []evpn.Status) []api.BGPWhy {
	counts := make(map[string]int)
	for _, s := range list {
		counts[s.Problem]++
	}
	groups := []api.BGPWhy{}
	for why, n := range counts {
		groups = append(groups, api.BGPWhy{Why: why, Routes: n})
	}
	slices.SortFunc(groups, func(a, b api.BGPWhy) int { return cmp.Or(cmp.Compare(b.Routes, a.Routes), cmp.Compare(a.Why, b.Why)) })
	return groups
}

// Settled is how many neighbours have a session, how many of them said all, and how many there are.
func (v *State) Settled() (established, complete, total int) {
	if s := v.speaks(); s != nil {
		established, complete = s.Established()
	}
	config, _ := v.configuration()
	return established, complete, len(config.Neighbours)
}

// Use is BGP at a glance.
func (v *State) Use() *api.BGPUse {
	use := &api.BGPUse{}
	for _, n := range v.sessions(Sessions.Sessions) {
		use.Neighbours.Count(n.Established)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.surveyed().counts
	use.Neighbours.Total = len(v.config.Neighbours)
	use.Used, use.Unused, use.Stale, use.Advertised, use.Frozen = c.Used, c.Received-c.Used, c.Stale, c.Advertised, c.Frozen
	return use
}

// Info is all about sessions; lives is what BFD knows of neighbours.
func (v *State) Info(now time.Time, lives map[netip.Addr]string) api.BGPInfo {
	info := api.BGPInfo{Neighbours: []api.BGPNeighbourInfo{}, Problems: append([]problem.Problem{}, v.Problems(now)...)}
	known := v.sessions(Sessions.Neighbours)
	v.mu.Lock()
	defer v.mu.Unlock()
	info.AS, info.RouterID, info.Settling = v.config.AS, v.config.RouterID, v.settles
	is := v.surveyed()
	c := is.counts
	info.Routes = api.BGPRouteTally{
		Received: c.Received, Used: c.Used, Unused: c.Received - c.Used, NoRoom: c.NoRoom, Stale: c.Stale, Advertised: c.Advertised, Why: grouped(is.problems),
	}
	info.Convergence = v.spread.info()
	for _, n := range v.config.Neighbours {
		i := slices.IndexFunc(known, func(k speaker.Neighbour) bool { return k.Addr == n.Addr })
		state := speaker.Neighbour{Addr: n.Addr, AS: n.AS, State: "idle", LastError: "BGP is not running yet"}
		if i >= 0 {
			state = known[i]
		}
		neighbour := neighbourInfo(n, state, v.config.MostPrefixes, now)
		neighbour.Overflows = v.overflows[n.Addr].times
		if n.Liveness {
			neighbour.Liveness = cmp.Or(lives[n.Addr], "unknown")
		}
		info.Neighbours = append(info.Neighbours, neighbour)
	}
	return info
}

func neighbourInfo(n overlay.BGPNeighbour, k speaker.Neighbour, most int, now time.Time) api.BGPNeighbourInfo {
	info := api.BGPNeighbourInfo{
		Name: n.Name, Address: n.Addr, AS: k.AS, RouterID: k.RouterID, State: k.State, Complete: k.Complete, Why: k.LastError, Flaps: k.Flaps,
		Liveness: "off", Hold: k.Hold.Seconds(), Keep: k.Keepalive.Seconds(), Malformed: k.Malformed, Discarded: []api.BGPDiscard{}, Families: []api.BGPFamilyInfo{},
		Capabilities: append([]string{}, k.Capabilities...),
		Restart: api.BGPRestartInfo{
			Negotiated: k.Restart.Negotiated, Time: k.Restart.Time.Seconds(), LongLived: k.Restart.LongLived, Stale: k.Restart.Stale.Seconds(),
		},
	}
	for _, what := range slices.Sorted(maps.Keys(k.Discarded)) {
		info.Discarded = append(info.Discarded, api.BGPDiscard{What: what, Count: k.Discarded[what]})
	}
	if !k.Since.IsZero() {
		info.Age = now.Sub(k.Since).Seconds()
	}
	for _, f := range k.Families {
		f.Limit = cmp.Or(f.Limit, uint32(most))
		info.Families = append(info.Families, api.BGPFamilyInfo(f))
	}
	return info
}

// Moves are the last moves of hosts, and those that are frozen.
func (v *State) Moves() api.BGPMovesInfo {
	info := api.BGPMovesInfo{Moves: []api.BGPMove{}, Frozen: []api.BGPFrozen{}}
	v.mu.Lock()
	defer v.mu.Unlock()
	info.Moves = append(info.Moves, v.moves...)
	slices.Reverse(info.Moves)
	for _, m := range v.table.Moves() {
		if !m.Frozen {
			continue
		}
		frozen := api.BGPFrozen{Segment: m.Segment, MAC: m.MAC, Since: m.Last, Detail: fmt.Sprintf("%d moves", m.Moves)}
		if !m.Until.IsZero() {
			frozen.Detail += ", until " + m.Until.Format(time.TimeOnly)
		}
		info.Frozen = append(info.Frozen, frozen)
	}
	return info
}

// Counters are what is counted, for metrics.
func (v *State) Counters() counters.BGP {
	known := v.sessions(Sessions.Neighbours)
	v.mu.Lock()
	defer v.mu.Unlock()
	is := v.surveyed()
	c := counters.BGP{
		Routes: is.counts, Problems: len(is.problems), Moved: v.moved, Updates: v.updates, Convergence: v.spread.histogram(), Settling: v.settles,
	}
	for _, n := range known {
		of := counters.Neighbour{Name: n.Name, Established: n.Established, Flaps: n.Flaps, Overflows: v.overflows[n.Addr].times, Malformed: n.Malformed, Discarded: n.Discarded}
		for _, f := range n.Families {
			of.Families = append(of.Families, counters.Family{Family: f.Family, Received: f.Received, Advertised: f.Advertised})
		}
		c.Neighbours = append(c.Neighbours, of)
	}
	return c
}
