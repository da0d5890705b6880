// Package facts is what is known of a host that its network's figures depend on: hardware, kernel, settings and adapters.
//
// Its one invariant: plain data that is the same as long as nobody changes the host: no counters, no times. (Interrupts
// move by irqbalance: where they are is no drift.) What could not be read is absent, and in Unknown. Whether a difference
// matters is here. Do not read a host here, which internal/doctor does, or say what to do about it.
package facts

import (
	"net/netip"
	"slices"
)

// Shapes says whether a queueing discipline, by its name in tc(8), is there to limit or delay packets.
func Shapes(kind string) bool {
	return slices.Contains([]string{"tbf", "htb", "hfsc", "cake", "netem"}, kind)
}

// Host is a host, or a network namespace of one.
type Host struct {
	Place      string            `json:"place,omitempty"` // where it was read, as ssh:a; empty is the reader's own host
	Name       string            `json:"name"`            // as uname -n
	Machine    Machine           `json:"machine"`
	Sysctls    map[string]string `json:"sysctls,omitempty"`
	Interfaces []Interface       `json:"interfaces"`
	Unknown    []Unknown         `json:"unknown,omitempty"`
}

// Unknown is something that could not be read.
type Unknown struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Machine is what all interfaces share.
type Machine struct {
	Kernel     string `json:"kernel,omitempty"`
	OS         string `json:"os,omitempty"`
	Arch       string `json:"arch,omitempty"` // as Go names it
	Vendor     string `json:"vendor,omitempty"`
	Product    string `json:"product,omitempty"`
	Firmware   string `json:"firmware,omitempty"` // BIOS
	Hypervisor bool   `json:"hypervisor,omitempty"`
	// Parameters are those of the kernel's command line that figures are known to depend on.
	Parameters  []string `json:"kernel_parameters,omitempty"`
	ClockSource string   `json:"clock_source,omitempty"`
	CPU         CPU      `json:"cpu"`
	Memory      Memory   `json:"memory"`
}

// CPU is the processors of a machine.
type CPU struct {
	Model     string     `json:"model,omitempty"`
	Microcode string     `json:"microcode,omitempty"`
	Sockets   int        `json:"sockets,omitempty"`
	Cores     int        `json:"cores,omitempty"`   // of all sockets
	Threads   int        `json:"threads,omitempty"` // online CPUs
	SMT       *bool      `json:"smt,omitempty"`
	Nodes     []NUMANode `json:"nodes,omitempty"` // of NUMA
	// Governors are CPU frequency governors → CPUs.
	Governors    map[string]int `json:"governors,omitempty"`
	FreqDriver   string         `json:"cpufreq_driver,omitempty"`
	MaxKHz       int            `json:"max_khz,omitempty"`
	Turbo        *bool          `json:"turbo,omitempty"`
	IdleDriver   string         `json:"idle_driver,omitempty"`
	IdleGovernor string         `json:"idle_governor,omitempty"`
	IdleStates   []IdleState    `json:"idle_states,omitempty"`
	// Mitigations are flaws of the processor → what the kernel does about them, those that it has.
	Mitigations map[string]string `json:"mitigations,omitempty"`
}

// NUMANode is a part of a machine whose memory is near to its CPUs.
type NUMANode struct {
	ID   int   `json:"id"`
	CPUs []int `json:"cpus"`
}

// IdleState is a state in which a core sleeps.
type IdleState struct {
	Name     string `json:"name"`
	ExitUS   int    `json:"exit_us"`
	Disabled bool   `json:"disabled,omitempty"`
}

// Memory is the RAM of a machine.
type Memory struct {
	Bytes int64 `json:"bytes,omitempty"`
	// Channels are those with a module; 0 when it is not known.
	Channels int      `json:"channels,omitempty"`
	Modules  []Module `json:"modules,omitempty"`
}

// Module is a memory module (DMTF DSP0134, structure type 17).
type Module struct {
	Locator string `json:"locator"`
	Bank    string `json:"bank,omitempty"`
	Bytes   int64  `json:"bytes"`
	Type    string `json:"type,omitempty"`
	MTs     int    `json:"mt_per_s,omitempty"` // as configured
}

// Interface is a network interface with its adapter.
type Interface struct {
	Name   string         `json:"name"`
	Kind   string         `json:"kind,omitempty"` // "veth", "vxlan", …; "" of an adapter
	Role   string         `json:"role,omitempty"` // to the overlays of the host: "underlay", "tunnel", "port", "spare"
	Up     bool           `json:"up"`
	MTU    int            `json:"mtu"` // bytes of an IP packet
	Addrs  []netip.Prefix `json:"addrs,omitempty"`
	Master string         `json:"master,omitempty"`
	Lower  string         `json:"lower,omitempty"`

	Driver        string             `json:"driver,omitempty"`
	DriverVersion string             `json:"driver_version,omitempty"` // the kernel's for drivers of its tree
	Firmware      string             `json:"firmware,omitempty"`
	Mbps          int                `json:"mbps,omitempty"` // 0 when unknown
	Features      map[string]Feature `json:"features,omitempty"`
	Ring          *Ring              `json:"ring,omitempty"`
	Channels      *Channels          `json:"channels,omitempty"`
	Pause         *Pause             `json:"pause,omitempty"`
	Coalesce      *Coalesce          `json:"coalesce,omitempty"`
	// Hash4 and Hash6 are the fields of UDP packets that RSS hashes, by ethtool's letters: s and d are addresses,
	// f and n ports.
	Hash4 string   `json:"hash_udp4,omitempty"`
	Hash6 string   `json:"hash_udp6,omitempty"`
	RPS   []string `json:"rps,omitempty"` // CPU masks of receive queues

	Interrupts *Interrupts `json:"interrupts,omitempty"`
	PCI        *PCI        `json:"pci,omitempty"`
	Card       []string    `json:"card,omitempty"` // all interfaces of its card, where there are others
	Bond       *Bond       `json:"bond,omitempty"`
	VNI        uint32      `json:"vni,omitempty"` // of a tunnel device
}

// Feature is an offload.
type Feature struct {
	On    bool `json:"on"`
	Fixed bool `json:"fixed,omitempty"` // ethtool -K cannot change it
	// Requested says that one that is off was asked for: the kernel turned it off together with another.
	Requested bool `json:"requested,omitempty"`
}

// Ring is the number of descriptors, and the most that the device has.
type Ring struct {
	Rx    int `json:"rx"`
	RxMax int `json:"rx_max"`
	Tx    int `json:"tx"`
	TxMax int `json:"tx_max"`
}

// Channels is the number of queues, and the most that the device has.
type Channels struct {
	Combined    int `json:"combined"`
	CombinedMax int `json:"combined_max"`
	Rx          int `json:"rx"`
	RxMax       int `json:"rx_max"`
}

// Receive is how many queues receive.
func (c Channels) Receive() (queues, most int) { return c.Combined + c.Rx, max(c.CombinedMax, c.RxMax) }

// Pause is link level flow control (IEEE 802.3 annex 31B).
type Pause struct {
	Autoneg bool `json:"autoneg"`
	Rx      bool `json:"rx"`
	Tx      bool `json:"tx"`
}

// Coalesce is how long a device waits before it interrupts.
type Coalesce struct {
	Adaptive bool `json:"adaptive_rx"`
	RxMicros int  `json:"rx_us"`
}

// Interrupts are those of an interface's queues.
type Interrupts struct {
	Count int `json:"count"`
	// CPUs are those that they are allowed on, together.
	CPUs []int `json:"cpus"`
	// Far is how many are allowed on a CPU of another NUMA node than the slot's.
	Far int `json:"far"`
}

// PCI is the slot of a device. GT/s and lanes are 0 when they are not told, as
// by emulated devices.
type PCI struct {
	Address   string  `json:"address"`
	ID        string  `json:"id,omitempty"` // vendor:device, in hexadecimal
	Subsystem string  `json:"subsystem,omitempty"`
	GTs       float64 `json:"gt_per_s,omitempty"` // of one lane
	GTsMax    float64 `json:"gt_per_s_max,omitempty"`
	Lanes     int     `json:"lanes,omitempty"`
	LanesMax  int     `json:"lanes_max,omitempty"`
	NUMA      *int    `json:"numa,omitempty"`
	// SR-IOV: virtual functions that are there and that can be, or that this is one.
	VFs     int  `json:"vfs,omitempty"`
	VFsMax  int  `json:"vfs_max,omitempty"`
	Virtual bool `json:"virtual_function,omitempty"`
}

// Bond is a link aggregation.
type Bond struct {
	Mode       string   `json:"mode"`
	HashPolicy string   `json:"hash_policy,omitempty"`
	LACPRate   string   `json:"lacp_rate,omitempty"` // of mode 802.3ad
	Members    []string `json:"members"`
	// Routing are the routing protocols of which routes leave by the bond, or by a VLAN over it.
	Routing []string `json:"routing,omitempty"`
}

// Interface finds an interface by name.
func (h *Host) Interface(name string) (*Interface, bool) {
	for i := range h.Interfaces {
		if h.Interfaces[i].Name == name {
			return &h.Interfaces[i], true
		}
	}
	return nil, false
}
