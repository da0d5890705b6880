package dut_test

import (
	"testing"

	"github.com/selvage/selvage/test/testlab"
)

// Testbeds are the same on machines that are not. All of them are tried in make test-long.
func TestOtherMachines(t *testing.T) {
	testlab.OnOtherMachines(t, "TestConvergeUplinks", "TestConverge.*|TestEgressPaths|TestEVPNKernel|TestPathsInTurn|TestRouted.*")
}
