package edge

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/evpn/speaker"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

const (
	// mostBGPMoves are remembered.
	mostBGPMoves = 256
	// sessionGrace is how long a session may be missing before that is a problem.
	sessionGrace = 5 * time.Second
	// selfNeighbour is this edge where routes are asked for by neighbour.
	selfNeighbour = "self"
	// Events of package evpn that are counted.
	movedHere, movedAway = "moved here", "moved away"
)

// noBGP is the answer to a question about BGP that there is none.
func noBGP() error {
	return api.BadRequest{Err: errors.New("this edge does not run BGP: configure spec.bgp")}
}

// note logs events and remembers them.
func (b *bgp) note(events []evpn.Event) {
	now := time.Now()
	for _, ev := range events {
		attrs := []any{"segment", ev.Segment}
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
		b.e.log.Info("BGP: "+ev.What, attrs...)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ev := range events {
		b.moved += flag(ev.What == movedHere || ev.What == movedAway)
		b.moves = append(b.moves, api.BGPMove{
			At: now, What: ev.What, Segment: ev.Segment, MAC: ev.MAC, Address: ev.Addr, Remote: ev.Remote, Detail: ev.Detail,
		})
	}
	b.moves = b.moves[max(0, len(b.moves)-mostBGPMoves):]
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

// neighbours are the sessions with numbers of received routes, none before there is a speaker.
func (b *bgp) neighbours() []speaker.Neighbour { return b.ask(Speaker.Neighbours) }

// sessionList is without, and nobody waits for them.
func (b *bgp) sessionList() []speaker.Neighbour { return b.ask(Speaker.Sessions) }

func (b *bgp) ask(question func(Speaker) []speaker.Neighbour) []speaker.Neighbour {
	b.mu.Lock()
	s := b.speaker
	b.mu.Unlock()
	if s == nil {
		return nil
	}
	return question(s)
}

// problems are what an operator should look at.
func (b *bgp) problems() (list []problem.Problem) {
	now := time.Now()
	for _, n := range b.sessionList() {
		if away := now.Sub(n.Since); !n.Established && (away > sessionGrace || n.Flaps > 0) {
			list = append(list, problem.Error("BGP neighbour %s (%s): no session for %s: %s", n.Name, n.Addr, away.Round(time.Second), cmp.Or(n.LastError, n.State)))
		}
	}
	b.mu.Lock()
	odd, moves, counts := b.table.Problems(), b.table.Moves(), b.table.Counts()
	b.mu.Unlock()
	for _, m := range moves {
		if m.Frozen {
			list = append(list, problem.Warning("segment %s: %s moved %d times and is frozen: find the other host with that MAC address, then `selvage bgp thaw %s %s`",
				m.Segment, m.MAC, m.Moves, m.Segment, m.MAC))
		}
	}
	for _, w := range grouped(odd) {
		example := slices.IndexFunc(odd, func(s evpn.Status) bool { return s.Problem == w.Why })
		list = append(list, problem.Warning("BGP: %s: %d routes, such as the one from %s for %s: %s: see `selvage bgp routes --unused`",
			w.Why, w.Routes, odd[example].Neighbour, cmp.Or(odd[example].For, "nobody"), odd[example].Why))
	}
	if counts.Stale > 0 {
		list = append(list, problem.Warning("BGP: %d routes in use are stale: the session they came from was lost", counts.Stale))
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

// bgpProblems are those of BGP, where the edge speaks it.
func (e *edge) bgpProblems() []problem.Problem {
	if b := e.bgp.Load(); b != nil {
		return b.problems()
	}
	return nil
}

// watchBGP logs problems that come and go.
func (e *edge) watchBGP() {
	now := e.bgpProblems()
	e.tell(e.learned.problems, now)
	e.learned.problems = now
}

// bgpUse is nil without BGP.
func (e *edge) bgpUse() *api.BGPUse {
	b := e.bgp.Load()
	if b == nil {
		return nil
	}
	use := &api.BGPUse{}
	for _, n := range b.sessionList() {
		use.Neighbours.Count(n.Established)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.table.Counts()
	use.Neighbours.Total = len(b.config.Neighbours)
	use.Used, use.Unused, use.Stale, use.Advertised, use.Frozen = c.Used, c.Received-c.Used, c.Stale, c.Advertised, c.Frozen
	return use
}

func (e *edge) bgpDocument() (api.BGPInfo, error) {
	b := e.bgp.Load()
	if b == nil {
		return api.BGPInfo{}, noBGP()
	}
	info := api.BGPInfo{Neighbours: []api.BGPNeighbourInfo{}, Problems: append([]problem.Problem{}, b.problems()...)}
	lives := e.pathSelector.neighbourLives()
	known := b.neighbours()
	b.mu.Lock()
	defer b.mu.Unlock()
	info.AS, info.RouterID, info.Settling = b.config.AS, b.config.RouterID, b.settles
	c := b.table.Counts()
	info.Routes = api.BGPRouteTally{
		Received: c.Received, Used: c.Used, Unused: c.Received - c.Used, Stale: c.Stale, Advertised: c.Advertised, Why: grouped(b.table.Problems()),
	}
	info.Convergence = b.spread.info()
	for _, n := range b.config.Neighbours {
		i := slices.IndexFunc(known, func(k speaker.Neighbour) bool { return k.Addr == n.Addr })
		state := speaker.Neighbour{Addr: n.Addr, AS: n.AS, State: "idle", LastError: "BGP is not running yet"}
		if i >= 0 {
			state = known[i]
		}
		info.Neighbours = append(info.Neighbours, neighbourInfo(n, state, lives))
	}
	return info, nil
}

// neighbourLives are what is known of watched neighbours.
func (s *pathSelector) neighbourLives() map[netip.Addr]bfd.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	lives := make(map[netip.Addr]bfd.State)
	if s.monitor == nil {
		return lives
	}
	results := s.monitor.Results()
	for pair, neighbour := range s.neighbours {
		lives[neighbour] = results[pair].State
	}
	return lives
}

func neighbourInfo(n overlay.BGPNeighbour, k speaker.Neighbour, lives map[netip.Addr]bfd.State) api.BGPNeighbourInfo {
	info := api.BGPNeighbourInfo{
		Name: n.Name, Address: n.Addr, AS: k.AS, RouterID: k.RouterID, State: k.State, Complete: k.Complete, Why: k.LastError, Flaps: k.Flaps,
		Liveness: "off", Hold: k.Hold.Seconds(), Keep: k.Keepalive.Seconds(), Malformed: k.Malformed, Families: []api.BGPFamilyInfo{},
		Capabilities: append([]string{}, k.Capabilities...),
		Restart: api.BGPRestartInfo{
			Negotiated: k.Restart.Negotiated, Time: k.Restart.Time.Seconds(), LongLived: k.Restart.LongLived, Stale: k.Restart.Stale.Seconds(),
		},
	}
	if !k.Since.IsZero() {
		info.Age = time.Since(k.Since).Seconds()
	}
	if n.Liveness {
		info.Liveness = string(cmp.Or(lives[n.Addr], bfd.Unknown))
	}
	for _, f := range k.Families {
		info.Families = append(info.Families, api.BGPFamilyInfo(f))
	}
	return info
}

func (e *edge) bgpMovesDocument() (api.BGPMovesInfo, error) {
	b := e.bgp.Load()
	if b == nil {
		return api.BGPMovesInfo{}, noBGP()
	}
	info := api.BGPMovesInfo{Moves: []api.BGPMove{}, Frozen: []api.BGPFrozen{}}
	b.mu.Lock()
	defer b.mu.Unlock()
	info.Moves = append(info.Moves, b.moves...)
	slices.Reverse(info.Moves)
	for _, m := range b.table.Moves() {
		if !m.Frozen {
			continue
		}
		frozen := api.BGPFrozen{Segment: m.Segment, MAC: m.MAC, Since: m.Last, Detail: fmt.Sprintf("%d moves", m.Moves)}
		if !m.Until.IsZero() {
			frozen.Detail += ", until " + m.Until.Format(time.TimeOnly)
		}
		info.Frozen = append(info.Frozen, frozen)
	}
	return info, nil
}

// thawHandler serves the wish that a frozen MAC address may move again.
func (e *edge) thawHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	query := r.URL.Query()
	mac, err := overlay.ParseMAC(query.Get(api.ArgMAC))
	if err != nil {
		reply(w, nil, api.BadRequest{Err: err})
		return
	}
	if err := e.thaw(query.Get(api.ArgSegment), mac); err != nil {
		reply(w, nil, err)
		return
	}
	document, err := e.bgpMovesDocument()
	reply(w, document, err)
}

func (e *edge) thaw(segment string, mac overlay.MAC) error {
	b := e.bgp.Load()
	if b == nil {
		return noBGP()
	}
	var err error
	done := b.wait(func() {
		var changes evpn.Changes
		b.mu.Lock()
		changes, err = b.table.Thaw(segment, mac, time.Now())
		b.mu.Unlock()
		b.act(changes, time.Time{})
	})
	switch {
	case !done:
		return errors.New("BGP is stopping")
	case err != nil:
		return api.BadRequest{Err: err}
	}
	return nil
}

// resetHandler serves the wish for a new session, or for all routes again.
func (e *edge) resetHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	query := r.URL.Query()
	soft, err := strconv.ParseBool(cmp.Or(query.Get(api.ArgSoft), "true"))
	if err != nil {
		reply(w, nil, api.BadRequest{Err: fmt.Errorf("%s: %q is neither true nor false", api.ArgSoft, query.Get(api.ArgSoft))})
		return
	}
	if err := e.resetNeighbour(query.Get(api.ArgNeighbour), soft); err != nil {
		reply(w, nil, err)
		return
	}
	document, err := e.bgpDocument()
	reply(w, document, err)
}

func (e *edge) resetNeighbour(name string, soft bool) error {
	b := e.bgp.Load()
	if b == nil {
		return noBGP()
	}
	b.mu.Lock()
	addr, err := neighbourCalled(b.config, name)
	s := b.speaker
	b.mu.Unlock()
	switch {
	case err != nil:
		return api.BadRequest{Err: err}
	case s == nil:
		return errors.New("BGP is not running yet: see `selvage status`")
	}
	return s.Refresh(addr, soft)
}

// neighbourCalled finds a neighbour by name or address.
func neighbourCalled(c overlay.BGP, name string) (netip.Addr, error) {
	for _, n := range c.Neighbours {
		if n.Name == name || n.Addr.String() == name {
			return n.Addr, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("there is no BGP neighbour %q: see `selvage bgp`", name)
}
