package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/test/pkttest"
)

// asksOnce sends a datagram from a local port and waits for an answer, briefly: it may come or not.
func asksOnce(d direction, local uint16) error {
	conn, err := dialFrom(d.from, "udp", local, netip.AddrPortFrom(d.addr, mirrorPort))
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Millisecond))
	_, _ = conn.Write([]byte("question")) // an error of ICMP may be waiting, which is fine
	_, _ = conn.Read(make([]byte, 100))
	return nil
}

// whoHas are the MAC addresses that answer a question for an address at the wan.
func (n *egressNet) whoHas(addr netip.Addr) (macs []string, err error) {
	out, err := openFrames(n.out, "lan0", false)
	if err != nil {
		return nil, err
	}
	defer out.close()
	mac, err := n.out.MAC("lan0")
	if err != nil {
		return nil, err
	}
	if err := out.send(pkttest.Frame(mac.String(), broadcastMAC.String(), fmt.Sprintf("arp %s ? %s", wanAddr(1, 4), addr))); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(quietTime); ; {
		frame, err := out.next(deadline)
		if err != nil {
			return macs, nil
		}
		said := pkttest.Frame(net.HardwareAddr(frame[6:12]).String(), mac.String(), fmt.Sprintf("arp %s ! %s", addr, wanAddr(1, 4)))
		if from := net.HardwareAddr(frame[6:12]).String(); bytes.HasPrefix(frame, said[:42]) && !slices.Contains(macs, from) {
			macs = append(macs, from)
		}
	}
}

// Which packets a policy is for, and by which address they leave.
func TestEgressPolicies(t *testing.T) {
	n := newEgressNet(t, egressOptions{uplink: "nat: {}", policies: []string{
		`name: first, vni: 9001, from: [{port: r0}], to: [203.0.113.0/24, "2001:db8:cafe::/64"], except: [203.0.113.9/32, "2001:db8:cafe::9/128"]`,
		`name: second, vni: 9002, encapsulation: geneve, from: [10.0.0.2, "fd00::2"], pool: [198.51.100.30, "2001:db8:51::30"]`,
	}})
	var pool, own []string
	for _, family := range []int{4, 6} {
		for _, a := range append(secondPool(family), poolOf(family)...) {
			pool = append(pool, "src host "+a.String())
		}
		own = append(own, "src host "+wanAddr(2, family).String(), "src host "+wanAddr(3, family).String())
	}
	n.untranslated.close()
	n.untranslated = n.watchLeaks(leakFilterOf(pool, own), "g2", "g3")
	n.must(n.out.AddRoute("lan0", netip.MustParsePrefix("10.0.0.0/8"), wanAddr(4, 4)))
	n.must(n.out.AddRoute("lan0", netip.MustParsePrefix("fd00::/16"), wanAddr(4, 6)))
	n.up()
	n.mirror(n.out)
	n.mirror(n.far)
	check := func(first bool) {
		n.t.Helper()
		for _, family := range []int{4, 6} {
			other := map[int]netip.Addr{4: netip.MustParseAddr("203.0.113.9"), 6: netip.MustParseAddr("2001:db8:cafe::9")}[family]
			itself := []netip.Addr{n.red1.addr(family)}
			translated := poolOf(family)
			if !first {
				translated = itself
			}
			for _, network := range []string{"tcp", "udp"} {
				n.seenAs(n.red1, network, outsideAddr(family), translated)
				n.seenAs(n.red1, network, other, itself)
				n.seenAs(n.red1, network, farAddr(family), itself)
				for _, to := range []netip.Addr{outsideAddr(family), other, farAddr(family)} {
					n.seenAs(n.red2, network, to, secondPool(family))
				}
			}
		}
		n.pings(ways(n.red1, n.red2)...)
	}
	check(true)
	n.gatewayAnswers(n.red1, 4)
	n.transfers(2_000_000, ways(n.red1, n.red2)...)
	for _, from := range []string{"{labels: {app: web}}", `10.0.0.0/31, "fd00::/127"`} {
		n.rewrite("edge1", "{port: r0}", from)
		n.fact("nothing is wrong with the policy", func() error { return n.problemFree("edge1") })
		check(true)
		n.rewrite("edge1", from, "{port: r0}")
	}
	n.rewrite("edge1", "{port: r0}", "192.168.77.0/24")
	n.fact("a policy for others is in force", func() error {
		as, err := mirrored(n.red1.Host, "udp", 0, netip.AddrPortFrom(outside4, mirrorPort))
		if err == nil && as.Addr() != n.red1.addr(4) {
			err = fmt.Errorf("red1 is %s", as)
		}
		return err
	})
	check(false)
	n.heldTogether()
}

func secondPool(family int) []netip.Addr {
	if family == 4 {
		return []netip.Addr{netip.MustParseAddr("198.51.100.30")}
	}
	return []netip.Addr{netip.MustParseAddr("2001:db8:51::30")}
}

// problemFree is nil when an edge says that nothing is wrong.
func (n *network) problemFree(host string) error {
	status, err := n.ask(host).Status(n.ctx)
	if err == nil && len(status.Problems) > 0 {
		err = fmt.Errorf("problems %q", status.Problems)
	}
	return err
}

// sockets asks a mirror from so many UDP sockets of a guest at once, and returns what they are;
// unanswered ones are missing.
func (n *egressNet) sockets(from guest, to netip.AddrPort, count int) (seen []netip.AddrPort) {
	n.t.Helper()
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	b := make([]byte, 100)
	for range count {
		conn, err := dialFrom(from.Host, "udp", 0, to)
		n.must(err)
		conns = append(conns, conn)
		n.must(conn.SetDeadline(time.Now().Add(2 * quietTime)))
		_, err = conn.Write([]byte("who am I?"))
		n.must(err)
		if size, err := conn.Read(b); err == nil {
			as, err := netip.ParseAddrPort(string(b[:size]))
			n.must(err)
			seen = append(seen, as)
		}
	}
	return seen
}

// Ports run out: another address of the pool serves, then nobody, and it is said why. Another
// destination has all of them again.
func TestEgressExhaustion(t *testing.T) {
	n := newEgressNet(t, egressOptions{policies: []string{"name: web, vni: 9001, ports: 2000-2003"}})
	defer n.confess()
	n.up()
	n.mirror(n.out)
	for _, family := range []int{4, 6} {
		for _, port := range []uint16{mirrorPort, mirrorPort + 1} {
			to := netip.AddrPortFrom(outsideAddr(family), port)
			n.once(fmt.Sprintf("eight sockets are served at %s, and no more", to), func() error {
				seen := n.sockets(n.red1, to, 10)
				distinct, addrs := map[netip.AddrPort]bool{}, map[netip.Addr]bool{}
				for _, as := range seen {
					distinct[as], addrs[as.Addr()] = true, true
					if as.Port() < 2000 || as.Port() > 2003 {
						return fmt.Errorf("one is %s", as)
					}
				}
				if len(seen) != 8 || len(distinct) != 8 || len(addrs) != 2 {
					return fmt.Errorf("they are %v", seen)
				}
				return nil
			})
		}
	}
	n.once("it is said why", func() error {
		drops, err := n.drops("edge2")
		if err == nil && drops["nat-exhausted"] != 8 {
			err = fmt.Errorf("%v", drops)
		}
		return err
	})
	n.heldTogether()
}

// A source has as many bindings as it may have, and no other feels it.
func TestEgressLimit(t *testing.T) {
	n := newEgressNet(t, egressOptions{policies: []string{"name: web, vni: 9001, limit: 5, spread: connection"}})
	defer n.confess()
	n.up() // a ping each
	n.mirror(n.out)
	for _, g := range []guest{n.red1, n.red2} {
		n.once(g.Name+" has three sockets served beside two pings", func() error {
			if seen := n.sockets(g, netip.AddrPortFrom(outside4, mirrorPort), 6); len(seen) < 3 || len(seen) > 4 {
				return fmt.Errorf("they are %v", seen)
			}
			return nil
		})
	}
	n.fact("it is said why", func() error {
		drops, err := n.drops("edge2")
		if err == nil && drops["nat-limit"] < 4 {
			err = fmt.Errorf("%v", drops)
		}
		return err
	})
	n.heldTogether()
}

// Connections of one source take different addresses where the policy says so.
func TestEgressSpread(t *testing.T) {
	n := newEgressNet(t, egressOptions{policies: []string{"name: web, vni: 9001, spread: connection"}})
	defer n.confess()
	n.up()
	n.mirror(n.out)
	for _, family := range []int{4, 6} {
		n.once("both addresses of the pool are used", func() error {
			count := map[netip.Addr]int{}
			for _, as := range n.sockets(n.red1, netip.AddrPortFrom(outsideAddr(family), mirrorPort), 40) {
				count[as.Addr()]++
			}
			if pool := poolOf(family); count[pool[0]] < 5 || count[pool[1]] < 5 {
				return fmt.Errorf("%v", count)
			}
			return nil
		})
	}
	n.heldTogether()
}

// What a socket is to one destination it is to all, and who may answer it.
func TestEgressMappings(t *testing.T) {
	for _, c := range []struct {
		options string
		open    bool
	}{{"mapping: endpoint-independent", false}, {"mapping: endpoint-independent, filtering: endpoint-independent", true}} {
		t.Run(c.options, func(t *testing.T) {
			n := newEgressNet(t, egressOptions{policies: []string{"name: web, vni: 9001, ports: 2000-2999, " + c.options}})
			defer n.confess()
			n.up()
			n.mirror(n.out)
			for _, family := range []int{4, 6} {
				n.maps(family, c.open)
			}
			n.heldTogether()
		})
	}
}

// maps has sockets with the same port at two guests, which the range does not contain, talk to all.
func (n *egressNet) maps(family int, open bool) {
	n.t.Helper()
	other := map[int]netip.Addr{4: netip.MustParseAddr("203.0.113.9"), 6: netip.MustParseAddr("2001:db8:cafe::9")}[family]
	for _, g := range []guest{n.red1, n.red2} {
		var was netip.AddrPort
		n.once(g.Name+"'s socket is the same to all", func() error {
			for _, to := range []netip.Addr{outsideAddr(family), other} {
				for port := uint16(mirrorPort); port <= mirrorPort+1; port++ {
					as, err := mirrored(g.Host, "udp", 47000, netip.AddrPortFrom(to, port))
					if err != nil {
						return err
					}
					if was.IsValid() && as != was {
						return fmt.Errorf("it was %s, and is %s", was, as)
					}
					was = as
				}
			}
			return nil
		})
		n.once(fmt.Sprintf("a stranger reaches it: %t", open), func() error {
			err := n.strangerReaches(g, was)
			if !open && err == nil {
				return errors.New("it does")
			}
			if open {
				return err
			}
			return nil
		})
	}
}

// strangerReaches is nil when a datagram of the far host to a mapping arrives at the guest's port.
func (n *egressNet) strangerReaches(g guest, mapping netip.AddrPort) error {
	var conn *net.UDPConn
	err := g.Do(func() (err error) {
		conn, err = net.ListenUDP("udp", &net.UDPAddr{Port: 47000})
		return err
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	stranger, err := dialUDP(n.far, net.UDPAddrFromAddrPort(mapping))
	if err != nil {
		return err
	}
	defer stranger.Close()
	if _, err := stranger.Write([]byte("hello")); err != nil {
		return err
	}
	_ = conn.SetReadDeadline(time.Now().Add(2 * quietTime))
	b := make([]byte, 100)
	size, from, err := conn.ReadFromUDPAddrPort(b)
	if err == nil && (string(b[:size]) != "hello" || from.Addr().Unmap() != farAddr(map[bool]int{true: 4, false: 6}[mapping.Addr().Is4()])) {
		err = fmt.Errorf("%q from %s", b[:size], from)
	}
	return err
}
