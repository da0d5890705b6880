// Package testprogram makes a test binary the program too: the edges and instruments that tests start are
// the code that they test.
//
// Its invariant: a process is either, by its environment. Do not use it outside of TestMain.
package testprogram

import (
	"fmt"
	"os"
	"testing"

	"github.com/selvage/selvage/internal/cli"
	"github.com/selvage/selvage/test/machine"
	"github.com/selvage/selvage/test/tier"
)

// Mark in the environment makes the binary be the program, with all that it starts. Its value tells
// the processes of one test from all others.
const Mark = "SELVAGE_TEST_PROGRAM"

// Main is a TestMain: it runs the tests, so many of the live ones side by side, or the program. It
// does not return.
func Main(m *testing.M, sideBySide int) {
	if os.Getenv(Mark) != "" {
		os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	if err := machine.OwnRun(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := os.Setenv(Mark, "beds"); err != nil { // for edges that tests start themselves
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	tier.SideBySide(sideBySide)
	os.Exit(m.Run())
}
