package doctor

import (
	"testing"
)

func TestOffloads(t *testing.T) {
	off, fixed := Feature{}, Feature{Fixed: true}
	for _, p := range []plant{
		{"checksum", func(inv *Inventory) {
			feature("eth0", "tx-checksum-ip-generic", off)(inv)
			feature("eth0", "tx-tcp-segmentation", off)(inv) // as the kernel does
		}, "offloads", Warning, "eth0", "tx-checksum-ip-generic: off, and not [fixed]; off with it: tx-tcp-segmentation", []string{"ethtool -K eth0 tx on"}},
		{"checksum by protocol", func(inv *Inventory) {
			delete(inv.on("eth0").NIC.Features, "tx-checksum-ip-generic")
			feature("eth0", "tx-checksum-ipv4", off)(inv)
		}, "offloads", Warning, "eth0", "tx-checksum-ipv4: off", []string{"ethtool -K eth0 tx on"}},
		{"checksum of the tunnel", feature("vxlan0", "tx-checksum-ip-generic", off),
			"offloads", Warning, "vxlan0", "tunnel interface", []string{"ethtool -K vxlan0 tx on"}},
		{"all that follows from scatter-gather", func(inv *Inventory) {
			feature("tap0", "tx-scatter-gather", off)(inv)
			feature("tap0", "tx-generic-segmentation", off)(inv)
		}, "offloads", Warning, "tap0", "off with it: tx-generic-segmentation", []string{"ethtool -K tap0 sg on"}},
		{"TCP segmentation", feature("eth0", "tx-tcp-segmentation", off),
			"offloads", Warning, "eth0", "tx-tcp-segmentation", []string{"ethtool -K eth0 tso on"}},
		{"tunnel segmentation", feature("eth0", "tx-udp_tnl-segmentation", off),
			"offloads", Warning, "eth0", "tx-udp_tnl-segmentation", []string{"ethtool -K eth0 tx-udp_tnl-segmentation on"}},
		{"coalescing", feature("eth0", "rx-gro", off),
			"offloads", Warning, "eth0", "rx-gro", []string{"ethtool -K eth0 gro on"}},
		{"an adapter that cannot", func(inv *Inventory) {
			feature("eth0", "tx-udp_tnl-segmentation", fixed)(inv)
			feature("eth0", "rx-udp_tunnel-port-offload", fixed)(inv)
		}, "offloads", Note, "eth0", "cannot do tx-udp_tnl-segmentation, rx-udp_tunnel-port-offload", nil},
	} {
		t.Run(p.name, p.run)
	}
	t.Run("several ports are one finding", plant{"", func(inv *Inventory) {
		feature("tap0", "tx-checksum-ip-generic", off)(inv)
		second := *inv.on("tap0")
		second.Name = "tap1"
		inv.Links = append(inv.Links, second)
	}, "offloads", Warning, "tap0, tap1", "port interface", []string{"ethtool -K tap0 tx on", "ethtool -K tap1 tx on"}}.run)
	t.Run("GRE does not need VXLAN's", func(t *testing.T) {
		inv := recorded(t, "server")
		inv.Tunnels[0].Encapsulation, inv.Tunnels[0].Port = "gretap", 0
		feature("eth0", "tx-udp_tnl-segmentation", off)(inv)
		for _, f := range bad(checkOffloads(inv)) {
			t.Errorf("%+v", f)
		}
		feature("eth0", "tx-gre-segmentation", off)(inv)
		if found := bad(checkOffloads(inv)); len(found) != 1 {
			t.Errorf("want one finding, not %+v", found)
		}
	})
}

func TestJoining(t *testing.T) {
	edge := func(inv *Inventory) { inv.Tunnels[0].Source = fromSelvage }
	for _, p := range []plant{
		{"UDP", func(inv *Inventory) { edge(inv); feature("eth0", "rx-udp-gro-forwarding", Feature{On: true})(inv) },
			"offloads", Note, "eth0", "rx-udp-gro-forwarding: on", []string{"ethtool -K eth0 rx-udp-gro-forwarding off"}},
		{"lists", func(inv *Inventory) { edge(inv); feature("eth0", "rx-gro-list", Feature{On: true})(inv) },
			"offloads", Note, "eth0", "rx-gro-list: on", []string{"ethtool -K eth0 rx-gro-list off"}},
		{"LRO", func(inv *Inventory) { edge(inv); feature("eth0", "rx-lro", Feature{On: true})(inv) },
			"offloads", Warning, "eth0", "rx-lro: on", []string{"ethtool -K eth0 lro off"}},
	} {
		t.Run(p.name, p.run)
	}
	inv := recorded(t, "server")
	feature("eth0", "rx-udp-gro-forwarding", Feature{On: true})(inv)
	if found := checkJoining(inv); len(found) != 0 {
		t.Errorf("the kernel's tunnels need no %+v", found)
	}
}

func TestChecksums(t *testing.T) {
	yes, no := true, false
	ipv6 := func(inv *Inventory, tx, rx *bool) {
		t := &inv.Tunnels[0]
		t.Zero6Tx, t.Zero6Rx = tx, rx
		for i := range t.Remotes {
			t.Remotes[i] = mapped6(i)
			t.Paths[i].Remote = t.Remotes[i]
		}
	}
	for _, p := range []plant{
		{"in software", func(inv *Inventory) {
			inv.Tunnels[0].Checksum = &yes
			feature("eth0", checksumOffload, Feature{})(inv)
		}, "checksums", Warning, "vxlan0", "tx-udp_tnl-csum-segmentation: off", []string{
			"ethtool -K eth0 tx-udp_tnl-csum-segmentation on",
			"or ip link delete dev vxlan0  # the kernel cannot change this flag on a device that exists; its FDB goes too",
			"or ip link add vxlan0 mtu 1500 type vxlan id 100 local 192.0.2.1 dstport 4789 noudpcsum",
		}},
		{"in software of Open vSwitch", func(inv *Inventory) {
			inv.Tunnels[0].Source, inv.Tunnels[0].Checksum = fromOVS, &yes
			feature("eth0", checksumOffload, Feature{Fixed: true})(inv)
		}, "checksums", Warning, "vxlan0", "in software on eth0", []string{"ovs-vsctl set interface vxlan0 options:csum=false"}},
		{"zero refused", func(inv *Inventory) { ipv6(inv, &no, &no) },
			"checksums", Note, "vxlan0", "udp6zerocsumrx is off", []string{
				"ip link delete dev vxlan0  # the kernel cannot change this flag on a device that exists; its FDB goes too",
				"ip link add vxlan0 mtu 1500 type vxlan id 100 local 192.0.2.1 dstport 4789 udp6zerocsumrx",
			}},
		{"zero sent", func(inv *Inventory) { ipv6(inv, &yes, &yes) },
			"checksums", Note, "vxlan0", "UDP checksum zero is sent over IPv6", nil},
		{"port of Linux before the RFC", func(inv *Inventory) { inv.Tunnels[0].Port = 8472 },
			"udp-port", Note, "vxlan0", "8472", nil},
		{"port that VMware takes", func(inv *Inventory) { inv.on("eth0").NIC.Driver = "vmxnet3" },
			"udp-port", Note, "vxlan0", "UDP port 4789 inside a VMware guest", nil},
	} {
		t.Run(p.name, p.run)
	}
}

func TestSpread(t *testing.T) {
	no := false
	for _, p := range []plant{
		{"source ports of the device", func(inv *Inventory) { inv.Tunnels[0].SourceLow, inv.Tunnels[0].SourceHigh = 50000, 50010 },
			"entropy", Warning, "vxlan0", "only 10 outer source ports", []string{
				"ip link delete dev vxlan0  # the kernel cannot change this flag on a device that exists; its FDB goes too",
				"ip link add vxlan0 mtu 1500 type vxlan id 100 local 192.0.2.1 dstport 4789 srcport 32768 60999",
			}},
		{"source ports of the host", func(inv *Inventory) { inv.Machine.SourcePorts = &[2]int{60000, 60999} },
			"entropy", Warning, "vxlan0", "60000 to 60999", []string{`sysctl -w net.ipv4.ip_local_port_range="32768 60999"`}},
		{"GRE", func(inv *Inventory) { inv.Tunnels[0].Encapsulation, inv.Tunnels[0].Port = "gretap", 0 },
			"entropy", Note, "vxlan0", "the underlay sees 2 flows", nil},
		{"hash", func(inv *Inventory) { inv.on("eth0").NIC.HashPorts4 = &no },
			"rss", Warning, "eth0", "RSS does not hash the ports of udp4: 8 queues", []string{"ethtool -N eth0 rx-flow-hash udp4 sdfn"}},
		{"few queues", func(inv *Inventory) { inv.on("eth0").NIC.Channels.Combined = 4 },
			"queues", Note, "eth0", "4 receive queues, 8 are possible", []string{"ethtool -L eth0 combined 8"}},
		{"one queue", func(inv *Inventory) { inv.on("eth0").NIC.Channels.Combined = 1 },
			"queues", Warning, "eth0", "1 receive queues", []string{"ethtool -L eth0 combined 8"}},
		{"receive queues alone", func(inv *Inventory) { *inv.on("eth0").NIC.Channels = Channels{Rx: 2, RxMax: 16} },
			"queues", Note, "eth0", "2 receive queues, 8 are possible", []string{"ethtool -L eth0 rx 8"}},
		{"no steering", func(inv *Inventory) {
			*inv.on("eth0").NIC.Channels = Channels{Combined: 1, CombinedMax: 1}
			inv.on("eth0").RPS = []string{"0000"}
		}, "queues", Note, "eth0", "no steering in software (RPS)", []string{"echo ff > /sys/class/net/eth0/queues/rx-0/rps_cpus"}},
		{"interrupts on one core", func(inv *Inventory) {
			l := inv.on("eth0")
			l.IRQs = []IRQ{
				{Number: 60, Counts: []uint64{0, 90000}, Affinity: []int{1}},
				{Number: 61, Counts: []uint64{0, 80000}, Affinity: []int{1}},
				{Number: 62, Counts: []uint64{0, 0}},
			}
		}, "interrupts", Warning, "eth0", "170000 of 170000 since boot on CPU 1", []string{
			"echo 0 > /proc/irq/60/smp_affinity_list", "echo 1 > /proc/irq/61/smp_affinity_list",
		}},
	} {
		t.Run(p.name, p.run)
	}
}

func TestLosses(t *testing.T) {
	for _, p := range []plant{
		{"small ring", func(inv *Inventory) { *inv.on("eth0").NIC.Ring = Ring{Rx: 256, RxMax: 4096, Tx: 4096, TxMax: 4096} },
			"rings", Warning, "eth0", "RX 256 of 4096", []string{"ethtool -G eth0 rx 4096"}},
		{"small rings", func(inv *Inventory) { *inv.on("eth0").NIC.Ring = Ring{Rx: 256, RxMax: 1024, Tx: 256, TxMax: 8192} },
			"rings", Warning, "eth0", "TX 256 of 8192", []string{"ethtool -G eth0 rx 1024 tx 4096"}},
		{"pause, never used", func(inv *Inventory) { inv.on("eth0").NIC.Pause = &Pause{Autoneg: true, Rx: true} },
			"pause", Note, "eth0", "no pause frame counted", []string{"ethtool -A eth0 autoneg off rx off tx off  # on the switch port too"}},
		{"pause, used", func(inv *Inventory) {
			inv.on("eth0").NIC.Pause = &Pause{Rx: true, Tx: true}
			inv.on("eth0").NIC.Counters = map[string]uint64{"rx_pause_ctrl_phy": 7, "rx_discards_phy": 0}
		}, "pause", Warning, "eth0", "rx_pause_ctrl_phy 7", []string{"ethtool -A eth0 rx off tx off  # on the switch port too"}},
		{"more than the tolerance", func(inv *Inventory) {
			inv.on("eth0").Counters.RxNoRoom = 100_000
			inv.on("eth0").NIC.Counters = map[string]uint64{"rx_out_of_buffer": 100_000}
		}, "drops", Warning, "eth0", "ethtool -S: rx_out_of_buffer 100000", []string{"ethtool -G eth0 rx 4096"}},
		{"less", func(inv *Inventory) { inv.on("tap0").Counters.TxDropped = 8 },
			"drops", Note, "tap0", "8 packets of tap0 were dropped on sending, 0.0001 %", nil},
		{"tunnel", func(inv *Inventory) { inv.on("vxlan0").Counters.TxErrors = 70_000 },
			"drops", Warning, "vxlan0", "could not be sent", nil},
		{"backlog", func(inv *Inventory) { inv.Softnet[3].Dropped = 9 },
			"softnet", Note, "host", "CPUs 3, of 16000000 packets", []string{"sysctl -w net.core.netdev_max_backlog=4096"}},
		{"squeeze", func(inv *Inventory) { inv.Softnet[3].Squeezed = 900_000 },
			"softnet", Note, "host", "exhausted its budget 900150 times", []string{"sysctl -w net.core.netdev_budget=600 net.core.netdev_budget_usecs=8000"}},
	} {
		t.Run(p.name, p.run)
	}
	t.Run("a ring that loses packets may be larger", func(t *testing.T) {
		inv := recorded(t, "server")
		*inv.on("eth0").NIC.Ring = Ring{Rx: 1024, RxMax: 8192, Tx: 1024, TxMax: 8192}
		if found := bad(checkRings(inv)); len(found) > 0 {
			t.Errorf("1024 lose nothing, but it says %+v", found)
		}
		inv.on("eth0").Counters.RxNoRoom = 1
		if found := bad(checkRings(inv)); len(found) != 1 {
			t.Errorf("1024 lose packets, but it says %+v", found)
		}
	})
	t.Run("a small device is as large as it can be", func(t *testing.T) {
		inv := recorded(t, "server")
		*inv.on("eth0").NIC.Ring = Ring{Rx: 256, RxMax: 256, Tx: 256, TxMax: 256}
		if found := bad(checkRings(inv)); len(found) > 0 {
			t.Errorf("%+v", found)
		}
	})
}
