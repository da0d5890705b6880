package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/pkttest"
)

const trunkPicture = `
              switch
          e1 /      \ e2
        edge1        edge2
      t0 | trunk    a0 | b0 | n0
        rack          a2   b2   n2
   VLAN 10 (a), VLAN 20 (b), untagged (n)
   10.0.0.7    10.1.0.7      10.2.0.7, all of rack's are in the hands of the test`

const trunkSpec = `
  segments:
  - {name: a, vni: 100, remotes: REMOTES, gateway: {router: tenant, addresses: [10.0.0.254/24, "fd00:0::fe/64"]}}
  - {name: b, vni: 200, encapsulation: geneve, remotes: REMOTES, gateway: {router: tenant, addresses: [10.1.0.254/24, "fd00:1::fe/64"]}}
  - {name: n, vni: 300, encapsulation: nvgre, remotes: REMOTES}
  routers:
  - name: tenant
  ports:
`

const (
	trunkPorts = `
  - {name: t0, interface: t0, segment: n, vlans: [{vlan: 10, segment: a}, {vlan: 20, segment: b}]}
`
	accessPorts = `
  - {name: a0, interface: a0, segment: a}
  - {name: b0, interface: b0, segment: b}
  - {name: n0, interface: n0, segment: n}
`
)

// lane is one VLAN of a trunk.
type lane struct {
	tag  string // in words, "" for none
	far  guest  // behind the other edge
	rack guest  // what the test plays; it has no host
}

// rackMAC is the one address of rack in every VLAN.
var rackMAC = net.HardwareAddr{2, 0, 0, 0, 9, 7}

// newTrunk is both hosts and what is behind edge2; nothing runs.
func newTrunk(t *testing.T) (*hub, []lane) {
	t.Helper()
	n := newUnderlay(t, trunkPicture, 2, 4)
	var lanes []lane
	for subnet, tag := range []string{"vlan 10 ", "vlan 20 ", ""} {
		name := string("abn"[subnet])
		lanes = append(lanes, lane{tag, n.guest(name+"2", subnet, 2, n.hosts[1], name+"0", 1430), guest{nil, subnet, 7}})
	}
	return n, lanes
}

// trunkUp starts both edges.
func (n *hub) trunkUp() {
	n.t.Helper()
	spec := strings.TrimSuffix(trunkSpec, "\n")
	n.edgesUp(spec+trunkPorts, spec+accessPorts)
	for _, port := range []string{"t0", "t0.10", "t0.20"} {
		n.fact("port "+port+" is up", func() error { return n.portState("edge1", port, "up") })
	}
}

func TestTrunk(t *testing.T) {
	t.Run("Veth", func(t *testing.T) {
		n, lanes := newTrunk(t)
		rack := n.host("rack")
		n.must(n.lab.Link(n.ctx, topo.LinkEnd{Host: rack, Name: topo.EndName, MAC: rackMAC}, topo.LinkEnd{Host: n.hosts[0], Name: "t0"}, 1500))
		n.record()
		f, err := openFrames(rack, topo.EndName, false)
		n.must(err)
		defer f.close()
		n.trunkUp()
		n.trunkWorks(f, lanes)
	})
	t.Run("Tap", func(t *testing.T) {
		n, lanes := newTrunk(t)
		tap, err := openTap(n.hosts[0], "t0", false)
		n.must(err)
		defer tap.Close()
		n.must(errors.Join(n.hosts[0].DisableIPv6("t0"), n.hosts[0].Up("t0")))
		n.record()
		n.trunkUp()
		n.trunkWorks(&frames{file: tap, name: "t0", tap: true}, lanes)
	})
}

// trunkWorks: each VLAN is its own segment, in both directions.
func (n *hub) trunkWorks(f *frames, lanes []lane) {
	n.t.Helper()
	for _, l := range lanes {
		n.fact(fmt.Sprintf("%q: ARP is answered", l.tag), func() error {
			words := fmt.Sprintf("%sarp %s ? %s", l.tag, l.rack.addr(4), l.far.addr(4))
			answer := fmt.Sprintf("%sarp %s ! %s", l.tag, l.far.addr(4), l.rack.addr(4))
			return exchange(f, pkttest.Frame(rackMAC.String(), broadcast, words), pkttest.Frame(l.far.mac().String(), rackMAC.String(), answer))
		})
		for _, size := range []int{1, 56, 1000, 1350} {
			n.fact(fmt.Sprintf("%q: ping of %d bytes is answered", l.tag, size), func() error { return pingByHand(f, l, size) })
		}
		n.fact(fmt.Sprintf("%q: a datagram of any length arrives as it was", l.tag), func() error { return n.intoLane(f, l) })
	}
	n.fact("VLAN 10 does not reach VLAN 20", func() error { return n.lanesApart(f, lanes) })
	n.fact("the gateway routes from VLAN 10 to VLAN 20 on the same wire", func() error { return routeByHand(f, lanes[0], lanes[1]) })
	n.noDrops("no-neighbour", "no-member")
	n.once("a VLAN that is not configured is sent", func() error {
		return f.send(pkttest.Frame(rackMAC.String(), broadcast, "vlan 30 arp 10.0.0.7 ? 10.0.0.2"))
	})
	n.fact("it is dropped as vlan-tagged", func() error { return n.dropped("edge1", "vlan-tagged", 1) })
}

// exchange sends a frame and waits for exactly another, but for padding.
func exchange(f *frames, question, answer []byte) error {
	if err := f.send(question); err != nil {
		return err
	}
	return f.expect(answer)
}

// expect waits a second for a frame that starts as this one.
func (f *frames) expect(frame []byte) error {
	deadline := time.Now().Add(time.Second)
	var others []string
	for {
		got, err := f.next(deadline)
		if err != nil {
			return fmt.Errorf("%s: %w, want %x, got %s", f.name, err, frame[:min(len(frame), 80)], strings.Join(others, " "))
		}
		// A tag makes the padded frame longer than Ethernet's minimum.
		if bytes.HasPrefix(got, frame) && len(got) <= max(len(frame), minFrame+8) {
			return nil
		}
		if others = append(others, fmt.Sprintf("%x", got[:min(len(got), 80)])); len(others) > 5 {
			others = others[1:]
		}
	}
}

// pingByHand sends an echo request and wants the reply, with right checksums and tag.
func pingByHand(f *frames, l lane, size int) error {
	words := fmt.Sprintf("%sicmp %s > %s %d", l.tag, l.rack.addr(4), l.far.addr(4), size)
	if err := f.send(pkttest.Frame(rackMAC.String(), l.far.mac().String(), words)); err != nil {
		return err
	}
	reply := pkttest.Frame(l.far.mac().String(), rackMAC.String(), fmt.Sprintf("%sicmp %s > %s 0/0 %d", l.tag, l.far.addr(4), l.rack.addr(4), size))
	ethernet := len(reply) - size - 28
	deadline := time.Now().Add(time.Second)
	for {
		got, err := f.next(deadline)
		if err != nil {
			return err
		}
		if len(got) < ethernet+28 || !bytes.Equal(got[:ethernet], reply[:ethernet]) || got[ethernet+9] != pkttest.ProtoICMP {
			continue
		}
		if d := pkttest.Dissect(got); len(d.Faults) > 0 {
			return d.Faults[0]
		}
		if len(got) != max(len(reply), min(len(got), minFrame)) {
			return fmt.Errorf("the reply has %d bytes, want %d", len(got), len(reply))
		}
		return nil
	}
}

// intoLane has the far guest send to rack, and looks at each frame's tag.
func (n *hub) intoLane(f *frames, l lane) error {
	out, err := openFrames(l.far.Host, topo.EndName, false)
	if err != nil {
		return err
	}
	defer out.close()
	for _, size := range []int{0, 18, 500, 1400} {
		words := fmt.Sprintf("udp %s > %s %d", net.JoinHostPort(l.far.addr(4).String(), "1000"), net.JoinHostPort(l.rack.addr(4).String(), "2000"), size)
		if err := out.send(pkttest.Frame(l.far.mac().String(), rackMAC.String(), words)); err != nil {
			return err
		}
		if err := f.expect(pkttest.Frame(l.far.mac().String(), rackMAC.String(), l.tag+words)); err != nil {
			return fmt.Errorf("datagram of %d bytes: %w", size, err)
		}
	}
	return nil
}

// lanesApart: a marked broadcast in one VLAN is seen by that one's guest alone.
func (n *hub) lanesApart(f *frames, lanes []lane) error {
	var ends []*frames
	for _, l := range lanes {
		in, err := openFrames(l.far.Host, topo.EndName, false)
		if err != nil {
			return err
		}
		defer in.close()
		ends = append(ends, in)
	}
	for i, l := range lanes {
		mark := fmt.Sprintf("mark of lane %d", i)
		if err := f.send(tagFrame(marked(rackMAC, broadcastMAC, mark), l.tag)); err != nil {
			return err
		}
	}
	for i, in := range ends {
		got, err := in.until(has("mark of lane"), has(fmt.Sprintf("mark of lane %d", i)))
		if err == nil && len(got) > 0 {
			err = fmt.Errorf("end of lane %d has %x", i, got)
		}
		if err != nil {
			return err
		}
		if late, err := in.next(time.Now().Add(50 * time.Millisecond)); err == nil && has("mark of lane")(late) {
			return fmt.Errorf("end of lane %d has %x", i, late)
		}
	}
	return nil
}

// tagFrame puts the tags that the words name into a frame: "svlan 5 vlan 7 ".
func tagFrame(frame []byte, words string) []byte {
	var tags []byte
	f := strings.Fields(words)
	for i := 0; i+1 < len(f); i += 2 {
		tpid := map[string]uint16{"vlan": 0x8100, "svlan": 0x88a8}[f[i]]
		var vid uint16
		if _, err := fmt.Sscan(f[i+1], &vid); err != nil {
			panic(err)
		}
		tags = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(tags, tpid), vid)
	}
	return append(append(append([]byte{}, frame[:12]...), tags...), frame[12:]...)
}

// routeByHand: the edge asks for the next hop in one VLAN and then sends there
// what came by the other.
func routeByHand(f *frames, from, to lane) error {
	to.rack.number = 8 // of whom nobody has heard
	words := func(ttl int) string {
		return fmt.Sprintf("ttl %d icmp %s > %s 56", ttl, from.rack.addr(4), to.rack.addr(4))
	}
	packet := pkttest.Frame(rackMAC.String(), gatewayMAC, from.tag+words(64))
	if err := f.send(packet); err != nil {
		return err
	}
	gateway := gatewayAddr(to.rack.subnet, 4)
	request := pkttest.Frame(gatewayMAC, broadcast, fmt.Sprintf("%sarp %s ? %s", to.tag, gateway, to.rack.addr(4)))
	if err := f.expect(request); err != nil {
		return err
	}
	reply := pkttest.Frame(rackMAC.String(), gatewayMAC, fmt.Sprintf("%sarp %s ! %s", to.tag, to.rack.addr(4), gateway))
	if err := errors.Join(f.send(reply), f.send(packet)); err != nil {
		return err
	}
	return f.expect(pkttest.Frame(gatewayMAC, rackMAC.String(), to.tag+words(63)))
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
			n := newUnderlay(t, qinqPicture, 2, 4)
			rack, far := n.host("rack"), n.host("far")
			n.must(n.lab.Link(n.ctx, topo.LinkEnd{Host: rack, Name: topo.EndName, MAC: rackMAC}, topo.LinkEnd{Host: n.hosts[0], Name: "t0"}, 1500))
			n.must(n.lab.Link(n.ctx, topo.LinkEnd{Host: far, Name: topo.EndName, MAC: endMAC(2)}, topo.LinkEnd{Host: n.hosts[1], Name: "p0"}, 1500))
			n.record()
			spec := strings.ReplaceAll(`
  segments:
  - {name: q, vni: 100, encapsulation: ENCAP, keepTags: true, remotes: REMOTES}
  ports:
`, "ENCAP", encapsulation)
			n.edgesUp(spec+"  - {name: t0, interface: t0, vlans: [{vlan: 10, segment: q}]}\n", spec+"  - {name: p0, interface: p0, segment: q}\n")
			a, err := openFrames(rack, topo.EndName, false)
			n.must(err)
			defer a.close()
			b, err := openFrames(far, topo.EndName, false)
			n.must(err)
			defer b.close()
			for _, inner := range []string{"", "vlan 7 ", "svlan 7 "} {
				for _, words := range []string{"raw 0x88b5 100", "udp 10.0.0.1:1000 > 10.0.0.2:2000 1300", "udp [fd00::1]:1000 > [fd00::2]:2000 0", "arp 10.0.0.1 ? 10.0.0.9"} {
					there := pkttest.Frame(rackMAC.String(), endMAC(2).String(), inner+words)
					back := pkttest.Frame(endMAC(2).String(), rackMAC.String(), inner+words)
					n.fact(fmt.Sprintf("%s%s passes to the far side", inner, words), func() error {
						return errors.Join(a.send(tagFrame(there, "vlan 10")), b.expect(there))
					})
					n.fact(fmt.Sprintf("%s%s passes to the trunk", inner, words), func() error {
						return errors.Join(b.send(back), a.expect(tagFrame(back, "vlan 10")))
					})
				}
			}
			n.noDrops()
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
	n := newUnderlay(t, switchPicture, 2, 4)
	a2 := n.guest("a2", 0, 2, n.hosts[1], "a0", 1400)
	b2 := n.guest("b2", 1, 2, n.hosts[1], "b0", 1400)
	n.guest("n2", 2, 2, n.hosts[1], "n0", 1400)
	rack := n.host("rack")
	n.must(n.lab.Link(n.ctx, topo.LinkEnd{Host: rack, Name: topo.EndName}, topo.LinkEnd{Host: n.hosts[0], Name: "t0"}, 1500))
	vms := n.rackSwitch(rack)
	// A packet socket, which this switch reads from, gets frames as they are.
	n.finished(topo.EndName, a2.Host, b2.Host)
	n.record()
	n.trunkUp()
	for i, far := range []guest{a2, b2} {
		n.pings(ways(vms[i], far)...)
		n.learnedMAC(far.Host, vms[i].addr(4), vms[i].mac().String())
	}
	n.pings(way(vms[0], b2, 4), way(b2, vms[0], 6)) // from VLAN 10 by the gateway
	for i, far := range []guest{a2, b2} {
		n.transfers(1_000_000, ways(vms[i], far)...)
	}
	n.noDrops("no-neighbour", "no-member")
}

// rackSwitch starts Open vSwitch on a host, with the trunk and a host in each VLAN.
func (n *hub) rackSwitch(rack *topo.Host) []guest {
	n.t.Helper()
	s, err := startSwitch(n.ctx, n.lab, rack)
	n.must(err)
	args := []string{"add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "--", "add-port", "br0", topo.EndName}
	var vms []guest
	for subnet, tag := range []int{10, 20} {
		vm := guest{rack, subnet, 1}
		vms = append(vms, vm)
		name := fmt.Sprintf("vm%d", tag)
		args = append(args, "--", "add-port", "br0", name, fmt.Sprintf("tag=%d", tag),
			"--", "set", "interface", name, "type=internal", "mtu_request=1400", fmt.Sprintf("mac=%q", vm.mac()))
	}
	n.must(s.vsctl(n.ctx, args...))
	for _, vm := range vms {
		name := fmt.Sprintf("vm%d", 10*(vm.subnet+1))
		n.must(errors.Join(
			rack.Up(name), rack.AddAddr(name, netip.PrefixFrom(vm.addr(4), 24)), rack.AddAddr(name, netip.PrefixFrom(vm.addr(6), 64)),
		))
	}
	n.must(errors.Join( // vm20 is on the same host: only vm10 uses the gateway
		rack.AddRoute("vm10", netip.MustParsePrefix("10.1.0.2/32"), gatewayAddr(0, 4)),
		rack.AddRoute("vm10", netip.MustParsePrefix("fd00:1::2/128"), gatewayAddr(0, 6)),
	))
	return vms
}
