// Package testprogram makes a test binary the programs too: the labs, edges and instruments that tests start
// are the code that they test.
//
// Its invariant: a process is a test or a program, by its environment, and which one by its name. Do not use
// it outside of TestMain.
package testprogram

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/selvage/selvage/internal/cli"
	"github.com/selvage/selvage/internal/program"
	labcli "github.com/selvage/selvage/lab/cli"
	"github.com/selvage/selvage/lab/measure"
	"github.com/selvage/selvage/test/machine"
	"github.com/selvage/selvage/test/tier"
)

// Mark in the environment makes the binary be a program, with all that it starts. Its value tells
// the processes of one test from all others.
const Mark = "SELVAGE_TEST_PROGRAM"

// Main is a TestMain: it runs the tests, so many of the live ones side by side, or a program. It
// does not return.
func Main(m *testing.M, sideBySide int) {
	if os.Getenv(Mark) != "" {
		os.Exit(run())
	}
	if err := machine.OwnRun(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bin, err := install()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	tier.SideBySide(sideBySide)
	status := m.Run()
	os.RemoveAll(bin)
	os.Exit(status)
}

// run is what the programs are: selvage-lab by its name, or by the one that selvage gives it, an
// instrument of it, or else selvage.
func run() int {
	measure.RunInstrument(os.Args[1:])
	switch filepath.Base(os.Args[0]) {
	case program.Lab, program.LabCommand:
		return labcli.Main(os.Args, os.Stdout, os.Stderr)
	}
	return cli.Main(os.Args[1:], os.Stdout, os.Stderr)
}

// install puts the programs in $PATH, where they find each other. The directory has to be removed.
func install() (dir string, err error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	if dir, err = os.MkdirTemp("", "selvage-test-"); err != nil {
		return "", err
	}
	return dir, errors.Join(
		os.Chmod(dir, 0o755), // for tests that become somebody else
		os.Symlink(own, filepath.Join(dir, program.Selvage)),
		os.Symlink(own, filepath.Join(dir, program.Lab)),
		os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH")),
		os.Setenv(Mark, "beds")) // for edges that tests start themselves
}
