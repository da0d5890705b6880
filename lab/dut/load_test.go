package dut_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/selvage/selvage/lab/dut"
	"github.com/selvage/selvage/lab/topo"
)

// Without a load the configuration has nothing of it.
func TestLoadConfig(t *testing.T) {
	site := topo.Site{Host: &topo.Host{}, Remote: netip.MustParseAddr("192.0.2.2")}
	for l, want := range map[*dut.Load]int{nil: 0, {FDB: 3}: 3} {
		text := dut.SelvageHalf{Load: l}.Config("a", site)
		if got := strings.Count(text, "- {mac: "); got != want || strings.Contains(text, "http:") != (l != nil) {
			t.Errorf("%+v: %d entries in\n%s", l, got, text)
		}
	}
}
