package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/selvage/selvage/internal/overlay"
)

// What a port says of its limits goes before what the edge says of all ports, and that before
// the defaults, which are parts of the tables.
func TestPortLimits(t *testing.T) {
	e := parseEdge(t, header+`spec:
  underlay: {interfaces: [eth0], tep: 192.0.2.1}
  fdb: {size: 1000}
  limits: {mode: observe, port: {macs: 10, broadcast: 20}, segment: {macs: 0}}
  segments:
    - {name: blue, vni: 100}
    - {name: red, vni: 200, limits: {mode: enforce, multicast: 30}}
  ports:
    - {name: a, interface: a0, segment: blue}
    - {name: b, interface: b0, segment: blue, limits: {macs: 0, neighbours: 5}}
`)
	port, segment := e.DefaultPortLimits(), e.DefaultSegmentLimits()
	if port.MACs != 250 || port.Flows != 65536 || port.Connections != 0 || segment.MACs != 500 {
		t.Errorf("defaults %+v and %+v", port, segment)
	}
	port.Observe, port.MACs, port.Broadcast = true, 10, 20
	segment.Observe, segment.MACs = true, 0
	b, red := port, segment
	b.MACs, b.Neighbours = 0, 5
	red.Observe, red.Multicast = false, 30
	for i, want := range []overlay.Limits{port, b} {
		if diff := cmp.Diff(want, e.Ports[i].Limits); diff != "" {
			t.Errorf("port %s: %s", e.Ports[i].Name, diff)
		}
	}
	for i, want := range []overlay.Limits{segment, red} {
		if diff := cmp.Diff(want, e.Segments[i].Limits); diff != "" {
			t.Errorf("segment %s: %s", e.Segments[i].Name, diff)
		}
	}
}
