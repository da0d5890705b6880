package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/topo"
)

// ovsSwitch is an Open vSwitch of its own on a host, with a userspace datapath,
// that is not a tunnel's end (topo.OVSHalf) but a switch behind a port.
type ovsSwitch struct {
	host *topo.Host
	dir  string
}

// startSwitch starts a database and a switch, which end with the lab.
func startSwitch(ctx context.Context, lab *topo.Lab, h *topo.Host) (*ovsSwitch, error) {
	dir, err := os.MkdirTemp(lab.Dir, "switch-")
	if err != nil {
		return nil, err
	}
	s := &ovsSwitch{h, dir}
	if err := s.run(ctx, "ovsdb-tool", "create", s.file("conf.db"), "/usr/share/openvswitch/vswitch.ovsschema"); err != nil {
		return nil, err
	}
	if err := s.daemon(ctx, s.file("server.ctl"), "ovsdb-server", s.file("conf.db"), "--remote=punix:"+s.file("db.sock")); err != nil {
		return nil, err
	}
	if err := s.vsctl(ctx, "--no-wait", "init"); err != nil {
		return nil, err
	}
	return s, s.daemon(ctx, s.file("switch.ctl"), "ovs-vswitchd", "unix:"+s.file("db.sock"), "--disable-system")
}

func (s *ovsSwitch) file(name string) string { return filepath.Join(s.dir, name) }

func (s *ovsSwitch) command(ctx context.Context, argv ...string) *topo.Command {
	c := s.host.Command(ctx, argv...)
	c.Env = []string{"OVS_RUNDIR=" + s.dir, "OVS_DBDIR=" + s.dir, "OVS_LOGDIR=" + s.dir}
	return c
}

func (s *ovsSwitch) run(ctx context.Context, argv ...string) error {
	return s.command(ctx, argv...).Run()
}

func (s *ovsSwitch) vsctl(ctx context.Context, args ...string) error {
	return s.run(ctx, append([]string{"ovs-vsctl", "--db=unix:" + s.file("db.sock"), "--timeout=10"}, args...)...)
}

// daemon starts a program and waits until it answers at its control socket.
func (s *ovsSwitch) daemon(ctx context.Context, control string, argv ...string) error {
	c := s.command(ctx, append(argv, "--unixctl="+control)...)
	c.Log = s.file(argv[0] + ".log")
	if err := c.Start(); err != nil {
		return err
	}
	return await.That(ctx, argv[0]+" to answer", func() error {
		return s.run(ctx, "ovs-appctl", "--timeout=1", "--target="+control, "version")
	})
}

const taggedUplinkPicture = `
        edge1 (no tunnels)
      r0 |  | up0, the uplink is VLAN 42; untagged, it is the host's own
       red1 | eth0
         outside: br0 of Open vSwitch: eth0, wan (tag 42) 198.51.100.1, and
                  own (untagged) 192.168.9.1, which the host on edge1 talks to`

// An uplink by a VLAN of an interface that the host uses too.
func TestUplinkVLAN(t *testing.T) {
	n := newUnderlay(t, taggedUplinkPicture, 1, 4)
	red := n.guest("red1", 0, 1, n.hosts[0], "r0", 1450)
	out := n.host("outside")
	n.must(n.lab.Link(n.ctx, topo.LinkEnd{Host: out, Name: topo.EndName}, topo.LinkEnd{
		Host: n.hosts[0], Name: "up0", Addrs: []netip.Prefix{netip.MustParsePrefix("192.168.9.2/24")},
	}, 1500))
	s, err := startSwitch(n.ctx, n.lab, out)
	n.must(err)
	n.must(s.vsctl(n.ctx, "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev", "--", "add-port", "br0", topo.EndName,
		"--", "add-port", "br0", "wan", "tag=42", "--", "set", "interface", "wan", "type=internal",
		"--", "add-port", "br0", "own", "--", "set", "interface", "own", "type=internal"))
	n.must(errors.Join(out.Up("wan"), out.Up("own"),
		out.AddAddr("wan", netip.MustParsePrefix("198.51.100.1/24")), out.AddAddr("wan", netip.MustParsePrefix("2001:db8:51::1/64")),
		out.AddAddr("own", netip.MustParsePrefix("192.168.9.1/24")),
		out.AddRoute("wan", netip.MustParsePrefix("10.0.0.0/24"), netip.MustParseAddr("198.51.100.2")),
		out.AddRoute("wan", netip.MustParsePrefix("fd00:0::/64"), netip.MustParseAddr("2001:db8:51::2"))))
	n.finished(topo.EndName, red.Host) // the switch takes frames as they are
	n.finished("up0", n.hosts[0])
	n.record()
	n.edgesUp(strings.NewReplacer("interface: up0", "interface: up0, vlan: 42", "    remotes: REMOTES\n", "").Replace(uplinkSpec))
	for family, addr := range map[int]string{4: "198.51.100.1", 6: "2001:db8:51::1"} {
		to := direction{fmt.Sprintf("red1 to outside, IPv%d", family), red.Host, out, netip.MustParseAddr(addr)}
		from := direction{fmt.Sprintf("outside to red1, IPv%d", family), out, red.Host, red.addr(family)}
		n.routes(to, 1, red)
		n.pings(from)
		n.transfers(1_000_000, to, from)
	}
	n.pings(direction{"the host itself to outside", n.hosts[0], out, netip.MustParseAddr("192.168.9.1")},
		direction{"outside to the host itself", out, n.hosts[0], netip.MustParseAddr("192.168.9.2")})
	n.noDrops("no-neighbour", "ttl-exceeded", "no-member")
}
