package edge

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
)

// received reports how often the network of the uplink was told of each address.
func (w *world) received() map[netip.Addr]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := make(map[netip.Addr]int)
	for _, p := range w.exits.announced {
		n[p.Addr]++
	}
	return n
}

// owns waits until the tables have this edge answer for so many addresses.
func (w *world) owns(n int) {
	w.t.Helper()
	w.within("addresses of this edge", func() bool { return len(w.ours()) == n })
}

func (w *world) says(want bfd.Service) {
	w.t.Helper()
	w.within("it says that it is "+want.String(), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.exits.service == want
	})
}

// member is what the edge says of a gateway.
func member(t *testing.T, c *api.Client, addr netip.Addr) api.GatewayInfo {
	t.Helper()
	for _, m := range fetched(t, c.Egress().Info).Groups[0].Members {
		if m.Address == addr {
			return m
		}
	}
	t.Fatalf("no gateway %s", addr)
	return api.GatewayInfo{}
}

// A gateway that starts leaves its work to others until it has met them.
func TestGatewayJoins(t *testing.T) {
	w := newEgressWorld(newWorld(t))
	c, _ := w.run()
	if m := member(t, c, gw1); m.State != "gone" || !m.Self || len(w.ours()) != 0 {
		t.Errorf("at the start it is %+v and owns %v", m, w.ours())
	}
	w.says(bfd.OutOfService)
	w.served(bfd.InService)
	w.owns(2)
	w.says(bfd.InService)
	w.within("addresses announced three times", func() bool { h := w.received(); return h[pool] == 3 && h[other] == 3 })
	e := fetched(t, c.Egress().Info)
	f := e.Failovers[len(e.Failovers)-1]
	if f.Gateway != gw1 || f.From != "gone" || f.To != "serving" || f.Group != "gws" || f.Addresses != 2 || f.Announced == nil {
		t.Errorf("last failover %+v", f)
	}
	if f.Written.Before(f.Seen) || f.Announced.Before(f.Written) {
		t.Errorf("seen at %s, written %s, announced %s", f.Seen, f.Written, f.Announced)
	}
	if len(e.Policies) != 1 || e.Policies[0].Sessions != 0 || len(e.Policies[0].Addresses) != 2 || !e.Policies[0].Addresses[0].Here ||
		!strings.Contains(e.Policies[0].Matches, "from any to any") {
		t.Errorf("policies %+v", e.Policies)
	}
	if s := e.Policies[0].Sources; len(s) != 1 || s[0].Gateway != gw1 || s[0].Share != 1 {
		t.Errorf("sources %+v", s)
	}
}

// A gateway that meets nobody serves all the same, after a while.
func TestGatewayAlone(t *testing.T) {
	w := newEgressWorld(newWorld(t))
	_, _ = w.run()
	w.owns(2)
}

// The other gateway is first: this one takes over when it dies, without looking at the
// host, and gives back when it returns. Addresses are announced again then, as the other
// may have answered for them unheard.
func TestTakeOver(t *testing.T) {
	w := newEgressWorld(newWorld(t))
	w.config.Egress.Gateways[0].Members = []netip.Addr{gw2, gw1}
	c, _ := w.run()
	w.served(bfd.InService)
	w.says(bfd.InService)
	if n := len(w.ours()); n != 0 {
		t.Fatalf("the stand-in owns %d addresses", n)
	}
	before := w.called("apply")
	w.live(pair, bfd.Down, "no packet for 150ms")
	w.owns(2)
	w.within("announced", func() bool { return w.received()[pool] > 0 })
	if w.called("apply") != before {
		t.Error("all tables were written for it")
	}
	w.within("problem", func() bool { return w.problem(c, "one gateway of group gws is left", "gw2", "no packet for 150ms") })
	f := fetched(t, c.Egress().Info).Failovers
	if last := f[len(f)-1]; last.Gateway != gw2 || last.To != "gone" || !strings.Contains(last.Why, "no packet") {
		t.Errorf("failover %+v", last)
	}
	if m := member(t, c, gw2); m.State != "gone" || m.Name != "gw2" {
		t.Errorf("the other is %+v", m)
	}
	w.served(bfd.InService)
	w.owns(0)
	w.within("problem over", func() bool { return !w.problem(c, "group gws") })
	for _, e := range w.exits.steered {
		if !e.Leased {
			t.Error("it answers for addresses without a lease, though another gateway is there")
		}
	}
}

// What another gateway says of itself counts like its death.
func TestOtherGatewayDrains(t *testing.T) {
	w := newEgressWorld(newWorld(t))
	w.config.Egress.Gateways[0].Members = []netip.Addr{gw2, gw1}
	_, _ = w.run()
	w.served(bfd.InService)
	w.says(bfd.InService)
	w.served(bfd.Draining)
	w.owns(2)
	w.served(bfd.InService)
	w.owns(0)
	w.served(bfd.OutOfService)
	w.owns(2)
}

// A gateway whose uplink fails gives its work away, and one that nobody hears too.
func TestGatewayFails(t *testing.T) {
	w := newEgressWorld(newWorld(t))
	c, _ := w.run()
	w.served(bfd.InService)
	w.owns(2)
	w.set(func() {
		link := w.hostState.Links["wan0"]
		link.Up = false
		w.hostState.Links["wan0"] = link
	})
	w.owns(0)
	w.says(bfd.OutOfService) // though no event of liveness follows
	if m := member(t, c, gw1); m.State != "gone" || !strings.Contains(m.Why, "wan0") {
		t.Errorf("it is %+v", m)
	}
	w.set(func() { w.hostState.Links["wan0"] = host.Link{Name: "wan0", Index: 9, MTU: 1500, Up: true} })
	w.owns(2)
	w.says(bfd.InService)
	source := overlay.Pair{Local: tep, Remote: remoteB}
	w.live(source, bfd.Down, "no packet for 150ms")
	w.live(pair, bfd.Down, "no packet for 150ms")
	w.owns(0)
	if m := member(t, c, gw1); !strings.Contains(m.Why, "no remote reaches it") {
		t.Errorf("it is %+v", m)
	}
	w.served(bfd.InService)
	w.owns(2)
}

// A drain is said at once and heeded when all have heard. It survives the process.
func TestDrain(t *testing.T) {
	w := newEgressWorld(newWorld(t))
	w.opts.RemoveAtExit = false
	c, stop := w.run()
	w.served(bfd.InService)
	w.owns(2)
	w.says(bfd.InService)
	info, err := c.Egress().Drain(t.Context(), time.Hour)
	if err != nil || info.Drain == nil || info.Drain.Done {
		t.Fatalf("drain %+v: %v", info.Drain, err)
	}
	w.says(bfd.Draining)
	w.owns(0) // active-standby: the next one serves
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c, _ = w.run()
	w.served(bfd.InService)
	w.says(bfd.Draining)
	if _, err := c.Egress().Drain(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	w.says(bfd.OutOfService)
	if info := fetched(t, c.Egress().Info); info.Drain == nil || !info.Drain.Done {
		t.Errorf("drain %+v, want it done", info.Drain)
	}
	if _, err := c.Egress().Undrain(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.owns(2)
	w.says(bfd.InService)
}

// A drain for a reboot is one after it too, until somebody ends it; its deadline is that of a
// clock that nobody sets.
func TestDrainOutlastsReboots(t *testing.T) {
	w := newEgressWorld(newWorld(t))
	w.opts.RemoveAtExit = false
	c, stop := w.run()
	w.served(bfd.InService)
	w.owns(2)
	if _, err := c.Egress().Drain(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	w.owns(0)
	must(t, stop())
	file := filepath.Join(w.opts.StateDir, "a", "drain")
	text, err := os.ReadFile(file)
	must(t, err)
	var kept struct {
		Drain    gateway.Drain `json:"drain"`
		Boot     string        `json:"boot"`
		Asked    time.Duration `json:"asked"`
		Deadline time.Duration `json:"deadline"`
	}
	must(t, json.Unmarshal(text, &kept))
	kept.Drain.Deadline = time.Now().Add(-time.Hour) // as of a clock that was set
	rewrite := func() {
		text, err := json.Marshal(kept)
		must(t, err)
		must(t, os.WriteFile(file, text, 0o600))
		must(t, os.RemoveAll(filepath.Join(w.opts.RuntimeDir, "a.egress")))
	}
	rewrite()
	c, stop = w.run()
	if d := fetched(t, c.Egress().Info).Drain; d == nil || d.Done || time.Until(d.Deadline) < 50*time.Minute {
		t.Errorf("after a restart: drain %+v", d)
	}
	must(t, stop())
	kept.Boot = "another"
	rewrite()
	c, _ = w.run()
	w.served(bfd.InService)
	w.says(bfd.OutOfService)
	if d := fetched(t, c.Egress().Info).Drain; d == nil || !d.Done {
		t.Errorf("after a reboot: drain %+v, want it done", d)
	}
	if _, err := c.Egress().Undrain(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.owns(2)
	if _, err := os.Stat(file); err == nil {
		t.Error("the drain is still kept")
	}
}

// What cannot be drained is said.
func TestDrainRefused(t *testing.T) {
	for want, change := range map[string]func(*world){
		"not a member of any group":   func(w *world) { w.config.Egress.Gateways[0].Members = []netip.Addr{gw2} },
		"configure spec.underlay.bfd": func(w *world) { w.config.Underlay.Liveness = nil },
	} {
		w := newEgressWorld(newWorld(t))
		change(w)
		c, stop := w.run()
		if _, err := c.Egress().Drain(t.Context(), 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("drain: %v, want %q", err, want)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

// Without liveness nobody knows who lives.
func TestGatewaysUnwatched(t *testing.T) {
	w := newEgressWorld(newWorld(t))
	w.config.Underlay.Liveness = nil
	c, _ := w.run()
	w.owns(2)
	if !w.problem(c, "group gws", "configure spec.underlay.bfd") {
		t.Error("no problem says so")
	}
}

// A process that ends and leaves its data path gives its addresses to a gateway that is
// there, and keeps them where there is none.
func TestGatewayLeaves(t *testing.T) {
	for _, alone := range []bool{false, true} {
		w := newEgressWorld(newWorld(t))
		w.opts.RemoveAtExit = false
		_, stop := w.run()
		w.served(bfd.InService)
		w.owns(2)
		want, leased := 0, true
		if alone {
			w.served(bfd.OutOfService)
			w.within("the other is gone", func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				return !w.exits.steered[0].Leased
			})
			want, leased = 2, false
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if got := len(w.ours()); got != want || w.exits.steered[0].Leased != leased {
			t.Errorf("alone %t: it left %d addresses, leased %t, want %d, %t", alone, got, w.exits.steered[0].Leased, want, leased)
		}
	}
}

// A new process remembers who was gone while the data path went on, so that sources do not
// go to a dead gateway until it is found dead again.
func TestRemembersTheGone(t *testing.T) {
	w := newEgressWorld(newWorld(t))
	w.config.Egress.Gateways[0].Members = []netip.Addr{gw2}
	w.config.Egress.Policies[0].Uplink = ""
	text, err := json.Marshal(map[string]any{"gone": []netip.Addr{gw2}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.opts.RuntimeDir, "a.egress"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	w.adopted = true
	c, _ := w.run()
	if m := member(t, c, gw2); m.State != "gone" || !strings.Contains(m.Why, "when this process started") {
		t.Errorf("the gateway is %+v", m)
	}
	w.served(bfd.InService)
	w.within("it serves", func() bool { return member(t, c, gw2).State == "serving" })
}

// A quick path that fails is tried again, and is a problem until then.
func TestSteerEgressFails(t *testing.T) {
	w := newEgressWorld(newWorld(t))
	w.config.Egress.Gateways[0].Members = []netip.Addr{gw2, gw1}
	c, _ := w.run()
	w.served(bfd.InService)
	w.says(bfd.InService)
	w.mu.Lock()
	w.failing["steer egress"] = errFake
	w.mu.Unlock()
	w.live(pair, bfd.Down, "no packet for 150ms")
	w.within("problem", func() bool { return w.problem(c, "steer", errFake.Error()) })
	w.mu.Lock()
	delete(w.failing, "steer egress")
	w.mu.Unlock()
	w.owns(2)
	w.within("problem over", func() bool { return !w.problem(c, errFake.Error()) })
}

// Rules are compiled when they change, and programs loaded anew when what they are loaded
// with does.
func TestEgressReload(t *testing.T) {
	w := newEgressWorld(newWorld(t))
	_, _ = w.run()
	w.served(bfd.InService)
	w.owns(2)
	rules := w.rulesOf()
	if rules == nil || w.configs[0].Egress == nil || w.configs[0].Egress.NATSessions != 1000 || len(w.configs[0].Egress.Policies) != 0 {
		t.Fatalf("rules %v, programs loaded with %+v", rules, w.configs[0].Egress)
	}
	w.mu.Lock()
	limited := *w.config.Egress
	limited.Policies = slices.Clone(limited.Policies)
	limited.Policies[0].Limit = 7
	w.config.Egress = &limited
	w.mu.Unlock()
	w.hangup()
	w.within("the limit", func() bool { return w.tablesNow().Egress[0].Limit == 7 })
	if w.rulesOf() != rules || len(w.configs) != 1 {
		t.Error("a limit had rules compiled or programs loaded")
	}
	w.mu.Lock()
	e := *w.config.Egress
	w.config.Egress = &e
	e.Policies = slices.Clone(e.Policies)
	e.Policies[0].To = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
	e.NATSessions = 2000
	w.mu.Unlock()
	w.hangup()
	w.within("other rules", func() bool { return w.rulesOf() != rules })
	if len(w.configs) != 2 || w.configs[1].Egress.NATSessions != 2000 {
		t.Errorf("%d loads, want another with room for 2000 sessions", len(w.configs))
	}
	w.mu.Lock()
	w.config.Egress = nil
	w.mu.Unlock()
	w.hangup()
	w.within("no egress", func() bool { t := w.tablesNow(); return t.EgressRules == nil && len(t.Egress) == 0 })
}

func (w *world) tablesNow() fib.Tables {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tables
}

func (w *world) rulesOf() any {
	if r := w.tablesNow().EgressRules; r != nil {
		return r
	}
	return nil
}

// Programs know whether somebody hears of sessions.
func TestTranslationConfig(t *testing.T) {
	if translation(overlay.Edge{}) != nil {
		t.Error("programs are loaded for translation without any")
	}
	w := newEgressWorld(newWorld(t))
	if got := translation(w.config); len(got.Gateways) != 0 || got.Log {
		t.Errorf("%+v, and nobody hears", got)
	}
	w.replicated()
	if got := translation(w.config); len(got.Gateways) != 1 || len(got.Gateways[0].Replication.Key) != 0 {
		t.Errorf("%+v, want replication without its key", got)
	}
}
