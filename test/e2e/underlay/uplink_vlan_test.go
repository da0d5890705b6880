package underlay

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

const taggedUplinkPicture = `
        edge1 (no tunnels)
      r0 |  | up0, the uplink is VLAN 42; untagged, it is the host's own
       red1 | eth0
         outside: br0 of Open vSwitch: eth0, wan (tag 42) 198.51.100.1, and
                  own (untagged) 192.168.9.1, which the host on edge1 talks to`

// An uplink by a VLAN of an interface that the host uses too.
func TestUplinkVLAN(t *testing.T) {
	t.Parallel()
	n := harness.NewUnderlay(t, taggedUplinkPicture, 1, 4)
	red := n.Guest("red1", 0, 1, n.Hosts[0], "r0", 1450)
	out := n.Host("outside")
	n.Must(n.Topo.Link(n.Ctx, topo.LinkEnd{Host: out, Name: topo.EndName}, topo.LinkEnd{
		Host: n.Hosts[0], Name: "up0", Addrs: []netip.Prefix{netip.MustParsePrefix("192.168.9.2/24")},
	}, 1500))
	s, err := harness.StartSwitch(n.Ctx, n.Topo, out)
	n.Must(err)
	n.Must(s.Vsctl(n.Ctx, "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "--", "add-port", "br0", topo.EndName,
		"--", "add-port", "br0", "wan", "tag=42", "--", "set", "interface", "wan", "type=internal",
		"--", "add-port", "br0", "own", "--", "set", "interface", "own", "type=internal"))
	n.Must(errors.Join(out.Up("wan"), out.Up("own"),
		out.AddAddr("wan", netip.MustParsePrefix("198.51.100.1/24")), out.AddAddr("wan", netip.MustParsePrefix("2001:db8:51::1/64")),
		out.AddAddr("own", netip.MustParsePrefix("192.168.9.1/24")),
		out.AddRoute("wan", netip.MustParsePrefix("10.0.0.0/24"), netip.MustParseAddr("198.51.100.2")),
		out.AddRoute("wan", netip.MustParsePrefix("fd00:0::/64"), netip.MustParseAddr("2001:db8:51::2"))))
	n.Finished(topo.EndName, red.Host) // the switch takes frames as they are
	n.Finished("up0", n.Hosts[0])
	n.Record()
	n.EdgesUp(strings.NewReplacer("interface: up0", "interface: up0, vlan: 42", "    remotes: REMOTES\n", "").Replace(harness.UplinkSpec))
	for family, addr := range map[int]string{4: "198.51.100.1", 6: "2001:db8:51::1"} {
		to := harness.Direction{Name: fmt.Sprintf("red1 to outside, IPv%d", family), From: red.Host, To: out, Addr: netip.MustParseAddr(addr)}
		from := harness.Direction{Name: fmt.Sprintf("outside to red1, IPv%d", family), From: out, To: red.Host, Addr: red.Addr(family)}
		n.Routes(to, 1, red)
		n.Pings(from)
		n.Transfers(1_000_000, to, from)
	}
	n.Pings(harness.Direction{Name: "the host itself to outside", From: n.Hosts[0], To: out, Addr: netip.MustParseAddr("192.168.9.1")},
		harness.Direction{Name: "outside to the host itself", From: out, To: n.Hosts[0], Addr: netip.MustParseAddr("192.168.9.2")})
	n.NoDrops("no-neighbour", "ttl-exceeded", "no-member")
}
