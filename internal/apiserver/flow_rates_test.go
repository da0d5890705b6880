package apiserver

import (
	"net/netip"
	"testing"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/datapath"
)

func TestFlowRates(t *testing.T) {
	flow := func(port uint16, packets, bytes uint64) datapath.Flow {
		return datapath.Flow{
			InPort: "p0", EtherType: 0x0800, Proto: 6, Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), SrcPort: port, DstPort: 80,
			Packets: packets, Bytes: bytes,
		}
	}
	at := time.Unix(1, 0)
	before := newFlowReading([]datapath.Flow{flow(1, 100, 1e9), flow(2, 10, 1000), flow(3, 50, 5000), flow(9, 1, 1)}, api.EntryQuery{}, at)
	got := before.rates([]datapath.Flow{
		flow(1, 100, 1e9), // the largest, and at rest
		flow(2, 30, 3000), // 10 and 1,000 a second
		flow(3, 2, 200),   // began anew: 1 and 100
		flow(4, 40, 8000), // new: 20 and 4,000
	}, api.EntryQuery{Limit: 3}, at.Add(2*time.Second))
	if got.Matched != 4 || len(got.List) != 3 {
		t.Fatalf("%d of %d flows, want 3 of 4", len(got.List), got.Matched)
	}
	for i, want := range []struct {
		port uint16
		rate api.FlowRate
	}{{4, api.FlowRate{Packets: 20, Bytes: 4000}}, {2, api.FlowRate{Packets: 10, Bytes: 1000}}, {3, api.FlowRate{Packets: 1, Bytes: 100}}} {
		if f := got.List[i]; f.SrcPort != want.port || *f.Rate != want.rate {
			t.Errorf("flow %d is of port %d with %+v, want port %d with %+v", i, f.SrcPort, *f.Rate, want.port, want.rate)
		}
	}
}
