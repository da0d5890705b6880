package top

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/problem"
)

// fakeEdge answers with documents that a test sets.
type fakeEdge struct {
	mu        sync.Mutex
	documents map[string]any
}

func (e *fakeEdge) set(path string, document any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.documents[path] = document
}

// newFake is an edge with a port, and the model of a terminal that shows it.
func newFake(t *testing.T) (*fakeEdge, *model) {
	t.Helper()
	e := &fakeEdge{documents: map[string]any{
		"status": api.Status{
			Name: "a", Started: time.Now().Add(-time.Hour), Verdict: problem.Degraded, Ports: api.Tally{Up: 1, Total: 2},
			Problems: []problem.Problem{problem.Warning("port p1 is down")},
		},
		"ports": []api.PortInfo{{Name: "p0", Interface: "tap0", Segment: "blue", State: "up", RxBytes: 1000}, {Name: "p1", Interface: "tap1", Segment: "blue", State: "down"}},
	}}
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "a.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		defer e.mu.Unlock()
		document, ok := e.documents[strings.TrimPrefix(r.URL.Path, "/v1/")]
		if !ok {
			http.Error(w, `{"error": "no such document"}`, http.StatusNotFound)
			return
		}
		w.Header().Set(api.MatchedHeader, "1")
		_ = json.NewEncoder(w).Encode(document)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	m := newModel(Options{Client: api.Dial(filepath.Dir(listener.Addr().String()), "a"), Interval: time.Second, Program: "selvage", Edge: []string{"--edge", "a"}})
	m.Update(tea.WindowSizeMsg{Width: 160, Height: 20})
	return e, m
}

// reads has the model read its page once.
func (m *model) reads() { m.Update(m.ask()()) }

// types presses keys.
func (m *model) types(keys ...string) {
	for _, k := range keys {
		msg := tea.KeyPressMsg{Text: k, Code: []rune(k)[0]}
		switch k {
		case "enter":
			msg = tea.KeyPressMsg{Code: tea.KeyEnter}
		case "esc":
			msg = tea.KeyPressMsg{Code: tea.KeyEscape}
		case "down":
			msg = tea.KeyPressMsg{Code: tea.KeyDown}
		}
		m.Update(msg)
	}
}

// screen is what stands on it, without colours.
func (m *model) screen() string { return ansi.Strip(m.View().Content) }

// has fails unless the screen has all words, in this order.
func has(t *testing.T, m *model, words ...string) {
	t.Helper()
	rest := m.screen()
	for _, w := range words {
		_, after, ok := strings.Cut(rest, w)
		if !ok {
			t.Fatalf("screen has no %q in its place:\n%s", w, m.screen())
		}
		rest = after
	}
}

func TestPortsAndRates(t *testing.T) {
	e, m := newFake(t)
	has(t, m, "asking the edge")
	m.reads()
	has(t, m, "a  DEGRADED  up 1h00m  ports 1/2", "port p1 is down", "1 Ports", "PORT", "p0", "tap0", "blue", "up", "-", "p1", "down")
	e.set("ports", []api.PortInfo{{Name: "p0", Interface: "tap0", Segment: "blue", State: "up", RxBytes: 1_000_001_000}})
	r := m.page().reader
	m.reads()
	bits := 8e9 / r.rates.Elapsed().Seconds()
	rate := m.page().table.lines[0].cells[5]
	if rate.by != bits || rate.text == "" || rate.text == "-" { // the rate is of the time between the readings
		t.Errorf("%q, %v bits a second, want %v", rate.text, rate.by, bits)
	}
	has(t, m, "p0", rate.text)
}

func TestEachPageIsRead(t *testing.T) {
	e, m := newFake(t)
	remote := netip.MustParseAddr("192.0.2.2")
	e.set("teps", []api.TEPInfo{{
		Address: remote, Name: "b", Segments: []string{"blue"}, Interface: "u0", State: "resolved", InnerMTU: 1450,
		Paths: []api.PathInfo{{Local: remote, Remote: remote, Interface: "u0", State: "up"}, {Local: remote, Remote: remote, Interface: "u1", State: "down", Why: "BFD"}},
	}})
	e.set("flows", []api.FlowInfo{{
		Segment: "blue", In: "p0", Out: "192.0.2.2", Proto: "tcp", Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"),
		SrcPort: 1000, DstPort: 80, Why: "policy", Rate: &api.FlowRate{Packets: 10, Bytes: 1000},
	}})
	e.set("drops", []api.DropInfo{{Reason: "policy", Description: "a rule drops it", Packets: 7}, {Reason: "loop"}})
	e.set("drops/owners", []api.OwnerDropInfo{{Kind: "port", Owner: "p0", DropInfo: api.DropInfo{Reason: "policy", Packets: 7}}})
	e.set("status", api.Status{Name: "a", BGP: &api.BGPUse{}})
	e.set("bgp", api.BGPInfo{Neighbours: []api.BGPNeighbourInfo{{Name: "rr1", Address: remote, AS: 65000, State: "active", Why: "no answer: is it up?"}}})
	e.set("egress", api.EgressInfo{
		Groups:    []api.GatewayGroupInfo{{Name: "gw", Members: []api.GatewayInfo{{Address: remote, State: "serving", Self: true}}}},
		Failovers: []api.Failover{{Number: 1, Group: "gw", Gateway: remote, From: "serving", To: "gone", Seen: time.Now(), Written: time.Now().Add(120 * time.Millisecond)}},
	})
	for key, want := range map[string][]string{
		"2": {"192.0.2.2", "resolved", "1450", "u1", "down"}, "3": {"p0", "192.0.2.2", "tcp", "10.0.0.1:1000", "10.0.0.2:80", "slow", "10", "8000", "policy"},
		"4": {"policy", "all", "7", "policy", "port", "p0"}, "5": {"rr1", "65000", "active", "no answer"}, "6": {"gateway", "this edge", "serving", "failover", "gone", "120"},
	} {
		m.types(key)
		m.reads()
		has(t, m, want...)
	}
}

// Lines come and go, and change places; what is selected stays.
func TestSelectionStays(t *testing.T) {
	e, m := newFake(t)
	m.reads()
	m.types("down")
	e.set("ports", []api.PortInfo{{Name: "p9"}, {Name: "p1"}, {Name: "p0"}})
	m.reads()
	if l, _ := m.page().table.selected(); l.key != "p1" {
		t.Errorf("%s is selected, want p1", l.key)
	}
	m.types("s", "r") // by name, the last first
	if l := m.page().table.shown()[0]; l.key != "p9" {
		t.Errorf("%s is first, want p9", l.key)
	}
	m.types("/", "p", "0", "enter")
	has(t, m, "/p0", "p0", "lines: 1 of 3")
	m.types("/", "q")
	has(t, m, `No line has "p0q"`)
	m.types("esc")
	has(t, m, "lines: 3")
}

func TestMoreLinesThanRows(t *testing.T) {
	e, m := newFake(t)
	var ports []api.PortInfo
	for i := range 100 {
		ports = append(ports, api.PortInfo{Name: fmt.Sprintf("port%d", i)})
	}
	e.set("ports", ports)
	m.reads()
	for range 50 {
		m.types("down")
	}
	has(t, m, "port50")
	m.types("G")
	has(t, m, "port99")
	if rows := strings.Count(m.screen(), "\n") + 1; rows != 20 {
		t.Errorf("%d rows on a screen of 20", rows)
	}
	m.types("g")
	has(t, m, "port0")
	m.Update(tea.WindowSizeMsg{Width: 20, Height: 3})
	for row := range strings.Lines(m.screen()) {
		if w := ansi.StringWidth(strings.TrimRight(row, "\n")); w > 20 {
			t.Errorf("a row is %d wide on a screen of 20: %q", w, row)
		}
	}
}

// An answer that comes late belongs to another page; an edge that is gone is told, and asked again.
func TestLateAndLostAnswers(t *testing.T) {
	_, m := newFake(t)
	late := m.ask()
	m.types("4")
	m.Update(late())
	if len(m.page().table.lines) != 0 {
		t.Error("the page of drops has taken the answer of ports")
	}
	_, next := m.Update(m.ask()())
	has(t, m, "no such document")
	if next == nil {
		t.Error("after an error nothing is asked again")
	}
}

func TestPause(t *testing.T) {
	_, m := newFake(t)
	m.reads()
	m.Update(tea.KeyPressMsg{Code: tea.KeySpace, Text: " "})
	has(t, m, "paused")
	if _, next := m.Update(due{m.asked}); next != nil {
		t.Error("a page that is paused is read")
	}
	if _, next := m.Update(tea.KeyPressMsg{Code: tea.KeySpace, Text: " "}); next == nil {
		t.Error("a page that goes on is not read")
	}
}

func TestCommands(t *testing.T) {
	c := commands{edge: []string{"--edge", "a"}, now: func() time.Time { return time.Unix(0, 0) }}
	flow := subject{port: "p0", segment: "blue", packet: "tcp 10.0.0.1:1000 > 10.0.0.2:80"}
	tunnel := subject{remote: netip.MustParseAddr("192.0.2.2"), segment: "blue", packet: "icmp 10.0.0.1 > 10.0.0.2"}
	drop := subject{reason: "policy", port: "p0"}
	for _, tt := range []struct {
		key  string
		s    subject
		want string
	}{
		{"t", flow, "trace --edge a --port p0 'tcp 10.0.0.1:1000 > 10.0.0.2:80'"},
		{"t", tunnel, "trace --edge a --remote 192.0.2.2 --segment blue 'icmp 10.0.0.1 > 10.0.0.2'"},
		{"m", flow, "monitor --edge a --port p0 --forwarded 'tcp 10.0.0.1:1000 > 10.0.0.2:80'"},
		{"m", drop, "monitor --edge a --reason policy --port p0"},
		{"c", tunnel, "capture -w selvage-19700101T000000Z.pcapng --edge a --remote 192.0.2.2 'icmp 10.0.0.1 > 10.0.0.2'"},
	} {
		args, err := c.about(tt.key, tt.s)
		if got := quoted(args); err != nil || got != tt.want {
			t.Errorf("%s: %s (%v), want %s", tt.key, got, err, tt.want)
		}
	}
	if _, err := c.about("t", drop); err == nil {
		t.Error("a drop without a packet is traced")
	}
}

func TestVisit(t *testing.T) {
	var out strings.Builder
	v := &visit{program: "/bin/echo", args: []string{"hello"}}
	v.SetStdin(strings.NewReader("\n"))
	v.SetStdout(&out)
	v.SetStderr(&out)
	if err := v.Run(); err != nil || !strings.Contains(out.String(), "\nhello\n") {
		t.Errorf("%v: %s", err, out.String())
	}
	v.program = "/bin/false"
	if err := v.Run(); err != nil {
		t.Errorf("a command that fails: %v", err)
	}
	if v.program = "/nonexistent"; v.Run() == nil {
		t.Error("a program that is not there is no error")
	}
}
