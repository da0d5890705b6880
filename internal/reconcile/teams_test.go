package reconcile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
)

var (
	localA, localB   = addr("192.0.2.1"), addr("198.51.100.1")
	remoteA, remoteD = addr("192.0.2.2"), addr("198.51.100.2")
	aa               = overlay.Pair{Local: localA, Remote: remoteA}
	ad               = overlay.Pair{Local: localA, Remote: remoteD}
	ba               = overlay.Pair{Local: localB, Remote: remoteA}
	bd               = overlay.Pair{Local: localB, Remote: remoteD}
	mesh             = []overlay.Pair{aa, ad, ba, bd}

	samePair = cmp.Comparer(func(a, b overlay.Pair) bool { return a == b })
)

// dual is an edge with TEPs a at eth0 and b at eth1, whose segments blue (pinned
// nowhere) and storage (pinned to b, then a) have remote edge-b with two addresses.
func dual() overlay.Edge {
	tunnel := overlay.Tunnel{Encapsulation: overlay.VXLAN, UDPPort: 4789}
	return overlay.Edge{
		Underlay: overlay.Underlay{
			Interfaces: []string{"eth0", "eth1"}, TEP: localA, Teaming: overlay.TeamFlow,
			TEPs:     []overlay.TEP{{Name: "a", Addr: localA, Interface: "eth0"}, {Name: "b", Addr: localB, Interface: "eth1"}},
			Liveness: &overlay.Liveness{Interval: 50 * time.Millisecond, Multiplier: 3},
		},
		Remotes: []overlay.Remote{{Name: "edge-b", Addrs: []netip.Addr{remoteA, remoteD}}},
		Segments: []overlay.Segment{
			{Name: "blue", VNI: 1, Tunnel: tunnel, Remotes: []netip.Addr{remoteA}},
			{Name: "storage", VNI: 2, Tunnel: tunnel, Remotes: []netip.Addr{remoteA}, TEPs: []string{"b", "a"}},
		},
	}
}

// meshed are facts with a way from each TEP to each of edge-b's.
func meshed() Facts {
	f := Facts{
		Links: map[string]host.Link{
			"eth0": {Name: "eth0", Index: 2, MTU: 1500, Up: true},
			"eth1": {Name: "eth1", Index: 3, MTU: 9000, Up: true},
		},
		Ways: map[overlay.Pair]host.Path{},
	}
	for _, p := range mesh {
		f.Ways[p] = way(f, p, "eth0")
		if p.Local == localB {
			f.Ways[p] = way(f, p, "eth1")
		}
	}
	return f
}

// way is a direct route by this interface.
func way(f Facts, p overlay.Pair, name string) host.Path {
	l := f.Links[name]
	return host.Path{NextHop: host.NextHop{Ifindex: l.Index, Addr: p.Remote}, Interface: name, MTU: l.MTU, SrcMAC: own, NextMAC: macB}
}

// plan plans and checks what holds of every plan.
func plan(t *testing.T, e overlay.Edge, f Facts, before Teams) (Teams, []string) {
	t.Helper()
	teams, problems := Teamed(e, f, before)
	for _, team := range teams.Teams {
		for _, s := range team.Spreads {
			counts := make([]int, len(s.Paths))
			for _, b := range s.Buckets {
				if len(s.Paths) > 0 {
					counts[b]++ // out of range panics
				}
			}
			for i, n := range counts {
				if n < Buckets/len(counts) || n > (Buckets+len(counts)-1)/len(counts) {
					t.Errorf("%s has %d of %d buckets among %d paths", s.Paths[i], n, Buckets, len(counts))
				}
			}
		}
	}
	return teams, problems
}

func spreadOf(t *testing.T, teams Teams, teps ...string) Spread {
	t.Helper()
	s, ok := teams.find(teps, remoteA)
	if !ok {
		t.Fatalf("team %v has no flows to %s: %+v", teps, remoteA, teams)
	}
	return s
}

func wantPaths(t *testing.T, s Spread, want ...overlay.Pair) {
	t.Helper()
	if !slices.Equal(s.Paths, want) {
		t.Errorf("paths %v, want %v", s.Paths, want)
	}
}

func TestPlanOfMesh(t *testing.T) {
	f := meshed()
	f.Probed = map[overlay.Pair]int{bd: 1400, aa: 9000}
	teams, problems := plan(t, dual(), f, Teams{})
	want := []TunnelPath{
		{Pair: aa, Edge: remoteA, Ifindex: 2, MTU: 1500, SrcMAC: own, NextMAC: macB},
		{Pair: ad, Edge: remoteA, Ifindex: 2, MTU: 1500, SrcMAC: own, NextMAC: macB},
		{Pair: ba, Edge: remoteA, Ifindex: 3, MTU: 9000, SrcMAC: own, NextMAC: macB},
		{Pair: bd, Edge: remoteA, Ifindex: 3, MTU: 1400, SrcMAC: own, NextMAC: macB},
	}
	if diff := cmp.Diff(want, teams.Paths, samePair, sameAddr); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	if len(problems) > 0 {
		t.Errorf("problems of a sound mesh: %q", problems)
	}
	if len(teams.Teams) != 2 || teams.Teams[0].TEPs != nil || teams.Teams[0].Teaming != overlay.TeamFlow || teams.Teams[1].Teaming != overlay.TeamFailover {
		t.Errorf("teams %+v", teams.Teams)
	}
	wantPaths(t, spreadOf(t, teams), mesh...)
	wantPaths(t, spreadOf(t, teams, "b", "a"), ba)
	if diff := cmp.Diff(mesh, Pairs(dual()), samePair); diff != "" {
		t.Errorf("pairs to ask for (-want +got):\n%s", diff)
	}
}

// Without routes between the two networks a TEP reaches the remote's on its own
// network alone: the route to the other leaves by the other interface.
func TestPathsLeaveByTheirInterface(t *testing.T) {
	f := meshed()
	f.Ways[ad] = way(f, ad, "eth1")
	delete(f.Ways, ba)
	teams, problems := plan(t, dual(), f, Teams{})
	wantPaths(t, spreadOf(t, teams), aa, bd)
	wantPaths(t, spreadOf(t, teams, "b", "a"), bd)
	if len(problems) > 0 {
		t.Errorf("problems of two separate networks: %q", problems)
	}
	delete(f.Ways, bd)
	e := dual()
	e.Segments[1].TEPs = []string{"b"}
	teams, problems = plan(t, e, f, teams)
	wantPaths(t, spreadOf(t, teams), aa)
	wantPaths(t, spreadOf(t, teams, "b"))
	if want := []string{"remote edge-b: no route from b leaves by the interface of its TEP: add one, or correct the remote's addresses"}; !slices.Equal(problems, want) {
		t.Errorf("problems %q, want %q", problems, want)
	}
}

func TestTeaming(t *testing.T) {
	for _, c := range []struct {
		teaming overlay.Teaming
		dead    []overlay.Pair
		want    []overlay.Pair
		pinned  overlay.Pair
	}{
		{overlay.TeamFlow, nil, mesh, ba},
		{overlay.TeamSource, nil, mesh, ba},
		{overlay.TeamFailover, nil, []overlay.Pair{aa}, ba},
		{overlay.TeamFlow, []overlay.Pair{ad}, []overlay.Pair{aa, ba, bd}, ba},
		{overlay.TeamSource, []overlay.Pair{aa, ba}, []overlay.Pair{ad, bd}, bd},
		{overlay.TeamFailover, []overlay.Pair{aa}, []overlay.Pair{ad}, ba},
		{overlay.TeamFailover, []overlay.Pair{aa, ad, ba}, []overlay.Pair{bd}, bd},
		{overlay.TeamFlow, []overlay.Pair{ba, bd}, []overlay.Pair{aa, ad}, aa},
	} {
		t.Run(fmt.Sprint(c.teaming, c.dead), func(t *testing.T) {
			e, f := dual(), meshed()
			e.Underlay.Teaming = c.teaming
			f.Dead = map[overlay.Pair]string{}
			var want []string
			for _, p := range c.dead {
				f.Dead[p] = "no packet for 150ms"
				want = append(want, fmt.Sprintf("remote edge-b: the path from %s is dead: no packet for 150ms: check the network between them", p))
			}
			teams, problems := plan(t, e, f, Teams{})
			wantPaths(t, spreadOf(t, teams), c.want...)
			wantPaths(t, spreadOf(t, teams, "b", "a"), c.pinned)
			if !slices.Equal(problems, want) {
				t.Errorf("problems %q, want %q", problems, want)
			}
		})
	}
}

// An interface without a carrier takes its paths out before any packet is missed.
func TestLinkDown(t *testing.T) {
	f := meshed()
	l := f.Links["eth1"]
	l.Up = false
	f.Links["eth1"] = l
	teams, problems := plan(t, dual(), f, Teams{})
	wantPaths(t, spreadOf(t, teams), aa, ad)
	wantPaths(t, spreadOf(t, teams, "b", "a"), aa)
	if len(problems) != 2 || !strings.Contains(problems[0], "interface eth1 is down") {
		t.Errorf("problems %q", problems)
	}
}

// A path that goes moves its own buckets alone, one that comes takes a fourth.
func TestResilience(t *testing.T) {
	e, f := dual(), meshed()
	whole, _ := plan(t, e, f, Teams{})
	f.Dead = map[overlay.Pair]string{ba: "dead"}
	less, _ := plan(t, e, f, whole)
	owner := func(teams Teams, bucket int) overlay.Pair {
		s := spreadOf(t, teams)
		return s.Paths[s.Buckets[bucket]]
	}
	for i := range Buckets {
		if was, is := owner(whole, i), owner(less, i); was != ba && is != was {
			t.Errorf("bucket %d moves from %s to %s though %s died", i, was, is, ba)
		}
	}
	f.Dead = nil
	again, _ := plan(t, e, f, less)
	moved := 0
	for i := range Buckets {
		if was, is := owner(less, i), owner(again, i); is != was {
			moved++
			if is != ba {
				t.Errorf("bucket %d moves to %s though %s came back", i, is, ba)
			}
		}
	}
	if moved != Buckets/4 {
		t.Errorf("%d buckets move to one of four paths, want %d", moved, Buckets/4)
	}
	if same, _ := plan(t, e, f, again); !cmp.Equal(same, again, samePair, sameAddr) {
		t.Error("a plan without news is another one")
	}
}

// With all paths dead the last ones stay, and it is said.
func TestAllDead(t *testing.T) {
	e, f := dual(), meshed()
	f.Dead = map[overlay.Pair]string{aa: "x", ad: "x"}
	before, _ := plan(t, e, f, Teams{})
	f.Dead[ba], f.Dead[bd] = "x", "x"
	after, problems := plan(t, e, f, before)
	s := spreadOf(t, after)
	wantPaths(t, s, ba, bd)
	if !s.Stale || s.Buckets != spreadOf(t, before).Buckets {
		t.Errorf("the flows moved, or it is not said: %+v", s)
	}
	wantPaths(t, spreadOf(t, after, "b", "a"), ba)
	const want = "remote edge-b: all paths are dead, the last ones stay in use: check the remote and the network to it"
	if len(problems) != 6 || problems[0] != want || !strings.Contains(problems[1], "all paths from b and a are dead") {
		t.Errorf("problems %q", problems)
	}
	delete(f.Ways, ba) // its route goes as well
	gone, _ := plan(t, e, f, after)
	wantPaths(t, spreadOf(t, gone), bd)
	fresh, _ := plan(t, e, f, Teams{}) // nothing is known of before
	wantPaths(t, spreadOf(t, fresh), aa, ad, bd)
	delete(f.Dead, ad)
	back, _ := plan(t, e, f, gone)
	if s := spreadOf(t, back); s.Stale {
		t.Error("one path is back")
	}
	wantPaths(t, spreadOf(t, back), ad)
}

// An edge with one TEP without a name has one path to each remote, by whichever of
// its interfaces the route leaves.
func TestPlanOfOneTEP(t *testing.T) {
	e, v := edge(), view()
	f := FactsOf(e, v, nil, nil)
	teams, problems := plan(t, e, f, Teams{})
	want := []TunnelPath{
		{Pair: overlay.Pair{Local: self, Remote: remoteB}, Edge: remoteB, Ifindex: 2, MTU: 1500, SrcMAC: own, NextMAC: macB},
		{Pair: overlay.Pair{Local: self, Remote: remoteC}, Edge: remoteC, Ifindex: 2, MTU: 1500, SrcMAC: own, NextMAC: macR},
	}
	if diff := cmp.Diff(want, teams.Paths, samePair, sameAddr); diff != "" || len(problems) > 0 {
		t.Errorf("paths (-want +got):\n%s\nproblems %q", diff, problems)
	}
	if len(teams.Teams) != 1 || len(teams.Teams[0].Spreads) != 2 || teams.Teams[0].Teaming != overlay.TeamFlow {
		t.Errorf("teams %+v", teams.Teams)
	}
	p := f.Ways[want[0].Pair]
	p.Local = true
	f.Ways[want[0].Pair] = p
	if teams, _ := plan(t, e, f, Teams{}); len(teams.Paths) != 1 {
		t.Errorf("an address of this host is a path: %+v", teams.Paths)
	}
}

func TestPeers(t *testing.T) {
	e, f := dual(), meshed()
	routed := f.Ways[ad]
	routed.Addr = router
	f.Ways[ad] = routed
	teams, _ := plan(t, e, f, Teams{})
	hops := func() (list []int) {
		for _, p := range Peers(e, teams, f.Ways) {
			list = append(list, p.Hops)
		}
		return list
	}
	if got := hops(); !slices.Equal(got, []int{1, 16, 1, 1}) {
		t.Errorf("hops %v, want one where the remote is the next hop", got)
	}
	e.Underlay.Liveness.Hops = 3
	if got := hops(); !slices.Equal(got, []int{3, 3, 3, 3}) {
		t.Errorf("hops %v, want the configured", got)
	}
	want := bfd.Peer{Pair: ba, Ifindex: 3, Hops: 3, Timers: bfd.Timers{Interval: 50 * time.Millisecond, Multiplier: 3}}
	if got := Peers(e, teams, f.Ways)[2]; got != want {
		t.Errorf("peer %+v, want %+v", got, want)
	}
	e.Underlay.Liveness = nil
	if got := Peers(e, teams, f.Ways); len(got) > 0 {
		t.Errorf("peers without liveness: %v", got)
	}
}

func TestDead(t *testing.T) {
	other := overlay.Pair{Local: localA, Remote: remoteC}
	for _, c := range []struct {
		name    string
		results map[overlay.Pair]bfd.Result
		want    map[overlay.Pair]string
	}{
		{"nobody answers", map[overlay.Pair]bfd.Result{aa: {State: bfd.Unknown}, bd: {State: bfd.Unknown}}, nil},
		{"one path failed", map[overlay.Pair]bfd.Result{aa: {State: bfd.Up}, bd: {State: bfd.Down, Why: "no packet for 150ms"}},
			map[overlay.Pair]string{bd: "no packet for 150ms"}},
		{"one never answered", map[overlay.Pair]bfd.Result{aa: {State: bfd.Up}, bd: {State: bfd.Unknown}, other: {State: bfd.Unknown}},
			map[overlay.Pair]string{bd: "it never answered, though the remote answers on another path"}},
		{"the one that answered failed", map[overlay.Pair]bfd.Result{aa: {State: bfd.Down, Why: "x"}, bd: {State: bfd.Unknown}},
			map[overlay.Pair]string{aa: "x"}},
	} {
		if diff := cmp.Diff(c.want, Dead(dual(), c.results), cmpopts.EquateEmpty(), samePair); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
