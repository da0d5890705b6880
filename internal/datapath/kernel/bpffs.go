package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	bpffs = "/sys/fs/bpf"
	// initsRoot is the file system as process 1 sees it: ip netns exec and unshare hide its bpffs from this process.
	initsRoot = "/proc/1/root"
	pinDir    = "selvage"
	// ownSource is the source, in /proc/self/mountinfo, of a bpffs that an edge mounted in a mount namespace other than
	// the first: its pins end with that namespace.
	ownSource = "selvage"
	// firstPIDNamespace and firstMountNamespace are PROC_PID_INIT_INO and MNT_NS_INIT_INO (which older kernels lack) of
	// include/linux/proc_ns.h and include/uapi/linux/nsfs.h.
	firstPIDNamespace   = "pid:[4026531836]"
	firstMountNamespace = "mnt:[4026531832]"
)

// DefaultPinRoot is the directory of pins: in the bpffs of this mount namespace, or, where it has none, in that of process 1,
// which outlives the caller.
func DefaultPinRoot() string {
	if !isBPFFS(bpffs) && isBPFFS(initsRoot+bpffs) {
		return filepath.Join(initsRoot+bpffs, pinDir)
	}
	return filepath.Join(bpffs, pinDir)
}

func isBPFFS(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.BPF_FS_MAGIC
}

// Mount implements Pins.
func (hostPins) Mount(root string) error {
	if strings.HasPrefix(root, bpffs+"/") && !isBPFFS(bpffs) {
		source := "bpf"
		if !inFirstMountNamespace() {
			source = ownSource
		}
		if err := unix.Mount(source, bpffs, "bpf", 0, "mode=0700"); err != nil {
			return fmt.Errorf("mount the BPF file system at %s: %w (run as root in the host's mount namespace)", bpffs, err)
		}
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return fmt.Errorf("make the directory for pins: %w", err)
	}
	if !isBPFFS(root) {
		return fmt.Errorf("%s is not on a BPF file system: pins there would not survive", root)
	}
	return nil
}

// inFirstMountNamespace reports whether this is the mount namespace that the machine booted with.
func inFirstMountNamespace() bool {
	here, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil || here == firstMountNamespace {
		return err == nil
	}
	inits, err := os.Readlink("/proc/1/ns/mnt")
	if err != nil || inits != here {
		return false
	}
	pid, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && pid == firstPIDNamespace
}

// IsShortLived reports whether pins below root end with the mount namespace of this process: an edge mounted their bpffs
// there, as in a container without the host's.
func IsShortLived(root string) bool {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	return err == nil && sourceOf(string(mounts), root) == ownSource && !inFirstMountNamespace()
}

// sourceOf is the source of the bpffs that a path is in, by the text of /proc/self/mountinfo; "" in none.
func sourceOf(mounts, path string) (source string) {
	longest := 0
	for line := range strings.Lines(mounts) {
		before, after, found := strings.Cut(line, " - ")
		at, of := strings.Fields(before), strings.Fields(after)
		const mountpoint = 4
		if !found || len(at) <= mountpoint || len(of) < 2 {
			continue
		}
		point := at[mountpoint]
		if len(point) < longest || path != point && !strings.HasPrefix(path, strings.TrimSuffix(point, "/")+"/") {
			continue
		}
		longest, source = len(point), ""
		if of[0] == "bpf" {
			source = of[1]
		}
	}
	return source
}

// IsAloneInMountNamespace reports whether the mount namespace of this process ends with it: no other process that it sees is there.
func IsAloneInMountNamespace() bool {
	here, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return false
	}
	all, err := filepath.Glob("/proc/[0-9]*/ns/mnt")
	if err != nil {
		return false
	}
	self := fmt.Sprintf("/proc/%d/ns/mnt", os.Getpid())
	for _, path := range all {
		ns, err := os.Readlink(path)
		if path != self && (ns == here || err != nil && !errors.Is(err, fs.ErrNotExist)) {
			return false
		}
	}
	return true
}
