package agent

import (
	"bytes"
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
	"time"

	"github.com/selvage/selvage/internal/namespace"
)

// Files of an agent's directory. Beside them is the program.
const (
	DirPrefix  = "selvage-lab-"
	guardFile  = "guard"       // number of the shell that starts the agent and removes the directory after it
	ownerFile  = "owner.json"  // the agent
	ledgerFile = "ledger.json" // how things were; there only while something is changed
)

// owner is an agent's process, and where it changes things.
type owner struct {
	PID       int    `json:"pid"`
	Start     uint64 `json:"start_ticks"` // proc_pid_stat(5), field 22
	Boot      string `json:"boot"`
	Namespace uint64 `json:"namespace"` // cookie
}

func thisOwner() (owner, error) {
	o := owner{PID: os.Getpid(), Namespace: namespace.Cookie()}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return o, err
	}
	o.Boot = strings.TrimSpace(string(boot))
	o.Start, err = startOf(o.PID)
	return o, err
}

// startOf tells a process from a later one of its number.
func startOf(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// Field 2 is the name in parentheses and may hold anything.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func (o owner) alive() bool {
	start, err := startOf(o.PID)
	return err == nil && start == o.Start
}

// ledger is what an agent changed, latest last. Its file is on disk before each change.
type ledger struct {
	dir   string
	undos []undo
}

func (l *ledger) path() string { return filepath.Join(l.dir, ledgerFile) }

// change notes how a setting is, and then changes it.
func (l *ledger) change(c Change) (undo, error) {
	u, err := c.look()
	if err != nil {
		return u, err
	}
	if err := l.note(u); err != nil {
		return u, err
	}
	return u, c.make()
}

// note has on disk how something was, unless that is there already.
func (l *ledger) note(u undo) error {
	if slices.ContainsFunc(l.undos, u.covers) {
		return nil
	}
	l.undos = append(l.undos, u)
	if err := writeDurably(l.path(), l.undos); err != nil {
		l.undos = l.undos[:len(l.undos)-1]
		return err
	}
	return nil
}

// undo restores everything, the latest first, and removes the file when that worked.
func (l *ledger) undo() error {
	var errs []error
	for _, u := range slices.Backward(l.undos) {
		if err := u.restore(); err != nil {
			errs = append(errs, fmt.Errorf("%s as it was before: %w", u.name(), err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w (see %s)", err, l.path())
	}
	l.undos = nil
	return ignoreMissing(os.Remove(l.path()))
}

// load reads what an agent that is dead had changed.
func (l *ledger) load() error {
	data, err := os.ReadFile(l.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &l.undos); err != nil {
		return fmt.Errorf("%s: %w (compare it with ethtool and sysctl, and remove it by hand)", l.path(), err)
	}
	runs := func(u undo) bool { return u.Off != "" }
	if slices.ContainsFunc(l.undos, runs) && !writtenByUs(l.path()) {
		return fmt.Errorf("%s has a command, and another user wrote it: run what undoes the change by hand, and remove it", l.path())
	}
	return nil
}

// writtenByUs says whether a file is this user's. A directory that sudo's user made may hold
// other ones, whose commands are not to be run as root.
func writtenByUs(path string) bool {
	var s syscall.Stat_t
	return syscall.Lstat(path, &s) == nil && s.Mode&syscall.S_IFMT == syscall.S_IFREG && int(s.Uid) == os.Geteuid()
}

// writeDurably replaces a file at once, and has it on disk.
func writeDurably(path string, content any) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	next, err := os.OpenFile(path+".next", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = next.Write(data)
	if err := errors.Join(err, next.Sync(), next.Close()); err != nil {
		return err
	}
	return os.Rename(path+".next", path)
}

// young is how old a directory without a guard may be whose shell is just writing that.
const young = 5 * time.Second

// RestoreDead undoes and removes what killed agents of this user have left in the directories
// where agents are started, for this network namespace. It returns their directories.
func RestoreDead(roots ...string) (restored []string, err error) {
	self, err := thisOwner()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, root := range roots {
		dirs, err := filepath.Glob(filepath.Join(root, DirPrefix+"*"))
		errs = append(errs, err)
		for _, dir := range dirs {
			done, err := restoreDead(dir, self)
			if done {
				restored = append(restored, dir)
			}
			errs = append(errs, err)
		}
	}
	return restored, errors.Join(errs...)
}

func restoreDead(dir string, self owner) (bool, error) {
	var of owner
	data, err := os.ReadFile(filepath.Join(dir, ownerFile))
	if err == nil {
		err = json.Unmarshal(data, &of)
	}
	switch {
	case !ours(dir), guarded(dir), err == nil && of.Boot == self.Boot && of.alive():
		return false, nil
	case err == nil && of.Boot == self.Boot && of.Namespace != self.Namespace:
		if _, err := os.Stat(filepath.Join(dir, ledgerFile)); err == nil {
			return false, nil // its changes are to be undone where it made them
		}
	case err == nil && of.Boot == self.Boot:
		l := ledger{dir: dir}
		err := l.load()
		if err == nil {
			err = l.undo()
		}
		if err != nil {
			return false, fmt.Errorf("killed agent %s: %w", dir, err)
		}
	}
	// Else nothing had been changed yet, or it is undone, or went with the boot.
	return true, os.RemoveAll(dir)
}

// ours says whether nobody else could have written what is in a directory: under /tmp anybody
// can make one of that name.
func ours(dir string) bool {
	var s syscall.Stat_t
	if err := syscall.Lstat(dir, &s); err != nil || s.Mode&syscall.S_IFMT != syscall.S_IFDIR || s.Mode&0o077 != 0 {
		return false
	}
	users := []string{strconv.Itoa(os.Geteuid()), os.Getenv("SUDO_UID")}
	return slices.Contains(users, strconv.Itoa(int(s.Uid)))
}

// guarded says whether the shell of a directory is there, or may just be about to say so.
func guarded(dir string) bool {
	data, err := os.ReadFile(filepath.Join(dir, guardFile))
	if err != nil {
		info, err := os.Stat(dir)
		return err == nil && time.Since(info.ModTime()) < young
	}
	command, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(data)), "cmdline"))
	return err == nil && bytes.Contains(command, []byte(DirPrefix))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
