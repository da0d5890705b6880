package datapath

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/test/pkttest"
)

// secondTEP and secondAddr are another endpoint of this edge, and of the first remote.
func (f family) secondTEP() netip.Addr  { return f.tep.Next().Next().Next().Next().Next() }
func (f family) secondAddr() netip.Addr { return f.unknown.Next().Next().Next() }

// teamed gives this edge and the first remote two endpoints each: four paths, which
// every team spreads over as its function says.
func teamed(f family, pathPolicies ...func(paths []overlay.Pair) fib.PathPolicy) func(*world) {
	return func(w *world) {
		w.tables.TEPs = w.tables.TEPs[1:] // the second remote stays as it is
		var pairs []overlay.Pair
		for _, local := range []netip.Addr{f.tep, f.secondTEP()} {
			for _, addr := range []netip.Addr{f.remotes[0], f.secondAddr()} {
				path := w.tep(addr)
				path.Local, path.Edge = local, f.remotes[0]
				w.tables.TEPs = append(w.tables.TEPs, path)
				pairs = append(pairs, overlay.Pair{Local: local, Remote: addr})
			}
		}
		for _, pathPolicy := range pathPolicies {
			w.tables.PathPolicies = append(w.tables.PathPolicies, pathPolicy(pairs))
		}
	}
}

// over spreads evenly over some of the paths to the first remote.
func over(f family, source bool, which ...int) func([]overlay.Pair) fib.PathPolicy {
	return func(pairs []overlay.Pair) fib.PathPolicy {
		s := fib.PathGroup{Remote: f.remotes[0]}
		for _, i := range which {
			s.Paths = append(s.Paths, pairs[i])
		}
		for i, owner := range overlay.Share(make([]overlay.Pair, fib.PathBuckets), s.Paths) {
			s.Buckets[i] = uint8(slices.Index(s.Paths, owner))
		}
		return fib.PathPolicy{Source: source, PathGroups: []fib.PathGroup{s}}
	}
}

func pathPolicyWorld(t *testing.T, to way, pathPolicies ...func([]overlay.Pair) fib.PathPolicy) *world {
	t.Helper()
	w := newWorld(t, to.family, static(to.family), tunnelled(to.tunnel), func(c *Config, _ *fib.Tables) { c.TEPs = append(c.TEPs, to.family.secondTEP()) })
	teamed(to.family, pathPolicies...)(w)
	w.apply(t)
	return w
}

// pathOf is the path that a tunnel packet took.
func (w *world) pathOf(out []byte) overlay.Pair {
	if w.family.tep.Is4() {
		return overlay.Pair{Local: addrOfBytes(out[26:30]), Remote: addrOfBytes(out[30:34])}
	}
	return overlay.Pair{Local: addrOfBytes(out[22:38]), Remote: addrOfBytes(out[38:54])}
}

// sendFlows sends so many flows and says which path each took.
func (w *world) sendFlows(t *testing.T, flows int) (took []overlay.Pair) {
	t.Helper()
	return sendFlowsBy(t, w, flows, w.pathOf)
}

// sendFlowsBy sends so many flows and says of each what its tunnel packet is read for.
func sendFlowsBy[T any](t *testing.T, w *world, flows int, read func(out []byte) T) (took []T) {
	t.Helper()
	frame := pkttest.Frame(alice, bob, udp4)
	for i := range flows {
		binary.BigEndian.PutUint32(frame[26:], 0xc6120002+uint32(i%20)) // 198.18.0.2 …
		binary.BigEndian.PutUint32(frame[30:], 0xc6130002+uint32(i/20))
		binary.BigEndian.PutUint16(frame[24:], 0)
		binary.BigEndian.PutUint16(frame[24:], ^onesSum(frame[14:34]))
		binary.BigEndian.PutUint16(frame[40:], 0) // no UDP checksum
		r := w.fromPort(t, "p0", frame)
		r.want(t, frame, forwarded)
		took = append(took, read(r.out))
	}
	return took
}

// The flows of a tester of RFC 2544 are spread evenly over four paths, and each stays on its own.
func TestPathsShareTheFlows(t *testing.T) {
	t.Parallel()
	for _, to := range []way{ways()[0], ways()[4]} {
		t.Run(to.name, func(t *testing.T) {
			w := pathPolicyWorld(t, to, over(to.family, false, 0, 1, 2, 3))
			const flows = 1280
			first := w.sendFlows(t, flows)
			counts := map[overlay.Pair]int{}
			for _, pair := range first {
				counts[pair]++
			}
			for pair, n := range counts {
				if n < flows/4*9/10 || n > flows/4*11/10 {
					t.Errorf("%s took %d of %d flows, not a quarter within 10 %%", pair, n, flows)
				}
			}
			if len(counts) != 4 {
				t.Fatalf("paths in use: %v", counts)
			}
			if again := w.sendFlows(t, flows); !slices.Equal(first, again) {
				t.Error("flows do not keep their path")
			}
			dead := first[0]
			for i := range w.tables.TEPs {
				w.tables.TEPs[i].Down = w.dp.numbers.pair(w.tables.TEPs[i]) == dead
			}
			pathGroup := &w.tables.PathPolicies[0].PathGroups[0]
			before := make([]overlay.Pair, fib.PathBuckets)
			for i, b := range pathGroup.Buckets {
				before[i] = pathGroup.Paths[b]
			}
			pathGroup.Paths = slices.DeleteFunc(pathGroup.Paths, func(p overlay.Pair) bool { return p == dead })
			for i, owner := range overlay.Share(before, pathGroup.Paths) {
				pathGroup.Buckets[i] = uint8(slices.Index(pathGroup.Paths, owner))
			}
			must(t, w.dp.Paths.Steer(w.tables.TEPs, w.tables.PathPolicies))
			for i, pair := range w.sendFlows(t, flows) {
				if pair == dead || first[i] != dead && pair != first[i] {
					t.Fatalf("flow %d took %s before and %s without %s", i, first[i], pair, dead)
				}
			}
		})
	}
}
