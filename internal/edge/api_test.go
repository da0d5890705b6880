package edge

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

var (
	sameAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	sameEnd  = cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
)

// fetched returns the document or ends the test.
func fetched[T any](t *testing.T, get func(context.Context) (T, error)) T {
	t.Helper()
	document, err := get(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// entries are those that a query chooses.
func entries[T any](t *testing.T, get func(context.Context, api.EntryQuery) (api.Entries[T], error), q api.EntryQuery) []T {
	t.Helper()
	return fetched(t, func(ctx context.Context) (api.Entries[T], error) { return get(ctx, q) }).List
}

func TestDocuments(t *testing.T) {
	w := newWorld(t)
	w.sent = map[overlay.Pair]datapath.Counters{pair: {Packets: 8, Bytes: 9}}
	c, _ := w.run()
	broadcast := overlay.MAC{255, 255, 255, 255, 255, 255}
	check := func(name string, got, want any) {
		t.Helper()
		if diff := cmp.Diff(want, got, sameAddr, sameEnd); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	check("ports", fetched(t, c.Ports), []api.PortInfo{
		{Name: "p0", Interface: "veth0", Ifindex: 3, Segment: "blue", State: "up", Hook: "tcx", Deliver: "peer", MTU: 1500,
			RxPackets: 1, RxBytes: 2, TxPackets: 3, TxBytes: 4, Drops: 5,
			Limits: []api.LimitInfo{
				{Kind: "port", Owner: "p0", Limit: "macs", Unit: "entries", Used: 3, Max: 10, Mode: "observe"},
				{Kind: "port", Owner: "p0", Limit: "broadcast", Unit: "per-second", Max: 1000, Exceeded: 2, Mode: "observe"},
				{Kind: "port", Owner: "p0", Limit: "resets", Unit: "per-second", Max: 50, Mode: "enforce"},
			}},
		{Name: "p1", Interface: "tap0", Segment: "blue", State: "absent", Hook: "tcx", Limits: []api.LimitInfo{}},
	})
	teps := fetched(t, c.TEPs)
	if teps[0].Paths[0].Age <= 0 {
		t.Error("the path does not say for how long")
	}
	teps[0].Paths[0].Age = 0
	check("teps", teps, []api.TEPInfo{{
		Address: remote, Segments: []string{"blue"}, Interface: "eth0", NextHop: remote, NextMAC: mac.String(),
		State: "resolved", MTU: 1550, PathMTU: 1550, PathMTUState: "not probed", InnerMTU: 1500, RxPackets: 1, RxBytes: 2, TxPackets: 3, TxBytes: 4,
		Paths: []api.PathInfo{{
			Local: tep, Remote: remote, Interface: "eth0", NextHop: remote, State: "unknown", Why: "BFD is off",
			MTU: 1550, PathMTU: 1550, PathMTUState: "not probed", Shares: []api.ShareInfo{{TEPs: []string{}, Share: 1}}, TxPackets: 8, TxBytes: 9,
		}},
	}})
	check("fdb", entries(t, c.FDB, api.EntryQuery{}), []api.FDBEntry{
		{Segment: "blue", MAC: overlay.MAC{2}, Port: "p0", Static: true, Origin: "static"},
		{Segment: "blue", MAC: mac, Remote: remote, Origin: "learned", Age: 1.5, Moves: 2},
	})
	check("flows", entries(t, c.Flows, api.EntryQuery{}), []api.FlowInfo{
		{Segment: "blue", In: "192.0.2.2", Out: "p0", Proto: "tcp", Src: remote, Dst: tep, SrcPort: 1, DstPort: 2,
			FastPath: true, Packets: 3, Bytes: 4000, Idle: 0.5},
		{Segment: "blue", In: "p0", Out: "flood", DstMAC: broadcast, Proto: "0x0806", FastPath: true, Bytes: 60},
		{Segment: "blue", In: "p0", Out: "flood", Proto: "132", Why: "destination MAC not learned, flooded"},
	})
	check("drops", fetched(t, c.Drops), []api.DropInfo{{Reason: "no-underlay-route", Description: "no underlay route", Packets: 7, Bytes: 700}})

	check("drops by port", fetched(t, func(ctx context.Context) ([]api.OwnerDropInfo, error) { return c.OwnerDrops(ctx, "port") }), []api.OwnerDropInfo{
		{Kind: "port", Owner: "p0", DropInfo: api.DropInfo{Reason: "no-underlay-route", Description: "no underlay route", Packets: 4, Bytes: 400}},
		{Kind: "port", DropInfo: api.DropInfo{Reason: "no-underlay-route", Description: "no underlay route", Packets: 3, Bytes: 300}},
	})
	if limits := fetched(t, c.Limits); len(limits) != 6 || limits[3].Kind != "segment" || limits[3].Owner != "blue" {
		t.Errorf("limits %+v, want those of p0 and blue", limits)
	}
	for _, by := range []string{"", "colour"} {
		if _, err := c.OwnerDrops(t.Context(), by); err == nil {
			t.Errorf("drops by %q are answered", by)
		}
	}

	s := fetched(t, c.Status)
	if s.Started.IsZero() {
		t.Error("status does not say since when")
	}
	s.Started = s.Started.AddDate(-s.Started.Year(), 0, 0)
	var netns uint64
	if name, err := os.Readlink("/proc/thread-self/ns/net"); err != nil {
		t.Fatal(err)
	} else if _, err := fmt.Sscanf(name, "net:[%d]", &netns); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	want := api.Status{
		Name: "a", Version: "test", PID: os.Getpid(), NetNS: netns, Started: s.Started, Config: "a.yaml", TEP: tep,
		Segments: []api.SegmentInfo{
			{Name: "blue", VNI: 100, Encapsulation: "vxlan", UDPPort: 4789, Ports: 2, Remotes: 1, Gateway: []netip.Prefix{}, Generation: 4},
			{Name: "red", VNI: 200, Encapsulation: "vxlan", UDPPort: 4789, Gateway: []netip.Prefix{}},
		},
		Ports: api.Tally{Up: 1, Total: 2}, TEPs: api.Tally{Up: 1, Total: 1}, FDB: api.Usage{Used: 95, Size: 100}, Flows: api.Usage{Used: 3, Size: 4096}, FlowCache: true,
		LookUps: 20, Hits: 10, Misses: 2, Dropped: 7,
		Verdict: problem.Broken,
		Problems: []problem.Problem{
			problem.Error("port p1: interface tap0 does not exist: create it, it is attached when it appears"),
			problem.Warning("FDB: 95 of 100 entries are in use: raise spec.fdb.size, or frames to hosts that do not fit are flooded"),
		},
	}
	check("status", s, want)
}

// raw asks the socket without our client.
func raw(t *testing.T, socket, method, path string) (*http.Response, string) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) },
	}}
	req, err := http.NewRequest(method, "http://edge"+path, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestAPIRefuses(t *testing.T) {
	w := newWorld(t)
	c, _ := w.run()
	socket := filepath.Join(w.opts.RuntimeDir, "a.sock")
	w.mu.Lock()
	w.failing["fdb"] = errFake
	w.mu.Unlock()
	for _, tt := range []struct {
		method, path string
		code         int
	}{
		{"GET", "/v1/nothing", 404}, {"GET", "/", 404}, {"POST", "/v1/status", 405}, {"DELETE", "/v1/fdb", 405}, {"GET", "/v1/fdb", 500}, {"GET", "/v1/fdb?segment", 500}, {"GET", "/v1/fdb?x=1", 400}, {"POST", "/v1/fdb", 405},
	} {
		resp, body := raw(t, socket, tt.method, tt.path)
		var r api.Refusal
		if err := json.Unmarshal([]byte(body), &r); err != nil || r.Error == "" || resp.StatusCode != tt.code {
			t.Errorf("%s %s: %d %q, want %d with an error in JSON", tt.method, tt.path, resp.StatusCode, body, tt.code)
		}
		if got := resp.Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("%s %s: content type %q", tt.method, tt.path, got)
		}
	}
	if _, err := c.FDB(context.Background(), api.EntryQuery{}); err == nil || err.Error() != "edge a: read FDB: "+errFake.Error() {
		t.Errorf("client says %v, want the edge's own error", err)
	}
	if _, body := raw(t, socket, "GET", "/v1/status"); !strings.Contains(body, `"problems":[`) || strings.Contains(body, "null") {
		t.Errorf("a list is null: %s", body)
	}
}

func TestSocketIsRootsOnly(t *testing.T) {
	w := newWorld(t)
	w.run()
	st, err := os.Stat(filepath.Join(w.opts.RuntimeDir, "a.sock"))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), want 0600", st.Mode(), err)
	}
}

func TestRunning(t *testing.T) {
	if names, err := api.Running(filepath.Join(t.TempDir(), "none")); err != nil || len(names) > 0 {
		t.Errorf("in no directory run %q (%v)", names, err)
	}
	w := newWorld(t)
	c, stop := w.run()
	dead, err := net.Listen("unix", filepath.Join(w.opts.RuntimeDir, "dead.sock"))
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false) // as SIGKILL leaves it
	dead.Close()
	if names, err := api.Running(w.opts.RuntimeDir); err != nil || !slices.Equal(names, []string{"a"}) {
		t.Errorf("running %q (%v), want a alone", names, err)
	}
	if _, err := api.Dial(w.opts.RuntimeDir, "dead").Status(context.Background()); err == nil || !strings.Contains(err.Error(), "edge dead was killed") {
		t.Errorf("client of a killed edge says %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := c.Status(context.Background()); err == nil || !strings.Contains(err.Error(), "edge a is not running here") {
		t.Errorf("client of a stopped edge says %v", err)
	}
}

// Readers and changes do not meet: the fake data path fails the test when they do.
func TestReadsWhileTheEdgeChanges(t *testing.T) {
	w := newWorld(t)
	w.config.FDB.Ageing = 0
	c, _ := w.run()
	var readers sync.WaitGroup
	errs := make(chan error, 4)
	for range 4 {
		readers.Go(func() {
			for range 20 {
				if _, err := c.Flows(context.Background(), api.EntryQuery{}); err != nil {
					errs <- fmt.Errorf("flows: %w", err)
					return
				}
				if _, err := c.Status(context.Background()); err != nil {
					errs <- fmt.Errorf("status: %w", err)
					return
				}
			}
		})
	}
	for range 20 {
		w.set(func() {})
		w.hangup()
	}
	readers.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}
