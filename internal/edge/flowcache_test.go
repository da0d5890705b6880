package edge

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
)

func TestFlowCacheDocument(t *testing.T) {
	c, _ := newGatewayWorld(t).run()
	got := fetched(t, c.FlowCache)
	if time.Since(got.ReadAt) > time.Minute {
		t.Errorf("read at %v", got.ReadAt)
	}
	one := uint64(1)
	want := api.FlowCacheInfo{
		ReadAt: got.ReadAt, Enabled: true, LookUps: 20, HitRatio: 0.5,
		Caches: []api.CacheInfo{
			{Name: "tc", Used: 3, Size: 4096, Bytes: 1 << 20},
			{Name: "transit", Used: 50, Size: 8192, Bytes: 1 << 21, Evicted: &one},
		},
		Events: slices.Clone(alarm.CacheEvents),
	}
	for i, n := range []uint64{10, 2, 5, 3, 0, 0, 1, 0} {
		want.Events[i].Count = n
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flow cache (-want +got):\n%s", diff)
	}
	if s := fetched(t, c.Status); s.Flows != (api.Usage{Used: 3, Size: 4096}) || s.Transit == nil || *s.Transit != (api.Usage{Used: 50, Size: 8192}) {
		t.Errorf("status has %+v and %+v", s.Flows, s.Transit)
	}
}

func TestThrashingIsAProblem(t *testing.T) {
	w := newGatewayWorld(t)
	w.opts.Resync = 20 * time.Millisecond
	c, _ := w.run()
	if w.problem(c, "flow cache") {
		t.Error("a problem without a reason")
	}
	lose := func(n uint64) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.lost = n
	}
	lose(1_000_000)
	w.within("thrashing is a problem", func() bool {
		return w.problem(c, "flow cache: thrashing", "0 % hits", "; transit has 50 of 8192 entries and evicts ", "/s): raise spec.flowCache.size, now 4096")
	})
	if f := fetched(t, c.FlowCache); f.Alarm != "thrashing" || !strings.Contains(f.Problem, "flow cache: thrashing") {
		t.Errorf("alarm %q, %q", f.Alarm, f.Problem)
	}
	lose(0)
	w.within("it is over", func() bool { return !w.problem(c, "flow cache") })
	if f := fetched(t, c.FlowCache); f.Alarm != "" || f.Problem != "" {
		t.Errorf("alarm %q, %q", f.Alarm, f.Problem)
	}
}

func TestCacheThatIsOff(t *testing.T) {
	w := newWorld(t)
	w.config.FlowCache.Enabled = false
	w.opts.Resync = 20 * time.Millisecond
	c, _ := w.run()
	if !w.problem(c, "flow cache: off", "spec.flowCache.enabled") {
		t.Errorf("problems %q", fetched(t, c.Status).Problems)
	}
	if f := fetched(t, c.FlowCache); f.Enabled || f.Alarm != "off" {
		t.Errorf("%+v", f)
	}
	w.mu.Lock()
	w.config.FlowCache.Enabled = true
	w.mu.Unlock()
	w.hangup()
	w.within("no problem when it is on", func() bool { return !w.problem(c, "flow cache") })
}

func TestCacheThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.opts.Resync = 20 * time.Millisecond
	c, _ := w.run()
	refuse := func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.failing["stats"] = err
	}
	refuse(errFake)
	failed := func() bool {
		_, err := c.FlowCache(context.Background())
		return err != nil && strings.HasSuffix(err.Error(), "read flow cache: "+errFake.Error())
	}
	w.within("the reading fails", failed)
	applied := w.called("apply")
	w.within("the loop meets it", func() bool { return w.called("apply") > applied+1 })
	refuse(nil)
	w.within("no problem is left", func() bool { return !w.problem(c, "watch the flow cache") })
}

func TestFlowCacheRates(t *testing.T) {
	w := newGatewayWorld(t)
	c, _ := w.run()
	w.mu.Lock()
	w.lost = 10
	w.mu.Unlock()
	got, err := c.FlowCacheRates(context.Background(), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	r := got.Rates
	if r == nil || r.Seconds <= 0 || r.HitRatio != 0 || r.Events["miss"] != 10/r.Seconds || r.Evicted["transit"] != 10/r.Seconds || r.Evicted["tc"] != 0 {
		t.Errorf("rates %+v", r)
	}
	ended, end := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, end)
	if _, err := c.FlowCacheRates(ended, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestInterfaces(t *testing.T) {
	w := newGatewayWorld(t)
	native := host.XDP{Known: true, Takes: true, Sends: true}
	w.config.Underlay.Interfaces = []string{"eth0", "eth2", "eth3"}
	u := w.config.Routers[0].Uplinks[0]
	u.Name, u.Interface = "dmz", "eth0" // an uplink in a VLAN of the underlay
	w.config.Routers[0].Uplinks = append(w.config.Routers[0].Uplinks, u)
	w.hostState.Links["eth0"] = host.Link{Name: "eth0", Index: 2, MTU: 1550, Up: true, XDP: native}
	w.hostState.Links["eth1"] = host.Link{Name: "eth1", Index: 8, MTU: 9000, Up: true, XDP: native}
	w.hostState.Links["eth3"] = host.Link{Name: "eth3", Index: 9, MTU: 1550, Up: true, XDP: host.XDP{Known: true, Takes: true}}
	w.refused = map[int]string{9: "invalid argument"}
	c, _ := w.run()
	want := []api.InterfaceInfo{
		{Name: "eth0", Ifindex: 2, Roles: []string{"underlay", "uplink"}, Hook: "xdp", TakesRedirected: true, MTU: 1550},
		{Name: "eth2", Roles: []string{"underlay"}, HookWhy: "the interface does not exist"},
		{Name: "eth3", Ifindex: 9, Roles: []string{"underlay"}, Hook: "tcx", HookWhy: "the driver refused the program: invalid argument",
			RedirectWhy: "it does not accept redirected packets (a veth does while its peer has GRO or an XDP program), so tc sends those that leave here", MTU: 1550},
		{Name: "eth1", Ifindex: 8, Roles: []string{"uplink"}, Hook: "tcx", HookWhy: "the driver's XDP does not support an MTU of 9000",
			RedirectWhy: "it does not accept redirected frames with an MTU of 9000, so tc sends those that leave here", MTU: 9000},
	}
	if diff := cmp.Diff(want, fetched(t, c.Interfaces)); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
	hooks := each(fetched(t, c.Ports), func(p api.PortInfo) string { return p.Name + " " + p.Hook + " " + p.HookWhy })
	if diff := cmp.Diff([]string{"p0 tcx ", "p0.10 tcx ", "wan tcx the driver's XDP does not support an MTU of 9000", "dmz xdp "}, hooks); diff != "" {
		t.Errorf("hooks of ports (-want +got):\n%s", diff)
	}
	w.mu.Lock()
	w.config.Transit.Mode = overlay.TransitGeneric
	w.mu.Unlock()
	w.hangup()
	w.within("generic hooks", func() bool {
		i := fetched(t, c.Interfaces)[0]
		return i.Hook == "xdpgeneric" && i.HookWhy == "transit.mode is generic"
	})
	w.set(func() { w.failing["apply"] = errFake })
	w.within("what is attached is not known", func() bool {
		i := fetched(t, c.Interfaces)[0]
		return i.Hook == "" && strings.Contains(i.HookWhy, "see `selvage status`")
	})
	w.within("metrics have no hooks that are not known", func() bool { return w.scraped()["selvage_interface_hook_info"] == nil })
}

// Waiting, as for a core, is no work.
