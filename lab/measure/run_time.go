package measure

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// RunTime is how long each process of the machine has run, by its number: the kernel's threads
// too, and in its context whatever interrupted it. What the hypervisor took is not in it where
// the kernel knows of that.
type RunTime map[int]time.Duration

// ReadRunTime asks the clock of every process but this one, exact to the nanosecond, where
// /proc/stat has ticks. Interrupts of a core that has nothing to do are nobody's, and missing.
func ReadRunTime() (RunTime, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("run time: %w", err)
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("run time: %w", err)
	}
	times := make(RunTime, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		const sched = 2 // CPUCLOCK_SCHED of a process, see clock_getcpuclockid(3)
		var ts unix.Timespec
		if unix.ClockGettime(int32(^pid)<<3|sched, &ts) == nil { // else it has just ended
			times[pid] = time.Duration(ts.Nano())
		}
	}
	return times, nil
}

// Since is what all processes ran after an earlier look. Those that ended meanwhile are missing.
func (now RunTime) Since(then RunTime) time.Duration {
	var all time.Duration
	for pid, ran := range now {
		all += max(0, ran-then[pid])
	}
	return all
}
