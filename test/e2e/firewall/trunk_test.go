package firewall

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
)

// Each VLAN of a trunk is a port of its own, which rules name, or select by the trunk's labels or
// by its segment.
var trunkPolicy = policy{options: "default: allow", rules: []string{
	"name: one-vlan, action: drop, appliedTo: [{port: t0.10}], services: [udp/7002]",
	"name: trunk, action: drop, appliedTo: [{port: t0}], services: [udp/7003]",
	"name: labels, action: drop, appliedTo: [{labels: {kind: rack}}], services: [udp/7004]",
	"name: segment, action: drop, from: [{segment: b}], services: [udp/7005]",
	"name: to-vlan, action: drop, to: [{port: t0.20}], services: [udp/7006]",
}}

func TestFirewallTrunk(t *testing.T) {
	t.Parallel()
	n, lanes := harness.NewTrunk(t)
	rack := n.Host("rack")
	n.Must(n.Topo.Link(n.Ctx, topo.LinkEnd{Host: rack, Name: topo.EndName, MAC: harness.RackMAC}, topo.LinkEnd{Host: n.Hosts[0], Name: "t0"}, 1500))
	f, err := harness.OpenFrames(rack, topo.EndName, false)
	n.Must(err)
	defer f.Close()
	spec := strings.TrimSuffix(harness.TrunkSpec, "\n")
	ports := strings.Replace(harness.TrunkPorts, "segment: n,", "segment: n, labels: {kind: rack},", 1)
	n.EdgesUp(spec+ports+trunkPolicy.yaml(), spec+harness.AccessPorts)
	for _, port := range []string{"t0", "t0.10", "t0.20"} {
		n.Fact("port "+port+" is up", func() error { return n.PortState("edge1", port, "up") })
	}
	vlan10, vlan20, untagged := lanes[0], lanes[1], lanes[2]
	for _, c := range []struct {
		lane  harness.Lane
		port  int
		out   bool // from the rack
		drops bool
	}{
		{vlan10, 7001, true, false}, {vlan20, 7001, true, false}, {untagged, 7001, true, false},
		{vlan10, 7001, false, false}, {vlan20, 7001, false, false}, {untagged, 7001, false, false},
		{vlan10, 7002, true, true}, {vlan20, 7002, true, false}, {untagged, 7002, true, false},
		{vlan10, 7002, false, true}, {vlan20, 7002, false, false},
		{vlan10, 7003, true, true}, {vlan20, 7003, true, true}, {untagged, 7003, true, true},
		{vlan10, 7004, true, true}, {vlan20, 7004, false, true}, {untagged, 7004, true, true},
		{vlan10, 7005, true, false}, {vlan20, 7005, true, true}, {vlan20, 7005, false, true},
		{vlan10, 7006, false, false}, {vlan20, 7006, true, false}, {vlan20, 7006, false, true},
	} {
		for _, family := range []int{4, 6} {
			n.Once(fmt.Sprintf("%q port %d from the rack %t is dropped %t, IPv%d", c.lane.Tag, c.port, c.out, c.drops, family), func() error {
				return crosses(f, c.lane, c.port, c.out, !c.drops, family)
			})
		}
	}
}

// crosses sends a datagram between the rack and what is behind edge2, and a frame that is not
// IP behind it.
func crosses(rack *harness.Frames, l harness.Lane, port int, out, want bool, family int) error {
	far, err := harness.OpenFrames(l.Far.Host, topo.EndName, false)
	if err != nil {
		return err
	}
	defer far.Close()
	from, to, src, dst := far, rack, l.Far, l.Rack
	srcMAC, dstMAC := l.Far.Ether(), harness.RackMAC
	leaves, arrives := "", l.Tag
	if out {
		from, to, src, dst = rack, far, l.Rack, l.Far
		srcMAC, dstMAC = harness.RackMAC, l.Far.Ether()
		leaves, arrives = l.Tag, ""
	}
	frame := func(tag, words string) []byte { return pkttest.Frame(srcMAC.String(), dstMAC.String(), tag+words) }
	datagram := fmt.Sprintf("udp %s > %s 100", netip.AddrPortFrom(src.Addr(family), 6000), netip.AddrPortFrom(dst.Addr(family), uint16(port)))
	for _, words := range []string{datagram, "raw 0x88b6 99"} {
		if err := from.Send(frame(leaves, words)); err != nil {
			return err
		}
	}
	got, err := to.Until(
		func(b []byte) bool { return carries(b, frame(arrives, datagram)) },
		func(b []byte) bool { return carries(b, frame(arrives, "raw 0x88b6 99")) })
	if err == nil && (len(got) == 1) != want {
		err = fmt.Errorf("it has come %d times", len(got))
	}
	return err
}
