package edge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lock is the right to be the edge of a name. The kernel lets go of it when
// the process ends, in whatever way.
type lock struct {
	path string
	file *os.File
}

// checkName refuses a name that leads out of the directories of edges.
func checkName(name string) error {
	if !filepath.IsLocal(name) || name == "." || name != filepath.Base(name) {
		return fmt.Errorf("edge name %q cannot name a file", name)
	}
	return nil
}

// checkOwner refuses a runtime directory in which others may put files in the place of the edge's.
func checkOwner(dir string) error {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return fmt.Errorf("runtime directory %s: %w", dir, err)
	}
	const advice = "give --runtime-dir a directory that only root may write to"
	if own := uint32(os.Geteuid()); st.Uid != own && st.Uid != 0 {
		return fmt.Errorf("runtime directory %s belongs to user %d: %s", dir, st.Uid, advice)
	}
	if st.Mode&unix.S_IWOTH != 0 {
		return fmt.Errorf("runtime directory %s may be written to by everybody: %s", dir, advice)
	}
	return nil
}

// acquire takes the lock of name in dir, or says which process has it.
func acquire(dir, name string) (*lock, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("runtime directory: %w", err)
	}
	if err := checkOwner(dir); err != nil {
		return nil, err
	}
	l := &lock{path: filepath.Join(dir, name+".lock")}
	for {
		taken, err := l.try()
		if err != nil {
			return nil, fmt.Errorf("lock edge %s: %w", name, err)
		}
		if taken {
			return l, nil
		}
	}
}

// try reports false when the file was removed by its former owner meanwhile.
func (l *lock) try() (bool, error) {
	file, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		pid, _ := os.ReadFile(l.path)
		file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return false, fmt.Errorf("it is already running as process %s", strings.TrimSpace(string(pid)))
		}
		return false, err
	}
	mine, err := file.Stat()
	if err != nil {
		return false, errors.Join(err, file.Close())
	}
	if there, err := os.Stat(l.path); err != nil || !os.SameFile(mine, there) {
		return false, file.Close()
	}
	l.file = file
	if err := file.Truncate(0); err != nil {
		return false, errors.Join(err, file.Close())
	}
	_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return true, err
}

// release removes the file while it is still locked, then unlocks.
func (l *lock) release() error {
	return errors.Join(os.Remove(l.path), l.file.Close())
}
