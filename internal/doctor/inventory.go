package doctor

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/cilium"
	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/problem"
)

// Inventory is what was read of a host: plain data. Pointers are nil for what a
// device does not have or what could not be read; the latter is in Unknown too.
type Inventory struct {
	Interface string    `json:"interface,omitempty"` // that the examination is restricted to
	Machine   Machine   `json:"machine"`
	Links     []Link    `json:"links"`
	Tunnels   []Tunnel  `json:"tunnels"`
	Bridges   []Bridge  `json:"bridges"`
	Edges     []Edge    `json:"edges"`
	Softnet   []Softnet `json:"softnet"`
	// Shapers are queueing disciplines and policers by interface; nil is not read. IPsec counts security associations.
	Shapers map[string][]host.Shaper `json:"shapers,omitempty"`
	IPsec   *int                     `json:"ipsec_associations,omitempty"`
	// HostRouting is how Cilium forwards packets of pods, "" where there is no Cilium.
	HostRouting cilium.Mode `json:"cilium_host_routing,omitempty"`
	Unknown     []Unknown   `json:"unknown"`
}

// Role is what a link is to the overlays of the host.
type Role string

// The roles. A link without one is not examined.
const (
	Underlay Role = "underlay" // a tunnel's packets pass it
	Device   Role = "tunnel"   // it is a tunnel
	Port     Role = "port"     // its frames go into a tunnel
	Spare    Role = "spare"    // a physical interface that no tunnel uses
)

// Link is an interface and, where it has a role, its adapter.
type Link struct {
	host.Device
	Role Role `json:"role,omitempty"`
	NIC  *NIC `json:"nic,omitempty"`
	PCI  *PCI `json:"pci,omitempty"`
	// IRQs are those of its queues; RPS are the CPU masks of its receive queues
	// in software, in hexadecimal.
	IRQs []IRQ    `json:"irqs,omitempty"`
	RPS  []string `json:"rps,omitempty"`
	// Routing are the routing protocols of which routes leave by a bond, or by a VLAN over it.
	Routing []string `json:"routing,omitempty"`
}

// NIC is what ethtool tells.
type NIC struct {
	Driver   string             `json:"driver,omitempty"`
	Version  string             `json:"driver_version,omitempty"`
	Firmware string             `json:"firmware,omitempty"`
	Bus      string             `json:"bus,omitempty"`
	Mbps     int                `json:"mbps,omitempty"` // 0 when unknown
	Features map[string]Feature `json:"features,omitempty"`
	Ring     *Ring              `json:"ring,omitempty"`
	Channels *Channels          `json:"channels,omitempty"`
	Pause    *Pause             `json:"pause,omitempty"`
	Coalesce *Coalesce          `json:"coalesce,omitempty"`
	// HashPorts says whether RSS hashes the ports of UDP packets, and Hash what it hashes of them, by ethtool's letters.
	HashPorts4 *bool             `json:"hash_udp4_ports,omitempty"`
	HashPorts6 *bool             `json:"hash_udp6_ports,omitempty"`
	Hash4      string            `json:"hash_udp4,omitempty"`
	Hash6      string            `json:"hash_udp6,omitempty"`
	Counters   map[string]uint64 `json:"counters,omitempty"` // of ethtool -S, those that are not 0
	Missing    []Unknown         `json:"-"`
}

// Types of a host's facts, which an inventory has too.
type (
	// Feature is an offload.
	Feature = facts.Feature
	// Ring is the number of descriptors, and the most that the device has.
	Ring = facts.Ring
	// Channels is the number of queues, and the most that the device has.
	Channels = facts.Channels
	// Pause is link level flow control.
	Pause = facts.Pause
	// Coalesce is how long a device waits before it interrupts.
	Coalesce = facts.Coalesce
	// PCI is the slot of a device.
	PCI = facts.PCI
	// Node is a NUMA node.
	Node = facts.NUMANode
	// Unknown is something that could not be read.
	Unknown = facts.Unknown
)

// IRQ is an interrupt of a queue.
type IRQ struct {
	Number   int      `json:"number"`
	Name     string   `json:"name"`
	Counts   []uint64 `json:"counts"` // by position of the online CPU
	Affinity []int    `json:"affinity,omitempty"`
	Allowed  string   `json:"allowed,omitempty"` // as smp_affinity_list has it
}

// Tunnel is an overlay network on this host.
type Tunnel struct {
	Name   string `json:"name"`   // device, Open vSwitch port, or edge/segment
	Source string `json:"source"` // "kernel", "openvswitch", "selvage"
	host.Tunnel
	Device string   `json:"device,omitempty"` // interface of this name, if there is one
	Bridge string   `json:"bridge,omitempty"`
	MTU    int      `json:"mtu,omitempty"` // of the device; 0 leaves it to the ports
	Up     bool     `json:"up"`
	Ports  []string `json:"ports"` // interfaces whose frames enter it
	// Answers: senders of packets that do not fit are told by ICMP, and the MSS of TCP is lowered, so that nothing is lost.
	Answers bool   `json:"answers,omitempty"`
	Paths   []Path `json:"paths"` // to each remote
}

// The sources of tunnels.
const (
	fromKernel  = "kernel"
	fromOVS     = "openvswitch"
	fromSelvage = "selvage"
)

// Path is the way to a remote.
type Path struct {
	Remote    netip.Addr `json:"remote"`
	Reachable bool       `json:"reachable"` // there is a route
	Local     bool       `json:"local,omitempty"`
	Interface string     `json:"interface,omitempty"`
	MTU       int        `json:"mtu,omitempty"` // of the interface, or of the route when that is less
	Hops      []string   `json:"hops,omitempty"`
}

// Bridge joins interfaces.
type Bridge struct {
	Name    string   `json:"name"`
	Source  string   `json:"source"` // "kernel", "openvswitch"
	Members []string `json:"members"`
}

// Edge is a Selvage edge of this network namespace.
type Edge struct {
	Name     string            `json:"name"`
	Problems []problem.Problem `json:"problems"`
	Drops    map[string]uint64 `json:"drops"` // reason → packets, those that are not 0
}

// Softnet is the backlog of one CPU since boot.
type Softnet struct {
	CPU       int    `json:"cpu"`
	Processed uint64 `json:"processed"`
	Dropped   uint64 `json:"dropped"`
	Squeezed  uint64 `json:"squeezed"` // the budget ended before the work
}

// Machine is what all links share.
type Machine struct {
	Kernel      string         `json:"kernel,omitempty"`
	Memory      int64          `json:"memory_bytes,omitempty"`
	CPUs        []int          `json:"cpus,omitempty"` // online
	Nodes       []Node         `json:"nodes,omitempty"`
	SMT         *bool          `json:"smt,omitempty"`       // siblings are in use
	Governors   map[string]int `json:"governors,omitempty"` // governor → CPUs
	FreqDriver  string         `json:"cpufreq_driver,omitempty"`
	SourcePorts *[2]int        `json:"ephemeral_ports,omitempty"`
	// Sysctls are those of a host's facts.
	Sysctls map[string]string `json:"sysctls,omitempty"`
}

// nodeOf returns the node of a CPU.
func (m Machine) nodeOf(cpu int) (int, bool) {
	for _, n := range m.Nodes {
		if slices.Contains(n.CPUs, cpu) {
			return n.ID, true
		}
	}
	return 0, false
}

// link finds a link by name.
func (inv *Inventory) link(name string) (*Link, bool) {
	i := slices.IndexFunc(inv.Links, func(l Link) bool { return l.Name == name })
	if i < 0 {
		return nil, false
	}
	return &inv.Links[i], true
}

// named finds a link as users name it: by its name or an altname.
func (inv *Inventory) named(name string) (*Link, bool) {
	if l, ok := inv.link(name); ok {
		return l, true
	}
	i := slices.IndexFunc(inv.Links, func(l Link) bool { return slices.Contains(l.Alts, name) })
	if i < 0 {
		return nil, false
	}
	return &inv.Links[i], true
}

// of returns the links that have one of the roles.
func (inv *Inventory) of(roles ...Role) []*Link {
	var found []*Link
	for i := range inv.Links {
		if slices.Contains(roles, inv.Links[i].Role) {
			found = append(found, &inv.Links[i])
		}
	}
	return found
}

// adapters are the physical links that are examined.
func (inv *Inventory) adapters() []*Link {
	return slices.DeleteFunc(inv.of(Underlay, Port, Spare), func(l *Link) bool { return !l.Physical() || l.NIC == nil })
}

func (inv *Inventory) unknown(what, format string, args ...any) {
	inv.Unknown = append(inv.Unknown, Unknown{What: what, Why: fmt.Sprintf(format, args...)})
}
