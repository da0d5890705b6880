package places

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/topo"
)

// Process is one of a host's.
type Process struct {
	PID     int
	Command string // line
}

// ProcessesOf are those in a host's namespace.
func ProcessesOf(h *topo.Host) (all []Process) {
	own, err := os.Stat(filepath.Join("/run/netns", h.Namespace))
	if err != nil {
		return nil
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		ns, err := os.Stat(filepath.Join(dir, "ns/net"))
		if err != nil || !os.SameFile(own, ns) || pid == os.Getpid() {
			continue
		}
		if command, err := os.ReadFile(filepath.Join(dir, "cmdline")); err == nil && len(command) > 0 {
			all = append(all, Process{pid, string(bytes.ReplaceAll(command, []byte{0}, []byte{' '}))})
		}
	}
	return all
}

// Kill kills those of a host whose command line matches, as soon as there are any. They are stopped first: none does
// anything about the death of another.
func Kill(t testing.TB, h *topo.Host, matches func(command string) bool) {
	t.Helper()
	err := await.Within(t.Context(), time.Minute, "a process to kill", func() error {
		var found []int
		for _, p := range ProcessesOf(h) {
			if matches(p.Command) && syscall.Kill(p.PID, syscall.SIGSTOP) == nil {
				found = append(found, p.PID)
			}
		}
		err := errors.New("there is none")
		for _, pid := range found {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				err = nil
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// IsAgent says whether a command line is an agent's.
func IsAgent(command string) bool {
	return strings.Contains(command, "selvage-lab agent") && !strings.Contains(command, "sh -c")
}

// IsGuard says whether a command line is that of the shell that starts an agent.
func IsGuard(command string) bool { return strings.Contains(command, "sh -c") }

// CPUTime is what a process has used of the cores itself, in ticks of 10 ms; none where it has ended.
func CPUTime(pid int) (used time.Duration) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, field := range fields[11:13] { // utime and stime of proc_pid_stat(5)
		ticks, _ := strconv.Atoi(field) // the kernel writes numbers
		used += time.Duration(ticks) * 10 * time.Millisecond
	}
	return used
}
