package network_test

import (
	"testing"

	"github.com/selvage/selvage/test/testlab"
	"github.com/selvage/selvage/test/tier"
)

func TestMain(m *testing.M) { testlab.Main(m, 4) }

// The network is the same on machines that are not.
func TestOtherMachines(t *testing.T) {
	tier.Long(t, "TestEgressPaths, and TestOtherMachines of lab/topo")
	testlab.OnOtherMachines(t, "", "TestEgressPaths")
}
