package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
	"github.com/selvage/selvage/test/tier"
)

// trunkUp starts both edges.
func trunkUp(n *harness.Hub) {
	n.T.Helper()
	spec := strings.TrimSuffix(harness.TrunkSpec, "\n")
	n.EdgesUp(spec+harness.TrunkPorts, spec+harness.AccessPorts)
	for _, port := range []string{"t0", "t0.10", "t0.20"} {
		n.Fact("port "+port+" is up", func() error { return n.PortState("edge1", port, "up") })
	}
}

func TestTrunk(t *testing.T) {
	t.Run("Veth", func(t *testing.T) {
		t.Parallel()
		n, lanes := harness.NewTrunk(t)
		rack := n.Host("rack")
		n.Must(n.Topo.Link(n.Ctx, topo.LinkEnd{Host: rack, Name: topo.EndName, MAC: harness.RackMAC}, topo.LinkEnd{Host: n.Hosts[0], Name: "t0"}, 1500))
		n.Record()
		f, err := harness.OpenFrames(rack, topo.EndName, false)
		n.Must(err)
		defer f.Close()
		trunkUp(n)
		trunkWorks(n, f, lanes)
	})
	t.Run("Tap", func(t *testing.T) {
		t.Parallel()
		n, lanes := harness.NewTrunk(t)
		tap, err := harness.OpenTap(n.Hosts[0], "t0", false)
		n.Must(err)
		defer tap.Close()
		n.Must(errors.Join(n.Hosts[0].DisableIPv6("t0"), n.Hosts[0].Up("t0")))
		n.Record()
		trunkUp(n)
		trunkWorks(n, &harness.Frames{File: tap, Name: "t0", Tap: true}, lanes)
	})
}

// trunkWorks: each VLAN is its own segment, in both directions.
func trunkWorks(n *harness.Hub, f *harness.Frames, lanes []harness.Lane) {
	n.T.Helper()
	for _, l := range lanes {
		n.Fact(fmt.Sprintf("%q: ARP is answered", l.Tag), func() error {
			words := fmt.Sprintf("%sarp %s ? %s", l.Tag, l.Rack.Addr(4), l.Far.Addr(4))
			answer := fmt.Sprintf("%sarp %s ! %s", l.Tag, l.Far.Addr(4), l.Rack.Addr(4))
			return exchange(f, pkttest.Frame(harness.RackMAC.String(), harness.Broadcast, words), pkttest.Frame(l.Far.Ether().String(), harness.RackMAC.String(), answer))
		})
		for _, size := range []int{1, 56, 1000, 1350} {
			n.Fact(fmt.Sprintf("%q: ping of %d bytes is answered", l.Tag, size), func() error { return pingByHand(f, l, size) })
		}
		n.Fact(fmt.Sprintf("%q: a datagram of any length arrives as it was", l.Tag), func() error { return intoLane(f, l) })
	}
	n.Fact("VLAN 10 does not reach VLAN 20", func() error { return lanesApart(f, lanes) })
	n.Fact("the gateway routes from VLAN 10 to VLAN 20 on the same wire", func() error { return routeByHand(f, lanes[0], lanes[1]) })
	n.NoDrops("no-neighbour", "no-member")
	n.Once("a VLAN that is not configured is sent", func() error {
		return f.Send(pkttest.Frame(harness.RackMAC.String(), harness.Broadcast, "vlan 30 arp 10.0.0.7 ? 10.0.0.2"))
	})
	n.Fact("it is dropped as vlan-tagged", func() error { return dropped(n.Network, "edge1", "vlan-tagged", 1) })
}

// exchange sends a frame and waits for exactly another, but for padding.
func exchange(f *harness.Frames, question, answer []byte) error {
	if err := f.Send(question); err != nil {
		return err
	}
	return expect(f, answer)
}

// expect waits a second for a frame that starts as this one.
func expect(f *harness.Frames, frame []byte) error {
	deadline := time.Now().Add(time.Second)
	var others []string
	for {
		got, err := f.Next(deadline)
		if err != nil {
			return fmt.Errorf("%s: %w, want %x, got %s", f.Name, err, frame[:min(len(frame), 80)], strings.Join(others, " "))
		}
		// A tag makes the padded frame longer than Ethernet's minimum.
		if bytes.HasPrefix(got, frame) && len(got) <= max(len(frame), harness.MinFrame+8) {
			return nil
		}
		if others = append(others, fmt.Sprintf("%x", got[:min(len(got), 80)])); len(others) > 5 {
			others = others[1:]
		}
	}
}

// pingByHand sends an echo request and wants the reply, with right checksums and tag.
func pingByHand(f *harness.Frames, l harness.Lane, size int) error {
	words := fmt.Sprintf("%sicmp %s > %s %d", l.Tag, l.Rack.Addr(4), l.Far.Addr(4), size)
	if err := f.Send(pkttest.Frame(harness.RackMAC.String(), l.Far.Ether().String(), words)); err != nil {
		return err
	}
	reply := pkttest.Frame(l.Far.Ether().String(), harness.RackMAC.String(), fmt.Sprintf("%sicmp %s > %s 0/0 %d", l.Tag, l.Far.Addr(4), l.Rack.Addr(4), size))
	ethernet := len(reply) - size - 28
	deadline := time.Now().Add(time.Second)
	for {
		got, err := f.Next(deadline)
		if err != nil {
			return err
		}
		if len(got) < ethernet+28 || !bytes.Equal(got[:ethernet], reply[:ethernet]) || got[ethernet+9] != pkttest.ProtoICMP {
			continue
		}
		if d := pkttest.Dissect(got); len(d.Faults) > 0 {
			return d.Faults[0]
		}
		if len(got) != max(len(reply), min(len(got), harness.MinFrame)) {
			return fmt.Errorf("the reply has %d bytes, want %d", len(got), len(reply))
		}
		return nil
	}
}

// intoLane has the far guest send to rack, and looks at each frame's tag.
func intoLane(f *harness.Frames, l harness.Lane) error {
	out, err := harness.OpenFrames(l.Far.Host, topo.EndName, false)
	if err != nil {
		return err
	}
	defer out.Close()
	for _, size := range []int{0, 18, 500, 1400} {
		words := fmt.Sprintf("udp %s > %s %d", net.JoinHostPort(l.Far.Addr(4).String(), "1000"), net.JoinHostPort(l.Rack.Addr(4).String(), "2000"), size)
		if err := out.Send(pkttest.Frame(l.Far.Ether().String(), harness.RackMAC.String(), words)); err != nil {
			return err
		}
		if err := expect(f, pkttest.Frame(l.Far.Ether().String(), harness.RackMAC.String(), l.Tag+words)); err != nil {
			return fmt.Errorf("datagram of %d bytes: %w", size, err)
		}
	}
	return nil
}

// lanesApart: a marked broadcast in one VLAN is seen by that one's guest alone.
func lanesApart(f *harness.Frames, lanes []harness.Lane) error {
	var ends []*harness.Frames
	for _, l := range lanes {
		in, err := harness.OpenFrames(l.Far.Host, topo.EndName, false)
		if err != nil {
			return err
		}
		defer in.Close()
		ends = append(ends, in)
	}
	for i, l := range lanes {
		mark := fmt.Sprintf("mark of lane %d", i)
		if err := f.Send(harness.TagFrame(harness.Marked(harness.RackMAC, harness.BroadcastMAC, mark), l.Tag)); err != nil {
			return err
		}
	}
	for i, in := range ends {
		got, err := in.Until(harness.Has("mark of lane"), harness.Has(fmt.Sprintf("mark of lane %d", i)))
		if err == nil && len(got) > 0 {
			err = fmt.Errorf("end of lane %d has %x", i, got)
		}
		if err != nil {
			return err
		}
		if late, err := in.Next(time.Now().Add(50 * time.Millisecond)); err == nil && harness.Has("mark of lane")(late) {
			return fmt.Errorf("end of lane %d has %x", i, late)
		}
	}
	return nil
}

// routeByHand: the edge asks for the next hop in one VLAN and then sends there
// what came by the other.
func routeByHand(f *harness.Frames, from, to harness.Lane) error {
	to.Rack.Number = 8 // of whom nobody has heard
	words := func(ttl int) string {
		return fmt.Sprintf("ttl %d icmp %s > %s 56", ttl, from.Rack.Addr(4), to.Rack.Addr(4))
	}
	packet := pkttest.Frame(harness.RackMAC.String(), harness.GatewayMAC, from.Tag+words(64))
	if err := f.Send(packet); err != nil {
		return err
	}
	gateway := harness.GatewayAddr(to.Rack.Subnet, 4)
	request := pkttest.Frame(harness.GatewayMAC, harness.Broadcast, fmt.Sprintf("%sarp %s ? %s", to.Tag, gateway, to.Rack.Addr(4)))
	if err := expect(f, request); err != nil {
		return err
	}
	reply := pkttest.Frame(harness.RackMAC.String(), harness.GatewayMAC, fmt.Sprintf("%sarp %s ! %s", to.Tag, to.Rack.Addr(4), gateway))
	if err := errors.Join(f.Send(reply), f.Send(packet)); err != nil {
		return err
	}
	return expect(f, pkttest.Frame(harness.GatewayMAC, harness.RackMAC.String(), to.Tag+words(63)))
}

const qinqPicture = `
              switch
          e1 /      \ e2
        edge1        edge2
      t0 |            | p0
        rack        far       all in the hands of the test`

// Tags inside a tunnel: what is below the port's own VLAN passes as it is.
func TestTrunkQinQ(t *testing.T) {
	for _, encapsulation := range []string{"vxlan", "geneve", "nvgre"} {
		t.Run(encapsulation, func(t *testing.T) {
			if encapsulation != "nvgre" {
				tier.Long(t, "TestTrunkQinQ/nvgre; tags in the others TestTsharkEncapsulations")
			}
			t.Parallel()
			n := harness.NewUnderlay(t, qinqPicture, 2, 4)
			rack, far := n.Host("rack"), n.Host("far")
			n.Must(n.Topo.Link(n.Ctx, topo.LinkEnd{Host: rack, Name: topo.EndName, MAC: harness.RackMAC}, topo.LinkEnd{Host: n.Hosts[0], Name: "t0"}, 1500))
			n.Must(n.Topo.Link(n.Ctx, topo.LinkEnd{Host: far, Name: topo.EndName, MAC: harness.EndMAC(2)}, topo.LinkEnd{Host: n.Hosts[1], Name: "p0"}, 1500))
			n.Record()
			spec := strings.ReplaceAll(`
  segments:
  - {name: q, vni: 100, encapsulation: ENCAP, vlanTransparent: true, remotes: REMOTES}
  ports:
`, "ENCAP", encapsulation)
			n.EdgesUp(spec+"  - {name: t0, interface: t0, vlans: [{vlan: 10, segment: q}]}\n", spec+"  - {name: p0, interface: p0, segment: q}\n")
			a, err := harness.OpenFrames(rack, topo.EndName, false)
			n.Must(err)
			defer a.Close()
			b, err := harness.OpenFrames(far, topo.EndName, false)
			n.Must(err)
			defer b.Close()
			for _, inner := range []string{"", "vlan 7 ", "svlan 7 "} {
				for _, words := range []string{"raw 0x88b5 100", "udp 10.0.0.1:1000 > 10.0.0.2:2000 1300", "udp [fd00::1]:1000 > [fd00::2]:2000 0", "arp 10.0.0.1 ? 10.0.0.9"} {
					there := pkttest.Frame(harness.RackMAC.String(), harness.EndMAC(2).String(), inner+words)
					back := pkttest.Frame(harness.EndMAC(2).String(), harness.RackMAC.String(), inner+words)
					n.Fact(fmt.Sprintf("%s%s passes to the far side", inner, words), func() error {
						return errors.Join(a.Send(harness.TagFrame(there, "vlan 10")), expect(b, there))
					})
					n.Fact(fmt.Sprintf("%s%s passes to the trunk", inner, words), func() error {
						return errors.Join(b.Send(back), expect(a, harness.TagFrame(back, "vlan 10")))
					})
				}
			}
			n.NoDrops()
		})
	}
}

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
	trunkUp(n)
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
