package datapath

import (
	"errors"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath/kernel"
	"github.com/selvage/selvage/internal/datapath/mapmodel"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
	"github.com/selvage/selvage/internal/rib"
)

// modelled is a world whose kernel is a model: it needs no root.
type modelled struct {
	*world
	machine *mapmodel.Machine
	kernel  kernel.Kernel
}

// modelWorld is the routed world with a firewall and NAT, and all that tables can have.
func modelWorld(t testing.TB, change ...func(*Config, *fib.Tables)) *modelled {
	t.Helper()
	w := &modelled{world: &world{name: "m", family: underIPv4, dev: map[string]*net.Interface{}}, machine: mapmodel.New(0)}
	for i, name := range []string{"u0", "p0", "p1", "p2", "s0"} {
		w.dev[name] = &net.Interface{Index: 10 + i, Name: name, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 1, byte(i)}}
	}
	w.kernel = w.machine.Kernel()
	w.configure()
	w.fill(t)
	for _, c := range change {
		c(&w.cfg, &w.tables)
	}
	w.reopen(t)
	t.Cleanup(func() { must(t, w.dp.Close()) })
	return w
}

// fill gives the configuration and the tables some of everything.
func (w *world) fill(t testing.TB) {
	t.Helper()
	to := way{"", w.family, overlay.Tunnel{Encapsulation: overlay.VXLAN, UDPPort: 4789}}
	routed(to, &w.tables)
	natTables(to, &w.tables)
	up := w.port("s0", "up")
	up.Uplink = true
	w.tables.Ports = append(w.tables.Ports, up)
	w.tables.Ports[0].Allowed = &overlay.Allowed{MACs: []overlay.MAC{macOf(alice)}, Addresses: natPrefixes("10.0.1.10/32")}
	hops := w.farHops()
	w.setRoutes(route("10.4.0.0/16", hops[:]...))
	fw := openFirewall(true)
	p, err := policy.Compile(fw, firewallPlaces)
	must(t, err)
	w.cfg.Firewall, w.tables.Firewall = &fw, p
	w.cfg.Egress = &overlay.Egress{NATSessions: 4096, Timeouts: overlay.DefaultNATTimeouts}
	w.tables.PortForwards = []fib.Forward{{
		Router: "main", Egress: "uplink/up", Proto: unix.IPPROTO_TCP, Addr: addr(uplink4), Port: 8080, To: addr("10.0.2.13"), ToPort: 80,
	}}
}

// reopen opens the data path, that of the last process is what it finds.
func (w *modelled) reopen(t testing.TB) {
	t.Helper()
	dp, err := OpenWith(w.cfg, w.kernel)
	must(t, err)
	w.dp = dp
}

func (w *modelled) apply(t testing.TB) {
	t.Helper()
	must(t, w.dp.Apply(w.tables))
}

// used checks how many entries maps have.
func (w *modelled) used(t *testing.T, want map[string]int) {
	t.Helper()
	for name, n := range want {
		if got := w.machine.Used(name); got != n {
			t.Errorf("map %s has %d entries, want %d", name, got, n)
		}
	}
}

// wantPart applies tables of which a part fails, with an error that is one of parts alone.
func (w *modelled) wantPart(t *testing.T, cause error) {
	t.Helper()
	var partial PartialError
	if err := w.dp.Apply(w.tables); !errors.As(err, &partial) || !errors.Is(err, cause) {
		t.Fatalf("%v, want an error of parts: %v", err, cause)
	}
}

// Tables of each kind are in the maps, and the readers tell of them.
func TestModelHoldsTheTables(t *testing.T) {
	w := modelWorld(t)
	w.apply(t)
	w.used(t, map[string]int{
		bpfMapPorts: 5, bpfMapVports: 6, bpfMapSegments: 6, bpfMapVnis: 5, bpfMapTeps: 2, bpfMapRemotes: 9, bpfMapMembers: 13,
		bpfMapAllowedMacs: 1, bpfMapAllowedAddrs: 1, bpfMapFdb: 6, bpfMapNeighbours: 12, bpfMapRouters: 1, bpfMapRoutes: len(w.tables.Routers[0].Routes),
		bpfMapPolicy: 2, bpfMapEgressPolicies: 3, bpfMapPool: 8, bpfMapPortForwards: 1,
	})
	fdb, err := w.dp.Hosts.FDB()
	if err != nil || len(fdb) != 6 {
		t.Errorf("FDB of %d entries, %v", len(fdb), err)
	}
	hosts, err := w.dp.Hosts.Neighbours()
	if err != nil || len(hosts) != 12 {
		t.Errorf("%d neighbours, %v", len(hosts), err)
	}
	if stats, err := w.dp.Flows.Stats(); err != nil || stats.FDBUsed != 6 || stats.Generations["blue"] == 0 {
		t.Errorf("stats %+v, %v", stats, err)
	}
	if ports, err := w.dp.Traffic.Ports(); err != nil || len(ports) != 4 {
		t.Errorf("counters of ports %v, %v", ports, err)
	}
	if _, err := w.dp.Traffic.Drops(); err != nil {
		t.Error(err)
	}
	if rules, err := w.dp.Firewall.Rules(); err != nil || len(rules) == 0 {
		t.Errorf("rules %v, %v", rules, err)
	}
	if _, err := w.dp.Tracer.Trace(TraceInput{Port: "p0", Frame: make([]byte, 60)}); err != nil {
		t.Error(err)
	}
	if got := len(w.machine.Attached()); got != 5 {
		t.Errorf("%d programs are attached, want one at each port and the underlay", got)
	}
}

// A table without room is an error of parts, and what is removed is removed all the same.
func TestModelTableIsFull(t *testing.T) {
	w := modelWorld(t, func(c *Config, _ *fib.Tables) { c.FDB.Size = 16 })
	w.apply(t)
	blue := w.segment("blue")
	for i := range 20 {
		blue.Static = append(blue.Static, overlay.StaticMAC{MAC: overlay.MAC{2, 9, 0, 0, 0, byte(i)}, Port: "p0"})
	}
	w.tables.Ports = slices.Delete(w.tables.Ports, 2, 3) // p2
	w.wantPart(t, unix.E2BIG)
	w.used(t, map[string]int{bpfMapFdb: 16 - 1, bpfMapPorts: 4}) // dave's, at p2, went after the others had no room
	blue.Static = blue.Static[:3]
	w.apply(t)
}

// A write that fails is an error of parts, and the next Apply mends it. So it is with each map that tables fill.
func TestModelRefusedWrite(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused by the test")
	good := modelWorld(t)
	good.apply(t)
	for _, name := range []string{
		bpfMapPorts, bpfMapVnis, bpfMapRemotes, bpfMapMembers, bpfMapTeps, bpfMapAllowedMacs, bpfMapAllowedAddrs, bpfMapFdb, bpfMapNeighbours,
		bpfMapRoutes, bpfMapNexthops, bpfMapLocalAddrs, bpfMapPool, bpfMapEgressPolicies, bpfMapPortForwards,
	} {
		t.Run(name, func(t *testing.T) {
			w := modelWorld(t)
			w.machine.Refuse(mapmodel.Faults{Write: func(write mapmodel.Write) error {
				if write.Map == name && write.N == 1 {
					return refused
				}
				return nil
			}})
			w.wantPart(t, refused)
			w.apply(t)
			if got, want := w.machine.Contents(name), good.machine.Contents(name); len(got) != len(want) {
				t.Errorf("after the second time %d entries, want %d", len(got), len(want))
			}
		})
	}
}

// The underlay's program comes before those of ports and right before them, whatever else takes its time.
func TestModelAttachesPortsLast(t *testing.T) {
	w := modelWorld(t, withTransit)
	w.planTransit()
	var order []mapmodel.Attach
	w.machine.Refuse(mapmodel.Faults{Attach: func(a mapmodel.Attach) error {
		order = append(order, a)
		return nil
	}})
	w.apply(t)
	first := slices.IndexFunc(order, func(a mapmodel.Attach) bool { return a.Program == "from_underlay" })
	if first < 1 || len(order)-first != 5 || slices.ContainsFunc(order[first:], func(a mapmodel.Attach) bool { return a.Type != ebpf.AttachTCXIngress }) {
		t.Errorf("attached in the order %+v; want transit, then the underlay's, then those of four ports", order)
	}
}

// The next process adopts what the last one left, be it closed or killed, and numbers stay.
func TestModelIsAdopted(t *testing.T) {
	for name, end := range map[string]func(*modelled) error{
		"closed": func(w *modelled) error { return w.dp.Close() },
		"killed": func(w *modelled) error { w.machine.Kill(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := modelWorld(t)
			w.apply(t)
			if _, err := OpenWith(w.cfg, w.kernel); !errors.Is(err, kernel.ErrDriven) {
				t.Errorf("a second process: %v", err)
			}
			contents := func() map[string]map[string]string {
				all := map[string]map[string]string{}
				for _, m := range []string{bpfMapPorts, bpfMapVports, bpfMapMembers, bpfMapRoutes, bpfMapNexthops, bpfMapEgressPolicies, bpfMapPool, bpfMapRules} {
					all[m] = w.machine.Contents(m)
				}
				return all
			}
			before := contents()
			must(t, end(w))
			slices.Reverse(w.tables.Ports)
			slices.Reverse(w.tables.TEPs)
			w.reopen(t)
			if !w.dp.Adopted() {
				t.Error("it is not adopted")
			}
			w.apply(t)
			if after := contents(); !maps.Equal(sizes(before), sizes(after)) {
				t.Errorf("%v, before %v", sizes(after), sizes(before))
			} else if !maps.Equal(before[bpfMapPorts], after[bpfMapPorts]) || !maps.Equal(before[bpfMapRules], after[bpfMapRules]) {
				t.Error("numbers of ports or rules changed")
			}
		})
	}
}

func sizes(contents map[string]map[string]string) map[string]int {
	n := map[string]int{}
	for name, entries := range contents {
		n[name] = len(entries)
	}
	return n
}

// hand is a clock that a test moves.
type hand struct{ now uint64 }

func (h *hand) Monotonic() (uint64, error) { return h.now, nil }
func (h *hand) Coarse() (uint64, error)    { return h.now, nil }

// The clock of the transit programs goes by the epochs that have passed, however far ticks are apart.
func TestEpochsOfRareTicks(t *testing.T) {
	w := modelWorld(t, func(c *Config, _ *fib.Tables) { c.Transit, c.FDB.Ageing = true, 10*time.Second })
	clock := &hand{now: uint64(time.Hour)}
	w.dp.prog.kernel.Clock = clock
	epoch := w.dp.Changes.TickEvery()
	if epoch != 625*time.Millisecond {
		t.Fatalf("an epoch of %s, want a sixteenth of the ageing time", epoch)
	}
	for _, c := range []struct {
		after time.Duration
		want  uint32
	}{
		{0, 1}, {epoch - 1, 0}, {1, 1}, {time.Second, 1}, {time.Second, 2}, {2 * time.Hour, 2 * epochs}, {epoch, 1},
	} {
		clock.now += uint64(c.after)
		before, err := w.dp.Changes.globalCounter(bpfGlobalCounterGLOBAL_CLOCK)
		must(t, err)
		must(t, w.dp.Changes.Tick())
		after, err := w.dp.Changes.globalCounter(bpfGlobalCounterGLOBAL_CLOCK)
		must(t, err)
		if after-before != c.want {
			t.Errorf("%s later: %d epochs, want %d", c.after, after-before, c.want)
		}
	}
}

// Steering, what BGP says, ageing and the clock work on the model too.
func TestModelIsDriven(t *testing.T) {
	w := modelWorld(t, func(c *Config, _ *fib.Tables) { c.Transit = true })
	w.tables.Segments[1].EVPN = &overlay.EVPNInstance{}
	w.apply(t)
	must(t, w.dp.Hosts.PutBGPMACs([]rib.BGPMAC{{Segment: "green", MAC: macOf(bob), Remote: w.family.remotes[0]}}))
	must(t, w.dp.Hosts.PutARPEntries([]rib.ARPEntry{{Segment: "green", Addr: addr("10.0.2.99"), MAC: macOf(bob)}}))
	must(t, w.dp.Routes.PutRoutes([]fib.Router{{Name: "main", Routes: []fib.Route{route("10.44.0.0/16", w.farHops()[0])}}}))
	w.used(t, map[string]int{bpfMapFdb: 7, bpfMapNeighbours: 13})
	down := slices.Clone(w.tables.TEPs)
	down[0].Down = true
	must(t, w.dp.Paths.Steer(down, nil))
	must(t, w.dp.Egress.SteerEgress(w.tables.Egress))
	if _, err := w.dp.Age(time.Minute); err != nil {
		t.Error(err)
	}
	must(t, w.dp.Changes.Tick())
	must(t, w.dp.HostEvents.ProbeLoops())
	if sent := w.machine.Sent(); len(sent) != 3 {
		t.Errorf("%d loop probes, want one at each port but the uplink", len(sent))
	}
	lease, err := w.dp.Changes.Lease()
	must(t, err)
	must(t, errors.Join(lease.Renew(), lease.Close()))
	if _, err := w.dp.Firewall.Sweep(); err != nil {
		t.Error(err)
	}
	if _, err := w.dp.NATSessions.NATSweep(); err != nil {
		t.Error(err)
	}
	must(t, w.dp.Firewall.Logs(10, func(LogLine) {}))
}

// What is no longer wanted goes, and nothing is left of a data path that is removed.
func TestModelIsPruned(t *testing.T) {
	w := modelWorld(t)
	w.apply(t)
	w.tables.Ports, w.tables.Routers[0].Routes = w.tables.Ports[:1], nil
	w.tables.Egress, w.tables.EgressRules, w.tables.PortForwards, w.tables.Firewall = nil, nil, nil, nil
	w.tables.Segments = w.tables.Segments[:1]
	w.tables.Segments[0].Static, w.tables.Segments[0].Neighbours = nil, nil
	w.apply(t)
	w.used(t, map[string]int{
		bpfMapPorts: 1, bpfMapVports: 3, bpfMapVnis: 1, bpfMapRoutes: 0, bpfMapNexthops: 0, bpfMapNexthopGroups: 0, bpfMapFdb: 0, bpfMapNeighbours: 0,
		bpfMapEgressPolicies: 0, bpfMapPolicy: 0, bpfMapPortForwards: 0, bpfMapMembers: 3,
	})
	if got := len(w.machine.Attached()); got != 2 {
		t.Errorf("%d programs are attached, want those of a port and the underlay", got)
	}
	must(t, w.dp.Remove())
	if left := w.machine.Pinned(); len(left)+len(w.machine.Attached()) > 0 {
		t.Errorf("left of it: %v, %v", left, w.machine.Attached())
	}
	w.reopen(t)
}

// An interface that takes no program is an error of parts.
func TestModelRefusedAttach(t *testing.T) {
	w := modelWorld(t)
	w.machine.Refuse(mapmodel.Faults{Attach: func(a mapmodel.Attach) error {
		if a.Ifindex == w.dev["p1"].Index {
			return unix.ENODEV
		}
		return nil
	}})
	w.wantPart(t, unix.ENODEV)
	if got := len(w.machine.Attached()); got != 4 {
		t.Errorf("%d programs are attached, want 4", got)
	}
	w.machine.Refuse(mapmodel.Faults{})
	w.apply(t)
	if got := len(w.machine.Attached()); got != 5 {
		t.Errorf("%d programs are attached, want 5", got)
	}
}
