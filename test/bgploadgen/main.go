// Bgploadgen is many edges at once: it tells one BGP neighbour of their hosts and prefixes, and
// answers for none of them. The end-to-end tests see by it what a large fabric costs an edge.
//
// It does what its standard input says, and writes a line when that was told: "announce", "move" (each host is behind
// the next edge, its sequence one higher), "churn" (a thousand hosts of them do so each second, for five), "withdraw".
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"time"

	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
)

// load is what is told of.
type load struct {
	as                     uint
	local, neighbour, peer netip.Addr // peer is the first edge
	peers, hosts, prefixes int        // of each edge
	vni, l3                uint
	hold                   time.Duration

	moves   []uint32 // of each host
	session *session
}

func main() {
	c := &load{}
	flag.UintVar(&c.as, "as", 65000, "autonomous system of both ends")
	flag.TextVar(&c.local, "local", netip.Addr{}, "own address, IPv4")
	flag.TextVar(&c.neighbour, "neighbour", netip.Addr{}, "whom to tell")
	flag.TextVar(&c.peer, "peer", netip.Addr{}, "tunnel endpoint of the first edge, IPv4; the others' follow")
	flag.IntVar(&c.peers, "peers", 100, "number of edges")
	flag.IntVar(&c.hosts, "hosts", 1000, "hosts of each edge")
	flag.IntVar(&c.prefixes, "prefixes", 100, "prefixes of each edge")
	flag.UintVar(&c.vni, "vni", 100, "VNI of the hosts' segment")
	flag.UintVar(&c.l3, "l3vni", 5000, "VNI between routers, for prefixes")
	flag.DurationVar(&c.hold, "hold", 90*time.Second, "hold time")
	flag.Parse()
	c.moves = make([]uint32, c.peers*c.hosts)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := c.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bgploadgen:", err)
		os.Exit(1)
	}
}

func (c *load) run(ctx context.Context) (err error) {
	if c.session, err = dial(ctx, c.local, c.neighbour, uint32(c.as), c.hold); err != nil {
		return err
	}
	defer c.session.close()
	fmt.Println("session")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := c.do(lines.Text()); err != nil {
			return err
		}
		fmt.Println(lines.Text())
	}
	return lines.Err()
}

func (c *load) do(what string) error {
	switch what {
	case "announce":
		return c.session.announce(append(c.macs(0, len(c.moves)), c.networks()...))
	case "move":
		return c.move(0, len(c.moves))
	case "churn":
		return c.churn(5 * time.Second)
	case "withdraw":
		return c.session.withdraw(append(c.macs(0, len(c.moves)), c.networks()...))
	}
	return fmt.Errorf("%q is not announce, move, churn or withdraw", what)
}

// move has hosts, by their first index and the one after the last, behind the next edge.
func (c *load) move(from, to int) error {
	left := c.macs(from, to)
	for i := from; i < to; i++ {
		c.moves[i]++
	}
	return errors.Join(c.session.announce(c.macs(from, to)), c.session.withdraw(left))
}

func (c *load) churn(long time.Duration) error {
	const batch, pause = 10, 10 * time.Millisecond
	pace := time.NewTicker(pause)
	defer pace.Stop()
	began := time.Now()
	for i := 0; time.Since(began) < long; i++ {
		from := i * batch % len(c.moves)
		if err := c.move(from, min(from+batch, len(c.moves))); err != nil {
			return err
		}
		<-pace.C
	}
	return nil
}

// route is one of an edge, of the segment with a VNI.
func (c *load) route(edge int, vni uint) evpn.Route {
	b := c.peer.As4()
	first := binary.BigEndian.Uint32(b[:])
	binary.BigEndian.PutUint32(b[:], first+uint32(edge))
	tep := netip.AddrFrom4(b)
	r := evpn.Route{NextHop: tep, VNI: overlay.VNI(vni), Encapsulation: overlay.VXLAN, LocalPref: 100}
	r.RD = overlay.AddrDistinguisher(tep, uint16(vni))
	r.Targets = []overlay.RouteTarget{overlay.ASTarget(uint32(c.as), uint32(vni))}
	return r
}

// macs are hosts, by their first index and the one after the last: each behind its edge or,
// after moves, a later one.
func (c *load) macs(from, to int) []evpn.Route {
	routes := make([]evpn.Route, 0, to-from)
	for i := from; i < to; i++ {
		peer, host := i/c.hosts, i%c.hosts
		r := c.route((peer+int(c.moves[i]))%c.peers, c.vni)
		r.Type, r.Sequence = evpn.MACIP, c.moves[i]
		r.MAC = overlay.MAC{2, 0xcc, 0, byte(peer), byte(host >> 8), byte(host)}
		routes = append(routes, r)
	}
	return routes
}

// firstPrefix is 100.64.0.0, shared address space of 4 million hosts (RFC 6598).
const firstPrefix = 100<<24 | 64<<16

// networks are the prefixes, each of one edge.
func (c *load) networks() []evpn.Route {
	routes := make([]evpn.Route, 0, c.peers*c.prefixes)
	for p := range c.peers {
		for i := range c.prefixes {
			r := c.route(p, c.l3)
			r.Type, r.RouterMAC = evpn.Prefix, overlay.MAC{2, 0xcc, 1, 0, 0, byte(p)}
			var addr [4]byte
			binary.BigEndian.PutUint32(addr[:], firstPrefix+uint32(p*c.prefixes+i))
			r.Prefix = netip.PrefixFrom(netip.AddrFrom4(addr), 32)
			routes = append(routes, r)
		}
	}
	return routes
}
