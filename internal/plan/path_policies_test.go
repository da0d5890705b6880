package plan

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
	"github.com/selvage/selvage/internal/problem"
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
			Interfaces: []string{"eth0", "eth1"}, TEP: localA, Teaming: overlay.PathPolicyFlow,
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
		Paths: map[overlay.Pair]host.Path{},
	}
	for _, p := range mesh {
		f.Paths[p] = path(f, p, "eth0")
		if p.Local == localB {
			f.Paths[p] = path(f, p, "eth1")
		}
	}
	return f
}

// path is a direct route by this interface.
func path(f Facts, p overlay.Pair, name string) host.Path {
	l := f.Links[name]
	return host.Path{NextHop: host.NextHop{Ifindex: l.Index, Addr: p.Remote}, Interface: name, MTU: l.MTU, SrcMAC: own, NextMAC: macB}
}

// plan plans and checks what holds of every plan.
func plan(t *testing.T, e overlay.Edge, f Facts, before PathPolicies) (PathPolicies, []string) {
	t.Helper()
	pathPolicies, problems := Teamed(e, f, before)
	for _, pathPolicy := range pathPolicies.PathPolicies {
		for _, s := range pathPolicy.PathGroups {
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
	return pathPolicies, problem.Texts(problems)
}

func pathGroupOf(t *testing.T, pathPolicies PathPolicies, teps ...string) PathGroup {
	t.Helper()
	s, ok := pathPolicies.find(teps, remoteA)
	if !ok {
		t.Fatalf("team %v has no flows to %s: %+v", teps, remoteA, pathPolicies)
	}
	return s
}

func wantPaths(t *testing.T, s PathGroup, want ...overlay.Pair) {
	t.Helper()
	if !slices.Equal(s.Paths, want) {
		t.Errorf("paths %v, want %v", s.Paths, want)
	}
}

func TestPlanOfMesh(t *testing.T) {
	f := meshed()
	f.Probed = map[overlay.Pair]int{bd: 1400, aa: 9000}
	pathPolicies, problems := plan(t, dual(), f, PathPolicies{})
	want := []TunnelPath{
		{Pair: aa, Edge: remoteA, Ifindex: 2, MTU: 1500, SrcMAC: own, NextMAC: macB},
		{Pair: ad, Edge: remoteA, Ifindex: 2, MTU: 1500, SrcMAC: own, NextMAC: macB},
		{Pair: ba, Edge: remoteA, Ifindex: 3, MTU: 9000, SrcMAC: own, NextMAC: macB},
		{Pair: bd, Edge: remoteA, Ifindex: 3, MTU: 1400, SrcMAC: own, NextMAC: macB},
	}
	if diff := cmp.Diff(want, pathPolicies.Paths, samePair, sameAddr); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	if len(problems) > 0 {
		t.Errorf("problems of a sound mesh: %q", problems)
	}
	if len(pathPolicies.PathPolicies) != 2 || pathPolicies.PathPolicies[0].TEPs != nil || pathPolicies.PathPolicies[0].Teaming != overlay.PathPolicyFlow || pathPolicies.PathPolicies[1].Teaming != overlay.PathPolicyFailover {
		t.Errorf("teams %+v", pathPolicies.PathPolicies)
	}
	wantPaths(t, pathGroupOf(t, pathPolicies), mesh...)
	wantPaths(t, pathGroupOf(t, pathPolicies, "b", "a"), ba)
	if diff := cmp.Diff(mesh, Pairs(dual()), samePair); diff != "" {
		t.Errorf("pairs to ask for (-want +got):\n%s", diff)
	}
}

// Without routes between the two networks a TEP reaches the remote's on its own
// network alone: the route to the other leaves by the other interface.
func TestPathsLeaveByTheirInterface(t *testing.T) {
	f := meshed()
	f.Paths[ad] = path(f, ad, "eth1")
	delete(f.Paths, ba)
	pathPolicies, problems := plan(t, dual(), f, PathPolicies{})
	wantPaths(t, pathGroupOf(t, pathPolicies), aa, bd)
	wantPaths(t, pathGroupOf(t, pathPolicies, "b", "a"), bd)
	if len(problems) > 0 {
		t.Errorf("problems of two separate networks: %q", problems)
	}
	delete(f.Paths, bd)
	e := dual()
	e.Segments[1].TEPs = []string{"b"}
	pathPolicies, problems = plan(t, e, f, pathPolicies)
	wantPaths(t, pathGroupOf(t, pathPolicies), aa)
	wantPaths(t, pathGroupOf(t, pathPolicies, "b"))
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
		{overlay.PathPolicyFlow, nil, mesh, ba},
		{overlay.PathPolicySource, nil, mesh, ba},
		{overlay.PathPolicyFailover, nil, []overlay.Pair{aa}, ba},
		{overlay.PathPolicyFlow, []overlay.Pair{ad}, []overlay.Pair{aa, ba, bd}, ba},
		{overlay.PathPolicySource, []overlay.Pair{aa, ba}, []overlay.Pair{ad, bd}, bd},
		{overlay.PathPolicyFailover, []overlay.Pair{aa}, []overlay.Pair{ad}, ba},
		{overlay.PathPolicyFailover, []overlay.Pair{aa, ad, ba}, []overlay.Pair{bd}, bd},
		{overlay.PathPolicyFlow, []overlay.Pair{ba, bd}, []overlay.Pair{aa, ad}, aa},
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
			pathPolicies, problems := plan(t, e, f, PathPolicies{})
			wantPaths(t, pathGroupOf(t, pathPolicies), c.want...)
			wantPaths(t, pathGroupOf(t, pathPolicies, "b", "a"), c.pinned)
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
	pathPolicies, problems := plan(t, dual(), f, PathPolicies{})
	wantPaths(t, pathGroupOf(t, pathPolicies), aa, ad)
	wantPaths(t, pathGroupOf(t, pathPolicies, "b", "a"), aa)
	if len(problems) != 2 || !strings.Contains(problems[0], "interface eth1 is down") {
		t.Errorf("problems %q", problems)
	}
}

// A path that goes moves its own buckets alone, one that comes takes a fourth.
func TestResilience(t *testing.T) {
	e, f := dual(), meshed()
	whole, _ := plan(t, e, f, PathPolicies{})
	f.Dead = map[overlay.Pair]string{ba: "dead"}
	less, _ := plan(t, e, f, whole)
	owner := func(pathPolicies PathPolicies, bucket int) overlay.Pair {
		s := pathGroupOf(t, pathPolicies)
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
	before, _ := plan(t, e, f, PathPolicies{})
	f.Dead[ba], f.Dead[bd] = "x", "x"
	after, problems := plan(t, e, f, before)
	s := pathGroupOf(t, after)
	wantPaths(t, s, ba, bd)
	if !s.Stale || s.Buckets != pathGroupOf(t, before).Buckets {
		t.Errorf("the flows moved, or it is not said: %+v", s)
	}
	wantPaths(t, pathGroupOf(t, after, "b", "a"), ba)
	const want = "remote edge-b: all paths are dead, the last ones stay in use: check the remote and the network to it"
	if len(problems) != 6 || problems[0] != want || !strings.Contains(problems[1], "all paths from b and a are dead") {
		t.Errorf("problems %q", problems)
	}
	delete(f.Paths, ba) // its route goes as well
	gone, _ := plan(t, e, f, after)
	wantPaths(t, pathGroupOf(t, gone), bd)
	fresh, _ := plan(t, e, f, PathPolicies{}) // nothing is known of before
	wantPaths(t, pathGroupOf(t, fresh), aa, ad, bd)
	delete(f.Dead, ad)
	back, _ := plan(t, e, f, gone)
	if s := pathGroupOf(t, back); s.Stale {
		t.Error("one path is back")
	}
	wantPaths(t, pathGroupOf(t, back), ad)
}

// With no path alive the ones that answer and are held back are taken, not those that were used last, as long as nothing but
// their failures speaks against them.
func TestHeldPathsBeforeDeadOnes(t *testing.T) {
	e, f := dual(), meshed()
	f.Dead = map[overlay.Pair]string{ba: "x", bd: "x", ad: "x"}
	before, _ := plan(t, e, f, PathPolicies{})
	wantPaths(t, pathGroupOf(t, before), aa)
	f.Dead[aa] = "x"
	f.Held = map[overlay.Pair]bool{ba: true, bd: true}
	after, problems := plan(t, e, f, before)
	s := pathGroupOf(t, after)
	wantPaths(t, s, ba, bd)
	const want = "remote edge-b: all paths are dead or held back, those that answer are used: check the network to it"
	if s.Stale || len(problems) == 0 || problems[0] != want {
		t.Errorf("%+v, problems %q", s, problems)
	}
	delete(f.Dead, ad)
	alive, _ := plan(t, e, f, after)
	wantPaths(t, pathGroupOf(t, alive), ad)
	f.Dead[ad] = "x"
	for name, link := range f.Links {
		link.Up = false
		f.Links[name] = link
	}
	if lost, _ := plan(t, e, f, alive); !pathGroupOf(t, lost).Stale {
		t.Errorf("held paths without a link are used: %+v", pathGroupOf(t, lost))
	}
}

// An edge with one TEP without a name has one path to each remote, by whichever of
// its interfaces the route leaves.
func TestPlanOfOneTEP(t *testing.T) {
	e, v := edge(), state()
	f := FactsOf(e, v, nil, nil)
	pathPolicies, problems := plan(t, e, f, PathPolicies{})
	want := []TunnelPath{
		{Pair: overlay.Pair{Local: self, Remote: remoteB}, Edge: remoteB, Ifindex: 2, MTU: 1500, SrcMAC: own, NextMAC: macB},
		{Pair: overlay.Pair{Local: self, Remote: remoteC}, Edge: remoteC, Ifindex: 2, MTU: 1500, SrcMAC: own, NextMAC: macR},
	}
	if diff := cmp.Diff(want, pathPolicies.Paths, samePair, sameAddr); diff != "" || len(problems) > 0 {
		t.Errorf("paths (-want +got):\n%s\nproblems %q", diff, problems)
	}
	if len(pathPolicies.PathPolicies) != 1 || len(pathPolicies.PathPolicies[0].PathGroups) != 2 || pathPolicies.PathPolicies[0].Teaming != overlay.PathPolicyFlow {
		t.Errorf("teams %+v", pathPolicies.PathPolicies)
	}
	p := f.Paths[want[0].Pair]
	p.Local = true
	f.Paths[want[0].Pair] = p
	if pathPolicies, _ := plan(t, e, f, PathPolicies{}); len(pathPolicies.Paths) != 1 {
		t.Errorf("an address of this host is a path: %+v", pathPolicies.Paths)
	}
}

func TestPeers(t *testing.T) {
	e, f := dual(), meshed()
	routed := f.Paths[ad]
	routed.Addr = router
	f.Paths[ad] = routed
	pathPolicies, _ := plan(t, e, f, PathPolicies{})
	hops := func() (list []int) {
		for _, p := range Peers(e, pathPolicies, f.Paths) {
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
	want := bfd.Peer{Pair: ba, Ifindex: 3, Pinned: true, Hops: 3, Timers: bfd.Timers{Interval: 50 * time.Millisecond, Multiplier: 3}}
	if got := Peers(e, pathPolicies, f.Paths)[2]; got != want {
		t.Errorf("peer %+v, want %+v", got, want)
	}
	for i := range e.Underlay.TEPs {
		e.Underlay.TEPs[i].Interface = ""
	}
	want.Pinned = false // its route may take another link
	if got := Peers(e, pathPolicies, f.Paths)[2]; got != want {
		t.Errorf("peer %+v, want %+v", got, want)
	}
	e.Underlay.Liveness = nil
	if got := Peers(e, pathPolicies, f.Paths); len(got) > 0 {
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
