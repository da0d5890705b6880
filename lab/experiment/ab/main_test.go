package ab_test

import (
	"testing"

	"github.com/selvage/selvage/test/testprogram"
)

func TestMain(m *testing.M) { testprogram.Main(m, 4) }
