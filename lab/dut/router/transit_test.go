package router_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/lab/dut/router"
	"github.com/selvage/selvage/test/testlab"
)

func newTransit(t *testing.T, o router.Options) *router.Transit {
	t.Helper()
	n, err := router.NewTransit(t.Context(), testlab.New(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Forwarders follow each other on one device, and the last leaves it as it was.
func TestForwardersInTurn(t *testing.T) {
	t.Parallel()
	for _, o := range []router.Options{{}, {Pairs: 2, Family: 6, UnderlayFamily: 6, Routes: 40}} {
		t.Run(fmt.Sprintf("%d pairs", max(1, o.Pairs)), func(t *testing.T) {
			n := newTransit(t, o)
			facts := func() string {
				var b strings.Builder
				for _, argv := range [][]string{{"ip", "-br", "addr"}, {"ip", "route"}, {"ip", "-6", "route", "show", "table", "main"}} {
					out, err := n.Device.Output(t.Context(), argv...)
					if err != nil {
						t.Fatal(err)
					}
					b.Write(out)
				}
				return b.String()
			}
			// An interface that had IPv6 once keeps a link-local address.
			first := ""
			for range 2 {
				for _, f := range []router.Forwarder{router.Limit{}, router.Kernel{}, router.Kernel{Plain: true}, router.OVS{}} {
					running, err := n.Start(t.Context(), f)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := n.Start(t.Context(), f); err == nil {
						t.Errorf("%s: two forwarders are up at once", f.Describe())
					}
					if running.Drops != nil {
						if _, err := running.Drops(t.Context()); err != nil {
							t.Errorf("%s: %v", f.Describe(), err)
						}
					}
					if err := n.Stop(); err != nil {
						t.Fatal(err)
					}
				}
				if first == "" {
					first = facts()
				}
			}
			if last := facts(); last != first {
				t.Errorf("after all again:\n%s\nand after all once:\n%s", last, first)
			}
		})
	}
}

func TestTransitOptions(t *testing.T) {
	lab := testlab.New(t)
	for _, tt := range []struct {
		options router.Options
		want    string
	}{
		{router.Options{Pairs: 3}, "choose 1 or 2"},
		{router.Options{Family: 5}, "choose 4 or 6"},
		{router.Options{UnderlayFamily: 7}, "choose 4 or 6"},
		{router.Options{Routes: 5000}, "0 to 1024"},
	} {
		if _, err := router.NewTransit(t.Context(), lab, tt.options); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want %q in it", tt.options, err, tt.want)
		}
	}
}

// The edge's configuration is one that an edge takes, and says what the tester expects.
func TestTransitConfig(t *testing.T) {
	t.Parallel()
	n := newTransit(t, router.Options{Pairs: 2, Routes: 1000})
	for _, o := range []router.Selvage{{}, {Encapsulation: overlay.NVGRE, NoFlowCache: true}, {FlowCacheSize: 1 << 20}} {
		text := o.Config("edge1", n)
		e, err := config.Parse("edge1.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		r := e.Routers[0]
		if len(r.Routes) != 2002 || len(r.Uplinks) != 2 || len(r.L3.Remotes) != 2 || e.FlowCache.Enabled == o.NoFlowCache {
			t.Errorf("%d routes, uplinks %v, remotes %v, %+v", len(r.Routes), r.Uplinks, r.L3.Remotes, e.FlowCache)
		}
		for _, route := range r.Routes {
			if len(route.Via) != 2 || (!n.Inside.Contains(route.Prefix.Addr()) && !n.Outside.Contains(route.Prefix.Addr())) {
				t.Errorf("route %+v", route)
			}
		}
		if o.FlowCacheSize != 0 && int(e.FlowCache.Size) != o.FlowCacheSize {
			t.Errorf("flow cache %+v", e.FlowCache)
		}
		if e.Underlay.TEP != netip.MustParseAddr("192.0.2.1") || len(e.Underlay.Interfaces) != 2 {
			t.Errorf("underlay %+v", e.Underlay)
		}
	}
}
