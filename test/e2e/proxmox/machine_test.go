package proxmox

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/debian"
	"github.com/selvage/selvage/test/e2e/harness"
)

// nodeOf a suite has what one of Proxmox has for the SDN: FRR, ifupdown2, iptables and a kernel with VRF devices.
func nodeOf(suite string) debian.Recipe {
	return debian.Recipe{Suite: suite, Packages: []string{"frr", "ifupdown2", "iptables", "python3", "iputils-ping"}, Kernel: "linux-image-amd64"}
}

// machine is a node that is a virtual machine, with a kernel of its own.
type machine struct {
	name   string
	number int
	role
	out netip.Addr // its address at the network outside, if it has one
	vm  *debian.Machine
}

// boot starts a node and its services. It is emulated where the processor has no virtualisation, and takes minutes then.
func (b *cluster) boot(recipe debian.Recipe, m *machine) {
	b.T.Helper()
	m.vm = debian.VM(b.T, debian.Options{Recipe: recipe, Files: b.files(m), Namespace: b.Sw.Namespace, Args: b.plugs(m)})
	m.vm.Must(services)
	m.vm.Fact("FRR of "+m.name+" has its configuration", "vtysh -c 'show running-config' | grep '^router bgp .* vrf '")
	m.vm.Must("sh -e /root/guests")
}

// services are networking and frr, but for watchfrr, which ends daemons that are slow to start. Interfaces that join a VRF
// lose their IPv6 addresses in Linux unless told to keep them, and IPv6 is forwarded only where it is for all interfaces.
const services = `set -e
sysctl -qw net.ipv6.conf.all.keep_addr_on_down=1 net.ipv6.conf.default.keep_addr_on_down=1 net.ipv6.conf.all.forwarding=1
mkdir -p /run/network
ifup -a
install -d -o frr -g frr /run/frr
for daemon in zebra staticd bgpd bfdd; do /usr/lib/frr/$daemon -d >/dev/null 2>&1; done
timeout 120 vtysh -b >/dev/null`

// files are what Proxmox and the installation of a node have written.
func (b *cluster) files(m *machine) map[string]string {
	b.T.Helper()
	tep := topo.UnderlayAddr(m.number, 4)
	var peers []netip.Addr
	for i, other := range b.Teps {
		if i+1 != m.number {
			peers = append(peers, other)
		}
	}
	interfaces := fmt.Sprintf("auto lo\niface lo inet loopback\n\nauto eth0\niface eth0 inet static\n\taddress %s/24\n", tep)
	if m.out.IsValid() {
		interfaces += fmt.Sprintf("\nauto eth1\niface eth1 inet static\n\taddress %s/24\n\tpost-up ip route replace default via %s dev eth1\n", m.out, outsideAddr)
	}
	dir, files := b.T.TempDir(), map[string]string{}
	for name, text := range map[string]string{
		"/etc/network/interfaces": interfaces + "\nsource /etc/network/interfaces.d/*\n", "/etc/network/interfaces.d/sdn": interfacesText(tep, m.role, "eth1", m.out),
		"/etc/frr/frr.conf": frrText(tep, peers, m.role), "/etc/frr/daemons": "bgpd=yes\nbfdd=yes\nvtysh_enable=yes\n", "/root/guests": m.guests(),
	} {
		files[name] = filepath.Join(dir, filepath.Base(name))
		b.Must(os.WriteFile(files[name], []byte(text), 0o644))
	}
	return files
}

// guests makes those of a member: a namespace at the bridge of each VNet.
func (m *machine) guests() string {
	if m.exit {
		return ""
	}
	var s strings.Builder
	for _, v := range vnets {
		for _, line := range []string{
			"ip netns add NAME2", "ip link add NAME2 type veth peer name eth0 address 02:00:00:00:0S:02 netns NAME2", "ip link set NAME2 mtu 1450 master NAME up",
			"ip -n NAME2 link set lo up", "ip -n NAME2 address add 10.S.0.2/24 dev eth0", "ip -n NAME2 address add fd00:S::2/64 dev eth0 nodad",
			"ip -n NAME2 link set eth0 mtu 1450 up", "ip -n NAME2 route add default via 10.S.0.254", "ip -n NAME2 -6 route add default via fd00:S::fe",
		} {
			s.WriteString(strings.NewReplacer("NAME", v.name, "S", fmt.Sprint(v.subnet)).Replace(line) + "\n")
		}
	}
	return s.String()
}

// plugs are a tap at the switch, and one at the network outside, for QEMU.
func (b *cluster) plugs(m *machine) (args []string) {
	b.T.Helper()
	plug := func(bridge, tap string, mac net.HardwareAddr) {
		_, err := b.Sw.Output(b.Ctx, "ip", "tuntap", "add", tap, "mode", "tap")
		b.Must(err)
		b.Must(errors.Join(b.Sw.DisableIPv6(tap), b.Sw.Enslave(tap, bridge), b.Sw.Up(tap)))
		args = append(args, "-netdev", fmt.Sprintf("tap,id=%s,ifname=%[1]s,script=no,downscript=no", tap), "-device", fmt.Sprintf("virtio-net-pci,netdev=%s,mac=%s", tap, mac))
	}
	plug("br0", fmt.Sprintf("m%d", m.number), harness.UnderlayMAC(m.number))
	if m.out.IsValid() {
		plug("wan0", fmt.Sprintf("w%d", m.number), net.HardwareAddr{2, 0, 0, 0, 9, byte(m.number)})
	}
	return args
}

// onBridge has the host outside on a bridge of the switch's namespace, beside the underlay's.
func (b *cluster) onBridge(outside *topo.Host) {
	b.T.Helper()
	b.Must(b.Topo.Link(b.Ctx, topo.LinkEnd{Host: outside, Name: "lan0", Addrs: []netip.Prefix{netip.PrefixFrom(outsideAddr, 24)}}, topo.LinkEnd{Host: b.Sw, Name: "out"}, 1500))
	b.Must(outside.AddAddr("lo", netip.PrefixFrom(harness.Outside4, 32)))
	b.Must(b.Sw.Bridge(b.Ctx, "wan0", 1500, "out"))
}

// run runs a command line in the machine.
func (b *cluster) run(m *machine, line string) (string, error) {
	r, err := m.vm.Run(b.Ctx, line)
	return r.Out, err
}
