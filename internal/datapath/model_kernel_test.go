package datapath

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/datapath/mapmodel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
	"github.com/selvage/selvage/test/tier"
)

// fixedClock is the same for the kernel and its model.
type fixedClock struct{}

func (fixedClock) Monotonic() (uint64, error) { return 1e12, nil }

func (fixedClock) Coarse() (uint64, error) { return 1e12, nil }

// The model is the kernel: the same tables, one after the other and after restarts, leave the same in all maps.
func TestModelIsTheKernel(t *testing.T) {
	t.Parallel()
	tier.Root(t)
	w := emptyWorld(t, underIPv4)
	w.fill(t)
	all := w.tables
	var paths [2]*Datapath
	kernels := [2]kernel.Kernel{kernel.Host(), mapmodel.New(0).Kernel()}
	open := func() {
		for i := range kernels {
			kernels[i].Clock, kernels[i].Random = fixedClock{}, func() uint64 { return 1 }
			w.do(t, func() {
				var err error
				paths[i], err = OpenWith(w.cfg, kernels[i])
				must(t, err)
			})
		}
	}
	open()
	w.dp = paths[0]
	t.Cleanup(func() {
		must(t, paths[1].Remove())
		w.dp = paths[0]
		must(t, w.remove())
	})
	r := newRandom(t)
	repeat(5, func(n int) {
		w.tables = randomTables(r, w, all)
		bgp := []rib.BGPMAC{{Segment: "green", MAC: macOf(nobody), Remote: w.family.remotes[r.IntN(2)]}}
		var texts [2]string
		for i, d := range paths {
			w.do(t, func() {
				texts[i] = fmt.Sprint(d.Apply(w.tables), d.Hosts.PutBGPMACs(bgp), d.Paths.Steer(w.tables.TEPs, nil), d.Egress.SteerEgress(w.tables.Egress))
			})
		}
		if texts[0] != texts[1] {
			t.Fatalf("step %d: %s, the model says %s", n, texts[0], texts[1])
		}
		compareMaps(t, n, paths)
		if r.IntN(4) == 0 {
			must(t, paths[0].Close())
			must(t, paths[1].Close())
			open()
			compareMaps(t, n, paths)
		}
	})
}

// randomTables are the tables with some things gone, and others beside them.
func randomTables(r random, w *world, t fib.Tables) fib.Tables {
	some := func() bool { return r.IntN(3) > 0 }
	t.Ports = slices.DeleteFunc(slices.Clone(t.Ports), func(p fib.Port) bool { return !p.Uplink && !some() })
	for i := range t.Ports {
		t.Ports[i].AllowRA, t.Ports[i].MTU = some(), 1400+r.IntN(100)
	}
	t.TEPs = slices.Clone(t.TEPs)
	for i := range t.TEPs {
		t.TEPs[i].Down = some()
	}
	t.Segments = slices.Clone(t.Segments)
	for i := range t.Segments {
		s := &t.Segments[i]
		s.Static = slices.DeleteFunc(slices.Clone(s.Static), func(overlay.StaticMAC) bool { return !some() })
		s.Neighbours = slices.DeleteFunc(slices.Clone(s.Neighbours), func(overlay.Neighbour) bool { return !some() })
		s.Suppress = some()
	}
	main := t.Routers[0]
	main.Routes = slices.DeleteFunc(slices.Clone(main.Routes), func(fib.Route) bool { return !some() })
	hops := w.farHops()
	for i := range r.IntN(20) {
		prefix := netip.PrefixFrom(nthAddr("100.64.0.0", r.IntN(1<<16)), 8+r.IntN(25)).Masked()
		if !slices.ContainsFunc(main.Routes, func(other fib.Route) bool { return other.Prefix == prefix }) {
			main.Routes = append(main.Routes, route(prefix.String(), hops[:1+i%2]...))
		}
	}
	t.Routers = []fib.Router{main}
	if !some() {
		t.Firewall = nil
	}
	if !some() {
		t.Egress, t.EgressRules, t.PortForwards = nil, nil, nil
	}
	return t
}

// compareMaps checks that both data paths have the same in all maps, but in those that depend on the
// number of cores and those that cannot be read.
func compareMaps(t *testing.T, step int, paths [2]*Datapath) {
	t.Helper()
	spec, err := loadBpf()
	must(t, err)
	nameSections(spec)
	entries := 0
	for name, m := range spec.Maps {
		readable := !isData(m) && m.KeySize > 0 && !strings.HasPrefix(m.Type.String(), "PerCPU")
		if !readable || name == bpfMapPolicy || name == bpfMapTransitCache {
			continue
		}
		var contents [2]map[string]string
		for i, d := range paths {
			contents[i] = contentOf(t, d.prog.maps()[name], m)
		}
		entries += len(contents[0])
		for key, value := range contents[0] {
			if contents[1][key] != value {
				t.Errorf("step %d: map %s: %s is %s, the model has %q", step, name, key, value, contents[1][key])
			}
		}
		for key, value := range contents[1] {
			if _, ok := contents[0][key]; !ok {
				t.Errorf("step %d: map %s: the model has %s: %s", step, name, key, value)
			}
		}
	}
	if entries < 50 {
		t.Errorf("step %d: %d entries in all maps", step, entries)
	}
}

// contentOf are the entries of a map, in hexadecimal; of an array those that are not zero.
func contentOf(t *testing.T, m kernel.Map, spec *ebpf.MapSpec) map[string]string {
	t.Helper()
	all := map[string]string{}
	key, value := make([]byte, spec.KeySize), make([]byte, spec.ValueSize)
	zero := strings.Repeat("00", len(value))
	it := m.Iterate()
	for it.Next(&key, &value) {
		if text := fmt.Sprintf("%x", value); spec.Type != ebpf.Array || text != zero {
			all[fmt.Sprintf("%x", key)] = text
		}
	}
	must(t, it.Err())
	return all
}
