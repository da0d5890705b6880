package apiserver

import (
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
)

func TestTEPStates(t *testing.T) {
	tep, remote := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	config := overlay.Edge{
		Underlay: overlay.Underlay{Interfaces: []string{"eth0"}, TEP: tep},
		Segments: []overlay.Segment{{Name: "blue", VNI: 100, Remotes: []netip.Addr{remote}}},
	}
	state := host.State{Links: map[string]host.Link{"eth0": {Name: "eth0", Index: 2, MTU: 1550, Up: true}}, Routes: map[overlay.Pair]host.Path{
		{Local: tep, Remote: remote}: {NextHop: host.NextHop{Ifindex: 2, Addr: remote}, Interface: "eth0", MTU: 1550},
	}}
	if got := tepInfo(config, state, netip.MustParseAddr("192.0.2.3")).State; got != "no route" {
		t.Errorf("without a route: %q", got)
	}
	if got := tepInfo(config, state, remote); got.State != "unresolved" || got.NextMAC != "" {
		t.Errorf("without an answer: %+v", got)
	}
}
