package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/datapath/kernel"
)

// PinRoot is where edges pin their maps and links, a directory each, for a root that was asked for: "" is the default, which
// depends on where this process sees a BPF file system.
func PinRoot(asked string) string {
	if asked == "" {
		return kernel.DefaultPinRoot()
	}
	return asked
}

// PinsEnd is how long pins live: whether those below pinRoot end with the mount namespace of this process, and whether that
// ends with this process.
func PinsEnd(pinRoot string) (withNamespace, withProcess bool) {
	if !kernel.IsShortLived(PinRoot(pinRoot)) {
		return false, false
	}
	return true, kernel.IsAloneInMountNamespace()
}

// Attached are programs of an edge that pins keep at interfaces. They take packets whether or not its process runs.
type Attached struct {
	Programs int
	Since    time.Time // when the first of them was pinned
}

// Pinned is what is attached of each edge by pins below PinRoot(pinRoot). A
// directory that is not there, or that this user may not read, has none.
func Pinned(pinRoot string) (map[string]Attached, error) {
	pinRoot = PinRoot(pinRoot)
	edges, err := os.ReadDir(pinRoot)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the pins: %w", err)
	}
	attached := make(map[string]Attached)
	for _, e := range edges {
		links := filepath.Join(pinRoot, e.Name(), "links")
		pins, err := os.ReadDir(links)
		if err != nil { // not of an edge
			continue
		}
		for _, pin := range pins {
			info, err := pin.Info()
			if err != nil || !takesPackets(links, pin.Name()) {
				continue
			}
			a := attached[e.Name()]
			if a.Programs++; a.Programs == 1 || info.ModTime().Before(a.Since) {
				a.Since = info.ModTime()
			}
			attached[e.Name()] = a
		}
	}
	return attached, nil
}

// takesPackets reports whether a pin keeps a program at an interface that is there.
func takesPackets(dir, name string) bool {
	h, ok := parseHook(name)
	if !ok || h.ifindex == 0 || h.role == roleCoalescer {
		return false
	}
	pin := lookAt(kernel.Host().Linker, filepath.Join(dir, name))
	if pin.link != 0 {
		return pin.ifindex != 0
	}
	return h.role == rolePort || h.role == roleUnderlay
}

// DriverOf is the process that drives what is pinned as name, if one does. It asks the kernel who has the lock, and does
// not try it: a start at that moment would find it taken.
func DriverOf(pinRoot, name string) (pid int, driven bool) {
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(pinRoot, name), &st); err != nil {
		return 0, false
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0, false
	}
	return lockedBy(string(locks), fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino))
}

// lockedBy is who has the lock of a file, as in proc_locks(5).
func lockedBy(locks, file string) (pid int, locked bool) {
	for line := range strings.Lines(locks) {
		if f := strings.Fields(line); len(f) == 8 && f[1] == "FLOCK" && f[5] == file {
			pid, err := strconv.Atoi(f[4])
			return pid, err == nil
		}
	}
	return 0, false
}
