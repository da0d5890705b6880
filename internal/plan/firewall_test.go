package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/policy"
)

// The firewall stands at ports, with the labels of their trunk, and not at uplinks.
func TestPlaces(t *testing.T) {
	web := map[string]string{"app": "web"}
	e := overlay.Edge{
		Ports: []overlay.Port{
			{Name: "p0", Interface: "veth0", Segment: "blue"},
			{Name: "p1", Interface: "veth1", Segment: "blue", VLANs: []overlay.PortVLAN{{VLAN: 10, Segment: "red"}}, Labels: web},
			{Name: "p2", Interface: "veth2", VLANs: []overlay.PortVLAN{{VLAN: 20, Segment: "red"}}},
		},
		Routers: []overlay.Router{{Name: "r", Uplinks: []overlay.Uplink{{Name: "wan", Interface: "eth1"}}}},
	}
	want := []policy.Place{
		{Name: "p0", Port: "p0", Segment: "blue"},
		{Name: "p1", Port: "p1", Segment: "blue", Labels: web},
		{Name: "p1.10", Port: "p1", Segment: "red", Labels: web},
		{Name: "p2.20", Port: "p2", Segment: "red"},
	}
	if d := cmp.Diff(want, Places(e)); d != "" {
		t.Error(d)
	}
}
