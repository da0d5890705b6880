package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

const gatewayPicture = `
              switch
          e1 /      \ e2
        edge1        edge2        both have the gateways 10.0.0.254, fd00:0::fe
      r0 |  | b0   r0 |  | b0     and 10.1.0.254, fd00:1::fe
       red1 blue1   red2 blue2
   10.0.0.1 10.1.0.1  .0.2 .1.2`

// Gateways of two segments on both edges: asymmetric integrated routing and
// bridging (RFC 9135 section 4).
const gatewaySpec = `
  segments:
  - name: red
    vni: 100
    remotes: REMOTES
    gateway: {router: tenant, addresses: [10.0.0.254/24, "fd00:0::fe/64"]}
  - name: blue
    vni: 200
    encapsulation: geneve
    remotes: REMOTES
    gateway: {router: tenant, addresses: [10.1.0.254/24, "fd00:1::fe/64"]}
  routers:
  - name: tenant
  ports:
  - {name: r0, interface: r0, segment: red}
  - {name: b0, interface: b0, segment: blue}
`

// routedHub is two edges with a guest in each of two subnets.
type routedHub struct {
	*hub
	red1, red2, blue1, blue2 guest
}

func newRoutedHub(t *testing.T, family int) *routedHub {
	t.Helper()
	n := newUnderlay(t, gatewayPicture, 2, family)
	r := &routedHub{hub: n}
	r.red1 = n.guest("red1", 0, 1, n.hosts[0], "r0", 1430)
	r.blue1 = n.guest("blue1", 1, 1, n.hosts[0], "b0", 1430)
	r.red2 = n.guest("red2", 0, 2, n.hosts[1], "r0", 1430)
	r.blue2 = n.guest("blue2", 1, 2, n.hosts[1], "b0", 1430)
	n.record()
	return r
}

func TestGateway(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			n := newRoutedHub(t, family)
			n.edgesUp(gatewaySpec, gatewaySpec)
			for _, inner := range []int{4, 6} {
				for _, g := range []guest{n.red1, n.blue1, n.red2, n.blue2} {
					n.gatewayAnswers(g, inner)
				}
				// Hosts that nobody has heard of yet.
				n.routes(way(n.red1, n.blue1, inner), 1, n.red1)
				n.routes(way(n.red1, n.blue2, inner), 1, n.red1)
				n.routes(way(n.blue1, n.red2, inner), 1, n.blue1)
				n.routes(way(n.red1, n.red2, inner), 0, n.red1)
			}
			n.transfers(len(content), append(ways(n.red1, n.blue1), ways(n.red1, n.blue2)...)...)
			for _, edge := range []string{"edge1", "edge2"} {
				n.once("routed TCP is on the fast path of "+edge, func() error { return n.routedFast(edge) })
			}
			n.noDrops("no-neighbour", "ttl-exceeded")
		})
	}
}

// gatewayAnswers: a guest resolves its gateway and pings it.
func (n *hub) gatewayAnswers(g guest, family int) {
	n.t.Helper()
	gateway := gatewayAddr(g.subnet, family)
	n.fact(g.Name+" pings its gateway "+gateway.String(), func() error { return ping(n.ctx, g.Host, gateway) })
	n.learnedMAC(g.Host, gateway, gatewayMAC)
}

// routes: a way works and has so many routers; the first is the guest's gateway.
func (n *hub) routes(d direction, routers int, from guest) {
	n.t.Helper()
	n.pings(d)
	n.once(fmt.Sprintf("%d routers from %s", routers, d.name), func() error {
		out, err := d.from.Output(n.ctx, "ping", "-n", "-c1", "-W1", d.addr.String())
		if err == nil && !strings.Contains(string(out), fmt.Sprintf("ttl=%d ", 64-routers)) {
			err = errors.New(string(out))
		}
		return err
	})
	if routers == 0 {
		return
	}
	gateway := gatewayAddr(from.subnet, map[bool]int{true: 4, false: 6}[d.addr.Is4()])
	n.fact("time exceeded at the gateway from "+d.name, func() error {
		return pingFails(n.network, d.from, d.addr, gateway, timeExceeded, "-t", "1")
	})
}

// routedFast: the transfer's segments met the flow cache.
func (n *network) routedFast(host string) error {
	flows, err := n.ask(host).Flows(n.ctx)
	for _, f := range flows {
		if f.Proto == "tcp" && f.OutSegment != "" && f.OutSegment != f.Segment && f.FastPath && f.Bytes > 10_000_000 {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("flows %+v", flows), err)
}

// Edges that have one subnet each, and a segment between their routers: symmetric
// integrated routing and bridging (RFC 9135 section 4).
func TestGatewaySymmetric(t *testing.T) {
	const spec = `
  segments:
  - name: NAME
    vni: VNI
    gateway: {router: tenant, addresses: [10.MINE.0.254/24, "fd00:MINE::fe/64"]}
  routers:
  - name: tenant
    l3: {vni: 5000, encapsulation: nvgre, mac: "02:00:00:00:04:0MINE", remotes: REMOTES}
    routes:
    - {prefix: 10.THEIRS.0.0/24, via: [{remote: "PEER", mac: "02:00:00:00:04:0THEIRS"}]}
    - {prefix: "fd00:THEIRS::/64", via: [{remote: "PEER", mac: "02:00:00:00:04:0THEIRS"}]}
  ports:
  - {name: p0, interface: p0, segment: NAME}
`
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			n := newUnderlay(t, gatewayPicture, 2, family)
			red := n.guest("red1", 0, 1, n.hosts[0], "p0", 1430)
			blue := n.guest("blue2", 1, 2, n.hosts[1], "p0", 1430)
			n.record()
			n.edgesUp(
				strings.NewReplacer("NAME", "red", "VNI", "100", "MINE", "0", "THEIRS", "1", "PEER", n.teps[1].String()).Replace(spec),
				strings.NewReplacer("NAME", "blue", "VNI", "200", "MINE", "1", "THEIRS", "0", "PEER", n.teps[0].String()).Replace(spec),
			)
			for _, inner := range []int{4, 6} {
				n.routes(way(red, blue, inner), 2, red)
				n.routes(way(blue, red, inner), 2, blue)
				n.once(fmt.Sprintf("the second router answers too, IPv%d", inner), func() error {
					return pingFails(n.network, red.Host, blue.addr(inner), netip.Addr{}, timeExceeded, "-t", "2")
				})
			}
			n.transfers(len(content), ways(red, blue)...)
			n.noDrops("no-neighbour", "ttl-exceeded", "no-member") // the guests are alone in their segments
		})
	}
}

const betweenPicture = `
                switch
          e1 /   e2 |    \ e3
        edge1    edge2    edge3     edge2 alone has the gateways
       p0 | red           | p0 blue, in another encapsulation
        red1            blue3`

// An edge in the middle routes from one tunnel to another.
func TestGatewayBetweenTunnels(t *testing.T) {
	const leaf = `
  segments:
  - {name: SEGMENT, vni: 100, encapsulation: ENCAP, MORE remotes: ["MIDDLE"]}
  ports:
  - {name: p0, interface: p0, segment: SEGMENT}
`
	const middle = `
  segments:
  - name: red
    vni: 100
    remotes: ["FIRST"]
    gateway: {router: tenant, addresses: [10.0.0.254/24, "fd00:0::fe/64"]}
  - name: blue
    vni: 100
    encapsulation: ENCAP
    MORE
    remotes: ["LAST"]
    gateway: {router: tenant, addresses: [10.1.0.254/24, "fd00:1::fe/64"]}
  routers:
  - name: tenant
`
	for name, more := range map[string]string{"geneve": "", "geneve with options": "options: " + geneveOptions, "nvgre": ""} {
		t.Run(name, func(t *testing.T) {
			n := newUnderlay(t, betweenPicture, 3, 4)
			encapsulation, _, _ := strings.Cut(name, " ")
			words := func(spec, segment, encapsulation, more string) string {
				return strings.NewReplacer("SEGMENT", segment, "ENCAP", encapsulation, "MORE", more,
					"FIRST", n.teps[0].String(), "MIDDLE", n.teps[1].String(), "LAST", n.teps[2].String()).Replace(spec)
			}
			red := n.guest("red1", 0, 1, n.hosts[0], "p0", 1430)
			blue := n.guest("blue3", 1, 3, n.hosts[2], "p0", 1430)
			n.record()
			short := more
			if short != "" {
				short = `options: "` + geneveOptions + `",`
			}
			n.edgesUp(words(leaf, "red", "vxlan", ""), words(middle, "", encapsulation, more), words(leaf, "blue", encapsulation, short))
			for _, inner := range []int{4, 6} {
				n.routes(way(red, blue, inner), 1, red)
				n.routes(way(blue, red, inner), 1, blue)
			}
			if name != "nvgre" {
				// The kernel cannot make a large segment of a UDP tunnel one of GRE. A network
				// card delivers none in a tunnel, a veth does: gso-nested.
				n.transfers(len(content), ways(red, blue)...)
			}
			n.noDrops("no-neighbour", "ttl-exceeded", "no-member")
		})
	}
}
