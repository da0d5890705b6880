package transit

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

const lanesPicture = `
  a1 b1 c1                                                   a2 b2 c2
   \ | /                                                      \ | /
   edge3 t0 ==== up0 edge1 u0 ====== u0 edge2 up0 ==== t0 edge4
        trunk: a untagged, b VLAN 10, c VLAN 20       trunk
  Each of them has 10.5.0.1 on the left and 10.6.0.1 on the right, in routers of
  their own; edge3 and edge4 only put the tags on and take them off.`

const trunkSwitch = `
  segments:
  - {name: a, vni: 1}
  - {name: b, vni: 10}
  - {name: c, vni: 20}
  ports:
  - {name: t0, interface: t0, segment: a, vlans: [{vlan: 10, segment: b}, {vlan: 20, segment: c}]}
  - {name: a0, interface: a0, segment: a}
  - {name: b0, interface: b0, segment: b}
  - {name: c0, interface: c0, segment: c}
`

const laneRouter = `
  - name: NAME
    l3: {vni: VNI, encapsulation: ENCAP, mac: "02:00:00:00:04:0MINE", remotes: REMOTES}
    uplinks:
    - {name: wan-NAME, interface: up0, vlan: VLAN, mac: "GATEWAY", addresses: [10.MINE.0.254/24, "fd00:MINE::fe/64"]}
    routes:
    - {prefix: 10.THEIRS.0.0/24, via: [{remote: "PEER", mac: "02:00:00:00:04:0THEIRS"}]}
    - {prefix: "fd00:THEIRS::/64", via: [{remote: "PEER", mac: "02:00:00:00:04:0THEIRS"}]}
`

// laneSpec is a passage's configuration with an uplink in each VLAN of up0.
func laneSpec(n *harness.Hub, number int) string {
	other := 3 - number
	spec := "  transit: {mode: native}\n  routers:"
	for i, name := range []string{"a", "b", "c"} {
		spec += strings.TrimSuffix(strings.NewReplacer(
			"NAME", name, "VNI", fmt.Sprint(5000+i), "ENCAP", []string{"vxlan", "geneve", "nvgre"}[i],
			"VLAN", fmt.Sprint(10*i), "GATEWAY", harness.GatewayMAC, "PEER", n.Teps[other-1].String(),
			"MINE", fmt.Sprint(number+4), "THEIRS", fmt.Sprint(other+4),
		).Replace(laneRouter), "\n")
	}
	return spec + "\n"
}

// Two VLANs and none on one interface, with the same addresses in each: nothing
// changes lanes, whether the tags are in the frames or beside them.
func TestTransitVLANs(t *testing.T) {
	t.Parallel()
	n := &harness.Hub{Network: harness.NewNetwork(t, lanesPicture), Family: 4}
	for i := 1; i <= 4; i++ {
		n.Hosts, n.Teps = append(n.Hosts, n.Host(fmt.Sprintf("edge%d", i))), append(n.Teps, n.Tep(i))
	}
	wire(n, 1600)
	n.Must(n.Topo.Link(n.Ctx, idle(n, 3), idle(n, 4), 1500))
	lanes := lanes(n)
	for number := 1; number <= 2; number++ {
		n.Edge(number+2, trunkSwitch)
		spec := strings.ReplaceAll(laneSpec(n, number), "REMOTES", fmt.Sprintf("[%q]", n.Teps[2-number]))
		n.Edge(number, spec)
	}
	n.Resolved("edge1")
	n.Resolved("edge2")
	watched := n.Hosts[:2:2]
	for _, l := range lanes {
		n.Pings(harness.Ways(l[0], l[1])...)
		watched = append(watched, l[0].Host, l[1].Host)
	}
	noErrors := n.WatchErrors(watched...)
	for _, inFrames := range []bool{false, true} {
		if inFrames { // else XDP sees that there is a tag, and leaves the packet to tc
			for _, rack := range n.Hosts[2:] {
				_, err := rack.Output(n.Ctx, "ethtool", "-K", "t0", "txvlan", "off")
				n.Must(err)
			}
			for _, l := range lanes[1:] {
				byXDP(n, "tagged packets pass by XDP", 3000, func() { n.Transfers(len(harness.Content)/4, harness.Way(l[0], l[1], 4)) })
			}
		}
		for _, l := range lanes {
			for _, d := range harness.Ways(l[0], l[1]) {
				n.Once("datagrams from "+d.Name, func() error { return harness.Echo(d, 1, 100, 1452, 3000) })
			}
		}
		n.Once("all lanes at once", func() error { return harness.TransferAll(lanes, len(harness.Content)/2) })
	}
	noErrors()
	for _, host := range carriers(n) {
		n.Once("edge on "+host+" drops nothing", func() error { return onlyDrops(n.Network, host, "no-neighbour", "devmap-drop") })
	}
}

// idle is the underlay of an edge without tunnels.
func idle(n *harness.Hub, number int) topo.LinkEnd {
	return topo.LinkEnd{Host: n.Hosts[number-1], Name: topo.UnderlayName, Addrs: []netip.Prefix{netip.PrefixFrom(n.Tep(number), 24)}}
}

// onlyDrops is nil when an edge dropped nothing but for these reasons.
func onlyDrops(n *harness.Network, host string, but ...string) error {
	drops, err := n.Drops(host)
	for _, reason := range but {
		delete(drops, reason)
	}
	if err == nil && len(drops) > 0 {
		err = fmt.Errorf("it drops %v", drops)
	}
	return err
}

// lanes are the guests of both sides behind their switches, by VLAN.
func lanes(n *harness.Hub) [][2]harness.Guest {
	n.T.Helper()
	lanes := make([][2]harness.Guest, 3)
	for side, subnet := range []int{5, 6} {
		rack := n.Hosts[2+side]
		n.Must(n.Topo.Link(n.Ctx, topo.LinkEnd{Host: rack, Name: "t0"}, topo.LinkEnd{Host: n.Hosts[side], Name: "up0"}, 1500))
		n.Gro(rack, "t0", "on")
		for i, name := range []string{"a", "b", "c"} {
			lanes[i][side] = n.Guest(fmt.Sprintf("%s%d", name, side+1), subnet, 1, rack, name+"0", 1500)
		}
		finish(n, lanes[0][side], lanes[1][side], lanes[2][side])
	}
	return lanes
}

// Jumbo frames, which are more than one buffer to XDP.
func TestTransitJumbo(t *testing.T) {
	t.Parallel()
	n := newPassage(t, passageOptions{mode: "native", underlay: 9000, uplink: 8950, finished: true})
	n.up()
	hooks(n.Hub, "xdp")
	noErrors := n.WatchErrors(n.client.Host, n.server.Host, n.Hosts[0], n.Hosts[1])
	for _, d := range harness.Ways(n.client, n.server) {
		byXDP(n.Hub, "jumbo datagrams pass by XDP from "+d.Name, 6, func() {
			n.Once("datagrams from "+d.Name, func() error { return harness.Echo(d, 1, 3000, 4000, 5000, 8000, 8902) })
		})
		byXDP(n.Hub, "jumbo TCP passes by XDP from "+d.Name, 2000, func() { n.Transfers(len(harness.Content), d) })
		headers := map[bool]int{true: 52, false: 72}[d.Addr.Is4()]
		n.Once("segments are as large as the link, "+d.Name, func() error { return harness.HasMSS(d, 8950-headers) })
	}
	noErrors()
	n.NoDrops("no-neighbour", "devmap-drop")
}
