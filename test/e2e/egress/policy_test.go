package egress

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
)

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
		n.NoProblems("edge1")
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
