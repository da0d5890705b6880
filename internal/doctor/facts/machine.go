package facts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/doctor/fix"
)

// sysctls are those that are compared, and whether figures of a network are known to depend on them.
var sysctls = map[string]bool{
	"net.core.rmem_max": true, "net.core.wmem_max": true, "net.core.netdev_max_backlog": true,
	"net.core.netdev_budget": true, "net.core.netdev_budget_usecs": true, "net.core.default_qdisc": true,
	"net.core.bpf_jit_enable": true, "net.core.bpf_jit_harden": true, "net.core.busy_poll": true, "net.core.busy_read": true,
	"net.core.rps_sock_flow_entries": true, "net.core.rps_default_mask": true,
	"net.ipv4.tcp_congestion_control": true, "net.ipv4.tcp_rmem": true, "net.ipv4.tcp_wmem": true, "net.ipv4.tcp_mtu_probing": true,
	"net.ipv4.tcp_timestamps": true, "net.ipv4.tcp_sack": true, "net.ipv4.tcp_slow_start_after_idle": true,
	"net.ipv4.ip_no_pmtu_disc": true, "net.ipv4.ip_forward": true, "net.ipv6.conf.all.forwarding": true,
	"net.ipv4.conf.all.rp_filter": true, "net.ipv4.fib_multipath_hash_policy": true, "net.ipv6.fib_multipath_hash_policy": true,
	"net.bridge.bridge-nf-call-iptables": true, "net.bridge.bridge-nf-call-ip6tables": true, "net.bridge.bridge-nf-call-arptables": true,
	"net.ipv4.ip_local_port_range": true, "net.netfilter.nf_conntrack_max": false, "net.ipv4.tcp_ecn": false, "net.core.somaxconn": false,
	"kernel.numa_balancing": true, "kernel.sched_autogroup_enabled": false,
}

// Sysctls are the names of sysctls that belong to a host's facts, in order.
func Sysctls() []string { return sorted(sysctls) }

// ofMachine are the facts that all interfaces of a host share.
func ofMachine(h *Host) []fact {
	m, c := h.Machine, h.Machine.CPU
	all := []fact{
		{check: "kernel", name: "kernel", value: m.Kernel, source: "uname -r", matters: true},
		{check: "kernel", name: "architecture", value: m.Arch, source: "uname -m", matters: true},
		{check: "kernel", name: "kernel parameters", value: orNone(m.Kernel, m.Parameters), source: "/proc/cmdline", matters: true},
		{check: "kernel", name: "clock source", value: m.ClockSource, source: "/sys/devices/system/clocksource/clocksource0/current_clocksource", matters: true},
		{check: "cpu", name: "CPU", value: c.Model, source: "lscpu", matters: true},
		{check: "cpu", name: "sockets", value: count(c.Sockets), source: "lscpu", matters: true},
		{check: "cpu", name: "cores", value: count(c.Cores), source: "lscpu", matters: true},
		{check: "cpu", name: "online CPUs", value: count(c.Threads), source: "lscpu", matters: true},
		{check: "cpu", name: "highest frequency", value: unit(c.MaxKHz/1000, "MHz"), source: "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", matters: true},
		{check: "cpu", name: "microcode", value: c.Microcode, source: "/proc/cpuinfo"},
		{check: "hyper-threading", name: "hyper-threading", value: maybeOnOff(c.SMT), source: "/sys/devices/system/cpu/smt/active", matters: true},
		{check: "numa", name: "NUMA nodes", value: count(len(c.Nodes)), source: "numactl --hardware", matters: true},
		{
			check: "governor", name: "governor", value: strings.Join(sorted(c.Governors), ", "),
			source: "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor", matters: true, set: setGovernor,
		},
		{check: "governor", name: "frequency driver", value: c.FreqDriver, source: "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", matters: true},
		{check: "governor", name: "turbo", value: maybeOnOff(c.Turbo), source: "/sys/devices/system/cpu/intel_pstate/no_turbo or cpufreq/boost", matters: true},
		{check: "idle", name: "idle driver", value: c.IdleDriver, source: "/sys/devices/system/cpu/cpuidle/current_driver", matters: true},
		{check: "idle", name: "idle governor", value: c.IdleGovernor, source: "/sys/devices/system/cpu/cpuidle/current_governor", matters: true},
		{check: "idle", name: "idle states", value: idleStates(c.IdleStates), source: "cpupower idle-info", matters: true},
		{check: "memory", name: "memory channels", value: count(m.Memory.Channels), source: "dmidecode -t 17", matters: true},
		{check: "memory", name: "memory modules", value: modules(m.Memory.Modules), source: "dmidecode -t 17", matters: true},
		{check: "memory", name: "memory", value: unit(int(m.Memory.Bytes>>30), "GiB"), source: "/proc/meminfo"},
		{check: "platform", name: "virtual machine", value: yesNo(m.Kernel, m.Hypervisor), source: "/proc/cpuinfo", matters: true},
		{check: "platform", name: "vendor", value: m.Vendor, source: "/sys/class/dmi/id/sys_vendor"},
		{check: "platform", name: "product", value: m.Product, source: "/sys/class/dmi/id/product_name"},
		{check: "platform", name: "BIOS", value: m.Firmware, source: "/sys/class/dmi/id/bios_version"},
		{check: "platform", name: "operating system", value: m.OS, source: "/etc/os-release"},
	}
	for _, name := range sorted(c.Mitigations) {
		all = append(all, fact{check: "mitigations", name: name, value: c.Mitigations[name], source: "/sys/devices/system/cpu/vulnerabilities/" + name, matters: true})
	}
	for _, name := range sorted(h.Sysctls) {
		set := func(value string) (fix.Command, bool) { return fix.Run("sysctl", "-w", name+"="+value), true }
		all = append(all, fact{check: "sysctl", name: name, value: h.Sysctls[name], source: "sysctl " + name, matters: sysctls[name], set: set})
	}
	return all
}

// setGovernor needs all CPUs to have one.
func setGovernor(value string) (fix.Command, bool) {
	return fix.Run("cpupower", "frequency-set", "-g", value), !strings.Contains(value, ",")
}

// orNone is a list of which it is known that it was read, because what is beside it was.
func orNone(known string, list []string) string {
	if known == "" {
		return ""
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, " ")
}

func yesNo(known string, is bool) string {
	switch {
	case known == "":
		return ""
	case is:
		return "yes"
	}
	return "no"
}

func unit(n int, name string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, name)
}

func idleStates(all []IdleState) string {
	var texts []string
	for _, s := range all {
		text := fmt.Sprintf("%s %d µs", s.Name, s.ExitUS)
		if s.Disabled {
			text += " (disabled)"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// modules counts those of a kind: "8 x 16 GiB DDR4 at 3200 MT/s".
func modules(all []Module) string {
	counts := map[string]int{}
	for _, m := range all {
		text := strings.TrimSpace(fmt.Sprintf("%d GiB %s", m.Bytes>>30, m.Type))
		if m.MTs > 0 {
			text += fmt.Sprintf(" at %d MT/s", m.MTs)
		}
		counts[text]++
	}
	var texts []string
	for _, text := range slices.Backward(sorted(counts)) {
		texts = append(texts, fmt.Sprintf("%d x %s", counts[text], text))
	}
	return strings.Join(texts, ", ")
}

// String is the machine in a line.
func (m Machine) String() string {
	cpu := m.CPU.Model
	if cpu == "" {
		cpu = "CPU unknown"
	}
	text, cpus := "Linux", "CPUs unknown"
	if m.Kernel != "" {
		text += " " + m.Kernel
	}
	if m.CPU.Threads > 0 {
		cpus = plural(m.CPU.Threads, "CPU")
	}
	text += ", " + cpu + ", " + cpus
	if m.CPU.Sockets > 0 {
		text += " in " + plural(m.CPU.Sockets, "socket")
	}
	if m.Memory.Bytes > 0 {
		text += fmt.Sprintf(", %.1f GB of memory", float64(m.Memory.Bytes)/1e9)
	}
	if m.Memory.Channels > 0 {
		text += " in " + plural(m.Memory.Channels, "channel")
	}
	return text
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
