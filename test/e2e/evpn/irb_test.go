package evpn

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/lab/dut/evpn"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

const irbPicture = `
                    rr1 (FRR)
                     |
                   switch  192.0.2.0/24
               /     |       \
          edge1    edge2    edge3      Selvage, Linux and FRR, Selvage
         red1      red2     red3       10.0.0.0/24, VNI 100
                   blue2    blue3      10.1.0.0/24, VNI 101
         green1                        10.2.0.0/24, VNI 102
         mobile: behind edge2 at first, then behind edge1, edge3 and edge2`

// newIRB is three edges, one of them not ours, with three segments.
func newIRB(t *testing.T) *fabric {
	t.Helper()
	// Of addresses that a router has for itself, only its edge's proofs come from.
	loopbacks := func(number int, config string) string {
		return strings.Replace(config, "    l3: {", fmt.Sprintf("    loopbacks: [10.255.0.%d, \"fd00:ffff::%[1]d\"]\n    l3: {", number), 1)
	}
	n := newFabric(t, irbPicture, fabricOptions{edges: "sks", change: loopbacks, Options: evpn.Options{
		L3VNI:    5000,
		Segments: []evpn.Segment{{Name: "red", Gateway: true}, {Name: "blue", Gateway: true}, {Name: "green", Gateway: true}},
		Guests: []evpn.GuestOptions{
			{Name: "green1", Segment: 2, Number: 1, Edges: []int{0}},
			{Name: "red1", Number: 1, Edges: []int{0}},
			{Name: "red2", Number: 2, Edges: []int{1}},
			{Name: "red3", Number: 3, Edges: []int{2}},
			{Name: "mobile", Number: 9, Edges: []int{1, 0, 2}},
			{Name: "blue2", Segment: 1, Number: 2, Edges: []int{1}},
			{Name: "blue3", Segment: 1, Number: 3, Edges: []int{2}},
		},
	}})
	// A guest that is a router of IPv6 says so, and FRR passes it on (RFC 9047).
	n.Must(n.guests["red2"].SysctlSet("net/ipv6/conf/all/forwarding", "1"))
	n.up()
	return n
}

// behind is where guests are, by the number of the edge.
var behind = map[string]int{"red1": 1, "red2": 2, "red3": 3, "mobile": 2, "blue2": 2, "blue3": 3, "green1": 1}

// Symmetric routing between segments, with Linux and FRR as one of three edges; TestEVPNMobility has gateways of one.
func TestEVPNRouting(t *testing.T) {
	t.Parallel()
	n := newIRB(t)
	defer n.dumpOnFailure()
	n.speak(n.all()...)
	n.hostsKnown()
	n.prefixesKnown()
	n.everyWay()
	n.StopCaptures()
	n.NoProblems("edge1")
	n.NoProblems("edge3")
	for _, d := range append(harness.Ways(n.guests["green1"], n.guests["blue2"]), harness.Ways(n.guests["red1"], n.guests["red2"])...) {
		n.Once("TCP from "+d.Name, func() error { return harness.Transfer(d, 2_000_000) })
	}
	for _, step := range []struct {
		name string
		do   func(*fabric)
	}{
		{"BGP", (*fabric).commandBGP}, {"Prove", (*fabric).commandProve}, {"Claim", (*fabric).claim},
		{"Move", (*fabric).moveThere}, {"Withdraw", (*fabric).withdraw},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.do(n.sub(t)) }) {
			return
		}
	}
}

// hostsKnown: each edge has each guest that it can have a use for where it is.
func (n *fabric) hostsKnown() {
	n.T.Helper()
	for number := 1; number <= len(n.Fabric.Edges); number++ {
		for _, g := range n.all() {
			if at := behind[g.Name]; at != number && n.has(number, g.Subnet) {
				n.knows(number, g, at)
				n.hasAddresses(number, g, at)
			}
		}
	}
}

// prefixesKnown: type 5 both ways, and hosts of a segment that an edge does not have.
func (n *fabric) prefixesKnown() {
	n.T.Helper()
	for _, prefix := range []string{"10.1.0.0/24", "fd00:1::/64"} {
		n.hasPrefix(1, netip.MustParsePrefix(prefix), 2)
		n.hasPrefix(1, netip.MustParsePrefix(prefix), 3)
	}
	for _, prefix := range []string{"10.2.0.0/24", "fd00:2::/64", "10.2.0.1/32", "fd00:2::1/128"} {
		n.hasRoute(2, netip.MustParsePrefix(prefix), 1)
		n.hasRoute(3, netip.MustParsePrefix(prefix), 1)
	}
	n.Fact("FRR has our prefixes, with our router's MAC address", func() error {
		out, err := n.edge(2).FRR.Do(n.Ctx, "show bgp l2vpn evpn route type prefix")
		for _, want := range []string{"[5]:[0]:[24]:[10.0.0.0]", "[5]:[0]:[64]:[fd00::]", "[5]:[0]:[24]:[10.2.0.0]", "Rmac:02:00:00:00:04:01", "Rmac:02:00:00:00:04:03"} {
			if err == nil && !strings.Contains(out, want) {
				err = fmt.Errorf("no %s in\n%s", want, out)
			}
		}
		return err
	})
}

// claim: a guest says that it has a server on the Internet, and a host of a segment that its edge does not have. No route leads to
// it, and it is forgotten when its port is guarded.
func (n *fabric) claim() {
	n.T.Helper()
	green, blue := n.guests["green1"], n.guests["blue3"]
	claimed := []netip.Addr{netip.MustParseAddr("198.51.100.77"), blue.Addr(4)}
	for _, a := range claimed {
		n.Must(green.AddAddr(topo.EndName, netip.PrefixFrom(a, a.BitLen())))
		_, _ = green.Output(n.Ctx, "ping", "-c1", "-W1", "-I", a.String(), harness.SubnetAddr(green.Subnet, 99, 4).String()) // asks who has that
		n.Fact(fmt.Sprintf("edge1 tells the segment alone of %s", a), func() error {
			return n.advertises(a, func(r api.BGPRouteInfo) bool { return r.L3VNI == 0 })
		})
	}
	n.Fact("edge1 names the port", func() error {
		status, err := n.Ask("edge1").Status(n.Ctx)
		if text := strings.Join(problem.Texts(status.Problems), "; "); err == nil && !strings.Contains(text, "port green1: ") {
			err = errors.New(text)
		}
		return err
	})
	n.Once("edge3 has no route to the server", func() error {
		if n.routedTo(3, netip.PrefixFrom(claimed[0], 32), n.edge(1).TEP) == nil {
			return errors.New("it has one by edge1")
		}
		return nil
	})
	n.hasRoute(1, netip.PrefixFrom(blue.Addr(4), 32), 3)
	n.Once("red1 reaches the host", func() error { return harness.Ping(n.Ctx, n.guests["red1"].Host, blue.Addr(4)) })

	n.rewritten(1, "interface: green1, segment: green", `interface: green1, segment: green, allowed: {addresses: [10.2.0.0/24, "fd00:2::/64"]}`)
	for _, a := range claimed {
		n.Fact(fmt.Sprintf("edge1 has forgotten %s", a), func() error {
			if n.advertises(a, func(api.BGPRouteInfo) bool { return true }) == nil {
				return errors.New("it tells of it")
			}
			return nil
		})
		n.Must(green.DelAddr(topo.EndName, netip.PrefixFrom(a, a.BitLen())))
	}
	n.NoProblems("edge1")
}

// advertises says whether edge1 advertises an address as is says.
func (n *fabric) advertises(a netip.Addr, is func(api.BGPRouteInfo) bool) error {
	routes, err := n.api(1).BGP().Routes(n.Ctx, api.BGPRouteQuery{Type: api.BGPRouteMAC, Addr: netip.PrefixFrom(a, a.BitLen())})
	for _, r := range routes {
		if r.Neighbour == "" && is(r) {
			return err
		}
	}
	return errors.Join(fmt.Errorf("%+v", routes), err)
}

// moveThere: a host moves between ours and the kernel while connections live.
func (n *fabric) moveThere() {
	n.T.Helper()
	mobile := n.guests["mobile"]
	n.Serve(mobile, harness.PortAllowed)
	var conns []*net.TCPConn
	for _, name := range []string{"red1", "red2", "red3", "blue2", "green1"} {
		for _, family := range []int{4, 6} {
			conns = append(conns, n.connected(n.guests[name], mobile, family))
		}
	}
	for _, to := range []int{1, 2, 3, 1, 2} {
		n.moves("mobile", to)
		for number := 1; number <= len(n.Fabric.Edges); number++ {
			if number != to {
				n.knows(number, mobile, to)
			}
		}
		for i, conn := range conns {
			n.Once(fmt.Sprintf("connection %d lives behind edge%d", i+1, to), func() error { return harness.ExchangeLine(conn, harness.Patience) })
		}
	}
	n.Fact("edge3 tells of the moves", func() error {
		moves, err := n.api(3).BGP().Moves(n.Ctx)
		for _, m := range moves.Moves {
			if m.MAC.String() == mobile.Ether().String() {
				return err
			}
		}
		return errors.Join(fmt.Errorf("%+v", moves), err)
	})
}

// connected opens a connection to a guest that serves.
func (n *fabric) connected(from, to harness.Guest, family int) *net.TCPConn {
	n.T.Helper()
	var conn *net.TCPConn
	n.Fact(fmt.Sprintf("%s connects to %s, IPv%d", from.Name, to.Name, family), func() (err error) {
		conn, err = harness.DialTCP(from.Host, netip.AddrPortFrom(to.Addr(family), harness.PortAllowed).String())
		return err
	})
	n.T.Cleanup(func() { conn.Close() })
	n.Once("it works", func() error { return harness.ExchangeLine(conn, harness.Patience) })
	return conn
}

// withdraw: a port goes, and all other edges forget who was behind it.
func (n *fabric) withdraw() {
	n.T.Helper()
	for _, c := range []struct {
		name   string
		at     int
		others []int
	}{{"red1", 1, []int{2, 3}}, {"red2", 2, []int{1, 3}}} {
		g := n.guests[c.name]
		n.Must(g.Down(topo.EndName))
		for _, number := range c.others {
			n.forgets(number, g)
		}
		n.Must(g.Up(topo.EndName))
		n.speak(g)
		for _, number := range c.others {
			n.knows(number, g, c.at)
		}
	}
}

const onePicture = `
          rr1 (FRR)
           |
         switch
         /    \
     edge1     edge2     Selvage; Linux and FRR
     red1      red2      10.0.0.0/24, VNI 100, no gateway`

func oneEach() []evpn.GuestOptions {
	return []evpn.GuestOptions{{Name: "red1", Number: 1, Edges: []int{0}}, {Name: "red2", Number: 2, Edges: []int{1}}}
}

// One segment without a gateway, fed over a session of IPv6 that is protected by a password and by its TTL. Everything
// that is said decodes. Without the password there is no session.
func TestEVPNBridged(t *testing.T) {
	t.Parallel()
	n := newFabric(t, onePicture, fabricOptions{edges: "sk", kernel: evpn.Kernel{Flood: true}, Options: evpn.Options{
		Guests: oneEach(), SessionFamily: 6, Password: "between-us", TTLSecurity: true,
	}})
	defer n.dumpOnFailure()
	n.StopCaptures()
	n.Finished(topo.EndName, n.guests["red1"].Host, n.guests["red2"].Host)
	n.Finished(topo.UnderlayName, n.edge(1).Host, n.edge(2).Host, n.Reflectors[0].Host)
	stop, err := n.Topo.Capture(n.Ctx, n.Dir, topo.CaptureOptions{})
	n.Must(err)
	n.up()
	n.speak(n.all()...)
	n.knows(1, n.guests["red2"], 2)
	n.knows(2, n.guests["red1"], 1)
	n.everyWay()
	n.resets()
	n.session(n.Reflectors[0].Addr)
	n.knows(1, n.guests["red2"], 2)
	n.everyWay()
	for _, d := range harness.Ways(n.guests["red1"], n.guests["red2"]) {
		n.Once("TCP from "+d.Name, func() error { return harness.Transfer(d, 200_000) })
	}
	n.NoDrops("no-member") // what was flooded before anybody was known
	n.Must(stop())
	n.decodesBGP(filepath.Join(n.Dir, "rr1-u0.pcap"))
	n.Faultless(filepath.Join(n.Dir, "edge2-u0.pcap"))
	n.Sees(filepath.Join(n.Dir, "edge2-u0.pcap"), 20, "vxlan.vni == 100")

	n.rewritten(1, "between-us", "another-one")
	n.Fact("no session comes up without the password, and the edge says what may be wrong", func() error {
		bgp, err := n.api(1).BGP().Info(n.Ctx)
		if err == nil && (bgp.Neighbours[0].State == "established" || bgp.Neighbours[0].Why == "") {
			err = fmt.Errorf("%+v", bgp.Neighbours[0])
		}
		return err
	})
	n.rewritten(1, "another-one", "between-us")
	n.up()
	n.everyWay()
}

// resets of the session with the reflector: softly the edge says all again, else both do.
func (n *fabric) resets() {
	n.T.Helper()
	rr, own := n.Reflectors[0], n.edge(1).Addr.String()
	updates := func() (count int, err error) {
		var peers map[string]struct {
			Stats struct {
				Updates int `json:"updatesRecv"`
			} `json:"messageStats"`
		}
		err = rr.FRR.JSON(n.Ctx, "show bgp neighbors "+own+" json", &peers)
		return peers[own].Stats.Updates, err
	}
	before, err := updates()
	n.Must(err)
	reset := func(soft bool) func() error {
		return func() error {
			_, err := n.api(1).BGP().Reset(n.Ctx, rr.Name, soft)
			return err
		}
	}
	n.Once("a soft reset is done", reset(true))
	n.Fact("the reflector was told all again", func() error {
		now, err := updates()
		if err == nil && now <= before {
			err = fmt.Errorf("%d updates before, %d now", before, now)
		}
		return err
	})
	n.Once("the session has stayed", func() error { return n.established(1, rr.Addr) })
	n.Once("a hard reset is done", reset(false))
}

// decodesBGP: tshark reads every message of the edge, and of what routes there are.
func (n *fabric) decodesBGP(file string) {
	n.T.Helper()
	n.Faultless(file)
	from := "ip.src == " + n.edge(1).Addr.String()
	if n.edge(1).Addr.Is6() {
		from = "ipv6.src == " + n.edge(1).Addr.String()
	}
	for _, filter := range []string{
		"bgp.type == 1", "bgp.evpn.nlri.rt == 2", "bgp.evpn.nlri.rt == 3", "bgp.update.path_attribute.pmsi.tunnel.type == 6", "bgp.type == 4",
	} {
		n.Sees(file, 1, from+" && "+filter)
	}
}

const meshPicture = `
     edge1 ==BGP== edge2     Selvage, 2001:db8::1 and ::2, without a reflector
     red1          red2      10.0.0.0/24, VNI 100
                   blue2     10.1.0.0/24, VNI 101`

// meshed has two edges speak with each other instead of with the reflector.
func meshed(number int, config string) string {
	for rr, own := range map[string]string{"192.0.2.201": "192.0.2.", "2001:db8::c9": "2001:db8::"} {
		neighbour := fmt.Sprintf("name: other, address: \"%s%d\", passive: %t", own, 3-number, number == 1)
		to := strings.Replace(config, fmt.Sprintf("name: rr1, address: %q", rr), neighbour, 1)
		if to != config && number == 1 {
			to = strings.Replace(to, "    neighbours:\n", fmt.Sprintf("    listen: [\"%s1\"]\n    neighbours:\n", own), 1)
		}
		config = to
	}
	return config
}

// meshUp is the facts in order until two meshed edges know each other.
func (n *fabric) meshUp() {
	n.T.Helper()
	for number := 1; number <= 2; number++ {
		other := n.edge(3 - number)
		n.Fact(n.edge(number).Name+" has a BGP session with "+other.Name, func() error { return n.established(number, other.TEP) })
		n.multicast(number, 3-number)
		n.Resolved(n.edge(number).Name)
	}
}
