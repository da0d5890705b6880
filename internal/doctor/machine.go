package doctor

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/internal/doctor/sysfs"
)

// machine reads what all links share from sysfs and procfs.
type machine struct{ sys, proc string }

func (m machine) read(inv *Inventory) {
	for _, part := range []struct {
		what string
		read func(*Inventory) error
	}{
		{"kernel version", m.kernel},
		{"memory", m.memory},
		{"CPUs", m.cpus},
		{"NUMA nodes", m.nodes},
		{"hyper-threading", m.threads},
		{"CPU frequency governor", m.governors},
		{"softnet statistics", m.softnet},
		{"ephemeral port range", m.ports},
		{"sysctls", m.sysctls},
	} {
		if err := part.read(inv); err != nil {
			inv.unknown(part.what, "%v", err)
		}
	}
}

func (m machine) kernel(inv *Inventory) (err error) {
	inv.Machine.Kernel, err = sysfs.Value(m.proc, "sys/kernel/osrelease")
	return err
}

func (m machine) memory(inv *Inventory) error {
	text, err := sysfs.Value(m.proc, "meminfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "MemTotal:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			inv.Machine.Memory = kib << 10
			return err
		}
	}
	return sysfs.ErrNone
}

func (m machine) cpus(inv *Inventory) error {
	text, err := sysfs.Value(m.sys, "devices/system/cpu/online")
	if err != nil {
		return err
	}
	inv.Machine.CPUs, err = sysfs.List(text)
	return err
}

func (m machine) nodes(inv *Inventory) error {
	dirs, err := filepath.Glob(filepath.Join(m.sys, "devices/system/node/node[0-9]*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		id, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "node"))
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		text, err := sysfs.Value(dir, "cpulist")
		if err != nil {
			return err
		}
		cpus, err := sysfs.List(text)
		if err != nil {
			return err
		}
		inv.Machine.Nodes = append(inv.Machine.Nodes, Node{ID: id, CPUs: cpus})
	}
	if len(dirs) == 0 {
		return sysfs.ErrNone
	}
	slices.SortFunc(inv.Machine.Nodes, func(a, b Node) int { return a.ID - b.ID })
	return nil
}

func (m machine) threads(inv *Inventory) error {
	text, err := sysfs.Value(m.sys, "devices/system/cpu/smt/active")
	if err != nil {
		return err
	}
	on := text == "1"
	inv.Machine.SMT = &on
	return nil
}

func (m machine) governors(inv *Inventory) error {
	files, err := filepath.Glob(filepath.Join(m.sys, "devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return sysfs.ErrNone
	}
	inv.Machine.Governors = map[string]int{}
	for _, file := range files {
		governor, err := sysfs.Value(file)
		if err != nil {
			return err
		}
		inv.Machine.Governors[governor]++
	}
	if driver, err := sysfs.Value(filepath.Dir(files[0]), "scaling_driver"); err == nil {
		inv.Machine.FreqDriver = driver
	}
	return nil
}

// softnet reads /proc/net/softnet_stat: columns are processed, dropped and
// time_squeeze; the thirteenth is the CPU since Linux 5.10.
func (m machine) softnet(inv *Inventory) error {
	text, err := sysfs.Value(m.proc, "net/softnet_stat")
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		var columns []uint64
		for _, f := range strings.Fields(line) {
			n, err := strconv.ParseUint(f, 16, 64)
			if err != nil {
				return fmt.Errorf("softnet_stat: %w", err)
			}
			columns = append(columns, n)
		}
		if len(columns) < 3 {
			return fmt.Errorf("softnet_stat: %d columns, want 3 or more", len(columns))
		}
		s := Softnet{CPU: len(inv.Softnet), Processed: columns[0], Dropped: columns[1], Squeezed: columns[2]}
		if len(columns) > 12 {
			s.CPU = int(columns[12])
		}
		inv.Softnet = append(inv.Softnet, s)
	}
	return nil
}

func (m machine) ports(inv *Inventory) error {
	text, err := sysfs.Value(m.proc, "sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return err
	}
	var r [2]int
	if _, err := fmt.Sscan(text, &r[0], &r[1]); err != nil {
		return fmt.Errorf("ip_local_port_range %q: %w", text, err)
	}
	inv.Machine.SourcePorts = &r
	return nil
}

// sysctls reads those of a host's facts that there are. Numbers of several columns are separated by one blank.
func (m machine) sysctls(inv *Inventory) error {
	inv.Machine.Sysctls = map[string]string{}
	for _, name := range facts.Sysctls() {
		text, err := sysfs.Value(m.proc, "sys", strings.ReplaceAll(name, ".", "/"))
		if err == nil {
			inv.Machine.Sysctls[name] = strings.Join(strings.Fields(text), " ")
		}
	}
	if len(inv.Machine.Sysctls) == 0 {
		return sysfs.ErrNone
	}
	return nil
}

// readInterrupts reads /proc/interrupts: IRQs by number.
func readInterrupts(proc string) (map[int]IRQ, error) {
	text, err := sysfs.Value(proc, "interrupts")
	if err != nil {
		return nil, err
	}
	header, body, _ := strings.Cut(text, "\n")
	cpus := len(strings.Fields(header))
	found := map[int]IRQ{}
	for line := range strings.Lines(body) {
		f := strings.Fields(line)
		if len(f) < cpus+2 {
			continue
		}
		number, err := strconv.Atoi(strings.TrimSuffix(f[0], ":"))
		if err != nil {
			continue // NMI and the like
		}
		irq := IRQ{Number: number, Name: f[len(f)-1]}
		for _, n := range f[1 : 1+cpus] {
			count, err := strconv.ParseUint(n, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("interrupt %d: %w", number, err)
			}
			irq.Counts = append(irq.Counts, count)
		}
		found[number] = irq
	}
	return found, nil
}

// sorted are the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
