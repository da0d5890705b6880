package evpn_test

import (
	"testing"

	"github.com/selvage/selvage/test/testlab"
	"github.com/selvage/selvage/test/tier"
)

func TestMain(m *testing.M) { testlab.Main(m, 6) }

// Fabrics are the same on machines that are not.
func TestOtherMachines(t *testing.T) {
	tier.Long(t, "TestEVPNKernel, and TestOtherMachines of lab/experiment/converge/fabric")
	testlab.OnOtherMachines(t, "", "TestEVPNKernel")
}
