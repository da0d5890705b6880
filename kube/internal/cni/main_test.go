package cni_test

import (
	"testing"

	"github.com/selvage/selvage/test/testlab"
)

func TestMain(m *testing.M) { testlab.Main(m, 4) }
