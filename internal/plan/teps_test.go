package plan

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
)

// meshState is a host with the facts of meshed.
func meshState() host.State {
	f := meshed()
	return host.State{Links: f.Links, Routes: f.Paths, TEPs: map[netip.Addr]bool{localA: true, localB: true}}
}

// downOf are the pairs that the data path is told are down.
func downOf(teps []fib.TEP) (pairs []overlay.Pair) {
	for _, t := range teps {
		if t.Down {
			pairs = append(pairs, pairOf(t))
		}
	}
	return pairs
}

func TestPathSelection(t *testing.T) {
	e, f := dual(), meshed()
	e.Underlay.Teaming = overlay.PathPolicySource
	pathPolicies, _ := plan(t, e, f, PathPolicies{})
	teps, steered := PathSelection(e, pathPolicies)
	var pairs []overlay.Pair
	for _, tep := range teps {
		pairs = append(pairs, pairOf(tep))
		if tep.Edge != remoteA || tep.Ifindex == 0 || tep.NextMAC != macB || tep.Down {
			t.Errorf("%+v, want a way to edge-b that is up", tep)
		}
	}
	if !slices.Equal(pairs, mesh) {
		t.Errorf("paths %v, want %v", pairs, mesh)
	}
	if len(steered) != 2 || !steered[0].Source || steered[1].Source {
		t.Fatalf("teams %+v, want the first by source and the pinned one not", steered)
	}
	first, pinned := steered[0].PathGroups[0], steered[1].PathGroups[0]
	if first.Buckets != pathGroupOf(t, pathPolicies).Buckets || !slices.Equal(first.Paths, mesh) || !slices.Equal(pinned.Paths, []overlay.Pair{ba}) {
		t.Errorf("spreads %+v and %+v are not the plan's", first, pinned)
	}
	if diff := cmp.Diff(map[string]int{"blue": 0, "storage": 1}, pathPolicyNumbers(e, pathPolicies)); diff != "" {
		t.Errorf("teams of segments (-want +got):\n%s", diff)
	}
}

// A dead path is down, unless it is what is left: then each packet would be decided
// anew for nothing.
func TestPathSelectionOfDeadPaths(t *testing.T) {
	e, f := dual(), meshed()
	f.Dead = map[overlay.Pair]string{aa: "x", ba: "x"}
	pathPolicies, _ := plan(t, e, f, PathPolicies{})
	teps, _ := PathSelection(e, pathPolicies)
	if got := downOf(teps); !slices.Equal(got, []overlay.Pair{aa, ba}) {
		t.Errorf("down %v, want the dead ones", got)
	}
	f.Dead[ad], f.Dead[bd] = "x", "x"
	pathPolicies, _ = plan(t, e, f, pathPolicies)
	teps, _ = PathSelection(e, pathPolicies)
	if got := downOf(teps); !slices.Equal(got, []overlay.Pair{aa, ba}) {
		t.Errorf("down %v with all dead, want those alone that were not used last", got)
	}
}

// What has no way is known all the same: the pair that stands for a remote, and the
// addresses that its tunnels may come from.
func TestPathSelectionWithoutPaths(t *testing.T) {
	e, f := dual(), meshed()
	delete(f.Paths, aa)
	delete(f.Paths, ad)
	delete(f.Paths, bd)
	pathPolicies, _ := plan(t, e, f, PathPolicies{})
	teps, _ := PathSelection(e, pathPolicies)
	want := []fib.TEP{
		{Addr: remoteA, Local: localA, Edge: remoteA},
		{Addr: remoteD, Local: localA, Edge: remoteA},
		{Addr: remoteA, Local: localB, Edge: remoteA, Ifindex: 3, MTU: 9000, SrcMAC: own, NextMAC: macB},
	}
	if diff := cmp.Diff(want, teps, sameAddr); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Of several TEPs, one whose address is not there is out of use; the only one stays.
func TestAddressThatIsNotThere(t *testing.T) {
	v := meshState()
	delete(v.TEPs, localB)
	pathPolicies, problems := plan(t, dual(), FactsOf(dual(), v, nil, map[overlay.Pair]string{ad: "no packet for 150ms"}), PathPolicies{})
	wantPaths(t, pathGroupOf(t, pathPolicies), aa)
	if len(problems) != 3 || !strings.Contains(problems[1], "address 198.51.100.1 is not on this host") {
		t.Errorf("problems %q", problems)
	}
	single := state()
	single.TEPs = nil
	if f := FactsOf(edge(), single, nil, nil); len(f.Dead) > 0 {
		t.Errorf("dead %v, want none of the only TEP", f.Dead)
	}
}

func TestPathsOfSeveralTEPs(t *testing.T) {
	e, v := dual(), meshState()
	want := Want(e)
	if !slices.Equal(want.TEPs, []netip.Addr{localA, localB}) || !slices.Equal(want.Pairs, mesh) {
		t.Errorf("asked for %v and %v", want.TEPs, want.Pairs)
	}
	if hops := HostConfig(e, v).NextHops; len(hops) != 4 {
		t.Errorf("next hops %v, want those of all ways", hops)
	}
	v.Routes[aa] = path(meshed(), aa, "eth1")
	if _, ok := pathOf(e, v, aa); ok {
		t.Error("a way by another TEP's interface is one")
	}
	if path, ok := Path(e, v, remoteA); !ok || path.Addr != remoteD {
		t.Errorf("preferred way %+v, want that to the second address", path)
	}
	if hops := HostConfig(e, v).NextHops; len(hops) != 3 {
		t.Errorf("next hops %v, want those of ways that tunnels may take", hops)
	}
	unknown := overlay.Pair{Local: remoteC, Remote: remoteA}
	v.Routes[unknown] = v.Routes[bd]
	if _, ok := pathOf(e, v, unknown); ok {
		t.Error("a way from an address that is no TEP is one")
	}
}

// The narrowest of the paths that a segment may take counts, of a pinned one those
// of its TEPs.
func TestPortsOfSeveralTEPs(t *testing.T) {
	e, v := dual(), meshState()
	for i, s := range []string{"blue", "storage"} {
		name := []string{"tap0", "tap1"}[i]
		e.Ports = append(e.Ports, overlay.Port{Name: s, Interface: name, Segment: s})
		v.Links[name] = host.Link{Name: name, Index: 10 + i, MTU: 8000, Up: true}
	}
	e.Segments[1].TEPs = []string{"b"}
	_, problems := desired(e, v, map[overlay.Pair]int{bd: 7000, ad: 1400})
	if len(problems) != 2 || !strings.Contains(problems[0], "port blue has MTU 8000, the tunnel to 198.51.100.2 carries 1350") ||
		!strings.Contains(problems[1], "port storage has MTU 8000, the tunnel to 198.51.100.2 carries 6950") {
		t.Errorf("problems %q", problems)
	}
}
