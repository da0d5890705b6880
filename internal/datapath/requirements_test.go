package datapath

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"
)

// kernelWith are the types of a kernel with these functions.
func kernelWith(t *testing.T, functions ...string) *btf.Spec {
	t.Helper()
	types := []btf.Type{&btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}}
	for _, name := range functions {
		types = append(types, &btf.Func{Name: name, Type: &btf.FuncProto{Return: types[0]}, Linkage: btf.GlobalFunc})
	}
	b, err := btf.NewBuilder(types, nil)
	must(t, err)
	raw, err := b.Marshal(nil, nil)
	must(t, err)
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	must(t, err)
	return spec
}

// A kernel that lacks something is named with the least one and all that it lacks, in one line.
func TestUnsupportedKernel(t *testing.T) {
	const iterators, tcx = "loops in BPF by open-coded iterators (since Linux 6.4)", "BPF links at tc, tcx (since Linux 6.6)"
	for _, c := range []struct{ functions, want []string }{
		{[]string{"bpf_iter_num_new", "tcx_link_attach"}, nil},
		{[]string{"bpf_iter_num_new"}, []string{tcx}},
		{[]string{"tcx_link_attach"}, []string{iterators}}, // a distribution's
		{[]string{"other"}, []string{iterators, tcx}},
	} {
		err := missing("6.1.0-50-amd64", kernelWith(t, c.functions...))
		var got UnsupportedKernelError
		if errors.As(err, &got); (err == nil) != (c.want == nil) || !cmp.Equal(got.Missing, c.want) {
			t.Errorf("%v: %v", c.functions, err)
		}
	}
	err := missing("6.1.0-50-amd64", kernelWith(t, "other"))
	want := "the kernel, Linux 6.1.0-50-amd64, is not supported: Selvage needs Linux 6.6 or newer. Missing here: " + iterators + "; " + tcx
	if err == nil || err.Error() != want || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}

// The kernel that the tests run on has all of it.
func TestSupportedKernel(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		t.Skip(err)
	}
	if err := checkKernel(); err != nil {
		t.Error(err)
	}
}
