package bridge

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

const trunkSpec = `
  segments:
  - {name: a, vni: 100, remotes: REMOTES, gateway: {router: tenant, addresses: [10.0.0.254/24, "fd00:0::fe/64"]}}
  - {name: b, vni: 200, encapsulation: geneve, remotes: REMOTES, gateway: {router: tenant, addresses: [10.1.0.254/24, "fd00:1::fe/64"]}}
  - {name: n, vni: 300, encapsulation: nvgre, remotes: REMOTES}
  routers:
  - name: tenant
  ports:
`

const switchPicture = `
              switch
          e1 /      \ e2
        edge1        edge2
      t0 | trunk    a0 |   | b0
       rack           a2    b2
       br0 of Open vSwitch: eth0, vm10 (tag 10), vm20 (tag 20)`

// A switch that we did not write is behind the trunk, with hosts in its VLANs: the
// kernel of rack, by interfaces of Open vSwitch's userspace datapath.
func TestTrunkOpenVSwitch(t *testing.T) {
	t.Parallel()
	n := harness.NewUnderlay(t, switchPicture, 2, 4)
	a2 := n.Guest("a2", 0, 2, n.Hosts[1], "a0", 1400)
	b2 := n.Guest("b2", 1, 2, n.Hosts[1], "b0", 1400)
	n.Guest("n2", 2, 2, n.Hosts[1], "n0", 1400)
	rack := n.Host("rack")
	n.Must(n.Topo.Link(n.Ctx, topo.LinkEnd{Host: rack, Name: topo.EndName}, topo.LinkEnd{Host: n.Hosts[0], Name: "t0"}, 1500))
	vms := rackSwitch(n, rack)
	// A packet socket, which this switch reads from, gets frames as they are.
	n.Finished(topo.EndName, a2.Host, b2.Host)
	n.Record()
	n.EdgesUp(trunkSpec+"  - {name: t0, interface: t0, segment: n, vlans: [{vlan: 10, segment: a}, {vlan: 20, segment: b}]}\n",
		trunkSpec+"  - {name: a0, interface: a0, segment: a}\n  - {name: b0, interface: b0, segment: b}\n  - {name: n0, interface: n0, segment: n}\n")
	for _, port := range []string{"t0", "t0.10", "t0.20"} {
		n.Fact("port "+port+" is up", func() error { return n.PortState("edge1", port, "up") })
	}
	for i, far := range []harness.Guest{a2, b2} {
		n.Pings(harness.Ways(vms[i], far)...)
		n.LearnedMAC(far.Host, vms[i].Addr(4), vms[i].Ether().String())
	}
	n.Pings(harness.Way(vms[0], b2, 4), harness.Way(b2, vms[0], 6)) // from VLAN 10 by the gateway
	for i, far := range []harness.Guest{a2, b2} {
		n.Transfers(1_000_000, harness.Ways(vms[i], far)...)
	}
	n.NoDrops("no-neighbour", "no-member")
}

// rackSwitch starts Open vSwitch on a host, with the trunk and a host in each VLAN.
func rackSwitch(n *harness.Hub, rack *topo.Host) []harness.Guest {
	n.T.Helper()
	s, err := harness.StartSwitch(n.Ctx, n.Topo, rack)
	n.Must(err)
	args := []string{"add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "--", "add-port", "br0", topo.EndName}
	var vms []harness.Guest
	for subnet, tag := range []int{10, 20} {
		vm := harness.Guest{Host: rack, Subnet: subnet, Number: 1}
		vms = append(vms, vm)
		name := fmt.Sprintf("vm%d", tag)
		args = append(args, "--", "add-port", "br0", name, fmt.Sprintf("tag=%d", tag),
			"--", "set", "interface", name, "type=internal", "mtu_request=1400", fmt.Sprintf("mac=%q", vm.Ether()))
	}
	n.Must(s.Vsctl(n.Ctx, args...))
	for _, vm := range vms {
		name := fmt.Sprintf("vm%d", 10*(vm.Subnet+1))
		n.Must(errors.Join(
			rack.Up(name), rack.AddAddr(name, netip.PrefixFrom(vm.Addr(4), 24)), rack.AddAddr(name, netip.PrefixFrom(vm.Addr(6), 64)),
		))
	}
	n.Must(errors.Join( // vm20 is on the same host: only vm10 uses the gateway
		rack.AddRoute("vm10", netip.MustParsePrefix("10.1.0.2/32"), harness.GatewayAddr(0, 4)),
		rack.AddRoute("vm10", netip.MustParsePrefix("fd00:1::2/128"), harness.GatewayAddr(0, 6)),
	))
	return vms
}
