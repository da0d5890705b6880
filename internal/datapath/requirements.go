package datapath

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// leastLinux is the oldest release whose kernel has all requirements.
const leastLinux = "6.6"

// requirements are what the programs and their links need of a kernel, each with a function that kernels have since then. A
// kernel that a distribution gave the feature has the function too, whatever its number.
var requirements = []struct{ feature, function string }{
	{"loops in BPF by open-coded iterators (since Linux 6.4)", "bpf_iter_num_new"},
	{"BPF links at tc, tcx (since Linux 6.6)", "tcx_link_attach"},
}

// UnsupportedKernelError is a kernel that lacks what the data path needs.
type UnsupportedKernelError struct {
	Release string   // of the kernel
	Missing []string // features, for people
}

// Error names the kernel, the least one, and what is missing, in one line.
func (e UnsupportedKernelError) Error() string {
	return fmt.Sprintf("the kernel, Linux %s, is not supported: Selvage needs Linux %s or newer. Missing here: %s", e.Release, leastLinux, strings.Join(e.Missing, "; "))
}

// checkKernel is an UnsupportedKernelError where the running kernel lacks something.
func checkKernel() error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return fmt.Errorf("ask for the kernel's release: %w", err)
	}
	release := unix.ByteSliceToString(name.Release[:])
	spec, err := btf.LoadKernelSpec()
	if errors.Is(err, btf.ErrNotSupported) {
		return UnsupportedKernelError{release, []string{"BTF, /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)"}}
	}
	if err != nil {
		return fmt.Errorf("BTF of the kernel: %w", err)
	}
	return missing(release, spec)
}

// missing is an UnsupportedKernelError where a kernel with these types lacks something.
func missing(release string, types *btf.Spec) error {
	var lacks []string
	for _, r := range requirements {
		var function *btf.Func
		err := types.TypeByName(r.function, &function)
		switch {
		case errors.Is(err, btf.ErrNotFound):
			lacks = append(lacks, r.feature)
		case err != nil:
			return fmt.Errorf("BTF of the kernel: %w", err)
		}
	}
	if len(lacks) > 0 {
		return UnsupportedKernelError{release, lacks}
	}
	return nil
}
