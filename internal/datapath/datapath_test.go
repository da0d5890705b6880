package datapath

import (
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/overlay"
)

func TestLoadScratch(t *testing.T) {
	d, err := Open(Config{Name: "scratch", TEP: netip.MustParseAddr("192.0.2.1"), UDPPorts: []uint16{4789}, FlowCache: overlay.FlowCache{Enabled: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Remove()
	if err := d.Apply(Tables{}); err != nil {
		t.Fatal(err)
	}
	s, err := d.Stats()
	t.Logf("%+v %v", s, err)
}
