// Package testlab makes labs for tests, which are gone without a trace when their test ends.
//
// Its one invariant: a test whose lab leaves something behind fails. It is for tests only; they need root.
package testlab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/machine"
	"github.com/selvage/selvage/test/tier"
)

// Main is a TestMain: it runs the tests, so many of the live ones side by side. It does not return.
func Main(m *testing.M, sideBySide int) {
	if err := machine.OwnRun(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	tier.SideBySide(sideBySide)
	os.Exit(m.Run())
}

// New makes a lab named like the test.
func New(t *testing.T) *topo.Lab {
	t.Helper()
	tier.Root(t)
	lab, err := topo.New(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
		if left := Leftovers(lab.ID); len(left) > 0 {
			t.Errorf("the lab left %v", left)
		}
	})
	return lab
}

// TwoHosts makes a lab with the standard topology.
func TwoHosts(t *testing.T, o topo.TwoHostsOptions) *topo.TwoHosts {
	t.Helper()
	n, err := topo.NewTwoHosts(t.Context(), New(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Leftovers are the traces of a lab that is gone, by its ID.
func Leftovers(id string) []string {
	var left []string
	for _, pattern := range []string{"/run/netns/sv-" + id + "-*", "/run/selvage/lab/" + id + "*", "/run/selvage/*" + id + "*", "/sys/fs/bpf/selvage/*" + id + "*"} {
		found, _ := filepath.Glob(pattern)
		left = append(left, found...)
	}
	// Every process of a lab has its ID in an argument or works in its namespace;
	// those of tests have it in an argument.
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, dir := range dirs {
		if line, _ := os.ReadFile(dir); strings.Contains(string(line), id) {
			left = append(left, dir)
		}
	}
	return left
}

// OnOtherMachines runs tests of this package, by a regular expression, on machines with other settings:
// testbeds are the same there. In make test-long it runs those of long.
func OnOtherMachines(t *testing.T, tests, long string) {
	t.Helper()
	if tier.IsLong() {
		tests = long
	}
	for name, settings := range machine.Others() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine.Run(t, settings, tests)
		})
	}
}
