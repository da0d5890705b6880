package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/selvage/selvage/internal/doctor/sysfs"
	"github.com/selvage/selvage/internal/overlay"
)

// slot is the directory of a PCI device, "" when the link has none.
type slot string

// slotOf finds the PCI device of a physical link: its own, or that of its
// virtio device. The directories of buses are of the machine, not of a network
// namespace.
func slotOf(sys string, l *Link) slot {
	var dir string
	switch {
	case l.Bus != "" && l.BusName != "":
		dir = filepath.Join(sys, "bus", l.Bus, "devices", l.BusName)
	case strings.Count(l.NIC.Bus, ":") == 2: // a kernel before 5.14 tells by ethtool only
		dir = filepath.Join(sys, "bus/pci/devices", l.NIC.Bus)
	default:
		return ""
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return ""
	}
	if l.Bus == "virtio" {
		resolved = filepath.Dir(resolved)
	}
	if strings.Count(filepath.Base(resolved), ":") != 2 { // domain:bus:device.function
		return ""
	}
	return slot(resolved)
}

// read returns what the slot tells. Emulated slots have no speed.
func (s slot) read() *PCI {
	if s == "" {
		return nil
	}
	p := &PCI{Address: filepath.Base(string(s))}
	p.GTs, p.GTsMax = s.speed("current_link_speed"), s.speed("max_link_speed")
	p.ID, p.Subsystem = s.ids("vendor", "device"), s.ids("subsystem_vendor", "subsystem_device")
	p.VFs, p.VFsMax = sysfs.Number(string(s), "sriov_numvfs"), sysfs.Number(string(s), "sriov_totalvfs")
	_, err := os.Stat(filepath.Join(string(s), "physfn"))
	p.Virtual = err == nil
	p.Lanes, p.LanesMax = s.lanes("current_link_width"), s.lanes("max_link_width")
	if text, err := sysfs.Value(string(s), "numa_node"); err == nil {
		if node, err := strconv.Atoi(text); err == nil && node >= 0 { // -1 is none
			p.NUMA = &node
		}
	}
	return p
}

// ids reads two numbers as lspci -n writes them: "8086:1592".
func (s slot) ids(first, second string) string {
	a, errA := sysfs.Value(string(s), first)
	b, errB := sysfs.Value(string(s), second)
	if errA != nil || errB != nil {
		return ""
	}
	return strings.TrimPrefix(a, "0x") + ":" + strings.TrimPrefix(b, "0x")
}

// speed reads "8.0 GT/s PCIe"; 0 when it is not a number ("Unknown").
func (s slot) speed(file string) float64 {
	text, err := sysfs.Value(string(s), file)
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(text, " ")
	gts, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return gts
}

// lanes reads a width; the kernel says 255 for one that it does not know.
func (s slot) lanes(file string) int {
	const unknown = 255
	text, err := sysfs.Value(string(s), file)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n == unknown {
		return 0
	}
	return n
}

// interrupts are the device's own, which have counted anything or are allowed
// somewhere.
func (s slot) interrupts(proc string, all map[int]IRQ) []IRQ {
	if s == "" {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(string(s), "msi_irqs"))
	if err != nil {
		return nil
	}
	var found []IRQ
	for _, e := range entries {
		number, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		irq, ok := all[number]
		if !ok {
			continue
		}
		irq.Allowed, _ = sysfs.Value(proc, "irq", e.Name(), "smp_affinity_list") // empty where it is not told
		for _, file := range []string{"effective_affinity_list", "smp_affinity_list"} {
			if text, err := sysfs.Value(proc, "irq", e.Name(), file); err == nil && text != "" {
				irq.Affinity, _ = sysfs.List(text) // none when it is not a list
				break
			}
		}
		found = append(found, irq)
	}
	slices.SortFunc(found, func(a, b IRQ) int { return a.Number - b.Number })
	return found
}

// classes is /sys/class/net, which shows the interfaces of the network namespace
// that sysfs was mounted in.
type classes struct {
	dir string
	err error
}

// classesOf checks that the directory shows these links and no others.
func classesOf(sys string, links []Link) classes {
	c := classes{dir: filepath.Join(sys, "class/net")}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		c.err = sysfs.ErrNone
		return c
	}
	var shown, have []string
	for _, e := range entries {
		if index, err := sysfs.Value(c.dir, e.Name(), "ifindex"); err == nil { // else no interface: bonding_masters
			text, _ := sysfs.Value(c.dir, e.Name(), "address")
			mac, _ := overlay.ParseMAC(text) // GRE has an IP address there, and netlink none
			shown = append(shown, fmt.Sprintln(e.Name(), index, mac))
		}
	}
	for _, l := range links {
		have = append(have, fmt.Sprintln(l.Name, l.Index, l.MAC))
	}
	slices.Sort(shown)
	slices.Sort(have)
	if !slices.Equal(shown, have) {
		c.err = errors.New("not readable here: /sys shows another network namespace; enter this one with ip netns exec")
	}
	return c
}

// steering returns the CPU masks of the receive queues of a link.
func (c classes) steering(name string) ([]string, error) {
	if c.err != nil {
		return nil, c.err
	}
	files, err := filepath.Glob(filepath.Join(c.dir, name, "queues/rx-*/rps_cpus"))
	if err != nil {
		return nil, err
	}
	var masks []string
	for _, file := range files {
		mask, err := sysfs.Value(file)
		if err != nil {
			return nil, err
		}
		masks = append(masks, mask)
	}
	return masks, nil
}
