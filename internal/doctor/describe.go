package doctor

import (
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/internal/doctor/hardware"
)

// mostInterfaces is how many interfaces a description has at most: of more, others tell nothing new.
const mostInterfaces = 256

// Describe makes a host's facts of its inventory and of what else the sources tell: hardware, and interfaces that no
// tunnel uses.
func Describe(s Sources, inv Inventory) (h facts.Host, err error) {
	h.Interfaces = []facts.Interface{}
	if h.Name, err = os.Hostname(); err != nil {
		return h, fmt.Errorf("name of the host: %w", err)
	}
	h.Machine, h.Unknown = hardware.Read(hardware.Roots{Sys: s.Sys, Proc: s.Proc, Etc: s.Etc})
	h.Unknown = append(slices.Clone(inv.Unknown), h.Unknown...)
	m := inv.Machine
	h.Machine.Kernel, h.Machine.Memory.Bytes = m.Kernel, m.Memory
	h.Machine.CPU.Threads, h.Machine.CPU.Nodes, h.Machine.CPU.SMT = len(m.CPUs), m.Nodes, m.SMT
	h.Machine.CPU.Governors, h.Machine.CPU.FreqDriver = m.Governors, m.FreqDriver
	h.Sysctls = m.Sysctls
	described := toDescribe(&inv)
	if over := len(described) - mostInterfaces; over > 0 {
		h.Unknown = append(h.Unknown, facts.Unknown{What: "interfaces", Why: fmt.Sprintf("%d more than %d", over, mostInterfaces)})
		described = described[:mostInterfaces]
	}
	for _, l := range described {
		if l.NIC == nil {
			l = new(*l) // the inventory has only what was examined
			nic := s.Adapters.NIC(l.Name)
			l.NIC = &nic
			l.PCI = slotOf(s.Sys, l).read()
		}
		h.Interfaces = append(h.Interfaces, describeLink(&inv, l))
	}
	cards(h.Interfaces)
	return h, nil
}

// toDescribe are the links that a network's figures depend on: adapters, those with an address, what tunnels use, and
// what any of these stands on. Guests' ports are left out.
func toDescribe(inv *Inventory) (found []*Link) {
	wanted := map[string]bool{}
	for _, l := range inv.Links {
		if l.carriesTraffic() {
			for _, name := range append(inv.hops(l.Name), l.Name) {
				wanted[name] = true
			}
		}
	}
	for i := range inv.Links {
		if l := &inv.Links[i]; wanted[l.Name] && (l.Role != Port || l.Physical() || len(l.Addrs) > 0) {
			found = append(found, l)
		}
	}
	return found
}

// carriesTraffic says whether figures may depend on a link by itself.
func (l Link) carriesTraffic() bool {
	if l.Loopback {
		return false
	}
	return l.Physical() || l.Bond != nil || l.Role == Underlay || l.Role == Device ||
		slices.ContainsFunc(l.Addrs, func(p netip.Prefix) bool { return !p.Addr().IsLinkLocalUnicast() })
}

func describeLink(inv *Inventory, l *Link) facts.Interface {
	n := l.NIC
	i := facts.Interface{
		Name: l.Name, Kind: l.Kind, Role: string(l.Role), Up: l.Up, MTU: l.MTU, Addrs: l.Addrs, Master: l.Master, Lower: l.Lower,
		Driver: n.Driver, DriverVersion: n.Version, Firmware: n.Firmware, Mbps: n.Mbps, Features: n.Features, Ring: n.Ring,
		Channels: n.Channels, Pause: n.Pause, Coalesce: n.Coalesce, Hash4: n.Hash4, Hash6: n.Hash6, RPS: l.RPS, PCI: l.PCI,
	}
	if i.DriverVersion == inv.Machine.Kernel { // as drivers of the kernel's tree say
		i.DriverVersion = ""
	}
	if l.Tunnel != nil {
		i.VNI = l.Tunnel.VNI
	}
	if b := l.Bond; b != nil {
		i.Bond = &facts.Bond{Mode: b.Mode, HashPolicy: b.HashPolicy, LACPRate: b.LACPRate, Members: inv.members(l.Name), Routing: l.Routing}
	}
	if len(l.IRQs) > 0 {
		i.Interrupts = describeInterrupts(inv, l)
	}
	return i
}

func describeInterrupts(inv *Inventory, l *Link) *facts.Interrupts {
	all := &facts.Interrupts{Count: len(l.IRQs), CPUs: []int{}}
	for _, irq := range l.IRQs {
		all.CPUs = append(all.CPUs, irq.Affinity...)
	}
	slices.Sort(all.CPUs)
	all.CPUs = slices.Compact(all.CPUs)
	if l.PCI != nil && l.PCI.NUMA != nil {
		all.Far = len(farFrom(inv, l, l.IRQs))
	}
	return all
}

// cards notes which interfaces are ports of one card.
func cards(all []facts.Interface) {
	ports := map[string][]string{}
	card := func(i facts.Interface) string { return (&Link{PCI: i.PCI}).card() }
	for _, i := range all {
		if c := card(i); c != "" {
			ports[c] = append(ports[c], i.Name)
		}
	}
	for n := range all {
		if names := ports[card(all[n])]; len(names) > 1 {
			all[n].Card = names
		}
	}
}
