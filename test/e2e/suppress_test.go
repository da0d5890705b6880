package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/topo"
)

const suppressPicture = `
                    switch
          e1 /       e2 |       \ e3
        edge1         edge2       edge3      gateways 10.0.0.254 and fd00:0::fe on all,
     p0 |  | b0    p0 |  | p1   p0 |  | p1   and 10.1.0.254, fd00:1::fe
      red1 blue1    red2 mobile  red3 (mobile, later)`

const suppressSpec = `
  segments:
  - name: red
    vni: 100
    remotes: REMOTES
    gateway: {router: tenant, addresses: [10.0.0.254/24, "fd00:0::fe/64"]}
  - name: blue
    vni: 200
    remotes: REMOTES
    gateway: {router: tenant, addresses: [10.1.0.254/24, "fd00:1::fe/64"]}
  routers:
  - name: tenant
  ports:
  - {name: p0, interface: p0, segment: red}
  - {name: p1, interface: p1, segment: red}
  - {name: b0, interface: b0, segment: blue}
`

// asked counts packets on the underlay that ask for the MAC of an address.
type asked struct {
	frames []*frames
	n      *hub
}

func (n *hub) listenUnderlay() *asked {
	n.t.Helper()
	a := &asked{n: n}
	for i := range n.hosts {
		f, err := openFrames(n.sw, fmt.Sprintf("e%d", i+1), false)
		n.must(err)
		n.t.Cleanup(f.close)
		a.frames = append(a.frames, f)
	}
	return a
}

// count is how many requests for an address left edges until now. What left
// before is there: a packet socket has it when the switch does.
func (a *asked) count(target netip.Addr) (requests int) {
	for _, f := range a.frames {
		for {
			frame, err := f.next(time.Now().Add(time.Millisecond))
			if err != nil {
				break
			}
			if asksFor(frame, target) {
				requests++
			}
		}
	}
	return requests
}

// asksFor finds an ARP request or neighbour solicitation in a VXLAN packet over IPv4.
func asksFor(frame []byte, target netip.Addr) bool {
	const inner = 14 + 20 + 8 + 8
	if len(frame) < inner+14+28 {
		return false
	}
	f, want := frame[inner:], target.AsSlice()
	switch {
	case bytes.Equal(f[12:14], []byte{0x08, 0x06}):
		return f[21] == 1 && bytes.Equal(f[38:42], want)
	case bytes.Equal(f[12:14], []byte{0x86, 0xdd}) && len(f) >= 14+40+24:
		return f[20] == 58 && f[54] == 135 && bytes.Equal(f[62:78], want)
	}
	return false
}

func TestSuppression(t *testing.T) {
	n := newUnderlay(t, suppressPicture, 3, 4)
	red1 := n.guest("red1", 0, 1, n.hosts[0], "p0", 1450)
	red2 := n.guest("red2", 0, 2, n.hosts[1], "p0", 1450)
	red3 := n.guest("red3", 0, 3, n.hosts[2], "p0", 1450)
	n.record()
	n.edgesUp(suppressSpec, suppressSpec, suppressSpec)
	// red3 speaks first: so all edges know of red1 and red3.
	n.pings(way(red3, red1, 4), way(red3, red1, 6))
	under := n.listenUnderlay()
	for _, family := range []int{4, 6} {
		for _, from := range []guest{red1, red2} {
			n.once("a known host is found without a question on the underlay, "+way(from, red3, family).name, func() error {
				if _, err := from.Output(n.ctx, "ip", "neigh", "flush", "all"); err != nil {
					return err
				}
				under.count(red3.addr(family))
				if err := ping(n.ctx, from.Host, red3.addr(family)); err != nil {
					return err
				}
				if asked := under.count(red3.addr(family)); asked > 0 {
					return fmt.Errorf("%d questions", asked)
				}
				return nil
			})
			n.learnedMAC(from.Host, red3.addr(family), red3.mac().String())
		}
		unknown := subnetAddr(0, 0x63, family)
		n.once("an unknown host is asked for everywhere, "+unknown.String(), func() error {
			under.count(unknown)
			_ = ping(n.ctx, red1.Host, unknown) // it is not answered
			if asked := under.count(unknown); asked < 2 || asked%2 != 0 {
				return fmt.Errorf("%d questions, want the same number to two remotes", asked)
			}
			return nil
		})
	}
	n.rewrite("edge1", "vni: 100", "vni: 100\n    suppress: false")
	n.fact("without suppression a known host is asked for", func() error {
		if _, err := red1.Output(n.ctx, "ip", "neigh", "flush", "all"); err != nil {
			return err
		}
		under.count(red3.addr(4))
		if err := ping(n.ctx, red1.Host, red3.addr(4)); err != nil {
			return err
		}
		if asked := under.count(red3.addr(4)); asked == 0 {
			return errors.New("nobody asks")
		}
		return nil
	})
	n.noDrops("no-neighbour")
}

// A host moves to another edge, and those who talk to it, bridged and routed,
// follow at once.
func TestHostMovesBehindGateway(t *testing.T) {
	n := newUnderlay(t, suppressPicture, 3, 4)
	red1 := n.guest("red1", 0, 1, n.hosts[0], "p0", 1450)
	blue1 := n.guest("blue1", 1, 1, n.hosts[0], "b0", 1450)
	mobile := n.guest("mobile", 0, 9, n.hosts[1], "p1", 1450)
	n.record()
	n.edgesUp(suppressSpec, suppressSpec, suppressSpec)
	for _, from := range []guest{red1, blue1} {
		n.pings(ways(from, mobile)...)
	}
	streams := []*stream{n.startStream(way(red1, mobile, 4)), n.startStream(way(blue1, mobile, 4))}
	for _, s := range streams {
		n.more(s, streamRate/10)
	}
	n.must(n.hosts[1].Delete("p1"))
	n.must(n.lab.Link(n.ctx, mobile.end(true), topo.LinkEnd{Host: n.hosts[2], Name: "p1"}, 1450))
	n.fact("port p1 of edge3 is up", func() error { return n.portState("edge3", "p1", "up") })
	for _, from := range []guest{red1, blue1} { // one packet of its own tells the others
		n.pings(way(mobile, from, 4))
	}
	n.isAt(mobile.mac(), 3, "p1", 1)
	for _, s := range streams {
		n.more(s, streamRate/10)
	}
	n.pings(way(red1, mobile, 6), way(blue1, mobile, 6), way(blue1, mobile, 4))
	for _, s := range streams {
		s.end()
	}
}

// A host moves to another edge while its old port stays up, and says no more than
// it has to: it asks for its gateway, which the edge answers itself. The others
// must hear of it nevertheless.
func TestHostMovesSilently(t *testing.T) {
	n := newUnderlay(t, suppressPicture, 3, 4)
	red2 := n.guest("red2", 0, 2, n.hosts[1], "p0", 1450)
	blue1 := n.guest("blue1", 1, 1, n.hosts[0], "b0", 1450)
	mobile := n.guest("mobile", 0, 9, n.hosts[1], "p1", 1450)
	n.record()
	n.edgesUp(suppressSpec, suppressSpec, suppressSpec)
	for _, from := range []guest{red2, blue1} {
		n.pings(ways(from, mobile)...)
	}
	_, err := mobile.Output(n.ctx, "ip", "addr", "flush", "dev", topo.EndName)
	n.must(err)
	// The kernel behind the old port lives on and still speaks of IPv6 groups: as somebody else.
	_, err = mobile.Output(n.ctx, "ip", "link", "set", "dev", topo.EndName, "address", "02:00:00:00:00:99")
	n.must(err)
	moved := guest{n.host("moved"), mobile.subnet, mobile.number}
	quiet := moved.end(true) // without IPv6, which announces its groups
	quiet.Addrs, quiet.Gateways = quiet.Addrs[:1], quiet.Gateways[:1]
	n.must(n.lab.Link(n.ctx, quiet, topo.LinkEnd{Host: n.hosts[2], Name: "p1"}, 1450))
	n.fact("port p1 of edge3 is up", func() error { return n.portState("edge3", "p1", "up") })
	n.gatewayAnswers(moved, 4)
	n.isAt(moved.mac(), 3, "p1", 3)
	n.pings(way(red2, moved, 4), way(blue1, moved, 4))
}

// A routed stream does not notice that an edge is killed and started again.
func TestKilledEdgeRoutes(t *testing.T) {
	for _, family := range []int{4, 6} {
		t.Run(fmt.Sprintf("IPv%d", family), func(t *testing.T) {
			n := newRoutedHub(t, family)
			n.edgesUp(gatewaySpec, gatewaySpec)
			n.pings(append(ways(n.red1, n.blue2), ways(n.red1, n.blue1)...)...)
			var streams []*stream
			for _, d := range []direction{way(n.red1, n.blue2, 4), way(n.blue2, n.red1, 6), way(n.blue1, n.red1, 4), way(n.red1, n.red2, 6)} {
				streams = append(streams, n.startStream(d))
			}
			goOn := func() {
				for _, s := range streams {
					n.more(s, streamRate/10)
				}
			}
			goOn()
			config, name := n.config("edge1"), n.edges["edge1"].Name
			n.edges["edge1"].Kill()
			goOn()
			n.fact("without its process the edge routes and answers for the gateway", func() error {
				return errors.Join(ping(n.ctx, n.red1.Host, gatewayAddr(0, 4)), ping(n.ctx, n.blue2.Host, n.red1.addr(6)))
			})
			n.start(n.hosts[0], name, config)
			n.fact("the next edge has taken over", func() error {
				status, err := n.ask("edge1").Status(n.ctx)
				if err == nil && !status.Adopted {
					err = errors.New("it has not")
				}
				return err
			})
			goOn()
			n.must(n.reload("edge1", config+"  - {name: later, interface: later0, segment: red}\n"))
			n.fact("a port is added", func() error { return n.portState("edge1", "later", "absent") })
			goOn()
			for _, s := range streams {
				n.lost(s, 0)
			}
			n.noDrops("no-neighbour")
		})
	}
}
