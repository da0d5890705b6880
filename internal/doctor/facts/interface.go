package facts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/doctor/fix"
)

// offloads are the features that figures are known to depend on.
var offloads = []string{
	"rx-checksum", "rx-gro", "rx-gro-hw", "rx-lro", "rx-hashing", "rx-udp_tunnel-port-offload", "rx-udp-gro-forwarding",
	"tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6", "tx-scatter-gather", "tx-generic-segmentation",
	"tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-udp-segmentation", "tx-gre-segmentation",
	"tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation", "hw-tc-offload",
}

// ofInterface are the facts of an interface, without those that name it.
func ofInterface(i *Interface) []fact {
	kind := i.Kind
	if kind == "" {
		kind = "adapter"
	}
	show := "ip -d link show dev " + fix.Quote(i.Name)
	all := []fact{
		{check: "mtu", name: "MTU", value: count(i.MTU), source: show, matters: true, set: func(value string) (fix.Command, bool) {
			return fix.Run("ip", "link", "set", "dev", i.Name, "mtu", value), true
		}},
		{check: "interfaces", name: "kind", value: kind, source: show, matters: true},
		{check: "interfaces", name: "up", value: yesNo("known", i.Up), source: show, matters: true},
		{check: "driver", name: "driver", value: i.Driver, source: "ethtool -i " + fix.Quote(i.Name), matters: true},
		{check: "driver", name: "driver version", value: i.DriverVersion, source: "ethtool -i " + fix.Quote(i.Name), matters: true},
		{check: "driver", name: "firmware", value: i.Firmware, source: "ethtool -i " + fix.Quote(i.Name), matters: true},
		{check: "speed", name: "speed", value: unit(i.Mbps, "Mbit/s"), source: "ethtool " + fix.Quote(i.Name), matters: true},
	}
	for _, name := range sorted(i.Features) {
		all = append(all, i.offload(name))
	}
	all = append(all, i.queues()...)
	all = append(all, i.slot()...)
	all = append(all, i.bond()...)
	for n := range all {
		all[n].iface = i.Name
	}
	return all
}

func (i *Interface) offload(name string) fact {
	f := fact{
		check: "offloads", name: name, value: onOff(i.Features[name].On), source: "ethtool -k " + fix.Quote(i.Name),
		matters: slices.Contains(offloads, name),
	}
	switch feature := i.Features[name]; {
	case feature.Fixed:
		f.source += " (fixed)"
		return f
	case feature.Requested: // it comes back with the other one
		return f
	}
	f.set = func(value string) (fix.Command, bool) { return fix.Run("ethtool", "-K", i.Name, name, value), true }
	return f
}

// queues are the facts of how packets get into and out of memory.
func (i *Interface) queues() (all []fact) {
	ethtool := func(check, name, value, read, write string, words ...string) {
		f := fact{check: check, name: name, value: value, source: "ethtool " + read + " " + fix.Quote(i.Name), matters: true}
		f.set = func(value string) (fix.Command, bool) {
			return fix.Run(append(append([]string{"ethtool", write, i.Name}, words...), value)...), true
		}
		all = append(all, f)
	}
	if r := i.Ring; r != nil {
		ethtool("rings", "receive descriptors", count(r.Rx), "-g", "-G", "rx")
		ethtool("rings", "transmit descriptors", count(r.Tx), "-g", "-G", "tx")
	}
	if c := i.Channels; c != nil {
		ethtool("queues", "queues", count(c.Combined), "-l", "-L", "combined")
		ethtool("queues", "receive queues", count(c.Rx), "-l", "-L", "rx")
	}
	if p := i.Pause; p != nil {
		ethtool("pause", "pause frames received", onOff(p.Rx), "-a", "-A", "rx")
		ethtool("pause", "pause frames sent", onOff(p.Tx), "-a", "-A", "tx")
	}
	if c := i.Coalesce; c != nil {
		ethtool("coalescing", "adaptive coalescing", onOff(c.Adaptive), "-c", "-C", "adaptive-rx")
		ethtool("coalescing", "interrupt delay in µs", fmt.Sprint(c.RxMicros), "-c", "-C", "rx-usecs")
	}
	ethtool("rss", "fields of udp4 in the RSS hash", i.Hash4, "-n", "-N", "rx-flow-hash", "udp4")
	ethtool("rss", "fields of udp6 in the RSS hash", i.Hash6, "-n", "-N", "rx-flow-hash", "udp6")
	all = append(all, fact{
		check: "queues", name: "CPU masks of RPS", value: strings.Join(i.RPS, " "),
		source: "/sys/class/net/" + i.Name + "/queues/rx-*/rps_cpus", matters: true,
	})
	if q := i.Interrupts; q != nil {
		all = append(
			all,
			fact{check: "interrupts", name: "interrupts", value: count(q.Count), source: "/proc/interrupts", matters: true},
			fact{check: "interrupts", name: "CPUs of the interrupts", value: fmt.Sprint(q.CPUs), source: "/proc/irq/*/smp_affinity_list", moves: true},
			fact{check: "numa", name: "interrupts on another NUMA node", value: fmt.Sprint(q.Far), source: "/proc/irq/*/smp_affinity_list", matters: true, moves: true},
		)
	}
	return all
}

// slot are the facts of the card that an interface is on.
func (i *Interface) slot() []fact {
	p := i.PCI
	if p == nil {
		return nil
	}
	lspci := "lspci -nnvv -s " + p.Address
	all := []fact{
		{check: "pcie", name: "PCI id", value: p.ID, source: lspci, matters: true},
		{check: "pcie", name: "PCI subsystem", value: p.Subsystem, source: lspci},
		{check: "pcie", name: "PCI address", value: p.Address, source: lspci},
		{check: "pcie", name: "lanes", value: count(p.Lanes), source: lspci, matters: true},
		{check: "pcie", name: "ports on the card", value: fmt.Sprint(max(1, len(i.Card))), source: "lspci", matters: true},
		{check: "sr-iov", name: "virtual functions", value: fmt.Sprint(p.VFs), source: "/sys/class/net/" + i.Name + "/device/sriov_numvfs", matters: true},
		{check: "sr-iov", name: "is a virtual function", value: yesNo("known", p.Virtual), source: "/sys/class/net/" + i.Name + "/device/physfn", matters: true},
	}
	if p.GTs > 0 {
		all = append(all, fact{check: "pcie", name: "rate of a lane", value: fmt.Sprintf("%g GT/s", p.GTs), source: lspci, matters: true})
	}
	if p.NUMA != nil {
		all = append(all, fact{check: "numa", name: "NUMA node of the slot", value: fmt.Sprint(*p.NUMA), source: lspci})
	}
	return all
}

func (i *Interface) bond() []fact {
	b := i.Bond
	if b == nil {
		return nil
	}
	show := "ip -d link show dev " + fix.Quote(i.Name)
	return []fact{
		{check: "bond", name: "mode", value: b.Mode, source: show, matters: true},
		{check: "bond", name: "hash policy", value: b.HashPolicy, source: show, matters: true},
		{check: "bond", name: "LACP rate", value: b.LACPRate, source: show, matters: true},
		{check: "bond", name: "members", value: fmt.Sprint(len(b.Members)), source: show, matters: true},
		{check: "bond", name: "routing protocols over it", value: orNone("known", b.Routing), source: "ip route show dev " + fix.Quote(i.Name), matters: true},
	}
}
