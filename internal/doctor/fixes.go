package doctor

import (
	"fmt"

	"github.com/selvage/selvage/internal/doctor/fix"
)

// sysctlFixes set sysctls, given as names and values, of which the values before are known.
func sysctlFixes(inv *Inventory, words ...string) (fixes []fix.Fix) {
	for i := 0; i+1 < len(words); i += 2 {
		name, value := words[i], words[i+1]
		before, known := inv.Machine.Sysctls[name]
		if !known {
			return nil
		}
		fixes = append(fixes, fix.Fix{Do: fix.Run("sysctl", "-w", name+"="+value), Undo: fix.Run("sysctl", "-w", name+"="+before)})
	}
	return fixes
}

// governorFixes need all CPUs to have one governor: cpupower sets them together.
func governorFixes(governors map[string]int) []fix.Fix {
	if len(governors) != 1 {
		return nil
	}
	return []fix.Fix{{
		Do:   fix.Run("cpupower", "frequency-set", "-g", "performance"),
		Undo: fix.Run("cpupower", "frequency-set", "-g", sorted(governors)[0]),
	}}
}

// pin adds that an interrupt of an interface goes to one CPU.
func (f *Finding) pin(iface string, irq IRQ, cpu int) {
	file := fmt.Sprintf("/proc/irq/%d/smp_affinity_list", irq.Number)
	do := fix.Write(fmt.Sprint(cpu), file)
	if irq.Allowed == "" { // there is no way back
		f.Change = append(f.Change, do.String())
		return
	}
	f.fix(fix.Fix{Interface: iface, Do: do, Undo: fix.Write(irq.Allowed, file)})
}
