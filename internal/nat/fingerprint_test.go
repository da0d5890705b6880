package nat

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
)

// What has to be alike on all gateways changes a fingerprint, and what is an edge's own does not.
func TestFingerprints(t *testing.T) {
	addr := netip.MustParseAddr
	group := overlay.GatewayGroup{Name: "gws", Mode: overlay.ActiveActive, Members: []netip.Addr{addr("192.0.2.1"), addr("192.0.2.2")}}
	policies := func() []overlay.EgressPolicy {
		pool := []overlay.AddrRange{{First: addr("198.51.100.1"), Last: addr("198.51.100.9")}}
		return []overlay.EgressPolicy{
			{Name: "web", Router: "r", VNI: 1, Gateways: "gws", Pool: pool, Uplink: "wan"},
			{Name: "db", Router: "r", VNI: 2, Gateways: "gws", Pool: pool},
			{Name: "other", Gateways: "others"},
		}
	}
	was := Fingerprints(group, policies())
	if len(was) != 3 {
		t.Fatalf("%d fingerprints, want those of the group and two policies", len(was))
	}
	for what, c := range map[string]struct {
		change func(*overlay.GatewayGroup, []overlay.EgressPolicy)
		want   []string
	}{
		"nothing":           {func(*overlay.GatewayGroup, []overlay.EgressPolicy) {}, nil},
		"order of members":  {func(g *overlay.GatewayGroup, _ []overlay.EgressPolicy) { slices.Reverse(g.Members) }, []string{"group gws"}},
		"mode":              {func(g *overlay.GatewayGroup, _ []overlay.EgressPolicy) { g.Mode = overlay.ActiveStandby }, []string{"group gws"}},
		"order of policies": {func(_ *overlay.GatewayGroup, p []overlay.EgressPolicy) { p[0], p[1] = p[1], p[0] }, []string{"group gws"}},
		"pool":              {func(_ *overlay.GatewayGroup, p []overlay.EgressPolicy) { p[1].Pool = nil }, []string{"policy db"}},
		"address pooling":   {func(_ *overlay.GatewayGroup, p []overlay.EgressPolicy) { p[0].PerConnection = true }, []string{"policy web"}},
		"another's policy":  {func(_ *overlay.GatewayGroup, p []overlay.EgressPolicy) { p[2].Router = "r" }, nil},
		"uplink and remotes": {func(_ *overlay.GatewayGroup, p []overlay.EgressPolicy) {
			p[0].Uplink, p[0].Remotes = "eth", group.Members
		}, nil},
		"key": {func(g *overlay.GatewayGroup, _ []overlay.EgressPolicy) {
			g.Replication = &overlay.Replication{Key: []byte("k")}
		}, nil},
	} {
		g, p := group, policies()
		g.Members = slices.Clone(g.Members)
		c.change(&g, p)
		now := Fingerprints(g, p)
		var differ []string
		for name, hash := range was {
			if now[name] != hash {
				differ = append(differ, name)
			}
		}
		if !slices.Equal(differ, c.want) {
			t.Errorf("%s: %q differ, want %q", what, differ, c.want)
		}
	}
}
