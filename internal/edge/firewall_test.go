package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
)

// syncBuffer is written by one goroutine and read by another.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write is io.Writer's.
func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// The policy is made once for a configuration, and again only when something of it
// changed. A wrong one changes nothing.
func TestPolicyIsReloaded(t *testing.T) {
	w := newWorld(t).guarded()
	c, _ := w.run()
	first := w.tables.Firewall
	if first == nil {
		t.Fatal("the data path got no policy")
	}
	if cfg := w.configs[0]; cfg.Firewall == nil || len(cfg.Firewall.Rules) != 0 || cfg.Firewall.Sizes.Connections != 1000 {
		t.Errorf("the data path was opened with %+v, want the sizes without the rules", cfg.Firewall)
	}
	reload := func(change func(fw *overlay.Firewall)) {
		fw := wall()
		change(fw)
		w.mu.Lock()
		w.config.Firewall = fw
		applied := len(w.calls)
		w.mu.Unlock()
		w.hangup()
		w.within("the edge takes it over", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Contains(w.calls[applied:], "apply")
		})
	}
	reload(func(*overlay.Firewall) {})
	if w.tables.Firewall != first {
		t.Error("the same policy was made again")
	}
	reload(func(fw *overlay.Firewall) { fw.Rules[0].Verdict = overlay.Reject })
	if w.tables.Firewall == first {
		t.Error("another policy was not made")
	}
	if n := w.called("open"); n != 1 {
		t.Errorf("the programs were loaded %d times for other rules", n)
	}
	reload(func(fw *overlay.Firewall) { fw.Sizes.Connections = 2000 })
	if n := w.called("open"); n != 2 {
		t.Errorf("the programs were loaded %d times, want again for other sizes", n)
	}
	w.set(func() {
		w.config.Firewall = wall()
		w.config.Firewall.Rules[0].From = []overlay.Member{{Group: "nobody"}}
	})
	w.hangup()
	w.within("the mistake is told", func() bool { return w.problem(c, "reload the configuration", "nobody") })
}

func TestRuleDocuments(t *testing.T) {
	c, _ := newWorld(t).guarded().run()
	rules := fetched(t, c.Rules)
	var got []string
	for _, r := range rules {
		last := "never"
		if r.LastHit != nil {
			last = fmt.Sprint(*r.LastHit)
		}
		got = append(got, fmt.Sprintf("%d %s/%s %s %d %d %d %s unused=%v by=%q", r.Order, r.Section, r.Name, r.Action, r.Connections, r.Packets, r.Bytes, last, r.Unused, r.ShadowedBy))
	}
	want := []string{
		`1 app/web allow 2 30 4000 2 unused=false by=""`,
		`2 app/dns allow 1 2 200 0 unused=false by=""`,
		`3 app/web-again drop 0 0 0 never unused=true by="app/web"`,
		`4 default/edge drop 0 0 0 never unused=true by=""`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestSessionDocuments(t *testing.T) {
	w := newWorld(t).guarded()
	c, _ := w.run()
	for name, tt := range map[string]struct {
		q    api.ConnectionQuery
		want []string
	}{
		"all":                 {api.ConnectionQuery{}, []string{"p0 10.0.0.7:4000", "p0 10.0.0.1:999", "p1 10.0.0.7:4001"}},
		"the busiest":         {api.ConnectionQuery{Limit: 1}, []string{"p0 10.0.0.7:4000"}},
		"the two busiest":     {api.ConnectionQuery{Limit: 2}, []string{"p0 10.0.0.7:4000", "p0 10.0.0.1:999"}},
		"of a port":           {api.ConnectionQuery{Port: "p1"}, []string{"p1 10.0.0.7:4001"}},
		"of a protocol":       {api.ConnectionQuery{Proto: "udp"}, []string{"p0 10.0.0.1:999"}},
		"of a number":         {api.ConnectionQuery{Proto: "17"}, []string{"p0 10.0.0.1:999"}},
		"of an address":       {api.ConnectionQuery{Addr: netip.MustParsePrefix("10.0.0.7/32")}, []string{"p0 10.0.0.7:4000", "p1 10.0.0.7:4001"}},
		"of a network":        {api.ConnectionQuery{Addr: netip.MustParsePrefix("10.0.0.8/31")}, []string{"p0 10.0.0.1:999"}},
		"in a state":          {api.ConnectionQuery{State: "opening"}, []string{"p1 10.0.0.7:4001"}},
		"of a rule":           {api.ConnectionQuery{Rule: "app/dns"}, []string{"p0 10.0.0.1:999"}},
		"of a section":        {api.ConnectionQuery{Rule: "app", Limit: 1}, []string{"p0 10.0.0.7:4000"}},
		"of one that is none": {api.ConnectionQuery{Rule: "ap"}, nil},
	} {
		list, err := c.Sessions(context.Background(), tt.q)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range list.Sessions {
			got = append(got, s.Port+" "+netip.AddrPortFrom(s.Src, s.SrcPort).String())
		}
		if d := cmp.Diff(tt.want, got); d != "" || list.Total != 3 {
			t.Errorf("%s: of %d sessions\n%s", name, list.Total, d)
		}
	}
	list, err := c.Sessions(context.Background(), api.ConnectionQuery{Rule: "app/dns"})
	if err != nil {
		t.Fatal(err)
	}
	if s := list.Sessions[0]; s.Idle != 0.001 || s.Path != "fast" || s.Proto != "udp" || s.State != "replied" || s.ReplyBytes != 100 {
		t.Errorf("session %+v, want it fast, and idle as long as its flow is", s)
	}
	for query, want := range map[string]string{
		"state=open": `"open" is not one of opening`, "proto=tpc": "is not a protocol", "addr=10.0.0": "addr", "top=hosts": "is not one of ports", "limit=-1": "limit",
	} {
		if _, err := api.Fetch[api.SessionList](context.Background(), c, "sessions?"+query); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
}

func TestTopSessions(t *testing.T) {
	c, _ := newWorld(t).guarded().run()
	for by, want := range map[string][]string{
		"ports":        {"p0 2 0 4200", "p1 1 1 60"},
		"sources":      {"10.0.0.7 2 1 4060", "10.0.0.1 1 0 200"},
		"destinations": {"10.0.0.1 1 0 4000", "10.0.0.9 1 0 200", "10.0.0.2 1 1 60"},
		"rules":        {"app/web 2 1 4060", "app/dns 1 0 200"},
	} {
		list, err := c.Sessions(context.Background(), api.ConnectionQuery{Top: by})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range list.Top {
			got = append(got, fmt.Sprintf("%s %d %d %d", s.What, s.Sessions, s.HalfOpen, s.Bytes))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", by, d)
		}
	}
}

// Another policy is asked about what runs, and nothing of it is applied.
func TestWhatIf(t *testing.T) {
	w := newWorld(t).guarded()
	c, _ := w.run()
	ask := func(change func(*overlay.Edge)) api.WhatIfInfo {
		t.Helper()
		next := w.config
		next.Firewall = wall()
		change(&next)
		info, err := c.WhatIf(context.Background(), api.WhatIfQuery{Firewall: next.Firewall, Places: plan.Places(next), Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	if info := ask(func(*overlay.Edge) {}); info.Total != 3 || info.Cut != 0 {
		t.Errorf("the same policy: %+v", info)
	}
	info := ask(func(e *overlay.Edge) { e.Firewall.Rules = e.Firewall.Rules[1:] })
	if d := cmp.Diff([]api.WhatIfRule{{By: "app/web-again", Sessions: 2}}, info.Rules); d != "" || info.Cut != 2 || len(info.Sessions) != 2 {
		t.Errorf("without web: %+v\n%s", info, d)
	}
	info = ask(func(e *overlay.Edge) { e.Ports = e.Ports[:1]; e.Firewall.Rules = e.Firewall.Rules[:1] })
	want := []api.WhatIfRule{{By: "port is not in the new configuration", Sessions: 1}, {By: "default/edge", Sessions: 1}}
	if d := cmp.Diff(want, info.Rules); d != "" {
		t.Errorf("without p1 and dns: %s", d)
	}
	if info = ask(func(e *overlay.Edge) { e.Firewall = nil }); info.Cut != 0 {
		t.Errorf("without a firewall: %+v", info)
	}
	if n := w.called("apply"); n != 1 {
		t.Errorf("%d changes of the data path", n)
	}
	wrong := wall()
	wrong.Rules[0].From = []overlay.Member{{Group: "nobody"}}
	_, err := c.WhatIf(context.Background(), api.WhatIfQuery{Firewall: wrong})
	if err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("a wrong policy: %v", err)
	}
	if _, err := c.Get(context.Background(), "/v1/what-if"); err == nil || !strings.Contains(err.Error(), "POST a policy") {
		t.Errorf("GET: %v", err)
	}
}

func TestWithoutFirewall(t *testing.T) {
	c, _ := newWorld(t).run()
	_, rules := c.Rules(context.Background())
	_, sessions := c.Sessions(context.Background(), api.ConnectionQuery{})
	_, firewall := c.Firewall(context.Background())
	_, whatIf := c.WhatIf(context.Background(), api.WhatIfQuery{})
	for _, err := range []error{rules, sessions, firewall, whatIf} {
		if err == nil || !strings.Contains(err.Error(), "no firewall") {
			t.Errorf("%v, want that there is no firewall", err)
		}
	}
}

// The sweep feeds status, statistics, metrics and alarms.
func TestSweep(t *testing.T) {
	w := newWorld(t).guarded()
	w.opts.Sweep = time.Millisecond
	c, _ := w.run()
	w.within("the status has the sweep's numbers", func() bool {
		s := fetched(t, c.Status)
		return s.Firewall != nil && *s.Firewall == api.FirewallUse{Rules: 4, Connections: api.Usage{Used: 2, Size: 1000}, HalfOpen: api.Usage{Used: 1, Size: 100}}
	})
	info := fetched(t, c.Firewall)
	if len(info.Tables) != 2 || *info.Tables[0].Used != 2 || info.Tables[1].Used != nil || info.HalfOpen["p0"] != (api.HalfOpenInfo{In: 1, Limit: 50}) {
		t.Errorf("firewall %+v", info)
	}
	w.exports(c,
		`selvage_conntrack_entries{state="established"} 1`, `selvage_conntrack_half_open_entries{port="p0"} 1`, "selvage_firewall_alarms 0",
		`selvage_firewall_table_entries{table="connections"} 2`, `selvage_firewall_table_memory_bytes{table="logs"} 8192`,
		`selvage_firewall_rule_bytes_total{rule="web",section="app"} 4000`)
	w.set(func() {
		w.walls.gcStats = datapath.GCStats{Connections: 901, HalfOpen: 100, Waiting: 90, HalfOpens: map[string]datapath.HalfOpen{"p0": {In: 1, Out: 45, Limit: 50}, "p1": {In: 20, Out: 30, Limit: 50}}}
		w.events["log-lost"] = 7
	})
	w.within("alarms", func() bool {
		return w.problem(c, "901 of 1000 connections") && w.problem(c, "90 of 100 half-open connections") && w.problem(c, "port p0 has 45") &&
			!w.problem(c, "port p1 has")
	})
	w.set(func() { w.walls.gcStats.Connections = 850 })
	w.within("the sweep has seen it", func() bool { return fetched(t, c.Status).Firewall.Connections.Used == 850 })
	if !w.problem(c, "850 of 1000 connections") {
		t.Error("the alarm is over at once, and would come and go")
	}
	w.set(func() { w.walls.gcStats = datapath.GCStats{Connections: 10} })
	w.within("no alarm", func() bool { return !w.problem(c, "firewall") })
	w.set(func() { w.failing["sweep"] = errFake })
	w.within("the fault is told", func() bool { return w.problem(c, "sweep the firewall's connections") })
}

func TestLogLines(t *testing.T) {
	w := newWorld(t).guarded()
	var out syncBuffer
	w.opts.Logger = slog.New(slog.NewJSONHandler(&out, nil))
	w.walls.lines = []datapath.LogLine{
		{Rule: datapath.RuleName{Section: "app", Name: "web"}, Verdict: overlay.Reject, Reason: "rejected", Port: "p0", Direction: overlay.In, Proto: 6,
			Src: netip.MustParseAddr("10.0.0.7"), Dst: netip.MustParseAddr("10.0.0.1"), SrcPort: 4000, DstPort: 443, TCPFlags: 0x12, Len: 60, Lost: 3},
		{Rule: datapath.RuleName{Section: "app", Name: "ping"}, Verdict: overlay.Allow, Port: "p0", Direction: overlay.Out, Proto: 1,
			Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.7"), DstPort: 8 << 8, Len: 98},
	}
	w.run()
	var got []map[string]any
	w.within("two lines", func() bool {
		got = nil
		for line := range strings.Lines(out.String()) {
			var fields map[string]any
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				t.Fatal(err)
			}
			if delete(fields, "time"); fields["msg"] == "firewall" {
				got = append(got, fields)
			}
		}
		return len(got) == 2
	})
	want := []map[string]any{
		{"level": "INFO", "msg": "firewall", "edge": "a", "subsystem": "firewall", "verdict": "reject", "section": "app", "rule": "web", "port": "p0", "direction": "in", "proto": "tcp",
			"src": "10.0.0.7", "dst": "10.0.0.1", "sport": 4000.0, "dport": 443.0, "flags": "syn+ack", "bytes": 60.0, "reason": "rejected", "lost": 3.0},
		{"level": "INFO", "msg": "firewall", "edge": "a", "subsystem": "firewall", "verdict": "allow", "section": "app", "rule": "ping", "port": "p0", "direction": "out", "proto": "icmp",
			"src": "10.0.0.1", "dst": "10.0.0.7", "type": 8.0, "code": 0.0, "bytes": 98.0},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A start with a policy that does not compile touches nothing.
func TestStartWithAWrongPolicy(t *testing.T) {
	w := newWorld(t).guarded()
	w.config.Firewall.Rules[0].From = []overlay.Member{{Group: "nobody"}}
	err := Run(context.Background(), w.opts)
	if err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("%v, want what is wrong", err)
	}
	if w.called("open") != 0 {
		t.Error("the data path was opened")
	}
	w.config.Firewall = wall()
	w.failing["open"] = errFake
	if err := Run(context.Background(), w.opts); !errors.Is(err, errFake) {
		t.Errorf("%v", err)
	}
}
