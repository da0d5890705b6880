package platforms

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

const deploy = "../../../deploy"

const picture = `
                  switch
              e1 /      \ e2
            edge1        edge2
      web1, web2 |        | r0
   (made by a platform)  blue2  10.0.0.2, fd00::2`

// networkdScript runs systemd-networkd with configuration of its own, as in a container: there is no udev, which
// it sees from a /sys that nobody can write.
const networkdScript = `set -e
mount --make-rprivate /
mount -o remount,bind,ro /sys 2>/dev/null || mount -t sysfs -o ro sysfs /sys
mkdir -p /run/systemd /etc/systemd/network
mount -t tmpfs networkd /run/systemd
mount --bind "$1" /etc/systemd/network
mkdir -p /run/systemd/netif/links /run/systemd/netif/leases
chown -R systemd-network:systemd-network /run/systemd/netif
mkdir -p /run/systemd/dev
mknod -m 666 /run/systemd/dev/tun c 10 200
mount --bind /run/systemd/dev/tun /dev/net/tun
exec env SYSTEMD_LOG_LEVEL=info /lib/systemd/systemd-networkd
`

// systemd-networkd makes the underlay's address and the interfaces, and an edge has them as ports.
func TestNetworkd(t *testing.T) {
	t.Parallel()
	const program = "/lib/systemd/systemd-networkd"
	if _, err := os.Stat(program); err != nil {
		t.Skipf("%s is not installed: apt-get install systemd", program)
	}
	n := harness.NewUnderlay(t, picture, 2, 4)
	blue2 := n.Guest("blue2", 0, 2, n.Hosts[1], "r0", 1450)
	n.Edge(2, "  segments: [{name: web, vni: 100, remotes: REMOTES}]\n  ports: [{name: r0, interface: r0, segment: web}]\n")
	n.Must(n.Hosts[0].DelAddr(topo.UnderlayName, netip.PrefixFrom(n.Teps[0], 24)))
	dir := filepath.Join(n.Topo.Dir, "networkd")
	n.Must(os.MkdirAll(dir, 0o755))
	files, err := filepath.Glob(deploy + "/networkd/*.net*")
	n.Must(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		n.Must(err)
		changed := strings.NewReplacer("Name=eth0", "Name="+topo.UnderlayName, "MTUBytes=1550", "MTUBytes=1500").Replace(string(text))
		n.Must(os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(changed), 0o644))
	}
	config, err := os.ReadFile(deploy + "/networkd/a.yaml")
	n.Must(err)
	name := dut.EdgeName(n.Hosts[0])
	n.Start(n.Hosts[0], name, strings.NewReplacer("name: a}", "name: "+name+"}", "eth0", topo.UnderlayName).Replace(string(config)))
	networkd := n.Hosts[0].Command(context.WithoutCancel(n.Ctx), "unshare", "--mount", "sh", "-c", networkdScript, "sh", dir)
	networkd.Log = filepath.Join(n.Topo.Dir, "networkd.log")
	n.Must(networkd.Start())
	defer func() {
		if text, err := os.ReadFile(networkd.Log); err == nil && t.Failed() {
			t.Logf("systemd-networkd: %s", text)
		}
	}()
	n.Resolved("edge1")
	n.Fact("port web1 is up, or its other end is not", func() error {
		return errors.Join(n.Hosts[0].Up("web1-inside"), n.PortState("edge1", "web1", "up"))
	})
	n.Fact("web2 is there, and waits for the program that opens it", func() error { return n.PortState("edge1", "web2", "down") })
	container := n.Host("container")
	_, err = n.Hosts[0].Output(n.Ctx, "ip", "link", "set", "web1-inside", "netns", container.Namespace, "name", topo.EndName)
	n.Must(err)
	n.Must(errors.Join(container.AddAddrs(topo.EndName, netip.MustParsePrefix("10.0.0.1/24")), container.Up(topo.EndName)))
	n.Fact("the container pings blue2", func() error { return harness.Ping(n.Ctx, container, blue2.Addr(4)) })
	n.Once("the host has no address at the ports", func() error {
		out, err := n.Hosts[0].Output(n.Ctx, "ip", "-br", "address", "show", "web1")
		if len(strings.Fields(string(out))) > 2 {
			err = fmt.Errorf("%s", out)
		}
		return err
	})
	aliased(n, blue2)
	text, err := os.ReadFile(networkd.Log)
	n.Must(err)
	for _, word := range []string{"Unknown key", "Failed to parse", "ignoring assignment", "Unknown section"} {
		if strings.Contains(string(text), word) {
			t.Errorf("systemd-networkd says %s", text)
		}
	}
	n.Must(networkd.Stop(n.Ctx))
}

// aliased: an interface with the alias of the .link file is a port. There is no udev in a namespace, which would set it.
func aliased(n *harness.Hub, blue2 harness.Guest) {
	n.T.Helper()
	text, err := os.ReadFile(deploy + "/networkd/30-vm1.link")
	n.Must(err)
	_, alias, _ := strings.Cut(string(text), "\nAlias=")
	_, mac, _ := strings.Cut(alias, "mac=")
	ether, err := net.ParseMAC(strings.Fields(mac)[0])
	n.Must(err)
	vm := n.Host("vm")
	n.Must(n.Topo.Link(n.Ctx, topo.LinkEnd{Host: vm, Name: topo.EndName, MAC: ether, Addrs: []netip.Prefix{netip.MustParsePrefix("10.0.0.3/24")}},
		topo.LinkEnd{Host: n.Hosts[0], Name: "vm1"}, 1450))
	_, err = n.Hosts[0].Output(n.Ctx, "ip", "link", "set", "vm1", "alias", strings.TrimSpace(alias))
	n.Must(err)
	n.Fact("an interface with an alias is a port", func() error { return n.PortState("edge1", "vm1", "up") })
	n.Fact("what is behind it pings blue2", func() error { return harness.Ping(n.Ctx, vm, blue2.Addr(4)) })
}
