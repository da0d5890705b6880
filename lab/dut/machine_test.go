package dut_test

import (
	"testing"

	"github.com/selvage/selvage/test/testlab"
	"github.com/selvage/selvage/test/tier"
)

// Data paths are the same on machines that are not.
func TestOtherMachines(t *testing.T) {
	tier.Long(t, "TestPathsInTurn, and TestOtherMachines of lab/topo")
	testlab.OnOtherMachines(t, "", "TestPathsInTurn|TestRouted.*")
}
