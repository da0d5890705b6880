package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/doctor/fix"
)

// oneCore is what a flow that stays on one core is worth.
const oneCore = "One queue is one core: the NSX edge study forwarded at most 2.4 to 2.5 Mpps per core"

// Ports that a source range has to have for flows to spread well: with fewer
// than scarce many of the NSX edge study's 1,280 flows share one.
const scarce = 1280

// checkEntropy looks at the outer source port, the one thing by which the
// underlay tells inner flows apart (RFC 7348 section 5).
func checkEntropy(inv *Inventory) []Finding {
	var found []Finding
	for _, t := range inv.Tunnels {
		if t.Port == 0 && len(t.Remotes) > 0 {
			found = append(found, noEntropy(t))
			continue
		}
		if t.Source != fromKernel || t.Port == 0 {
			continue // Open vSwitch and Selvage have ranges of their own
		}
		low, high := int(t.SourceLow), int(t.SourceHigh)
		from := "srcport of the device (netlink)"
		if low == 0 && high == 0 {
			if inv.Machine.SourcePorts == nil {
				continue
			}
			low, high = inv.Machine.SourcePorts[0], inv.Machine.SourcePorts[1]
			from = "net.ipv4.ip_local_port_range, which the device uses"
		}
		// udp_flow_src_port leaves the last one out.
		ports := max(1, high-low)
		if ports >= scarce {
			found = append(found, good("entropy", t.Name, "%d outer source ports", ports))
			continue
		}
		f := Finding{
			Check: "entropy", Severity: Warning, Subject: t.Name,
			What:     fmt.Sprintf("only %d outer source ports for all inner flows", ports),
			Evidence: fmt.Sprintf("%s: %d to %d", from, low, high),
			Why: fmt.Sprintf("RSS, ECMP and LAG spread a tunnel by this port. Of the 1,280 flows of the NSX edge study, %d would share each port; "+
				"with one port, all look like one flow. %s.", (scarce+ports-1)/ports, oneCore),
			Measure: []string{"ethtool -S UNDERLAY | grep -E 'rx.*queue.*packets'", "iperf3 -c SERVER -t 10 -P 16  # SERVER across the tunnel"},
		}
		if t.SourceLow == 0 && t.SourceHigh == 0 {
			f.Change = []string{`sysctl -w net.ipv4.ip_local_port_range="32768 60999"`}
			f.Fixes = sysctlFixes(inv, "net.ipv4.ip_local_port_range", "32768 60999")
		} else if t.Encapsulation == "vxlan" {
			f.Change = t.again("srcport", "32768", "60999")
		}
		found = append(found, f)
	}
	return found
}

func noEntropy(t Tunnel) Finding {
	return Finding{
		Check: "entropy", Severity: Note, Subject: t.Name,
		What:     fmt.Sprintf("%s has no source port: the underlay sees %d flows, one to each remote", t.Encapsulation, len(t.Remotes)),
		Evidence: "encapsulation " + t.Encapsulation,
		Why:      "All inner flows between two hosts take one link of a LAG and one receive queue. " + oneCore + ". NVGRE's FlowID helps where the adapter hashes it (RFC 7637 section 3.2).",
		Measure:  []string{"iperf3 -c SERVER -t 10 -P 16  # SERVER across the tunnel", "mpstat -P ALL 1  # on the receiver meanwhile"},
	}
}

// checkHashing looks whether the adapter uses that source port.
func checkHashing(inv *Inventory) []Finding {
	var found []Finding
	for _, l := range inv.adapters() {
		if l.NIC.Channels == nil {
			continue
		}
		queues, _ := l.NIC.Channels.Receive()
		if queues < 2 {
			continue
		}
		severity := Note
		if anyUDP(inv.over(l.Name)) {
			severity = Warning
		}
		for _, family := range []struct {
			name   string
			ports  *bool
			fields string
		}{{"udp4", l.NIC.HashPorts4, l.NIC.Hash4}, {"udp6", l.NIC.HashPorts6, l.NIC.Hash6}} {
			switch {
			case family.ports == nil:
			case *family.ports:
				found = append(found, good("rss", l.Name, "RSS hashes the ports of %s", family.name))
			default:
				found = append(found, Finding{
					Check: "rss", Severity: severity, Subject: l.Name,
					What:     fmt.Sprintf("RSS does not hash the ports of %s: %d queues, but one for each remote", family.name, queues),
					Evidence: fmt.Sprintf("ethtool -n %s rx-flow-hash %s: no L4 bytes", fix.Quote(l.Name), family.name),
					Why:      "The outer source port is all that tells inner flows of a tunnel apart (RFC 7348 section 5). " + oneCore + ".",
					Change:   []string{fix.Line("ethtool -N %s rx-flow-hash %s sdfn", l.Name, family.name)},
					Fixes:    hashFixes(l.Name, family.name, family.fields),
					Measure:  []string{"iperf3 -c SERVER -t 10 -P 16  # SERVER across the tunnel", fix.Line("ethtool -S %s | grep -E 'rx.*packets'", l.Name)},
				})
			}
		}
	}
	return found
}

// hashFixes need to know what was hashed before.
func hashFixes(name, flow, before string) []fix.Fix {
	if before == "" {
		return nil
	}
	set := func(fields string) fix.Command { return fix.Run("ethtool", "-N", name, "rx-flow-hash", flow, fields) }
	return []fix.Fix{{Interface: name, Do: set("sdfn"), Undo: set(before)}}
}

// near are the CPUs of the link's NUMA node, or all.
func (inv *Inventory) near(l *Link) []int {
	if l.PCI != nil && l.PCI.NUMA != nil {
		for _, n := range inv.Machine.Nodes {
			if n.ID == *l.PCI.NUMA && len(n.CPUs) > 0 {
				return n.CPUs
			}
		}
	}
	return inv.Machine.CPUs
}

// checkQueues looks for cores that get no packets because there is no queue for them.
func checkQueues(inv *Inventory) []Finding {
	var found []Finding
	for _, l := range inv.adapters() {
		cpus := inv.near(l)
		if l.NIC.Channels == nil || len(cpus) < 2 {
			continue
		}
		queues, limit := l.NIC.Channels.Receive()
		switch want := min(limit, len(cpus)); {
		case queues == 0:
		case queues < want:
			found = append(found, fewQueues(l, queues, want, len(cpus)))
		case queues == 1 && len(l.RPS) > 0 && !steers(l.RPS):
			found = append(found, noSteering(l, cpus))
		default:
			found = append(found, good("queues", l.Name, "%d receive queues of at most %d, %d CPUs", queues, limit, len(cpus)))
		}
	}
	return found
}

func fewQueues(l *Link, queues, want, cpus int) Finding {
	f := Finding{
		Check: "queues", Severity: Note, Subject: l.Name,
		What:     fmt.Sprintf("%d receive queues, %d are possible", queues, want),
		Evidence: fmt.Sprintf("ethtool -l %s; %d CPUs are near the adapter", fix.Quote(l.Name), cpus),
		Why:      oneCore + ", so " + fmt.Sprintf("%d queues and %d cores bound this host.", queues, queues),
		Measure:  []string{"iperf3 -c SERVER -t 10 -P 16  # SERVER across the tunnel", "mpstat -P ALL 1  # softirq of each core meanwhile"},
	}
	kind, before := "combined", l.NIC.Channels.Combined
	if before == 0 {
		kind, before = "rx", l.NIC.Channels.Rx
	}
	set := func(n int) fix.Command { return fix.Run("ethtool", "-L", l.Name, kind, fmt.Sprint(n)) }
	f.fix(fix.Fix{Interface: l.Name, Do: set(want), Undo: set(before)})
	if queues == 1 {
		f.Severity = Warning
	}
	return f
}

// steers reports whether any mask has a CPU.
func steers(masks []string) bool {
	return slices.ContainsFunc(masks, func(m string) bool { return strings.Trim(m, "0,") != "" })
}

func noSteering(l *Link, cpus []int) Finding {
	f := Finding{
		Check: "queues", Severity: Note, Subject: l.Name,
		What:     "one receive queue and no steering in software (RPS): one core receives everything",
		Evidence: fmt.Sprintf("ethtool -l %s: at most one queue; /sys/class/net/%s/queues/rx-*/rps_cpus: %s", fix.Quote(l.Name), fix.Quote(l.Name), strings.Join(l.RPS, " ")),
		Why: oneCore + ". RPS spreads flows, but then cores wake each other: a request and its answer took 60 to 70 µs across two cores, " +
			"16 to 23 on one (Selvage's own measurement, veth). Right for throughput, wrong for latency.",
		Measure: []string{"iperf3 -c SERVER -t 10 -P 16  # SERVER across the tunnel", "mpstat -P ALL 1  # softirq of each core meanwhile"},
	}
	file := fmt.Sprintf("/sys/class/net/%s/queues/rx-0/rps_cpus", l.Name)
	f.fix(fix.Fix{Interface: l.Name, Do: fix.Write(mask(cpus), file), Undo: fix.Write(l.RPS[0], file)})
	return f
}

// mask is a list of CPUs as the kernel reads it: hexadecimal words of 32 bits,
// the highest first.
func mask(cpus []int) string {
	words := make([]uint32, slices.Max(cpus)/32+1)
	for _, cpu := range cpus {
		words[cpu/32] |= 1 << (cpu % 32)
	}
	text := fmt.Sprintf("%x", words[len(words)-1])
	for _, w := range slices.Backward(words[:len(words)-1]) {
		text += fmt.Sprintf(",%08x", w)
	}
	return text
}

// A share of interrupts on one core that is not spread, and the least number
// that tells.
const lopsided, telling = 0.9, 10_000

// checkInterrupts looks where the queues of an adapter interrupt.
func checkInterrupts(inv *Inventory) []Finding {
	var found []Finding
	for _, l := range inv.adapters() {
		queues, perCPU, total := busy(l)
		if len(queues) < 2 || len(perCPU) < 2 || total < telling {
			continue
		}
		busiest := slices.Index(perCPU, slices.Max(perCPU))
		share := float64(perCPU[busiest]) / float64(total)
		if share < lopsided {
			found = append(found, good("interrupts", l.Name, "%d interrupts of %d queues; the busiest core has %.0f %%", total, len(queues), 100*share))
			continue
		}
		f := Finding{
			Check: "interrupts", Severity: Warning, Subject: l.Name,
			What:     fmt.Sprintf("%.0f %% of the interrupts of %d queues are on one core", 100*share, len(queues)),
			Evidence: fmt.Sprintf("/proc/interrupts: %d of %d since boot on CPU %d", perCPU[busiest], total, inv.cpu(busiest)),
			Why:      "Several queues on one core work like one. " + oneCore + ".",
			Measure:  []string{"mpstat -I SCPU -P ALL 1  # during iperf3 -c SERVER -t 10 -P 16", fix.Line("selvage doctor --interface %s", l.Name)},
		}
		cpus := inv.near(l)
		for i, irq := range queues[:min(most, len(queues))] {
			if len(cpus) > 0 {
				f.pin(l.Name, irq, cpus[i%len(cpus)])
			}
		}
		found = append(found, f)
	}
	return found
}

// busy are the interrupts that happen, their number per core and in total.
func busy(l *Link) (queues []IRQ, perCPU []uint64, total uint64) {
	for _, irq := range l.IRQs {
		sum := uint64(0)
		for i, n := range irq.Counts {
			if i == len(perCPU) {
				perCPU = append(perCPU, 0)
			}
			perCPU[i] += n
			sum += n
		}
		if sum > 0 {
			queues, total = append(queues, irq), total+sum
		}
	}
	return queues, perCPU, total
}

// cpu is the number of the CPU at a position of /proc/interrupts.
func (inv *Inventory) cpu(position int) int {
	if position < len(inv.Machine.CPUs) {
		return inv.Machine.CPUs[position]
	}
	return position
}
