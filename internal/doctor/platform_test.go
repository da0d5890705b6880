package doctor

import (
	"fmt"
	"math"
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/cilium"
)

func mapped6(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8::%d", i+2)) }

func TestPlatform(t *testing.T) {
	yes := true
	for _, p := range []plant{
		{"hyper-threading", func(inv *Inventory) { inv.Machine.SMT = &yes },
			"hyper-threading", Note, "host", "smt/active: 1", []string{"echo off > /sys/devices/system/cpu/smt/control"}},
		{"governor", func(inv *Inventory) { inv.Machine.Governors = map[string]int{"performance": 8, "powersave": 8} },
			"governor", Warning, "host", "powersave on 8 CPUs", []string{"cpupower frequency-set -g performance"}},
		{"governor that governs itself", func(inv *Inventory) {
			inv.Machine.Governors, inv.Machine.FreqDriver = map[string]int{"powersave": 16}, "intel_pstate"
		}, "governor", Note, "host", "driver intel_pstate", []string{"cpupower frequency-set -g performance"}},
		{"BPF host routing", func(inv *Inventory) { inv.HostRouting = cilium.BPF },
			"pod-routing", Note, "host", "host routing BPF", nil},
		{"BPF host routing where pods are steered", func(inv *Inventory) {
			inv.HostRouting = cilium.BPF
			steering := Link{}
			steering.Name, steering.Kind, steering.MTU = PodLink, "veth", 1450
			inv.Links = append(inv.Links, steering)
		}, "pod-routing", Fault, "host", "no egress policy holds for pods of this node", []string{
			"helm upgrade cilium cilium/cilium --namespace kube-system --reuse-values --set bpf.hostLegacyRouting=true",
			"kubectl -n kube-system rollout restart daemonset/cilium",
		}},
		{"few cores", func(inv *Inventory) { inv.Machine.CPUs = inv.Machine.CPUs[:4] },
			"cores", Note, "host", "4 CPUs", nil},
		{"far interrupts", func(inv *Inventory) { inv.on("eth0").IRQs[2].Affinity = []int{9} },
			"numa", Warning, "eth0", "numa_node of 0000:3b:00.0: 0; IRQ 62 is allowed on CPUs [9]", []string{"echo 0 > /proc/irq/62/smp_affinity_list"}},
		{"members of a bond apart", func(inv *Inventory) {
			one, node := 1, *inv.on("eth0")
			node.Name, node.Master, node.IRQs = "eth1", "bond0", nil
			node.PCI = &PCI{Address: "0000:af:00.0", GTs: 16, GTsMax: 16, Lanes: 16, LanesMax: 16, NUMA: &one}
			inv.on("eth0").Master = "bond0"
			bond := Link{Role: Underlay}
			bond.Name, bond.Kind, bond.MTU = "bond0", "bond", 1600
			inv.Links = append(inv.Links, node, bond)
		}, "numa", Warning, "bond0", "node 0: eth0; node 1: eth1", nil},
		{"slot too slow", func(inv *Inventory) { inv.on("eth0").PCI.GTs = 8 },
			"pcie", Warning, "eth0", "the slot carries about 96.8 Gbit/s, its ports 100", nil},
		{"slot too narrow", func(inv *Inventory) { inv.on("eth0").PCI.Lanes = 8 },
			"pcie", Warning, "eth0", "Gen4 x8 (16 GT/s), 128 Gbit/s each way in theory and 96 typically (the NSX edge study's table)", nil},
		{"two ports in one slot", func(inv *Inventory) {
			second := *inv.on("eth0")
			pci := *second.PCI
			pci.Address, second.Name, second.PCI = "0000:3b:00.1", "eth1", &pci
			nic := *second.NIC
			nic.Mbps, second.NIC = 200_000, &nic
			inv.Links = append(inv.Links, second)
		}, "pcie", Warning, "eth0, eth1", "ports 300 Gbit/s in sum", nil},
		{"trained down, but enough", func(inv *Inventory) {
			inv.on("eth0").NIC.Mbps, inv.on("eth0").PCI.Lanes = 25_000, 8
		}, "pcie", Note, "eth0", "the slot runs at 16 GT/s x8, the card can do 16 GT/s x16", nil},
	} {
		t.Run(p.name, p.run)
	}
}

func TestPCIeBandwidth(t *testing.T) {
	for _, c := range []struct {
		gts             float64
		lanes           int
		theory, typical float64
		measured        bool
	}{
		{2.5, 8, 16, 14.1, true},
		{8, 16, 128, 96.8, true},
		{16, 16, 256, 209.6, true},
		{5, 1, 4, 3, false},
		{32, 16, 504.1, 378.1, false},
	} {
		b, measured := pcieBandwidth(c.gts, c.lanes)
		if math.Abs(b.theory-c.theory) > 0.1 || math.Abs(b.typical-c.typical) > 0.1 || measured != c.measured {
			t.Errorf("%g GT/s x%d: %+v, %t, want %g, %g, %t", c.gts, c.lanes, b, measured, c.theory, c.typical, c.measured)
		}
	}
}

func TestMask(t *testing.T) {
	for want, cpus := range map[string][]int{"1": {0}, "ff": {0, 1, 2, 3, 4, 5, 6, 7}, "80000000": {31}, "1,00000003": {0, 1, 32}} {
		if got := mask(cpus); got != want {
			t.Errorf("%v is %s, want %s", cpus, got, want)
		}
	}
}
