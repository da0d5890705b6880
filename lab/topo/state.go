package topo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/await"
)

// state is what a lab has made, as its file under stateRoot says.
type state struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	Owner      process   `json:"owner"`
	Namespaces []string  `json:"namespaces"`
	Processes  []process `json:"processes"`
	Variables  []string  `json:"variables"` // of the environments of further processes
	Sysctls    []sysctl  `json:"sysctls"`
	Paths      []string  `json:"paths"`
}

// process is a process that cannot be mistaken for a later one of the same id.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start_ticks"` // proc_pid_stat(5), field 22
}

type sysctl struct {
	Key string `json:"key"`
	Old string `json:"old"`
}

func (s *state) path() string { return filepath.Join(stateRoot, s.ID+".json") }

// save replaces the file at once, so a reader sees the old state or the new.
func (s *state) save() error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("state of lab %s: %w", s.ID, err)
	}
	next := s.path() + ".next"
	if err := os.WriteFile(next, data, 0o644); err != nil {
		return fmt.Errorf("state of lab %s: %w", s.ID, err)
	}
	return os.Rename(next, s.path())
}

func (s *state) remove() error {
	return errors.Join(os.RemoveAll(filepath.Join(stateRoot, s.ID)), ignoreMissing(os.Remove(s.path())))
}

// undo removes what the state names. What is gone already is no error, so it can
// be repeated; the file goes last, and stays when something else does.
func (s *state) undo() error {
	var errs []error
	for _, p := range s.Processes {
		if p.alive() {
			_ = syscall.Kill(-p.PID, syscall.SIGKILL)
		}
	}
	killByVariable(s.Variables)
	errs = append(errs, deleteNamespaces(s.Namespaces...))
	for i := len(s.Sysctls) - 1; i >= 0; i-- {
		errs = append(errs, writeSysctl(s.Sysctls[i].Key, s.Sysctls[i].Old))
	}
	for _, path := range s.Paths {
		errs = append(errs, os.RemoveAll(path))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("lab %s left something behind, see %s: %w", s.ID, s.path(), err)
	}
	return s.remove()
}

// Restore removes what labs left behind whose process is dead, and returns
// their IDs. Labs that run are not touched.
func Restore(ctx context.Context) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(stateRoot, "*.json"))
	if err != nil {
		return nil, err
	}
	var restored []string
	var errs []error
	for _, file := range files {
		if ctx.Err() != nil {
			return restored, errors.Join(append(errs, ctx.Err())...)
		}
		s, err := loadState(file)
		switch {
		case errors.Is(err, fs.ErrNotExist): // closed meanwhile
		case err != nil:
			errs = append(errs, err)
		case s.Owner.alive():
		default:
			if err := s.undo(); err != nil {
				errs = append(errs, err)
				continue
			}
			restored = append(restored, s.ID)
		}
	}
	return restored, errors.Join(errs...)
}

func loadState(file string) (*state, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s := new(state)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("state file %s: %w (remove it by hand)", file, err)
	}
	if s.ID+".json" != filepath.Base(file) {
		return nil, fmt.Errorf("state file %s is of lab %q (remove it by hand)", file, s.ID)
	}
	return s, nil
}

// processNow identifies the process that has pid at present.
func processNow(pid int) (process, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, fmt.Errorf("process %d: %w", pid, err)
	}
	// Field 2 is the name in parentheses and may hold anything.
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return process{}, fmt.Errorf("start time of process %d: %w", pid, err)
	}
	return process{PID: pid, Start: start}, nil
}

func (p process) alive() bool {
	now, err := processNow(p.PID)
	return err == nil && now == p
}

// killByVariable kills the processes that have one of the variables, NAME=VALUE, in their
// environments.
func killByVariable(variables []string) {
	if len(variables) == 0 {
		return
	}
	files, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is well-formed
	for _, file := range files {
		environment, err := os.ReadFile(file)
		if err != nil { // it has just ended
			continue
		}
		theirs := func(v string) bool { return slices.Contains(variables, v) }
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && pid != os.Getpid() && slices.ContainsFunc(strings.Split(string(environment), "\x00"), theirs) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// deleteNamespaces kills who is in the namespaces, as ip netns pids finds them, and removes
// their names.
func deleteNamespaces(names ...string) error {
	if err := evict(names); err != nil {
		return fmt.Errorf("namespaces %s: %w", strings.Join(names, ", "), err)
	}
	var errs []error
	for _, name := range names {
		path := filepath.Join(namespaceRoot, name)
		// EINVAL: the file exists, but a killed lab had not mounted the namespace yet.
		// ENOENT: whoever made it while the lab closed has just removed it.
		err := unix.Unmount(path, unix.MNT_DETACH)
		if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			err = ignoreMissing(os.Remove(path))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("namespace %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// inode tells files apart.
type inode struct{ device, number uint64 }

func inodeOf(path string) (inode, error) {
	var s unix.Stat_t
	err := unix.Stat(path, &s)
	return inode{s.Dev, s.Ino}, err
}

// evict kills the processes of namespaces and waits until they are gone.
func evict(names []string) error {
	ours := map[inode]bool{}
	for _, name := range names {
		switch ns, err := inodeOf(filepath.Join(namespaceRoot, name)); {
		case err == nil:
			ours[ns] = true
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), CloseTimeout)
	defer cancel()
	return await.That(ctx, "processes of the namespaces to end", func() error {
		processes, err := os.ReadDir("/proc")
		if err != nil {
			return err
		}
		var left error
		for _, dir := range processes {
			pid, err := strconv.Atoi(dir.Name())
			if err != nil || pid == os.Getpid() {
				continue
			}
			if ns, err := inodeOf(filepath.Join("/proc", dir.Name(), "ns/net")); err == nil && ours[ns] {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				left = fmt.Errorf("process %d is still there", pid)
			}
		}
		return left
	})
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
