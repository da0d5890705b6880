package edge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/transaction"
)

func TestStartWithWrongConfigurationTouchesNothing(t *testing.T) {
	w := newWorld(t)
	w.bad = errFake
	if err := Run(context.Background(), w.opts); !errors.Is(err, errFake) {
		t.Errorf("error %v, want the configuration's", err)
	}
	if len(w.calls) > 0 {
		t.Errorf("calls %q, want none", w.calls)
	}
	wantEmpty(t, w.opts.RuntimeDir)
}

func TestStartThatFailsLeavesNothingOfItsOwn(t *testing.T) {
	for _, failing := range []string{"open host", "observe", "open"} {
		t.Run(failing, func(t *testing.T) {
			w := newWorld(t)
			w.failing[failing] = errFake
			if err := Run(context.Background(), w.opts); !errors.Is(err, errFake) {
				t.Errorf("error %v, want that of %s", err, failing)
			}
			for _, c := range []string{"remove", "apply", "hold", "hold nothing"} {
				if w.called(c) > 0 {
					t.Errorf("%s was called: a former data path would be disturbed", c)
				}
			}
			wantEmpty(t, w.opts.RuntimeDir)
		})
	}
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%s holds %v (%v), want nothing", dir, left, err)
	}
}

func TestStopRemovesInOrder(t *testing.T) {
	w := newWorld(t)
	_, stop := w.run()
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if diff := cmp.Diff([]string{"remove", "hold nothing", "close host"}, w.calls[len(w.calls)-3:]); diff != "" {
		t.Errorf("last calls (-want +got):\n%s", diff)
	}
	wantEmpty(t, w.opts.RuntimeDir)
}

func TestStopKeepsDataPath(t *testing.T) {
	w := newWorld(t)
	w.opts.RemoveAtExit = false
	_, stop := w.run()
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if diff := cmp.Diff([]string{"close", "close host"}, w.calls[len(w.calls)-2:]); diff != "" {
		t.Errorf("last calls (-want +got):\n%s", diff)
	}
	if w.called("remove")+w.called("hold nothing") > 0 {
		t.Error("the data path or what it needs of the host was taken away")
	}
	wantOnly(t, w.opts.RuntimeDir, "a.events")
}

// Who is to go for good says so while the edge runs.
func TestStopRemovesIf(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		w := newWorld(t)
		w.opts.RemoveAtExit, w.opts.RemoveAtExitIf = false, filepath.Join(t.TempDir(), "leave")
		_, stop := w.run()
		if wanted {
			if err := os.WriteFile(w.opts.RemoveAtExitIf, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if removed := w.called("remove") > 0; removed != wanted {
			t.Errorf("with the file %t the data path is removed: %t", wanted, removed)
		}
	}
}

func TestStopReportsWhatItCouldNotUndo(t *testing.T) {
	w := newWorld(t)
	w.failing["remove"] = errFake
	_, stop := w.run()
	if err := stop(); !errors.Is(err, errFake) {
		t.Errorf("error %v, want that of Remove", err)
	}
	if w.called("hold nothing") != 1 {
		t.Error("changes of the host were not undone")
	}
	wantEmpty(t, w.opts.RuntimeDir)
}

func TestOneEdgeOfAName(t *testing.T) {
	w := newWorld(t)
	_, stop := w.run()
	second := newWorld(t)
	second.opts.RuntimeDir = w.opts.RuntimeDir
	err := Run(context.Background(), second.opts)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("lock edge a: it is already running as process %d", os.Getpid())) {
		t.Errorf("error %v, want that it is already running and where", err)
	}
	if len(second.calls) > 0 {
		t.Errorf("the second edge called %q", second.calls)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	_, stop = second.run() // the name is free again
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestStartAfterKill(t *testing.T) {
	w := newWorld(t)
	w.adopted = true
	for _, left := range []string{"a.sock", "a.lock"} {
		if err := os.WriteFile(filepath.Join(w.opts.RuntimeDir, left), []byte("4711\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, _ := w.run()
	if s, err := c.Status(context.Background()); err != nil || !s.Adopted {
		t.Errorf("status %+v (%v), want adopted", s, err)
	}
}

func TestInterfaceAppearsAndVanishes(t *testing.T) {
	w := newWorld(t)
	c, _ := w.run()
	if !w.problem(c, "port p1", "tap0", "does not exist") {
		t.Error("missing interface is no problem")
	}
	applied := func() []fib.Port {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.tables.Ports
	}
	if got := applied(); len(got) != 1 || got[0] != (fib.Port{Name: "p0", Ifindex: 3, Segment: "blue", MTU: 1500, Peer: true, Segments: true}) {
		t.Errorf("ports %+v, want p0 alone", got)
	}
	links := w.hostState.Links
	w.set(func() {
		w.hostState.Links = map[string]host.Link{
			"eth0": links["eth0"], "veth0": links["veth0"], "tap0": {Name: "tap0", Index: 9, Kind: "tun", MTU: 1500, Up: true},
		}
	})
	w.within("port attached", func() bool { return len(applied()) == 2 })
	w.within("problem over", func() bool { return !w.problem(c, "p1") })
	w.set(func() { w.hostState.Links = links })
	w.within("port detached", func() bool { return len(applied()) == 1 })
	w.within("port absent", func() bool {
		ports, err := c.Ports(context.Background())
		return err == nil && ports[1].State == "absent" && ports[1].Ifindex == 0
	})
}

// Segmentation offload that is turned off takes effect at the event, and shows.
func TestPortWithoutSegments(t *testing.T) {
	w := newWorld(t)
	c, _ := w.run()
	eth0, veth0 := w.hostState.Links["eth0"], w.hostState.Links["veth0"]
	veth0.Segments = false
	w.set(func() { w.hostState.Links = map[string]host.Link{"eth0": eth0, "veth0": veth0} })
	w.within("delivery by the device", func() bool { return fetched(t, c.Ports)[0].Deliver == "redirect" })
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.tables.Ports[0]; p.Segments || p.Peer {
		t.Errorf("port %+v, want no segments and no delivery to the peer", p)
	}
}

func TestUnresolvedNextHopDelaysTheFirstTables(t *testing.T) {
	w := newWorld(t)
	resolved := w.hostState.Routes[pair]
	waiting := resolved
	waiting.NextMAC = overlay.MAC{}
	w.hostState.Routes = map[overlay.Pair]host.Path{pair: waiting}
	w.held = func() { w.set(func() { w.hostState.Routes = map[overlay.Pair]host.Path{pair: resolved} }) }
	w.run()
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.Index(w.calls, "apply"); slices.Index(w.calls, "hold") > i {
		t.Errorf("calls %q: the next hop was not asked for before the first tables", w.calls)
	}
	if w.tables.TEPs[0].NextMAC != mac {
		t.Errorf("TEP %+v, want resolved", w.tables.TEPs[0])
	}
}

func TestFailuresAreProblemsAndTriedAgain(t *testing.T) {
	for _, failing := range []string{"apply", "observe", "hold"} {
		t.Run(failing, func(t *testing.T) {
			w := newWorld(t)
			c, _ := w.run()
			w.set(func() { w.failing[failing] = errFake })
			w.within("problem reported", func() bool { return w.problem(c, errFake.Error()) })
			w.set(func() { delete(w.failing, failing) })
			w.within("problem over", func() bool { return !w.problem(c, errFake.Error()) })
		})
	}
}

// A segment's checksummer exists before the tables that name it, and goes after them.
func TestChecksumDeviceOutlivesTheTablesThatNameIt(t *testing.T) {
	w := newWorld(t)
	for i := range w.config.Segments { // which has no other device of the kernel for its port
		w.config.Segments[i].Tunnel.Encapsulation = overlay.Geneve
	}
	w.config.Segments[0].Tunnel.UDPChecksum = true
	c, _ := w.run()
	state := func() (calls []string, applied, made map[uint16]int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Clone(w.calls), w.tables.ChecksumDevices, w.hostState.ChecksumDevices
	}
	calls, applied, _ := state()
	if i := slices.Index(calls, "apply"); slices.Index(calls, "hold") > i || applied[4789] != checksumDevice {
		t.Errorf("calls %q, checksummers %v: want it held before the first tables and in them", calls, applied)
	}

	reload := func(port uint16, want bool) []string {
		before := len(calls)
		w.mu.Lock()
		w.config.Segments = slices.Clone(w.config.Segments)
		w.config.Segments[0].Tunnel.UDPPort, w.config.Segments[0].Tunnel.UDPChecksum = port, want
		w.mu.Unlock()
		w.hangup()
		w.within("checksummers follow", func() bool {
			calls, applied, made := state()
			_, ok := applied[port]
			return len(calls) > before && ok == want && len(applied) == len(made) && maps.Equal(applied, made)
		})
		calls, _, _ = state()
		return calls[before:]
	}
	ordered := []string{"observe", "hold", "observe", "apply", "hold"}
	if diff := cmp.Diff(ordered, without(reload(4790, true), "close", "open")); diff != "" {
		t.Errorf("calls of a changed port (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"observe", "hold", "apply", "hold"}, reload(4790, false)); diff != "" {
		t.Errorf("calls without checksums (-want +got):\n%s", diff)
	}

	w.set(func() { w.failing["hold"] = errFake })
	reloadFailing := func() bool {
		return w.problem(c, "segment blue: device svx4790", "is missing") && w.problem(c, "this host cannot be changed", errFake.Error())
	}
	w.mu.Lock()
	w.config.Segments = slices.Clone(w.config.Segments)
	w.config.Segments[0].Tunnel.UDPChecksum = true
	w.mu.Unlock()
	w.hangup()
	w.within("problem reported", reloadFailing)
	w.set(func() { delete(w.failing, "hold") })
	w.within("problem over", func() bool { return !w.problem(c, "svx4790") })
}

func without(calls []string, names ...string) []string {
	return slices.DeleteFunc(calls, func(c string) bool { return slices.Contains(names, c) })
}

func TestTicks(t *testing.T) {
	w := newWorld(t)
	w.opts.Resync = 20 * time.Millisecond
	w.config.FDB.Ageing = time.Second
	w.run()
	w.within("resync", func() bool { return w.called("apply") > 3 })
	w.within("ageing", func() bool { return w.called("age 1s") > 1 })
}

func TestTenth(t *testing.T) {
	for ageing, want := range map[time.Duration]time.Duration{
		0: 10 * time.Second, time.Millisecond: 100 * time.Millisecond,
		20 * time.Second: 2 * time.Second, time.Hour: 10 * time.Second,
	} {
		if got := tenth(ageing); got != want {
			t.Errorf("ageing %s: every %s, want %s", ageing, got, want)
		}
	}
}

func TestReloadOfWrongConfigurationKeepsRunning(t *testing.T) {
	w := newWorld(t)
	good := w.config
	c, _ := w.run()
	before := w.called("open")

	w.mu.Lock()
	w.bad = errFake
	w.mu.Unlock()
	w.hangup()
	w.within("wrong configuration reported", func() bool { return w.problem(c, "reload", errFake.Error()) })

	w.mu.Lock()
	w.bad = nil
	w.config.Name = "b"
	w.mu.Unlock()
	w.hangup()
	w.within("change of name refused", func() bool { return w.problem(c, "name changed from a to b") })
	if s, err := c.Status(context.Background()); err != nil || s.Name != "a" || len(s.Segments) != 2 {
		t.Errorf("status %+v (%v), want the former edge", s, err)
	}
	if w.called("open") != before || w.called("close") > 0 {
		t.Error("a refused configuration touched the data path")
	}

	w.mu.Lock()
	good.Segments = good.Segments[:1]
	w.config = good
	w.mu.Unlock()
	w.hangup()
	w.within("configuration reloaded", func() bool {
		s, err := c.Status(context.Background())
		return err == nil && len(s.Segments) == 1
	})
	w.within("tables applied", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.tables.Segments) == 1
	})
	if w.problem(c, "reload") {
		t.Error("the problem outlived the good configuration")
	}
	if w.called("open") != before {
		t.Error("programs were loaded anew without need")
	}
}

// A configuration whose tables cannot be applied is taken back whole, with the programs that it
// needed; the next one is tried anew.
func TestReloadThatCannotBeAppliedIsRolledBack(t *testing.T) {
	w := newWorld(t)
	c, _ := w.run()
	w.within("tables applied", func() bool { return w.called("apply") > 0 })
	w.mu.Lock()
	good := w.config
	w.config.Segments = good.Segments[:1]
	w.config.FlowCache.Enabled = !good.FlowCache.Enabled
	w.failApply = func(t fib.Tables) error {
		if len(t.Segments) == 1 {
			return errFake
		}
		return nil
	}
	w.mu.Unlock()
	w.hangup()
	w.within("the failure is reported", func() bool { return w.problem(c, transaction.ReloadConfiguration, errFake.Error()) })
	w.within("the previous configuration is in force", func() bool {
		s, err := c.Status(context.Background())
		return err == nil && len(s.Segments) == 2 && s.FlowCache == good.FlowCache.Enabled && !w.problem(c, applyTables)
	})
	w.mu.Lock()
	last := w.configs[len(w.configs)-1]
	segments := len(w.tables.Segments)
	w.failApply = nil
	w.mu.Unlock()
	if last.FlowCache.Enabled != good.FlowCache.Enabled || segments != 2 {
		t.Errorf("programs %+v and %d segments in the tables, want those of before", last, segments)
	}
	w.hangup()
	w.within("the same file is in force now", func() bool {
		s, err := c.Status(context.Background())
		return err == nil && len(s.Segments) == 1 && !w.problem(c, "reload")
	})
}

// onMessage calls do while a message is being logged.
type onMessage struct {
	slog.Handler
	message string
	do      func()
}

func (h onMessage) Enabled(context.Context, slog.Level) bool { return true }

func (h onMessage) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.message {
		h.do()
	}
	return nil
}

func (h onMessage) WithAttrs([]slog.Attr) slog.Handler { return h }

// Who has waited for the message finds the tables of the new configuration.
func TestReloadIsLoggedInForce(t *testing.T) {
	w := newWorld(t)
	segments := make(chan int, 1)
	w.opts.Logger = slog.New(onMessage{slog.DiscardHandler, "configuration reloaded", func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		segments <- len(w.tables.Segments)
	}})
	w.run()
	w.mu.Lock()
	w.config.Segments = w.config.Segments[:1]
	w.mu.Unlock()
	w.hangup()
	if got := <-segments; got != 1 {
		t.Errorf("the message came while the tables had %d segments, want 1", got)
	}
}

// reloadsWithoutCache waits until a configuration without a flow cache is in force, which needs other programs.
func (w *world) reloadsWithoutCache(c *api.Client) {
	w.hangup()
	w.within("configuration reloaded", func() bool {
		s, err := c.Status(context.Background())
		return err == nil && !s.FlowCache
	})
}

func TestReloadLoadsProgramsAnew(t *testing.T) {
	w := newWorld(t)
	c, _ := w.run()
	w.mu.Lock()
	w.config.FlowCache.Enabled = false
	w.mu.Unlock()
	w.reloadsWithoutCache(c)
	w.within("the data path before is closed", func() bool { return w.called("close") > 0 })
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.configs) != 2 || w.configs[1].FlowCache.Enabled || !slices.Equal(w.configs[1].UDPPorts, []datapath.UDPPort{{Port: 4789, Encapsulation: overlay.VXLAN}}) {
		t.Errorf("opened with %+v", w.configs)
	}
	calls := slices.DeleteFunc(slices.Clone(w.calls), func(c string) bool { return !slices.Contains([]string{"open", "apply", "close", "remove"}, c) })
	if want := []string{"open", "apply", "open", "apply", "close"}; !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q: the one before goes on until the other has tables", calls, want)
	}
}

// However long the programs take to load, egress addresses stay this gateway's.
func TestReloadKeepsTheLease(t *testing.T) {
	w := newEgressWorld(newWorld(t))
	c, _ := w.run()
	renewed := false
	w.mu.Lock()
	w.config.FlowCache.Enabled = false
	w.failOpen = func(datapath.Config) error {
		before := w.renewals.Load()
		err := await.Within(t.Context(), await.Patience, "renewals", func() error {
			if w.renewals.Load() < before+2 {
				return errFake
			}
			return nil
		})
		renewed = err == nil
		return nil
	}
	w.mu.Unlock()
	w.reloadsWithoutCache(c)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !renewed {
		t.Error("the lease was not renewed while the programs were loaded")
	}
}

func TestReloadThatDoesNotLoadKeepsThePrevious(t *testing.T) {
	w := newWorld(t)
	c, _ := w.run()
	w.mu.Lock()
	w.config.FlowCache.Size = 1
	w.failOpen = func(cfg datapath.Config) error {
		if cfg.FlowCache.Size == 1 {
			return errFake
		}
		return nil
	}
	w.mu.Unlock()
	w.hangup()
	w.within("problem reported", func() bool { return w.problem(c, "reload", errFake.Error()) })
	if s, err := c.Status(context.Background()); err != nil || s.Flows.Size != 4096 {
		t.Errorf("status %+v (%v), want the former flow cache", s, err)
	}
}

// An edge whose programs cannot be loaded any more goes on with those it has.
func TestReloadThatCannotLoadAnything(t *testing.T) {
	w := newWorld(t)
	c, stop := w.run()
	w.mu.Lock()
	w.config.FlowCache.Size = 1
	w.failOpen = func(datapath.Config) error { return errFake }
	w.mu.Unlock()
	w.hangup()
	w.within("problem reported", func() bool { return w.problem(c, "reload", errFake.Error()) })
	applied := w.called("apply")
	w.set(func() {})
	w.within("tables applied", func() bool { return w.called("apply") > applied })
	if n := w.called("close"); n > 0 {
		t.Errorf("the data path was closed %d times", n)
	}
	if err := stop(); err != nil {
		t.Errorf("the edge ended: %v", err)
	}
}

// The default loader is the real one: its errors reach the user as they are.
func TestDefaultLoader(t *testing.T) {
	w := newWorld(t)
	w.opts.Load = nil
	w.opts.ConfigPath = filepath.Join(t.TempDir(), "a.yaml")
	if err := Run(context.Background(), w.opts); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want that the file is missing", err)
	}
	if err := os.WriteFile(w.opts.ConfigPath, []byte("kind: Nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var errs config.Errors
	if err := Run(context.Background(), w.opts); !errors.As(err, &errs) {
		t.Errorf("error %v, want the configuration's own", err)
	}
}
