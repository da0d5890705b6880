package egress

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
)

// asksOnce sends a datagram from a local port and waits for an answer, briefly: it may come or not.
func asksOnce(d harness.Direction, local uint16) error {
	conn, err := harness.DialFrom(d.From, "udp", local, netip.AddrPortFrom(d.Addr, harness.MirrorPort))
	if err != nil {
		return err
	}
	defer harness.CloseNow(conn)
	_ = conn.SetDeadline(time.Now().Add(5 * time.Millisecond))
	_, _ = conn.Write([]byte("question")) // an error of ICMP may be waiting, which is fine
	_, _ = conn.Read(make([]byte, 100))
	return nil
}

// whoHas are the MAC addresses that answer a question for an address at the wan.
func whoHas(n *harness.EgressNet, addr netip.Addr) (macs []string, err error) {
	out, err := harness.OpenFrames(n.Out, "lan0", false)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	mac, err := n.Out.MAC("lan0")
	if err != nil {
		return nil, err
	}
	if err := out.Send(pkttest.Frame(mac.String(), harness.BroadcastMAC.String(), fmt.Sprintf("arp %s ? %s", harness.WanAddr(1, 4), addr))); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(harness.QuietTime); ; {
		frame, err := out.Next(deadline)
		if err != nil {
			return macs, nil
		}
		said := pkttest.Frame(net.HardwareAddr(frame[6:12]).String(), mac.String(), fmt.Sprintf("arp %s ! %s", addr, harness.WanAddr(1, 4)))
		if from := net.HardwareAddr(frame[6:12]).String(); bytes.HasPrefix(frame, said[:42]) && !slices.Contains(macs, from) {
			macs = append(macs, from)
		}
	}
}

// Which packets a policy is for, and by which address they leave.
func TestEgressPolicies(t *testing.T) {
	t.Parallel()
	n := harness.NewEgressNet(t, harness.EgressOptions{Uplink: "nat: {}", Policies: []string{
		`name: first, vni: 9001, from: [{port: r0}], to: [203.0.113.0/24, "2001:db8:cafe::/64"], except: [203.0.113.9/32, "2001:db8:cafe::9/128"]`,
		`name: second, vni: 9002, encapsulation: geneve, from: [10.0.0.2, "fd00::2"], pool: [198.51.100.30, "2001:db8:51::30"]`,
	}})
	var pool, own []string
	for _, family := range []int{4, 6} {
		for _, a := range append(secondPool(family), harness.PoolOf(family)...) {
			pool = append(pool, "src host "+a.String())
		}
		own = append(own, "src host "+harness.WanAddr(2, family).String(), "src host "+harness.WanAddr(3, family).String())
	}
	harness.Confine(n.Hub.Network, "../../..") // rules change, and none may be read back by its number
	n.Untranslated.Close()
	n.Untranslated = n.WatchLeaks(harness.LeakFilterOf(pool, own), "g2", "g3")
	n.Must(n.Out.AddRoute("lan0", netip.MustParsePrefix("10.0.0.0/8"), harness.WanAddr(4, 4)))
	n.Must(n.Out.AddRoute("lan0", netip.MustParsePrefix("fd00::/16"), harness.WanAddr(4, 6)))
	n.Up()
	n.Mirror(n.Out)
	n.Mirror(n.Far)
	check := func(first bool) {
		n.T.Helper()
		for _, family := range []int{4, 6} {
			other := map[int]netip.Addr{4: netip.MustParseAddr("203.0.113.9"), 6: netip.MustParseAddr("2001:db8:cafe::9")}[family]
			itself := []netip.Addr{n.Red1.Addr(family)}
			translated := harness.PoolOf(family)
			if !first {
				translated = itself
			}
			for _, network := range []string{"tcp", "udp"} {
				n.SeenAs(n.Red1, network, harness.OutsideAddr(family), translated)
				n.SeenAs(n.Red1, network, other, itself)
				n.SeenAs(n.Red1, network, harness.FarAddr(family), itself)
				for _, to := range []netip.Addr{harness.OutsideAddr(family), other, harness.FarAddr(family)} {
					n.SeenAs(n.Red2, network, to, secondPool(family))
				}
			}
		}
		n.Pings(harness.Ways(n.Red1, n.Red2)...)
	}
	check(true)
	n.GatewayAnswers(n.Red1, 4)
	n.Transfers(2_000_000, harness.Ways(n.Red1, n.Red2)...)
	for _, from := range []string{"{labels: {app: web}}", `10.0.0.0/31, "fd00::/127"`} {
		n.Rewrite("edge1", "{port: r0}", from)
		n.Fact("nothing is wrong with the policy", func() error { return problemFree(n.Hub.Network, "edge1") })
		check(true)
		n.Rewrite("edge1", from, "{port: r0}")
	}
	n.Rewrite("edge1", "{port: r0}", "192.168.77.0/24")
	n.Fact("a policy for others is in force", func() error {
		as, err := harness.Mirrored(n.Red1.Host, "udp", 0, netip.AddrPortFrom(harness.Outside4, harness.MirrorPort))
		if err == nil && as.Addr() != n.Red1.Addr(4) {
			err = fmt.Errorf("red1 is %s", as)
		}
		return err
	})
	check(false)
	n.HeldTogether()
}

func secondPool(family int) []netip.Addr {
	if family == 4 {
		return []netip.Addr{netip.MustParseAddr("198.51.100.30")}
	}
	return []netip.Addr{netip.MustParseAddr("2001:db8:51::30")}
}

// problemFree is nil when an edge says that nothing is wrong.
func problemFree(n *harness.Network, host string) error {
	status, err := n.Ask(host).Status(n.Ctx)
	if err == nil && len(status.Problems) > 0 {
		err = fmt.Errorf("problems %q", status.Problems)
	}
	return err
}

// sockets asks a mirror from so many UDP sockets of a guest at once, and returns what they are;
// unanswered ones are missing.
func sockets(n *harness.EgressNet, from harness.Guest, to netip.AddrPort, count int) (seen []netip.AddrPort) {
	n.T.Helper()
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	b := make([]byte, 100)
	for range count {
		conn, err := harness.DialFrom(from.Host, "udp", 0, to)
		n.Must(err)
		conns = append(conns, conn)
		n.Must(conn.SetDeadline(time.Now().Add(2 * harness.QuietTime)))
		_, err = conn.Write([]byte("who am I?"))
		n.Must(err)
		if size, err := conn.Read(b); err == nil {
			as, err := netip.ParseAddrPort(string(b[:size]))
			n.Must(err)
			seen = append(seen, as)
		}
	}
	return seen
}

// Ports run out: another address of the pool serves, then nobody, and it is said why. Another
// destination has all of them again.
func TestEgressExhaustion(t *testing.T) {
	t.Parallel()
	n := harness.NewEgressNet(t, harness.EgressOptions{Policies: []string{"name: web, vni: 9001, ports: 2000-2003"}})
	defer n.DumpOnFailure()
	n.Up()
	n.Mirror(n.Out)
	for _, family := range []int{4, 6} {
		for _, port := range []uint16{harness.MirrorPort, harness.MirrorPort + 1} {
			to := netip.AddrPortFrom(harness.OutsideAddr(family), port)
			n.Once(fmt.Sprintf("eight sockets are served at %s, and no more", to), func() error {
				seen := sockets(n, n.Red1, to, 10)
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
	n.Once("it is said why", func() error {
		drops, err := n.Drops("edge2")
		if err == nil && drops["nat-exhausted"] != 8 {
			err = fmt.Errorf("%v", drops)
		}
		return err
	})
	n.HeldTogether()
}

// A source has as many sessions as it may have, and no other feels it.
func TestEgressLimit(t *testing.T) {
	t.Parallel()
	n := harness.NewEgressNet(t, harness.EgressOptions{Policies: []string{"name: web, vni: 9001, limit: 5, addressPooling: arbitrary"}})
	defer n.DumpOnFailure()
	n.Up() // a ping each
	n.Mirror(n.Out)
	for _, g := range []harness.Guest{n.Red1, n.Red2} {
		n.Once(g.Name+" has three sockets served beside two pings", func() error {
			if seen := sockets(n, g, netip.AddrPortFrom(harness.Outside4, harness.MirrorPort), 6); len(seen) < 3 || len(seen) > 4 {
				return fmt.Errorf("they are %v", seen)
			}
			return nil
		})
	}
	n.Fact("it is said why", func() error {
		drops, err := n.Drops("edge2")
		if err == nil && drops["nat-limit"] < 4 {
			err = fmt.Errorf("%v", drops)
		}
		return err
	})
	n.HeldTogether()
}

// Connections of one source take different addresses where the policy says so.
func TestEgressSpread(t *testing.T) {
	t.Parallel()
	n := harness.NewEgressNet(t, harness.EgressOptions{Policies: []string{"name: web, vni: 9001, addressPooling: arbitrary"}})
	defer n.DumpOnFailure()
	n.Up()
	n.Mirror(n.Out)
	for _, family := range []int{4, 6} {
		n.Once("both addresses of the pool are used", func() error {
			count := map[netip.Addr]int{}
			for _, as := range sockets(n, n.Red1, netip.AddrPortFrom(harness.OutsideAddr(family), harness.MirrorPort), 40) {
				count[as.Addr()]++
			}
			if pool := harness.PoolOf(family); count[pool[0]] < 5 || count[pool[1]] < 5 {
				return fmt.Errorf("%v", count)
			}
			return nil
		})
	}
	n.HeldTogether()
}

// What a socket is to one destination it is to all, and who may answer it.
func TestEgressMappings(t *testing.T) {
	for _, c := range []struct {
		options string
		open    bool
	}{{"mapping: endpoint-independent", false}, {"mapping: endpoint-independent, filtering: endpoint-independent", true}} {
		t.Run(c.options, func(t *testing.T) {
			t.Parallel()
			n := harness.NewEgressNet(t, harness.EgressOptions{Policies: []string{"name: web, vni: 9001, ports: 2000-2999, " + c.options}})
			defer n.DumpOnFailure()
			n.Up()
			n.Mirror(n.Out)
			for _, family := range []int{4, 6} {
				maps(n, family, c.open)
			}
			n.HeldTogether()
		})
	}
}

// maps has sockets with the same port at two guests, which the range does not contain, talk to all.
func maps(n *harness.EgressNet, family int, open bool) {
	n.T.Helper()
	other := map[int]netip.Addr{4: netip.MustParseAddr("203.0.113.9"), 6: netip.MustParseAddr("2001:db8:cafe::9")}[family]
	for _, g := range []harness.Guest{n.Red1, n.Red2} {
		var was netip.AddrPort
		n.Once(g.Name+"'s socket is the same to all", func() error {
			for _, to := range []netip.Addr{harness.OutsideAddr(family), other} {
				for port := uint16(harness.MirrorPort); port <= harness.MirrorPort+1; port++ {
					as, err := harness.Mirrored(g.Host, "udp", 47000, netip.AddrPortFrom(to, port))
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
		n.Once(fmt.Sprintf("a stranger reaches it: %t", open), func() error {
			err := strangerReaches(n, g, was)
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
func strangerReaches(n *harness.EgressNet, g harness.Guest, mapping netip.AddrPort) error {
	var conn *net.UDPConn
	err := g.Do(func() (err error) {
		conn, err = net.ListenUDP("udp", &net.UDPAddr{Port: 47000})
		return err
	})
	if err != nil {
		return err
	}
	defer harness.CloseNow(conn)
	stranger, err := harness.DialUDP(n.Far, net.UDPAddrFromAddrPort(mapping))
	if err != nil {
		return err
	}
	defer stranger.Close()
	if _, err := stranger.Write([]byte("hello")); err != nil {
		return err
	}
	_ = conn.SetReadDeadline(time.Now().Add(2 * harness.QuietTime))
	b := make([]byte, 100)
	size, from, err := conn.ReadFromUDPAddrPort(b)
	if err == nil && (string(b[:size]) != "hello" || from.Addr().Unmap() != harness.FarAddr(map[bool]int{true: 4, false: 6}[mapping.Addr().Is4()])) {
		err = fmt.Errorf("%q from %s", b[:size], from)
	}
	return err
}
