package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/lab/topo"
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
	n := newUnderlay(t, spoofPicture, 2, 4)
	red1 := n.guest("red1", 0, 1, n.hosts[0], "g0", 1450)
	red2 := n.guest("red2", 0, 2, n.hosts[1], "r0", 1450)
	for _, more := range []string{"10.0.0.66/24", "fd00:0::66/64"} { // for use by name only
		_, err := red1.Output(n.ctx, "ip", "addr", "add", more, "dev", topo.EndName, "preferred_lft", "0", "nodad")
		n.must(err)
	}
	n.record()
	n.edgesUp(guardedSpec+guardedPort, guardedSpec+"\n  - {name: r0, interface: r0, segment: red}\n")
	n.pings(ways(red1, red2)...)
	n.gatewayAnswers(red1, 4)
	n.gatewayAnswers(red1, 6)
	s := n.startStream(way(red1, red2, 4))
	for _, c := range []struct {
		what, source string
		to           netip.Addr
	}{
		{"of another IPv4 address", "10.0.0.66", red2.addr(4)},
		{"of another IPv6 address", "fd00:0::66", red2.addr(6)},
		{"of another IPv4 address to the gateway", "10.0.0.66", gatewayAddr(0, 4)},
	} {
		n.spoofed("a ping "+c.what, "spoofed-address", func() error {
			if out, err := red1.Output(n.ctx, "ping", "-n", "-c1", "-W1", "-I", c.source, c.to.String()); err == nil {
				return fmt.Errorf("it is answered: %s", out)
			}
			return nil
		})
	}
	n.spoofedFrames(red1, red2)
	n.spoofed("a host with another MAC address", "spoofed-mac", func() error {
		if _, err := red1.Output(n.ctx, "ip", "link", "set", topo.EndName, "address", "02:00:00:00:00:66"); err != nil {
			return err
		}
		if out, err := red1.Output(n.ctx, "ping", "-n", "-c1", "-W1", red2.addr(4).String()); err == nil {
			return fmt.Errorf("it is answered: %s", out)
		}
		_, err := red1.Output(n.ctx, "ip", "link", "set", topo.EndName, "address", red1.mac().String())
		return err
	})
	n.pings(ways(red1, red2)...)
	n.more(s, 100)
	s.end()
	n.once("nobody has learned of the impostor", func() error { return n.unknown("02:00:00:00:00:66", "10.0.0.66", "fd00::66") })
	n.noDrops("spoofed-address", "spoofed-mac", "no-neighbour")
}

// spoofed is a fact: what a host does is dropped for a reason, and not answered.
func (n *network) spoofed(what, reason string, act func() error) {
	n.t.Helper()
	n.once(what+" is dropped as "+reason, func() error {
		before, err := n.drops("edge1")
		if err != nil {
			return err
		}
		if err := act(); err != nil {
			return err
		}
		after, err := n.drops("edge1")
		if err == nil && after[reason] <= before[reason] {
			err = fmt.Errorf("drops %v, before it was %v", after, before)
		}
		return err
	})
}

// spoofedFrames are claims made by hand, which do not reach the other side.
func (n *hub) spoofedFrames(from, to guest) {
	n.t.Helper()
	out, err := openFrames(from.Host, topo.EndName, false)
	n.must(err)
	defer out.close()
	in, err := openFrames(to.Host, topo.EndName, false)
	n.must(err)
	defer in.close()
	own, other := from.mac().String(), "02:00:00:00:00:66"
	for _, c := range []struct{ src, words, reason string }{
		{own, "arp 10.0.0.66 ? 10.0.0.2", "spoofed-address"},
		{own, "arp 10.0.0.2 ! 10.0.0.1", "spoofed-address"},
		{own, "arp 10.0.0.254 ! 10.0.0.2", "spoofed-address"},
		{own, "na fd00::2 ! fd00::1", "spoofed-address"},
		{own, "ns fd00::66 ? fd00::2", "spoofed-address"},
		{own, "udp 10.0.0.66:1 > 10.0.0.2:2 20", "spoofed-address"},
		{other, "udp 10.0.0.1:1 > 10.0.0.2:2 20", "spoofed-mac"},
		{other, "raw 0x88b5 50", "spoofed-mac"},
		{gatewayMAC, "arp 10.0.0.1 ? 10.0.0.2", "spoofed-mac"},
	} {
		frame := pkttest.Frame(c.src, to.mac().String(), c.words)
		n.spoofed(fmt.Sprintf("%q from %s", c.words, c.src), c.reason, func() error {
			if err := out.send(frame); err != nil {
				return err
			}
			mark := fmt.Sprintf("behind %s of %s.", c.words, c.src)
			if err := out.send(marked(from.mac(), to.mac(), mark)); err != nil {
				return err
			}
			got, err := in.until(func(b []byte) bool { return string(b) == string(frame) }, has(mark))
			if err == nil && len(got) > 0 {
				err = fmt.Errorf("it has arrived: %x", got)
			}
			return err
		})
	}
}

// unknown is nil when no edge has these MAC or IP addresses.
func (n *hub) unknown(mac string, addrs ...string) error {
	hardware, err := net.ParseMAC(mac)
	if err != nil {
		return err
	}
	for _, h := range n.hosts {
		if e, err := n.entry(h, hardware); err != nil || e != nil {
			return errors.Join(fmt.Errorf("%s has %+v", h.Name, e), err)
		}
		neighbours, err := n.ask(h.Name).Neighbours(n.ctx)
		if err != nil {
			return err
		}
		for _, entry := range neighbours {
			for _, a := range addrs {
				if entry.Address.String() == a {
					return fmt.Errorf("%s has %+v", h.Name, entry)
				}
			}
		}
	}
	return nil
}
