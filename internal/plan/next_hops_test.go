package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

var (
	viaA = overlay.Via{Addr: addr("10.0.0.1"), Interface: "eth0"}
	viaB = overlay.Via{Addr: addr("10.0.1.1"), Interface: "eth1"}
	toB1 = overlay.Pair{Local: self, Remote: remoteB, Via: viaA}
	toB2 = overlay.Pair{Local: self, Remote: remoteB, Via: viaB}
)

// leaves is an edge with a TEP on a loopback, whose route to edge B has two next hops by two links.
func leaves() (overlay.Edge, host.State) {
	e, v := edge(), state()
	e.Underlay.Interfaces = []string{"eth0", "eth1"}
	e.Underlay.Liveness = dual().Underlay.Liveness
	v.Links["eth1"] = host.Link{Name: "eth1", Index: 9, MTU: 1500, Up: true}
	one := v.Routes[toB]
	delete(v.Routes, toB)
	one.Addr, one.Weight, one.NextMAC = viaA.Addr, 1, macB
	two := one
	two.NextHop, two.Interface, two.NextMAC, two.MTU = host.NextHop{Ifindex: 9, Addr: viaB.Addr}, "eth1", macR, 1400
	v.Routes[toB1], v.Routes[toB2] = one, two
	v.Vias = map[overlay.Pair][]overlay.Via{toB: {viaA, viaB}}
	return e, v
}

func shareOf(s PathGroup, p overlay.Pair) (n int) {
	for _, b := range s.Buckets {
		if s.Paths[b] == p {
			n++
		}
	}
	return n
}

func groupToB(t *testing.T, e overlay.Edge, v host.State, dead map[overlay.Pair]string) (PathPolicies, PathGroup, []problem.Problem) {
	t.Helper()
	p, problems := Teamed(e, FactsOf(e, v, nil, dead), PathPolicies{})
	s, ok := p.find(nil, remoteB)
	if !ok {
		t.Fatalf("no flows to %s: %+v", remoteB, p)
	}
	return p, s, problems
}

func names(problems []problem.Problem, what string) bool {
	return slices.ContainsFunc(problem.Texts(problems), func(text string) bool { return strings.Contains(text, what) })
}

// All next hops share the flows, by their weights. One that is dead, whose link is down or that does not
// answer is left.
func TestNextHopsShareTheFlows(t *testing.T) {
	e, v := leaves()
	p, s, problems := groupToB(t, e, v, nil)
	if !slices.Equal(s.Paths, []overlay.Pair{toB1, toB2}) || shareOf(s, toB1) != Buckets/2 || len(problems) > 0 {
		t.Errorf("%+v, problems %q: want halves", s, problems)
	}
	if len(p.Paths) != 3 || p.Paths[0].MTU != 1500 || p.Paths[1].MTU != 1400 {
		t.Errorf("paths %+v, want that of each next hop with its MTU, and one to the other remote", p.Paths)
	}
	heavy := v.Routes[toB2]
	heavy.Weight = 3
	v.Routes[toB2] = heavy
	if _, s, _ := groupToB(t, e, v, nil); shareOf(s, toB2) != Buckets*3/4 {
		t.Errorf("weight 3 of 4 has %d of %d buckets", shareOf(s, toB2), Buckets)
	}
	for name, broken := range map[string]func(v *host.State, dead map[overlay.Pair]string){
		"dead": func(_ *host.State, dead map[overlay.Pair]string) { dead[toB1] = "no packet for 150ms" },
		"link is down": func(v *host.State, _ map[overlay.Pair]string) {
			l := v.Links["eth0"]
			l.Up = false
			v.Links["eth0"] = l
		},
		"does not answer": func(v *host.State, _ map[overlay.Pair]string) {
			path := v.Routes[toB1]
			path.NextMAC = overlay.MAC{}
			v.Routes[toB1] = path
		},
	} {
		e, v := leaves()
		dead := map[overlay.Pair]string{}
		broken(&v, dead)
		if _, s, problems := groupToB(t, e, v, dead); !slices.Equal(s.Paths, []overlay.Pair{toB2}) || !names(problems, toB1.String()) {
			t.Errorf("%s: %v, problems %q", name, s.Paths, problems)
		}
	}
	_, s, problems = groupToB(t, e, v, map[overlay.Pair]string{toB: "no packet for 150ms"})
	if !s.Stale || len(s.Paths) != 2 || len(problems) != 3 {
		t.Errorf("with the whole pair dead %+v, problems %q", s, problems)
	}
}

// With failover the first endpoints stand in with all their next hops.
func TestFailoverWithNextHops(t *testing.T) {
	e, v := leaves()
	e.Underlay.Teaming = overlay.PathPolicyFailover
	if _, s, _ := groupToB(t, e, v, nil); !slices.Equal(s.Paths, []overlay.Pair{toB1, toB2}) {
		t.Errorf("paths %v, want both next hops", s.Paths)
	}
}

// The data path gets an entry for each next hop, and one that stands for them.
func TestTablesOfNextHops(t *testing.T) {
	e, v := leaves()
	p, _, _ := groupToB(t, e, v, map[overlay.Pair]string{toB2: "x"})
	teps, _ := PathSelection(e, p)
	var got []overlay.Pair
	for _, tep := range teps {
		if tep.Addr != remoteB {
			continue
		}
		got = append(got, pairOf(tep))
		if want := tep.Via == viaB; tep.Down != want || tep.Ifindex == 0 {
			t.Errorf("%+v, want down %v", tep, want)
		}
		if tep.Via == (overlay.Via{}) && tep.MTU != 1500 {
			t.Errorf("%+v stands for both, want the largest MTU", tep)
		}
	}
	if !slices.Equal(got, []overlay.Pair{toB, toB1, toB2}) {
		t.Errorf("entries %v", got)
	}
	hops := HostConfig(e, v).NextHops
	for _, hop := range []host.NextHop{v.Routes[toB1].NextHop, v.Routes[toB2].NextHop} {
		if !slices.Contains(hops, hop) {
			t.Errorf("next hops %v to keep resolved, want %v among them", hops, hop)
		}
	}
}

// A next hop by an interface that is not the underlay's is not used, and that is said.
func TestNextHopElsewhere(t *testing.T) {
	e, v := leaves()
	e.Underlay.Interfaces = []string{"eth0"}
	p, s, _ := groupToB(t, e, v, nil)
	if !slices.Equal(s.Paths, []overlay.Pair{toB1}) {
		t.Errorf("paths %v", s.Paths)
	}
	_, problems := Desired(e, v, p)
	if !names(problems, "next hop 10.0.1.1 is not used: eth1 is not an underlay interface") {
		t.Errorf("problems %q do not say so", problems)
	}
}

// The pair and each of its next hops have a session, of which those end with their links.
func TestPeersOfNextHops(t *testing.T) {
	e, v := leaves()
	p, _, _ := groupToB(t, e, v, nil)
	timers := bfd.Timers{Interval: e.Underlay.Liveness.Interval, Multiplier: 3}
	want := []bfd.Peer{
		{Pair: toB, Hops: 16, Timers: timers},
		{Pair: toB1, Hops: 16, Timers: timers, Ifindex: 2, Pinned: true, SrcMAC: own, NextMAC: macB},
		{Pair: toB2, Hops: 16, Timers: timers, Ifindex: 9, Pinned: true, SrcMAC: own, NextMAC: macR},
	}
	got := slices.DeleteFunc(Peers(e, p, v.Routes), func(p bfd.Peer) bool { return p.Remote != remoteB })
	if diff := cmp.Diff(want, got, samePair); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDeadNextHops(t *testing.T) {
	up, unknown := bfd.Result{State: bfd.Up}, bfd.Result{State: bfd.Unknown}
	down, left := bfd.Result{State: bfd.Down, Why: "x"}, bfd.Result{State: bfd.Down, Why: "left", Left: true}
	for _, c := range []struct {
		name    string
		results map[overlay.Pair]bfd.Result
		want    map[overlay.Pair]string
	}{
		{"one failed", map[overlay.Pair]bfd.Result{toB: up, toB1: down, toB2: up}, map[overlay.Pair]string{toB1: "x"}},
		{"one failed, and with it the pair's session", map[overlay.Pair]bfd.Result{toB: down, toB1: down, toB2: up}, map[overlay.Pair]string{toB1: "x"}},
		{"one never answered", map[overlay.Pair]bfd.Result{toB: up, toB1: unknown, toB2: up},
			map[overlay.Pair]string{toB1: "it never answered, though the remote answers by another next hop"}},
		{"the remote does not reflect", map[overlay.Pair]bfd.Result{toB: up, toB1: unknown, toB2: unknown}, nil},
		{"nor does it answer now", map[overlay.Pair]bfd.Result{toB: down, toB1: unknown, toB2: unknown}, map[overlay.Pair]string{toB: "x"}},
		{"the remote goes", map[overlay.Pair]bfd.Result{toB: left, toB1: up, toB2: up}, map[overlay.Pair]string{toB: "left"}},
	} {
		e, _ := leaves()
		if diff := cmp.Diff(c.want, Dead(e, c.results), cmpopts.EquateEmpty(), samePair); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
