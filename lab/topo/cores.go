package topo

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Pin has all threads of a process run on one core.
func Pin(pid, core int) error {
	var set unix.CPUSet
	set.Set(core)
	return eachThread(pid, func(thread int) error {
		if err := unix.SchedSetaffinity(thread, &set); err != nil {
			return fmt.Errorf("pin thread %d to core %d: %w", thread, core, err)
		}
		return nil
	})
}

// Prefer makes all threads of a process real-time tasks, as what it is compared with is:
// then nobody else's work is in its figures.
func Prefer(pid int) error {
	realtime := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	return eachThread(pid, func(thread int) error {
		if err := unix.SchedSetAttr(thread, &realtime, 0); err != nil {
			return fmt.Errorf("real-time priority of thread %d: %w", thread, err)
		}
		return nil
	})
}

// PreferProcesses has what the host starts from now on run before all that is not urgent: in a
// network of hosts of their own no process waits for another host's work, and an edge that waits for
// 150 ms is taken for dead.
func (h *Host) PreferProcesses() error {
	return h.thread.run(func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) })
}

// eachThread calls f for every thread of a process; that one has ended is no error.
func eachThread(pid int, f func(thread int) error) error {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*", pid))
	if err != nil {
		return err
	}
	if len(tasks) == 0 {
		return fmt.Errorf("process %d is gone", pid)
	}
	for _, task := range tasks {
		thread, err := strconv.Atoi(filepath.Base(task))
		if err != nil {
			return err
		}
		if err := f(thread); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}
