package qemu

import (
	"fmt"
	"net"
	"testing"

	"github.com/selvage/selvage/lab/topo"
)

// nics are how many interfaces of a model a machine has, and queues how many queues those have that QEMU gives several.
// XDP takes a transmit queue of a virtio-net for each processor, besides the channels in use.
const nics, queues = 4, 4

// driver is a network card of QEMU, with the kernel's driver for it.
type driver struct {
	name  string // of the driver
	model string // of QEMU's card
	taps  bool   // only taps give QEMU several queues for it
}

// drivers are those of the machine, by their number in its MAC addresses.
var drivers = []driver{{"virtio_net", "virtio-net-pci", true}, {"e1000e", "e1000e", false}, {"vmxnet3", "vmxnet3", false}}

// roles are the interfaces of a driver: tx is connected to in, and out to rx. A router has in and out.
var roles = [nics]string{"tx", "in", "out", "rx"}

// address is the MAC address of a driver's interface.
func address(driver, role int) net.HardwareAddr {
	return net.HardwareAddr{0x52, 0x54, 0, 0, byte(driver), byte(role)}
}

// cards are QEMU's arguments for all interfaces. Their cables are in QEMU's own process, or between taps in a namespace.
func cards(t testing.TB, outside *topo.Host) (args []string) {
	t.Helper()
	for d, driver := range drivers {
		for role := range nics {
			id, cable := fmt.Sprintf("d%dr%d", d, role), d*nics/2+role/2
			device := fmt.Sprintf("%s,netdev=%s,mac=%s", driver.model, id, address(d, role))
			backend := fmt.Sprintf("hubport,id=%s,hubid=%d", id, cable)
			if driver.taps {
				tap(t, outside, id, fmt.Sprintf("cable%d", cable))
				backend = fmt.Sprintf("tap,id=%s,ifname=%[1]s,script=no,downscript=no,queues=%d", id, queues)
				device += fmt.Sprintf(",mq=on,vectors=%d", 2*queues+2)
			}
			args = append(args, "-netdev", backend, "-device", device)
		}
	}
	return args
}

// tap makes one with several queues, on a bridge that is the cable.
func tap(t testing.TB, outside *topo.Host, name, cable string) {
	t.Helper()
	script := fmt.Sprintf(`set -e
ip link show dev %[2]s >/dev/null 2>&1 || ip link add %[2]s type bridge mcast_snooping 0
ip tuntap add %[1]s mode tap multi_queue
sysctl -qw net.ipv6.conf.%[1]s.disable_ipv6=1 net.ipv6.conf.%[2]s.disable_ipv6=1
ip link set %[1]s master %[2]s up
ip link set %[2]s up`, name, cable)
	if _, err := outside.Output(t.Context(), "sh", "-c", script); err != nil {
		t.Fatal(err)
	}
}

// names are a script that gives the interfaces their names, ROLE and the driver's number.
func names() (script string) {
	for d := range drivers {
		for role, name := range roles {
			script += fmt.Sprintf("ip link set \"$(ip -o link | awk '/%s/ {sub(\":\", \"\", $2); print $2}')\" down name %s%d\n", address(d, role), name, d)
		}
	}
	return "set -e\n" + script
}
