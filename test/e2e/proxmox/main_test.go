package proxmox

import (
	"testing"

	"github.com/selvage/selvage/test/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
