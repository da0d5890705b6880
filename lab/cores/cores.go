// Package cores lists CPU cores by number. Numbers need not be 0 … n-1: a cpuset or taskset(1) leaves
// some out, and some are off.
//
// Its one invariant: pins come from Usable, and what looks at the whole machine from Online.
package cores

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/doctor/sysfs"
)

// usable is read before this process pins any thread.
var usable = allowed()

func allowed() (list []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil { // more cores than the set has room for
		set.Zero()
		for core := range runtime.NumCPU() {
			set.Set(core)
		}
	}
	for core := range 64 * len(set) {
		if set.IsSet(core) {
			list = append(list, core)
		}
	}
	return list
}

// Usable are the cores that this process was allowed to use when it started: at least one.
func Usable() []int { return usable }

// Online are the cores that the kernel uses.
func Online() ([]int, error) {
	text, err := sysfs.Value("/sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	return sysfs.List(text)
}

// Count is how many cores the machine has; without sysfs, how many are usable.
func Count() int {
	if online, err := Online(); err == nil {
		return len(online)
	}
	return len(usable)
}
