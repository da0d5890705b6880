package schedule

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/offload"
	"github.com/selvage/selvage/internal/overlay"
)

func probedResult(mode string) *offload.Result {
	r := &offload.Result{
		When: time.Unix(1, 0), Interface: "eth0",
		Identity: offload.Identity{Kernel: "6.1", Driver: host.Driver{Name: "d", Version: "1", Firmware: "f1"}},
		Mode:     offload.Mode{Name: mode, Changes: []offload.Change{}}, Why: "a reason",
		Trials: []offload.Trial{{Mode: offload.Mode{Name: offload.AsIs}, Sent: 1, Speeds: []float64{1}}},
	}
	if mode != offload.AsIs {
		r.Mode.Changes = []offload.Change{{Feature: "tx-udp_tnl-segmentation"}}
		r.Trials[0].Corrupt = 1
		r.Trials = append(r.Trials, offload.Trial{Mode: r.Mode, Sent: 1, Speeds: []float64{1}})
	}
	return r
}

// TestOffloadReasons: another kernel, driver or firmware may do otherwise, nothing else.
func TestOffloadReasons(t *testing.T) {
	same := probedResult(offload.AsIs).Identity
	change := func(f func(*offload.Identity)) offload.Identity {
		id := same
		f(&id)
		return id
	}
	for name, c := range map[string]struct {
		path *probedPath
		nic  string
		now  offload.Identity
		why  string
	}{
		"the same":          {&probedPath{result: probedResult(offload.AsIs)}, "eth0", same, ""},
		"never":             {&probedPath{}, "eth0", same, "never"},
		"asked":             {&probedPath{asked: true, result: probedResult(offload.AsIs)}, "eth0", same, "asked"},
		"another interface": {&probedPath{result: probedResult(offload.AsIs)}, "eth1", same, "eth1 instead of eth0"},
		"kernel":            {&probedPath{result: probedResult(offload.AsIs)}, "eth0", change(func(i *offload.Identity) { i.Kernel = "6.2" }), "kernel 6.2 instead of 6.1"},
		"driver":            {&probedPath{result: probedResult(offload.AsIs)}, "eth0", change(func(i *offload.Identity) { i.Version = "2" }), "driver or firmware"},
		"firmware":          {&probedPath{result: probedResult(offload.AsIs)}, "eth0", change(func(i *offload.Identity) { i.Firmware = "f2" }), "driver or firmware"},
	} {
		if why := c.path.reason(c.nic, c.now); c.why == "" && why != "" || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q, want %q", name, why, c.why)
		}
	}
}

// TestOffloadsKept: results survive the process, are applied only where that is asked for,
// and what damages tunnels is a problem until it is.
func TestOffloadsKept(t *testing.T) {
	pair := overlay.Pair{Local: netip.MustParseAddr("192.0.2.1"), Remote: netip.MustParseAddr("192.0.2.2")}
	file := filepath.Join(t.TempDir(), "a.offload")
	before := New(Options{})
	if err := before.load(file); err != nil {
		t.Fatal(err)
	}
	before.paths[pair] = &probedPath{result: probedResult(offload.NoTunnelSegmentation)}
	if err := before.save(); err != nil {
		t.Fatal(err)
	}
	o := New(Options{})
	if err := o.load(file); err != nil {
		t.Fatal(err)
	}
	advise, apply := &overlay.OffloadProbe{Port: 1}, &overlay.OffloadProbe{Port: 1, Apply: true}
	config := func(p *overlay.OffloadProbe) overlay.Edge {
		return overlay.Edge{Underlay: overlay.Underlay{OffloadProbe: p}}
	}
	want := host.Offload{Interface: "eth0", Feature: "tx-udp_tnl-segmentation"}
	if got := o.Wanted(apply); len(got) != 1 || got[0] != want {
		t.Errorf("applied %v, want %v", got, want)
	}
	if got := append(o.Wanted(advise), o.Wanted(nil)...); len(got) != 0 {
		t.Errorf("only advised, and %v is set", got)
	}
	if problems := o.Problems(config(advise)); len(problems) != 1 || !strings.Contains(problems[0].Text, "tx-udp_tnl-segmentation") {
		t.Errorf("tunnels are damaged: %q must say how to cure that", problems)
	}
	if problems := o.Problems(config(apply)); len(problems) != 0 {
		t.Errorf("cured, and still %q", problems)
	}
	if o.Info(pair, config(nil)) != nil || o.Info(overlay.Pair{}, config(apply)) != nil {
		t.Error("there is information about what is not probed")
	}
	o.begin(offload.Path{Pair: pair, Interface: "eth0"})
	if got := o.Wanted(apply); len(got) != 0 || !o.Info(pair, config(apply)).Pending {
		t.Errorf("a probe begins with the operator's offloads, not with %v", got)
	}
	o.end(pair, offload.Result{}, offload.ErrBusy)
	if p := o.paths[pair]; p.result == nil || p.failed != "" || !p.due.After(time.Now()) {
		t.Errorf("a busy remote is asked again later: %+v", p)
	}
	if got := o.Wanted(apply); len(got) != 1 || !o.Info(pair, config(apply)).Pending {
		t.Errorf("what is in force again is %v, and until the host has it the probe has not ended", got)
	}
	o.settle()
	if o.Info(pair, config(apply)).Pending {
		t.Error("the probe has ended, and is pending")
	}
}
