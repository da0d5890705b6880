package plan

import (
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
)

// Which hook a link gets, and that a reason stands where it is not the driver's.
func TestTransitHook(t *testing.T) {
	able := host.XDP{Known: true, Takes: true, Sends: true}
	uplinks := []overlay.Router{{Name: "r", Uplinks: []overlay.Uplink{{Name: "wan", Interface: "eth1"}}}}
	for name, c := range map[string]struct {
		mode    overlay.TransitMode
		routers []overlay.Router
		link    host.Link
		hook    string
		why     string
	}{
		"a card":                       {overlay.TransitAuto, uplinks, host.Link{MTU: 1500, XDP: able}, TransitByNative, ""},
		"no uplinks":                   {overlay.TransitAuto, nil, host.Link{MTU: 1500, XDP: able}, TransitByTC, "no uplinks"},
		"a veth":                       {overlay.TransitAuto, uplinks, host.Link{Kind: "veth", MTU: 1500, XDP: able}, TransitByTC, "segmentation"},
		"a veth, asked for":            {overlay.TransitNative, uplinks, host.Link{Kind: "veth", MTU: 1500, XDP: able}, TransitByNative, ""},
		"native without uplinks":       {overlay.TransitNative, nil, host.Link{MTU: 1500, XDP: able}, TransitByNative, ""},
		"a driver without XDP":         {overlay.TransitNative, uplinks, host.Link{MTU: 1500, XDP: host.XDP{Known: true}}, TransitByTC, "no XDP"},
		"an old kernel":                {overlay.TransitAuto, uplinks, host.Link{MTU: 1500}, TransitByTC, "Linux 6.3"},
		"jumbo frames without buffers": {overlay.TransitAuto, uplinks, host.Link{MTU: 9000, XDP: able}, TransitByTC, "9000"},
		"jumbo frames":                 {overlay.TransitAuto, uplinks, host.Link{MTU: 9000, XDP: host.XDP{Known: true, Takes: true, TakesJumbo: true}}, TransitByNative, ""},
		"hidden tags":                  {overlay.TransitAuto, uplinks, host.Link{MTU: 1500, XDP: host.XDP{Known: true, Takes: true, HidesTags: true}}, TransitByTC, "rxvlan off"},
		"hidden tags that are told":    {overlay.TransitAuto, uplinks, host.Link{MTU: 1500, XDP: host.XDP{Known: true, Takes: true, HidesTags: true, TellsTags: true}}, TransitByNative, ""},
		"generic":                      {overlay.TransitGeneric, uplinks, host.Link{Kind: "bridge", MTU: 1500}, TransitByGeneric, "generic"},
		"tc":                           {overlay.TransitTC, uplinks, host.Link{MTU: 1500, XDP: able}, TransitByTC, "transit.mode is tc"},
	} {
		e := overlay.Edge{Transit: overlay.Transit{Mode: c.mode}, Routers: c.routers}
		hook, why := TransitHook(e, c.link)
		if hook != c.hook || !strings.Contains(why, c.why) || (why == "") != (c.why == "") {
			t.Errorf("%s: %s (%s), want %s (%s)", name, hook, why, c.hook, c.why)
		}
	}
}

// An interface in both roles has one program; one that takes redirected packets is an
// exit even where tc takes its own.
func TestDesiredTransit(t *testing.T) {
	e := overlay.Edge{
		Underlay: overlay.Underlay{Interfaces: []string{"eth0"}},
		Routers: []overlay.Router{{Name: "r", Uplinks: []overlay.Uplink{
			{Name: "a", Interface: "eth0", VLAN: 10}, {Name: "b", Interface: "eth0", VLAN: 20}, {Name: "c", Interface: "veth0"}, {Name: "d", Interface: "gone"},
		}}},
	}
	v := host.State{Links: map[string]host.Link{
		"eth0":  {Name: "eth0", Index: 2, MTU: 1500, XDP: host.XDP{Known: true, Takes: true, HidesTags: true, TellsTags: true}},
		"veth0": {Name: "veth0", Index: 3, Kind: "veth", MTU: 1500, XDP: host.XDP{Known: true, Takes: true, Sends: true, CsumPartial: true}},
	}}
	transit, exits, problems := desiredTransit(e, v)
	if len(transit) != 1 || !transit[0].Underlay || !transit[0].Uplink || !transit[0].AsksTags || transit[0].CsumPartial || transit[0].Ifindex != 2 {
		t.Errorf("programs %+v", transit)
	}
	if len(exits) != 1 || exits[0] != 3 || len(problems) != 0 {
		t.Errorf("exits %v, problems %v", exits, problems)
	}
	e.Transit.Mode = overlay.TransitNative
	if transit, _, problems = desiredTransit(e, v); len(transit) != 2 || !transit[1].CsumPartial || len(problems) != 0 {
		t.Errorf("with native programs %+v, problems %v", transit, problems)
	}
}
