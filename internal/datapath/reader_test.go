package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/selvage/selvage/internal/datapath/mapmodel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/rib"
)

func noDevice(int) string { return "" }

// A reader tells what the process that made the tables tells, and writes nothing.
func TestReader(t *testing.T) {
	w := modelWorld(t)
	w.apply(t)
	remote := w.family.remotes[0]
	must(t, w.dp.Hosts.PutBGPMACs([]rib.BGPMAC{{Segment: "green", MAC: macOf(nobody), Remote: remote}}))
	w.machine.Refuse(mapmodel.Faults{Write: func(write mapmodel.Write) error {
		t.Errorf("the map %s is written", write.Map)
		return errors.New("no")
	}})
	defer w.machine.Refuse(mapmodel.Faults{})
	r, err := openReader(w.cfg, w.kernel)
	must(t, err)
	defer func() { must(t, r.Close()) }()
	must(t, r.Recognise(w.tables, noDevice))

	same := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, the process says %+v", what, got, want)
		}
	}
	same("FDB", sortedFDB(t, r.FDB), sortedFDB(t, w.dp.Hosts.FDB))
	same("drops", readBy(t, r.Drops), readBy(t, w.dp.Traffic.Drops))
	same("flows", readBy(t, r.Flows), readBy(t, w.dp.Flows.Flows))
	same("stats", readBy(t, r.Stats), readBy(t, w.dp.Flows.Stats))
	same("limits", readBy(t, r.LimitUsages), readBy(t, w.dp.Limits.LimitUsages))

	ports, err := r.Ports()
	must(t, err)
	if len(ports) != len(w.tables.Ports) {
		t.Errorf("ports %+v", ports)
	}
	for _, p := range w.tables.Ports {
		i := slices.IndexFunc(ports, func(o PinnedPort) bool { return o.Name == p.Name })
		if i < 0 || ports[i].Ifindex != p.Ifindex || ports[i].Segment != p.Segment || ports[i].MTU != p.MTU || ports[i].Uplink != p.Uplink {
			t.Errorf("port %+v is not among %+v", p, ports)
		}
	}
	segments, err := r.Segments()
	must(t, err)
	i := slices.IndexFunc(segments, func(s PinnedSegment) bool { return s.Name == "blue" })
	if i < 0 || segments[i].VNI != blueVNI || segments[i].Encapsulation != "vxlan" || segments[i].UDPPort != 4789 || segments[i].Remotes != 2 || segments[i].Router != "main" {
		t.Errorf("segments %+v", segments)
	}
	remotes, err := r.Remotes()
	must(t, err)
	i = slices.IndexFunc(remotes, func(p PinnedRemote) bool { return p.Addr == remote })
	if i < 0 || !slices.Contains(remotes[i].Segments, "green") || len(remotes[i].Paths) != 1 || remotes[i].Paths[0].NextMAC != macOf(nextHop) {
		t.Errorf("remotes %+v", remotes)
	}
	w.wantRoutes(t, readBy(t, r.Routes))
	if r.TEP() != w.family.tep || r.FDBSize() != testFDB {
		t.Errorf("TEP %s, FDB of %d", r.TEP(), r.FDBSize())
	}
}

// wantRoutes wants all routes of the tables, with their next hops.
func (w *modelled) wantRoutes(t *testing.T, got []PinnedRoute) {
	t.Helper()
	count := 0
	for _, router := range w.tables.Routers {
		for _, want := range router.Routes {
			i := slices.IndexFunc(got, func(r PinnedRoute) bool { return r.Router == router.Name && r.Prefix == want.Prefix.Masked() })
			if i < 0 || got[i].Kind != want.Kind || len(got[i].Hops) != len(want.Hops) {
				t.Errorf("router %s: no route %+v among %+v", router.Name, want, got)
				continue
			}
			for _, hop := range want.Hops {
				if !slices.ContainsFunc(got[i].Hops, func(h fib.Hop) bool {
					return h.Segment == hop.Segment && h.Addr == hop.Addr && h.Remote == hop.Remote && h.MAC == hop.MAC
				}) {
					t.Errorf("route %s: no next hop %+v among %+v", want.Prefix, hop, got[i].Hops)
				}
			}
			count++
		}
	}
	if count == 0 || count != len(got) {
		t.Errorf("%d routes of %d: %+v", len(got), count, got)
	}
}

func readBy[T any](t *testing.T, read func() (T, error)) T {
	t.Helper()
	v, err := read()
	must(t, err)
	return v
}

func sortedFDB(t *testing.T, read func() ([]FDBEntry, error)) []FDBEntry {
	t.Helper()
	list := readBy(t, read)
	slices.SortFunc(list, func(a, b FDBEntry) int { return strings.Compare(a.Segment+a.MAC.String(), b.Segment+b.MAC.String()) })
	for i := range list {
		list[i].AgeNS = 0
	}
	return list
}

// What no configuration names is told by interface and VNI, and a remote with two addresses is one.
func TestReaderWithoutNames(t *testing.T) {
	second := netip.MustParseAddr("192.0.2.77")
	w := modelWorld(t, func(_ *Config, tables *fib.Tables) {
		tep := tables.TEPs[0]
		tep.Edge, tep.Addr = tep.Addr, second
		tables.TEPs = append(tables.TEPs, tep)
	})
	w.apply(t)
	r, err := openReader(Config{Name: w.cfg.Name, PinRoot: w.cfg.PinRoot}, w.kernel)
	must(t, err)
	defer func() { must(t, r.Close()) }()
	must(t, r.Recognise(fib.Tables{}, func(ifindex int) string {
		if ifindex == w.dev["p0"].Index {
			return "p0"
		}
		return ""
	}))
	ports, err := r.Ports()
	must(t, err)
	var names []string
	for _, p := range ports {
		names = append(names, p.Name+" "+p.Segment)
	}
	for _, want := range []string{fmt.Sprintf("interface:p0 vni:%d", blueVNI), fmt.Sprintf("ifindex:%d vni:%d", w.dev["p2"].Index, greenVNI)} {
		if !slices.Contains(names, want) {
			t.Errorf("no %q among the ports %q", want, names)
		}
	}
	remotes, err := r.Remotes()
	must(t, err)
	i := slices.IndexFunc(remotes, func(p PinnedRemote) bool { return p.Addr == w.tables.TEPs[0].Addr })
	if i < 0 || len(remotes[i].Paths) != 2 || slices.ContainsFunc(remotes, func(p PinnedRemote) bool { return p.Addr == second }) {
		t.Errorf("remotes %+v", remotes)
	}
}

// Tables of other releases are not misread.
func TestReaderOfOtherABIs(t *testing.T) {
	w := modelWorld(t)
	w.apply(t)
	dir := filepath.Join(w.cfg.PinRoot, w.cfg.Name)
	open := func() (*Reader, error) { return openReader(w.cfg, w.kernel) }
	if _, err := openReader(Config{Name: "nobody", PinRoot: w.cfg.PinRoot}, w.kernel); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing is pinned: %v", err)
	}
	const older, newer = abiVersion - 1, abiVersion + 1
	for _, abi := range []int{newer, older} {
		must(t, w.kernel.Pins.MakeDir(w.dp.Pins.mapDirOf(abi)))
	}
	must(t, w.kernel.Pins.MakeDir(filepath.Join(dir, "maps-09")))
	r, err := open()
	must(t, err)
	if got := r.OtherABIs(); !slices.Equal(got, []int{older, newer}) {
		t.Errorf("other ABIs %v", got)
	}
	must(t, r.Close())

	own, away := w.dp.Pins.mapDir(), filepath.Join(dir, "away")
	must(t, w.kernel.Pins.Rename(own, away))
	wantABI(t, open, []int{older, newer}, fmt.Sprintf("%s has tables of ABI %d and %d, this build reads ABI %d: ask with the newer release that ran the edge", dir, older, newer, abiVersion))
	must(t, w.kernel.Pins.Remove(w.dp.Pins.mapDirOf(newer)))
	wantABI(t, open, []int{older}, "start the edge again with this release, which takes the data path over")
	must(t, w.kernel.Pins.Remove(w.dp.Pins.mapDirOf(older)))
	wantABI(t, open, nil, dir+" has no tables of a known release")
	must(t, w.kernel.Pins.Rename(away, own))

	// A build of the same number whose tables differ all the same.
	for _, c := range []struct {
		name   string
		change func(*ebpf.MapSpec)
		want   bool // it is read
	}{
		{"fdb", func(m *ebpf.MapSpec) { m.MaxEntries *= 2 }, true},
		{"fdb", func(m *ebpf.MapSpec) { m.ValueSize += 8 }, false},
		{"vports", func(m *ebpf.MapSpec) { m.ValueSize += 8 }, false},
		{"drops", func(m *ebpf.MapSpec) { m.MaxEntries++ }, false},
	} {
		spec, err := loadBpf()
		must(t, err)
		c.change(spec.Maps[c.name])
		other, err := w.kernel.Loader.NewMap(spec.Maps[c.name])
		must(t, err)
		path := filepath.Join(own, c.name)
		must(t, w.kernel.Pins.Rename(path, away))
		must(t, other.Pin(path))
		r, err := open()
		switch {
		case c.want && err != nil, !c.want && (err == nil || !strings.Contains(err.Error(), path+" is of another build of ABI")):
			t.Errorf("%s changed: %v", c.name, err)
		case err == nil:
			must(t, r.Close())
		}
		must(t, other.Close())
		must(t, w.kernel.Pins.Rename(away, path))
	}
}

func wantABI(t *testing.T, open func() (*Reader, error), found []int, text string) {
	t.Helper()
	_, err := open()
	var abi ABIError
	if !errors.As(err, &abi) || !slices.Equal(abi.Found, found) || !strings.Contains(abi.Error(), text) {
		t.Errorf("%v, want ABIs %v and %q", err, found, text)
	}
}

func TestLockedBy(t *testing.T) {
	const locks = "1: POSIX  ADVISORY  WRITE 11 00:1b:5 0 EOF\n2: FLOCK  ADVISORY  WRITE 4711 00:1b:77 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 4712 00:1b:78 0 EOF\n"
	if pid, ok := lockedBy(locks, "00:1b:77"); !ok || pid != 4711 {
		t.Errorf("process %d, %t", pid, ok)
	}
	for _, file := range []string{"00:1b:5", "00:1b:7", "00:1b:78"} {
		if pid, ok := lockedBy(locks, file); ok {
			t.Errorf("%s is locked by %d", file, pid)
		}
	}
}
