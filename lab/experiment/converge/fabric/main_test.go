package fabric_test

import (
	"testing"

	"github.com/selvage/selvage/test/testlab"
)

func TestMain(m *testing.M) { testlab.Main(m, 4) }

// The fabric is the same on machines that are not.
func TestOtherMachines(t *testing.T) {
	testlab.OnOtherMachines(t, "TestConvergeUplinks", "TestConverge.*")
}
