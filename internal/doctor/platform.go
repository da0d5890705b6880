package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// checkThreads looks for hyper-threading.
func checkThreads(inv *Inventory) []Finding {
	switch smt := inv.Machine.SMT; {
	case smt == nil:
		return nil
	case !*smt:
		return []Finding{good("hyper-threading", "host", "no two CPUs share a core, as far as this machine tells")}
	}
	return []Finding{{
		Check: "hyper-threading", Severity: Note, Subject: "host",
		What:     "hyper-threading is on: CPUs share cores",
		Evidence: "/sys/devices/system/cpu/smt/active: 1",
		Why: "Two polling threads on one core get less than two cores, and figures vary with which threads share one. " +
			"The NSX edge study had it off for its 2.4 to 2.5 Mpps per core.",
		Change:  []string{"echo off > /sys/devices/system/cpu/smt/control"},
		Measure: []string{iperf, "selvage lab ab --targets plain,kernel,selvage"},
	}}
}

// checkGovernor looks for cores that save power.
func checkGovernor(inv *Inventory) []Finding {
	m := inv.Machine
	if len(m.Governors) == 0 {
		return nil
	}
	var saving []string
	for _, g := range sorted(m.Governors) {
		if g != "performance" {
			saving = append(saving, fmt.Sprintf("%s on %d CPUs", g, m.Governors[g]))
		}
	}
	if len(saving) == 0 {
		return []Finding{good("governor", "host", "performance on %d CPUs", m.Governors["performance"])}
	}
	severity := Warning
	if strings.Contains(m.FreqDriver, "pstate") { // these govern themselves under the name powersave
		severity = Note
	}
	return []Finding{{
		Check: "governor", Severity: severity, Subject: "host",
		What:     "the CPU frequency governor is " + strings.Join(saving, ", "),
		Evidence: fmt.Sprintf("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; driver %s", orUnknown(m.FreqDriver)),
		Why: "Packets per second scale with the clock, and a core that has to speed up first costs latency. The NSX edge study had power saving off for its 2.4 to 2.5 Mpps per core; " +
			"measure what it costs here.",
		Change:  []string{"cpupower frequency-set -g performance"},
		Fixes:   governorFixes(m.Governors),
		Measure: []string{"selvage lab ab --targets plain,kernel,selvage --cases rr", iperf},
	}}
}

// checkCapacity compares the number of cores with the NSX edge study's preflight.
func checkCapacity(inv *Inventory) []Finding {
	const least = 8
	n := len(inv.Machine.CPUs)
	if n == 0 {
		return nil
	}
	if n >= least {
		return []Finding{good("cores", "host", "%d CPUs", n)}
	}
	return []Finding{{
		Check: "cores", Severity: Note, Subject: "host",
		What:     fmt.Sprintf("%d CPUs", n),
		Evidence: "/sys/devices/system/cpu/online",
		Why: "The NSX edge study sized an edge with 8 to 64 cores, half of them for the data path, at 2.4 to 2.5 Mpps each. Fewer are enough for less: " +
			"Selvage carried 18.8 Gbit/s of one TCP stream on 2 (its own measurement, veth).",
		Measure: []string{"mpstat -P ALL 1  # during " + iperf},
	}}
}

// checkLocality looks for packets that cross between NUMA nodes.
func checkLocality(inv *Inventory) []Finding {
	if len(inv.Machine.Nodes) < 2 {
		return nil
	}
	var found []Finding
	for _, l := range inv.adapters() {
		if l.PCI == nil || l.PCI.NUMA == nil {
			continue
		}
		queues, _, _ := busy(l)
		if far := farFrom(inv, l, queues); len(far) > 0 {
			found = append(found, farInterrupts(inv, l, far))
		} else if len(queues) > 0 {
			found = append(found, good("numa", l.Name, "its %d interrupts stay on its node %d", len(queues), *l.PCI.NUMA))
		}
	}
	return append(found, splitBonds(inv)...)
}

// farFrom are those interrupts that may run on another node than a link's slot.
func farFrom(inv *Inventory, l *Link, irqs []IRQ) (far []IRQ) {
	for _, irq := range irqs {
		if slices.ContainsFunc(irq.Affinity, func(cpu int) bool {
			node, ok := inv.Machine.nodeOf(cpu)
			return ok && node != *l.PCI.NUMA
		}) {
			far = append(far, irq)
		}
	}
	return far
}

const crossing = "The NSX edge study names the crossing of NUMA nodes as one of the limits on its way to 189.6 Gbit/s: each packet's memory is then read over the link between sockets."

func farInterrupts(inv *Inventory, l *Link, far []IRQ) Finding {
	f := Finding{
		Check: "numa", Severity: Warning, Subject: l.Name,
		What:     fmt.Sprintf("%d interrupts of %s may run on another NUMA node than its slot's", len(far), l.Name),
		Evidence: fmt.Sprintf("numa_node of %s: %d; IRQ %d is allowed on CPUs %v", l.PCI.Address, *l.PCI.NUMA, far[0].Number, far[0].Affinity),
		Why:      crossing,
		Measure:  []string{iperf, "numastat  # numa_miss and other_node before and after"},
	}
	cpus := inv.near(l)
	for i, irq := range far[:min(most, len(far))] {
		f.pin(l.Name, irq, cpus[i%len(cpus)])
	}
	return f
}

// splitBonds looks for bonds whose members sit at different nodes.
func splitBonds(inv *Inventory) []Finding {
	var found []Finding
	for _, bond := range inv.of(Underlay, Port) {
		nodes := map[string]string{}
		for _, name := range inv.members(bond.Name) {
			if l, ok := inv.link(name); ok && l.PCI != nil && l.PCI.NUMA != nil {
				nodes[fmt.Sprint(*l.PCI.NUMA)] += " " + name
			}
		}
		if bond.Kind != "bond" || len(nodes) < 2 {
			continue
		}
		text := ""
		for _, node := range sorted(nodes) {
			text += fmt.Sprintf("node %s:%s; ", node, nodes[node])
		}
		found = append(found, Finding{
			Check: "numa", Severity: Warning, Subject: bond.Name,
			What: "the members of the bond are at different NUMA nodes", Evidence: text + "numa_node of their slots", Why: crossing,
			Measure: []string{iperf, "numastat  # numa_miss and other_node before and after"},
		})
	}
	return found
}
