package dut_test

import (
	"slices"
	"testing"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/tier"
)

// A line that FRR does not understand is an error that names it.
func TestFRRNamesMistakes(t *testing.T) {
	t.Parallel()
	tier.Root(t)
	lab, err := topo.New(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	}()
	h, err := lab.Host("router")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dut.StartFRR(t.Context(), h, dut.FRRConfig{BGP: "router bgp 65000\n nonsense\n"}); err == nil {
		t.Error("nonsense is taken")
	} else {
		t.Log(err)
	}
	f, err := dut.StartFRR(t.Context(), h, dut.FRRConfig{BGP: "router bgp 65000\n"})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Configure(t.Context(), "router bgp 65000", "nonsense"); err == nil {
		t.Error("nonsense is taken at run time")
	} else {
		t.Log(err)
	}
	ports, err := h.Output(t.Context(), "ss", "-ltnH", "not", "sport", "=", ":179")
	if err != nil || len(slices.DeleteFunc(ports, func(b byte) bool { return b == '\n' })) > 0 {
		t.Errorf("it listens at more than BGP's port: %s %v", ports, err)
	}
}
