package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/duplicate"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/liveness"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/pathmtu"
	"github.com/selvage/selvage/internal/pathmtu/discovery"
	"github.com/selvage/selvage/internal/problem"
)

var (
	tep    = netip.MustParseAddr("192.0.2.1")
	remote = netip.MustParseAddr("192.0.2.2")
	pair   = overlay.Pair{Local: tep, Remote: remote}
	mac    = overlay.MAC{2, 0, 0, 0, 0, 2}
	vxlan  = overlay.Tunnel{Encapsulation: overlay.VXLAN, UDPPort: 4789}
)

// checksumDevice is the ifindex of every checksummer that the fake host makes.
const checksumDevice = 77

// world is what surrounds an edge under test: its configuration, host and data
// path, and the order in which it called them.
type world struct {
	t    *testing.T
	opts RunOptions

	mu        sync.Mutex
	config    overlay.Edge
	sources   []overlay.Edge // that were loaded, by the numbers that are their texts
	bad       error          // of the configuration
	hostState host.State
	calls     []string
	configs   []datapath.Config // of every opening
	tables    fib.Tables        // last applied
	holds     host.Desired      // last asked for
	failOpen  func(datapath.Config) error
	failApply func(fib.Tables) error
	failing   map[string]error // by call
	limits    []datapath.LimitUsage
	adopted   bool
	changed   chan struct{}
	linksLost chan int
	renewals  atomic.Int64 // of the lease
	// Of the fake liveness:
	peers    []bfd.Peer
	lives    map[overlay.Pair]bfd.Result
	died     chan struct{}
	steered  []fib.PathPolicy // by the last Steer
	teps     []fib.TEP
	sent     map[overlay.Pair]datapath.Counters
	addSent  map[overlay.Pair]uint64 // what each reading finds more
	fewFlows bool
	// Of the fake probes and of what the data path heard from routers:
	ceilings   map[overlay.Pair]int
	results    map[netip.Addr]pathmtu.Result
	found      chan struct{}
	reports    map[overlay.Pair]datapath.PathReport // their ages are those at reported
	reported   time.Time
	inVain     uint64 // packets whose next hop was asked for
	neighbours []datapath.Neighbour
	traced     []datapath.TraceInput
	refused    map[int]string
	lost       uint64 // decisions that each read of the statistics finds evicted since the last
	events     map[string]uint64
	stuck      map[string]chan struct{} // reads that last until the channel is closed
	reading    sync.RWMutex             // finds a change at the time of a read
	walls      walls
	exits      exits
	learned    fakeFabric
	hangups    chan os.Signal
	reads      map[string]int
	opening    chan struct{} // programs are loaded when it is closed
	preparing  chan struct{} // an Apply that has written nothing lasts until it is closed
	pruning    chan struct{} // and one that has written what is new
	held       func()        // after each Hold
}

// parallel are the tests that run beside others.
var parallel sync.Map

// newWorld has the test run beside others: what its edge waits for is mostly time.
func newWorld(t *testing.T) *world {
	if _, already := parallel.LoadOrStore(t, true); !already {
		t.Parallel()
	}
	w := &world{t: t, hangups: make(chan os.Signal, 1), reads: map[string]int{}, ceilings: map[overlay.Pair]int{}, changed: make(chan struct{}, 1), linksLost: make(chan int, 1), found: make(chan struct{}, 1), died: make(chan struct{}, 1), failing: map[string]error{}}
	w.limits = someLimits(2)
	w.events = map[string]uint64{"hit": 10, "miss": 2, "stale": 5, "revalidated": 3, "evicted": 1, "learned": 4}
	w.config = overlay.Edge{
		Name:      "a",
		Underlay:  overlay.Underlay{Interfaces: []string{"eth0"}, TEP: tep},
		FlowCache: overlay.FlowCache{Enabled: true, Size: 4096},
		FDB:       overlay.FDB{Size: 100, Ageing: 300 * time.Second},
		Segments: []overlay.Segment{
			{Name: "blue", VNI: 100, Tunnel: vxlan, Remotes: []netip.Addr{remote}},
			{Name: "red", VNI: 200, Tunnel: vxlan},
		},
		Ports: []overlay.Port{{Name: "p0", Interface: "veth0", Segment: "blue"}, {Name: "p1", Interface: "tap0", Segment: "blue"}},
	}
	w.hostState = host.State{
		TEPs: map[netip.Addr]bool{tep: true},
		Links: map[string]host.Link{
			"eth0":  {Name: "eth0", Index: 2, MTU: 1550, Up: true},
			"veth0": {Name: "veth0", Index: 3, Kind: "veth", MTU: 1500, Up: true, PeerElsewhere: true, Segments: true},
		},
		Routes: map[overlay.Pair]host.Path{
			{Local: tep, Remote: remote}: {NextHop: host.NextHop{Ifindex: 2, Addr: remote}, Interface: "eth0", MTU: 1550, NextMAC: mac},
		},
	}
	w.opts = RunOptions{
		ConfigPath: "a.yaml", RuntimeDir: t.TempDir(), StateDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler), Version: "test",
		RemoveAtExit: true, Resync: time.Hour, Hangup: w.hangups, Load: w.load, Parse: w.parse, OpenDataPath: w.openDataPath,
		OpenHost: func(string, *slog.Logger) (Host, error) { return fakeHost{w}, w.call("open host") },
		AskForAddresses: func(context.Context, duplicate.Link, []netip.Addr, int) (map[netip.Addr]overlay.MAC, error) {
			return nil, nil
		},
		OpenProbes: func(tep netip.Addr, _ int, _ *slog.Logger) (discovery.Probes, error) {
			return fakeProbes{w, tep}, w.call("probe from " + tep.String())
		},
		OpenLiveness: func(*slog.Logger) (liveness.Monitor, error) { return fakeLiveness{w}, w.call("watch") },
	}
	return w
}

// load gives the world's configuration; its text is the only thing that tells it from others.
func (w *world) load(path string) (overlay.Edge, config.Source, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sources = append(w.sources, w.config)
	return w.config, config.Source{Path: path, Files: []config.File{{Path: path, Text: []byte(strconv.Itoa(len(w.sources) - 1))}}}, w.bad
}

// loaded is how often the configuration was read.
func (w *world) loaded() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sources)
}

// parse gives the configuration that a text of load stands for.
func (w *world) parse(s config.Source) (overlay.Edge, config.Source, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, err := strconv.Atoi(string(s.Files[0].Text))
	return w.sources[i], s, err
}

// call records a call and says whether it shall fail.
func (w *world) call(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, name)
	return w.failing[name]
}

func (w *world) openDataPath(cfg datapath.Config) (*DataPath, error) {
	err := w.call("open")
	w.mu.Lock()
	opening := w.opening
	w.mu.Unlock()
	if opening != nil {
		<-opening
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.configs = append(w.configs, cfg)
	if err == nil && w.failOpen != nil {
		err = w.failOpen(cfg)
	}
	f := fakeDataPath{w, new(sync.Mutex)}
	return &DataPath{
		Tables: f, Owner: f, Links: f, Clock: f, HostEvents: f, Ports: f, Hosts: f, Learner: f, Routes: f, Paths: f, Egress: f, Drops: f,
		Counters: f, Flows: f, Limits: f, Firewall: f, NAT: f, Replicas: f, Tracer: f,
	}, err
}

// set changes the world and lets the edge know.
func (w *world) set(change func()) {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *world) called(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, c := range w.calls {
		if c == name {
			n++
		}
	}
	return n
}

// run starts the edge and returns its client and what ends it.
func (w *world) run() (*api.Client, func() error) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, w.opts) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	w.t.Cleanup(func() { _ = stop() })
	c := api.Dial(w.opts.RuntimeDir, "a")
	w.within("edge answers", func() bool {
		select {
		case err := <-done:
			w.t.Fatalf("edge ended: %v", err)
		default:
		}
		_, err := c.Status(context.Background())
		return err == nil
	})
	return c, stop
}

// within waits until it is ok.
func (w *world) within(what string, ok func() bool) {
	w.t.Helper()
	err := await.Within(w.t.Context(), 3*await.Patience, what, func() error {
		if !ok() {
			return errNotYet
		}
		return nil
	})
	if err != nil {
		w.t.Fatalf("%v; calls %q", err, w.calls)
	}
}

var errNotYet = errors.New("it is not so")

func (w *world) hangup() { w.hangups <- syscall.SIGHUP }

// problem reports whether the status has a problem with all words in it.
func (w *world) problem(c *api.Client, words ...string) bool {
	w.t.Helper()
	s, err := c.Status(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.ContainsFunc(s.Problems, func(p problem.Problem) bool {
		for _, word := range words {
			if !strings.Contains(p.Text, word) {
				return false
			}
		}
		return true
	})
}

type fakeHost struct{ w *world }

func (h fakeHost) Observe(host.Want) (host.State, error) {
	err := h.w.call("observe")
	h.w.mu.Lock()
	stuck := h.w.stuck["observe"]
	h.w.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	s := h.w.hostState // a test may change its maps at any time
	s.Links, s.TEPs, s.Routes, s.ChecksumDevices = maps.Clone(s.Links), maps.Clone(s.TEPs), maps.Clone(s.Routes), maps.Clone(s.ChecksumDevices)
	return s, err
}

func (h fakeHost) Links([]string) (map[string]host.Link, error) {
	s, err := h.Observe(host.Want{})
	return s.Links, err
}

func (h fakeHost) Ensure(want host.Desired) error {
	name := "hold"
	if len(want.NextHops)+len(want.Promisc)+len(want.ChecksumDevices)+len(want.GRODevice) == 0 {
		name = "hold nothing"
	}
	h.w.mu.Lock()
	h.w.holds = want
	if h.w.failing[name] == nil {
		made := make(map[uint16]int)
		for _, port := range want.ChecksumDevices {
			made[port] = checksumDevice
		}
		h.w.hostState.ChecksumDevices = made
		h.w.hostState.GRODevice = host.GRODevice{}
		if want.GRODevice != "" {
			h.w.hostState.GRODevice = host.GRODevice{Near: 78, Far: 79}
		}
	}
	held := h.w.held
	h.w.mu.Unlock()
	if held != nil {
		held()
	}
	return h.w.call(name)
}

func (h fakeHost) Changed() <-chan struct{} { return h.w.changed }
func (h fakeHost) LinksLost() <-chan int    { return h.w.linksLost }
func (h fakeHost) Close() error             { return h.w.call("close host") }

// Of two that are open at once, each is steered and closed by itself.
type fakeDataPath struct {
	w     *world
	paths *sync.Mutex // held while its paths are steered or it is changed
}

// linger gives all other goroutines a chance to meet the caller where they must not.
func linger() {
	for range 100 {
		runtime.Gosched()
	}
}

// change fails the test when somebody reads or, but for ageing, steers meanwhile.
func (d fakeDataPath) change(name string) error {
	if !strings.HasPrefix(name, "age ") {
		if !d.paths.TryLock() {
			d.w.t.Errorf("%s while flows are steered", name)
		} else {
			defer d.paths.Unlock()
		}
	}
	if !d.w.reading.TryLock() {
		d.w.t.Errorf("%s while another method runs", name)
	} else {
		linger()
		d.w.reading.Unlock()
	}
	return d.w.call(name)
}

func (d fakeDataPath) read(name string) error {
	if !d.w.reading.TryRLock() {
		d.w.t.Errorf("%s while the data path changes", name)
	} else {
		d.w.mu.Lock()
		d.w.reads[name]++
		stuck := d.w.stuck[name]
		d.w.mu.Unlock()
		if stuck != nil {
			<-stuck
		}
		linger()
		d.w.reading.RUnlock()
	}
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	return d.w.failing[name]
}

func (d fakeDataPath) Adopted() bool       { return d.w.adopted }
func (d fakeDataPath) OlderPins() []string { return nil }
func (d fakeDataPath) NewerPins() []string { return nil }
func (d fakeDataPath) Close() error        { return d.change("close") }
func (d fakeDataPath) Remove() error       { return d.change("remove") }

// ApplyIn yields until the test lets it go on, before tables are written and after that.
func (d fakeDataPath) ApplyIn(t fib.Tables, steps datapath.Steps) error {
	d.w.yieldUntil(d.w.preparing, steps)
	t = steps.Latest(t)
	err := d.change("apply")
	d.w.mu.Lock()
	if err == nil && d.w.failApply == nil {
		d.w.teps, d.w.steered = t.TEPs, t.PathPolicies
	}
	d.w.mu.Unlock()
	d.w.yieldUntil(d.w.pruning, steps)
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if err == nil && d.w.failApply != nil {
		err = d.w.failApply(t)
	}
	if err == nil {
		d.w.tables, d.w.learned.routes = t, map[string]map[netip.Prefix]fib.Route{}
		d.w.exits.steered = t.Egress
	}
	return err
}

// yieldUntil has an Apply last until done is closed; nil: it does not.
func (w *world) yieldUntil(done chan struct{}, steps datapath.Steps) {
	for done != nil {
		steps.Yield()
		select {
		case <-done:
			return
		default:
			runtime.Gosched()
		}
	}
}

func (d fakeDataPath) Steer(teps []fib.TEP, pathPolicies []fib.PathPolicy) error {
	if !d.paths.TryLock() {
		d.w.t.Error("steer while the paths change")
	} else {
		linger()
		d.paths.Unlock()
	}
	err := d.w.call("steer")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if err == nil {
		d.w.teps, d.w.steered = teps, pathPolicies
	}
	return err
}

func (d fakeDataPath) Paths() (map[overlay.Pair]datapath.Counters, error) {
	err := d.read("paths")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	return d.w.grow(), err
}

func (d fakeDataPath) Age(ageing time.Duration) (int, error) {
	return 1, d.change(fmt.Sprint("age ", ageing))
}

func (d fakeDataPath) FDB() ([]datapath.FDBEntry, error) {
	list := []datapath.FDBEntry{
		{Segment: "blue", MAC: mac, Remote: remote, Origin: datapath.OriginLearned, AgeNS: 1.5e9, Moves: 2},
		{Segment: "blue", MAC: overlay.MAC{2}, Port: "p0", Origin: datapath.OriginStatic, Static: true},
	}
	err := d.read("fdb")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	return append(list, d.w.learned.entries...), err
}

func (d fakeDataPath) Flows() ([]datapath.Flow, error) {
	return []datapath.Flow{
		{Segment: "blue", InPort: "p0", DstMAC: overlay.MAC{255, 255, 255, 255, 255, 255}, EtherType: 0x0806, FastPath: true, Bytes: 60},
		{Segment: "blue", InRemote: remote, OutPort: "p0", EtherType: 0x0800, Proto: 6, Src: remote, Dst: tep,
			SrcPort: 1, DstPort: 2, FastPath: true, Packets: 3, Bytes: 4000, IdleNS: 5e8},
		{Segment: "blue", InPort: "p0", EtherType: 0x86dd, Proto: 132, Why: "destination MAC not learned, flooded"},
	}, d.read("flows")
}

func (d fakeDataPath) Drops() ([]datapath.Drop, error) {
	err := d.read("drops")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	drops := []datapath.Drop{{Reason: "no-underlay-route", Description: "no underlay route", Packets: 7, Bytes: 700}}
	if d.w.inVain > 0 {
		drops = append(drops, datapath.Drop{Reason: "no-neighbour", Packets: d.w.inVain})
	}
	return drops, err
}

func (d fakeDataPath) OwnerDrops(kind datapath.OwnerKind) ([]datapath.OwnerDrop, error) {
	drop := datapath.Drop{Reason: "no-underlay-route", Description: "no underlay route", Packets: 4, Bytes: 400}
	rest := drop
	rest.Packets, rest.Bytes = 3, 300
	owner := map[datapath.OwnerKind]string{datapath.OwnerPort: "p0", datapath.OwnerSegment: "blue", datapath.OwnerRemote: remote.String()}[kind]
	return []datapath.OwnerDrop{{Kind: kind, Owner: owner, Drop: drop}, {Kind: kind, Drop: rest}}, d.read("owner drops")
}

func (d fakeDataPath) LimitUsages() ([]datapath.LimitUsage, error) {
	err := d.read("limits")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	return slices.Clone(d.w.limits), err
}

func (d fakeDataPath) Ports() (map[string]datapath.PortCounters, error) {
	return map[string]datapath.PortCounters{
		"p0": {Rx: datapath.Counters{Packets: 1, Bytes: 2}, Tx: datapath.Counters{Packets: 3, Bytes: 4}, Drops: 5},
	}, d.read("ports")
}

func (d fakeDataPath) TEPs() (map[netip.Addr]datapath.TEPCounters, error) {
	return map[netip.Addr]datapath.TEPCounters{
		remote: {Rx: datapath.Counters{Packets: 1, Bytes: 2}, Tx: datapath.Counters{Packets: 3, Bytes: 4}},
	}, d.read("teps")
}

func (d fakeDataPath) Stats() (datapath.Stats, error) {
	err := d.read("stats")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.w.events["miss"] += d.w.lost
	d.w.events["evicted"] += d.w.lost
	return d.w.stats(), err
}

// stats has mu held.
func (w *world) stats() datapath.Stats {
	stats := datapath.Stats{
		Hits: w.events["hit"], Misses: w.events["miss"], Dropped: 7, FDBUsed: 95, FlowsUsed: 53,
		Generations: map[string]uint32{"blue": 4}, Events: maps.Clone(w.events),
		Caches: []datapath.Cache{{Name: datapath.CacheTC, Used: 3, Size: 4096, Bytes: 1 << 20}},
	}
	if len(w.config.Underlay.TEPs) > 1 && !w.fewFlows {
		stats.Caches[0].Used = 3000
	}
	if len(w.config.Routers) > 0 {
		stats.Caches = append(stats.Caches, datapath.Cache{Name: datapath.CacheTransit, Used: 50, Size: 8192, Bytes: 1 << 21})
	}
	return stats
}

func (d fakeDataPath) Totals() (datapath.Stats, error) {
	err := d.read("totals")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	return d.w.stats(), err
}

func (d fakeDataPath) Tables() ([]datapath.Table, error) {
	return []datapath.Table{{Name: datapath.TableFDB, Used: 95, Size: 100}, {Name: datapath.TableNeighbours, Used: -1, Size: 200}}, d.read("tables")
}

func (d fakeDataPath) Refused() map[int]string {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	return maps.Clone(d.w.refused)
}

func (d fakeDataPath) Neighbours() ([]datapath.Neighbour, error) {
	err := d.read("neighbours")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	return slices.Clone(d.w.neighbours), err
}

func (d fakeDataPath) PathReports() (map[overlay.Pair]datapath.PathReport, error) {
	err := d.read("path reports")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	reports := maps.Clone(d.w.reports)
	for pair, r := range reports {
		if !d.w.reported.IsZero() {
			r.Age += time.Since(d.w.reported)
		}
		reports[pair] = r
	}
	return reports, err
}

func (d fakeDataPath) DecidePath(pair overlay.Pair) error {
	err := d.change("decide " + pair.Remote.String())
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	delete(d.w.reports, pair)
	return err
}

// Trace says where the frame came from, and sends it out as it is.
func (d fakeDataPath) Trace(in datapath.TraceInput) (datapath.Trace, error) {
	err := d.read("trace")
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.w.traced = append(d.w.traced, in)
	return datapath.Trace{Steps: []datapath.TraceStep{{Stage: "classify", What: "frame of " + in.Port}}, Verdict: "forwarded", Out: in.Frame}, err
}

// fakeProbes have the same results from every TEP.
type fakeProbes struct {
	w     *world
	local netip.Addr
}

func (p fakeProbes) Set(ceilings map[netip.Addr]int) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for remote, ceiling := range ceilings {
		p.w.ceilings[overlay.Pair{Local: p.local, Remote: remote}] = ceiling
	}
}

func (p fakeProbes) Results() map[netip.Addr]pathmtu.Result {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return maps.Clone(p.w.results)
}

func (p fakeProbes) Changed() <-chan struct{} { return p.w.found }
func (p fakeProbes) Used(netip.Addr)          {}

func (p fakeProbes) Recheck(remote netip.Addr, reported int) {
	_ = p.w.call(fmt.Sprintf("recheck %s %d", remote, reported))
}
func (p fakeProbes) Close() error { return p.w.call("end probes") }

type fakeLiveness struct{ w *world }

func (l fakeLiveness) Set(peers []bfd.Peer) error {
	err := l.w.call("set peers")
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.w.peers = peers
	return err
}

func (l fakeLiveness) Results() map[overlay.Pair]bfd.Result {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return maps.Clone(l.w.lives)
}

func (l fakeLiveness) Changed() <-chan struct{}    { return l.w.died }
func (l fakeLiveness) Leave(context.Context) error { return l.w.call("leave") }
func (l fakeLiveness) LinkLost(int)                {}
func (l fakeLiveness) Close() error                { return l.w.call("close liveness") }

var errFake = errors.New("so the test wants it")
