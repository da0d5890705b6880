package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
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
	n, lanes := newTrunk(t)
	rack := n.host("rack")
	n.must(n.lab.Link(n.ctx, topo.LinkEnd{Host: rack, Name: topo.EndName, MAC: rackMAC}, topo.LinkEnd{Host: n.hosts[0], Name: "t0"}, 1500))
	f, err := openFrames(rack, topo.EndName, false)
	n.must(err)
	defer f.close()
	spec := strings.TrimSuffix(trunkSpec, "\n")
	ports := strings.Replace(trunkPorts, "segment: n,", "segment: n, labels: {kind: rack},", 1)
	n.edgesUp(spec+ports+trunkPolicy.yaml(), spec+accessPorts)
	for _, port := range []string{"t0", "t0.10", "t0.20"} {
		n.fact("port "+port+" is up", func() error { return n.portState("edge1", port, "up") })
	}
	vlan10, vlan20, untagged := lanes[0], lanes[1], lanes[2]
	for _, c := range []struct {
		lane  lane
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
			n.once(fmt.Sprintf("%q port %d from the rack %t is dropped %t, IPv%d", c.lane.tag, c.port, c.out, c.drops, family), func() error {
				return n.crosses(f, c.lane, c.port, c.out, !c.drops, family)
			})
		}
	}
}

// crosses sends a datagram between the rack and what is behind edge2, and a frame that is not
// IP behind it.
func (n *hub) crosses(rack *frames, l lane, port int, out, want bool, family int) error {
	far, err := openFrames(l.far.Host, topo.EndName, false)
	if err != nil {
		return err
	}
	defer far.close()
	from, to, src, dst := far, rack, l.far, l.rack
	srcMAC, dstMAC := l.far.mac(), rackMAC
	leaves, arrives := "", l.tag
	if out {
		from, to, src, dst = rack, far, l.rack, l.far
		srcMAC, dstMAC = rackMAC, l.far.mac()
		leaves, arrives = l.tag, ""
	}
	frame := func(tag, words string) []byte { return pkttest.Frame(srcMAC.String(), dstMAC.String(), tag+words) }
	datagram := fmt.Sprintf("udp %s > %s 100", netip.AddrPortFrom(src.addr(family), 6000), netip.AddrPortFrom(dst.addr(family), uint16(port)))
	for _, words := range []string{datagram, "raw 0x88b6 99"} {
		if err := from.send(frame(leaves, words)); err != nil {
			return err
		}
	}
	got, err := to.until(
		func(b []byte) bool { return carries(b, frame(arrives, datagram)) },
		func(b []byte) bool { return carries(b, frame(arrives, "raw 0x88b6 99")) })
	if err == nil && (len(got) == 1) != want {
		err = fmt.Errorf("it has come %d times", len(got))
	}
	return err
}
