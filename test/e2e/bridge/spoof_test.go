package bridge

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
	"github.com/selvage/selvage/test/pkttest"
)

const spoofPicture = `
              switch
          e1 /      \ e2
        edge1        edge2
      g0 |            | r0
       red1          red2       g0 may use 02:00:00:00:00:01, 10.0.0.1 and fd00:0::1`

const guardedPort = `
  - {name: g0, interface: g0, segment: red, allowed: {macs: ["02:00:00:00:00:01"], addresses: [10.0.0.1/32, "fd00:0::1/128"]}}
`

const guardedSpec = `
  segments:
  - name: red
    vni: 100
    remotes: REMOTES
    gateway: {router: tenant, addresses: [10.0.0.254/24, "fd00:0::fe/64"]}
  routers:
  - name: tenant
  ports:`

// A real host takes another's addresses: nothing of that leaves its port, and what
// it may do goes on.
func TestSpoofGuard(t *testing.T) {
	t.Parallel()
	n := harness.NewUnderlay(t, spoofPicture, 2, 4)
	red1 := n.Guest("red1", 0, 1, n.Hosts[0], "g0", 1450)
	red2 := n.Guest("red2", 0, 2, n.Hosts[1], "r0", 1450)
	for _, more := range []string{"10.0.0.66/24", "fd00:0::66/64"} { // for use by name only
		_, err := red1.Output(n.Ctx, "ip", "addr", "add", more, "dev", topo.EndName, "preferred_lft", "0", "nodad")
		n.Must(err)
	}
	n.Record()
	n.EdgesUp(guardedSpec+guardedPort, guardedSpec+"\n  - {name: r0, interface: r0, segment: red}\n")
	n.Pings(harness.Ways(red1, red2)...)
	n.GatewayAnswers(red1, 4)
	n.GatewayAnswers(red1, 6)
	s := n.StartStream(harness.Way(red1, red2, 4))
	for _, c := range []struct {
		what, source string
		to           netip.Addr
	}{
		{"of another IPv4 address", "10.0.0.66", red2.Addr(4)},
		{"of another IPv6 address", "fd00:0::66", red2.Addr(6)},
		{"of another IPv4 address to the gateway", "10.0.0.66", harness.GatewayAddr(0, 4)},
	} {
		spoofed(n.Network, "a ping "+c.what, "spoofed-address", func() error {
			if out, err := red1.Output(n.Ctx, "ping", "-n", "-c1", "-W1", "-I", c.source, c.to.String()); err == nil {
				return fmt.Errorf("it is answered: %s", out)
			}
			return nil
		})
	}
	spoofedFrames(n, red1, red2)
	spoofed(n.Network, "a host with another MAC address", "spoofed-mac", func() error {
		if _, err := red1.Output(n.Ctx, "ip", "link", "set", topo.EndName, "address", "02:00:00:00:00:66"); err != nil {
			return err
		}
		if out, err := red1.Output(n.Ctx, "ping", "-n", "-c1", "-W1", red2.Addr(4).String()); err == nil {
			return fmt.Errorf("it is answered: %s", out)
		}
		_, err := red1.Output(n.Ctx, "ip", "link", "set", topo.EndName, "address", red1.Ether().String())
		return err
	})
	n.Pings(harness.Ways(red1, red2)...)
	n.More(s, 100)
	s.End()
	n.Once("nobody has learned of the impostor", func() error { return unknown(n, "02:00:00:00:00:66", "10.0.0.66", "fd00::66") })
	n.NoDrops("spoofed-address", "spoofed-mac", "no-neighbour")
}

// spoofed is a fact: what a host does is dropped for a reason, and not answered.
func spoofed(n *harness.Network, what, reason string, act func() error) {
	n.T.Helper()
	n.Once(what+" is dropped as "+reason, func() error {
		before, err := n.Drops("edge1")
		if err != nil {
			return err
		}
		if err := act(); err != nil {
			return err
		}
		after, err := n.Drops("edge1")
		if err == nil && after[reason] <= before[reason] {
			err = fmt.Errorf("drops %v, before it was %v", after, before)
		}
		return err
	})
}

// spoofedFrames are claims made by hand, which do not reach the other side.
func spoofedFrames(n *harness.Hub, from, to harness.Guest) {
	n.T.Helper()
	out, err := harness.OpenFrames(from.Host, topo.EndName, false)
	n.Must(err)
	defer out.Close()
	in, err := harness.OpenFrames(to.Host, topo.EndName, false)
	n.Must(err)
	defer in.Close()
	own, other := from.Ether().String(), "02:00:00:00:00:66"
	for _, c := range []struct{ src, words, reason string }{
		{own, "arp 10.0.0.66 ? 10.0.0.2", "spoofed-address"},
		{own, "arp 10.0.0.2 ! 10.0.0.1", "spoofed-address"},
		{own, "arp 10.0.0.254 ! 10.0.0.2", "spoofed-address"},
		{own, "na fd00::2 ! fd00::1", "spoofed-address"},
		{own, "ns fd00::66 ? fd00::2", "spoofed-address"},
		{own, "udp 10.0.0.66:1 > 10.0.0.2:2 20", "spoofed-address"},
		{other, "udp 10.0.0.1:1 > 10.0.0.2:2 20", "spoofed-mac"},
		{other, "raw 0x88b5 50", "spoofed-mac"},
		{harness.GatewayMAC, "arp 10.0.0.1 ? 10.0.0.2", "spoofed-mac"},
	} {
		frame := pkttest.Frame(c.src, to.Ether().String(), c.words)
		spoofed(n.Network, fmt.Sprintf("%q from %s", c.words, c.src), c.reason, func() error {
			if err := out.Send(frame); err != nil {
				return err
			}
			mark := fmt.Sprintf("behind %s of %s.", c.words, c.src)
			if err := out.Send(harness.Marked(from.Ether(), to.Ether(), mark)); err != nil {
				return err
			}
			got, err := in.Until(func(b []byte) bool { return string(b) == string(frame) }, harness.Has(mark))
			if err == nil && len(got) > 0 {
				err = fmt.Errorf("it has arrived: %x", got)
			}
			return err
		})
	}
}

// unknown is nil when no edge has these MAC or IP addresses.
func unknown(n *harness.Hub, mac string, addrs ...string) error {
	hardware, err := net.ParseMAC(mac)
	if err != nil {
		return err
	}
	for _, h := range n.Hosts {
		if e, err := n.Entry(h, hardware); err != nil || e != nil {
			return errors.Join(fmt.Errorf("%s has %+v", h.Name, e), err)
		}
		neighbours, err := n.Ask(h.Name).Neighbours(n.Ctx, api.EntryQuery{})
		if err != nil {
			return err
		}
		for _, entry := range neighbours.List {
			for _, a := range addrs {
				if entry.Address.String() == a {
					return fmt.Errorf("%s has %+v", h.Name, entry)
				}
			}
		}
	}
	return nil
}
