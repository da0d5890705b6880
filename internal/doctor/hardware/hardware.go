// Package hardware reads the machine that a host is on: processors, power saving, flaws and their mitigations, memory.
//
// Its one invariant: it reads files and changes nothing; what cannot be read is named, and not guessed. Adapters and
// settings of the network are internal/doctor's.
package hardware

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/internal/doctor/sysfs"
)

// Roots are directories of a machine's file systems.
type Roots struct{ Sys, Proc, Etc string }

// reader collects what is not known.
type reader struct {
	Roots
	unknown []facts.Unknown
}

// Read reads a machine. The parts of it that other packages read too are left out: kernel, online CPUs, NUMA nodes,
// governors, SMT, and the size of the memory.
func Read(roots Roots) (m facts.Machine, unknown []facts.Unknown) {
	r := &reader{Roots: roots}
	m.Arch = runtime.GOARCH
	m.OS = r.os()
	m.Vendor, m.Product, m.Firmware = r.dmi("sys_vendor"), r.dmi("product_name"), r.dmi("bios_version")
	m.Parameters = r.parameters()
	m.ClockSource = r.get("clock source", r.Sys, "devices/system/clocksource/clocksource0/current_clocksource")
	m.Hypervisor = r.cpuinfo(&m.CPU)
	r.topology(&m.CPU)
	r.frequency(&m.CPU)
	r.idle(&m.CPU)
	m.CPU.Mitigations = r.mitigations()
	r.memory(&m.Memory)
	return m, r.unknown
}

func (r *reader) missing(what string, err error) {
	r.unknown = append(r.unknown, facts.Unknown{What: what, Why: err.Error()})
}

// get is the content of a file, empty and missing when it cannot be read.
func (r *reader) get(what string, path ...string) string {
	text, err := sysfs.Value(path...)
	if err != nil {
		r.missing(what, err)
	}
	return text
}

// os is the name of the operating system (os-release(5)).
func (r *reader) os() string {
	for line := range strings.Lines(r.get("operating system", r.Etc, "os-release")) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(name, `"'`)
		}
	}
	return ""
}

func (r *reader) dmi(name string) string {
	text, err := sysfs.Value(r.Sys, "class/dmi/id", name)
	if err != nil {
		return "" // of virtual machines and boards without firmware tables
	}
	return text
}

// parameters of the kernel that change what a packet costs, by their names up to "=".
var parameters = []string{
	"mitigations", "isolcpus", "nohz_full", "nohz", "rcu_nocbs", "irqaffinity", "idle", "intel_idle.max_cstate", "processor.max_cstate",
	"intel_pstate", "amd_pstate", "cpufreq.default_governor", "nosmt", "iommu", "intel_iommu", "amd_iommu", "iommu.passthrough", "iommu.strict",
	"swiotlb", "pcie_aspm", "pci", "clocksource", "tsc", "preempt", "threadirqs", "skew_tick", "nmi_watchdog", "audit", "hugepages", "hugepagesz",
	"default_hugepagesz", "transparent_hugepage", "numa_balancing", "maxcpus", "nr_cpus", "spectre_v2", "retbleed", "nopti", "pti",
}

func (r *reader) parameters() (found []string) {
	for _, word := range strings.Fields(r.get("kernel parameters", r.Proc, "cmdline")) {
		if word == "--" { // what follows is init's
			break
		}
		if name, _, _ := strings.Cut(word, "="); slices.Contains(parameters, name) {
			found = append(found, word)
		}
	}
	slices.Sort(found)
	return found
}

// cpuinfo reads the first processor of /proc/cpuinfo, whose words differ by architecture.
func (r *reader) cpuinfo(c *facts.CPU) (hypervisor bool) {
	text := r.get("CPU model", r.Proc, "cpuinfo")
	first, _, _ := strings.Cut(text, "\n\n")
	fields := map[string]string{}
	for line := range strings.Lines(first) {
		name, value, _ := strings.Cut(line, ":")
		fields[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	c.Model, c.Microcode = fields["model name"], fields["microcode"]
	if part := fields["CPU part"]; c.Model == "" && part != "" { // of ARM
		c.Model = "implementer " + fields["CPU implementer"] + " part " + part
	}
	if text != "" && c.Model == "" {
		r.missing("CPU model", sysfs.ErrNone)
	}
	return slices.Contains(strings.Fields(fields["flags"]), "hypervisor")
}

// cpus are the directories of all CPUs.
func (r *reader) cpus() []string {
	dirs, err := filepath.Glob(filepath.Join(r.Sys, "devices/system/cpu/cpu[0-9]*"))
	if err != nil {
		r.missing("CPUs", err)
	}
	return dirs
}

// topology counts sockets and cores of the CPUs that are online.
func (r *reader) topology(c *facts.CPU) {
	sockets, cores := map[string]bool{}, map[string]bool{}
	for _, dir := range r.cpus() {
		socket, err := sysfs.Value(dir, "topology/physical_package_id")
		if err != nil {
			continue // it is offline
		}
		die, _ := sysfs.Value(dir, "topology/die_id")
		core, _ := sysfs.Value(dir, "topology/core_id")
		sockets[socket], cores[socket+"/"+die+"/"+core] = true, true
	}
	c.Sockets, c.Cores = len(sockets), len(cores)
	if len(sockets) == 0 {
		r.missing("sockets", sysfs.ErrNone)
	}
}

// frequency reads the highest frequency, and either driver's switch of turbo.
func (r *reader) frequency(c *facts.CPU) {
	cpu := filepath.Join(r.Sys, "devices/system/cpu")
	c.MaxKHz = sysfs.Number(cpu, "cpu0/cpufreq/cpuinfo_max_freq")
	noTurbo, errIntel := sysfs.Value(cpu, "intel_pstate/no_turbo")
	boost, errOther := sysfs.Value(cpu, "cpufreq/boost")
	switch {
	case errIntel == nil:
		c.Turbo = new(noTurbo == "0")
	case errOther == nil:
		c.Turbo = new(boost == "1")
	default:
		r.missing("turbo", sysfs.ErrNone)
	}
}

// idle reads the states of the first CPU.
func (r *reader) idle(c *facts.CPU) {
	cpu := filepath.Join(r.Sys, "devices/system/cpu")
	c.IdleDriver = r.get("idle driver", cpu, "cpuidle/current_driver")
	if governor, err := sysfs.Value(cpu, "cpuidle/current_governor"); err == nil {
		c.IdleGovernor = governor
	} else {
		c.IdleGovernor = r.get("idle governor", cpu, "cpuidle/current_governor_ro")
	}
	for n := 0; ; n++ {
		dir := filepath.Join(cpu, "cpu0/cpuidle/state"+strconv.Itoa(n))
		name, err := sysfs.Value(dir, "name")
		if err != nil {
			break
		}
		c.IdleStates = append(c.IdleStates, facts.IdleState{Name: name, ExitUS: sysfs.Number(dir, "latency"), Disabled: sysfs.Number(dir, "disable") == 1})
	}
	if len(c.IdleStates) == 0 {
		r.missing("idle states", sysfs.ErrNone)
	}
}

// mitigations are those of flaws that the processor has.
func (r *reader) mitigations() map[string]string {
	dir := filepath.Join(r.Sys, "devices/system/cpu/vulnerabilities")
	entries, err := os.ReadDir(dir)
	if err != nil {
		r.missing("mitigations", sysfs.ErrNone)
		return nil
	}
	found := map[string]string{}
	for _, e := range entries {
		if text, err := sysfs.Value(dir, e.Name()); err == nil {
			found[e.Name()] = text
		}
	}
	return found
}
