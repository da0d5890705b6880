package router_test

import (
	"testing"

	"github.com/selvage/selvage/test/testlab"
	"github.com/selvage/selvage/test/tier"
)

func TestMain(m *testing.M) { testlab.Main(m, 4) }

// A device is the same on machines that are not.
func TestOtherMachines(t *testing.T) {
	tier.Long(t, "TestForwardersInTurn, and TestOtherMachines of lab/topo")
	testlab.OnOtherMachines(t, "", "TestForwardersInTurn")
}
