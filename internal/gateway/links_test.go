package gateway

import (
	"net/netip"
	"testing"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
)

// Other gateways hear of sessions with addresses that they may take over, and of no others.
func TestAudiences(t *testing.T) {
	self, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	e := overlay.Edge{
		Underlay: overlay.Underlay{TEP: self},
		Egress: &overlay.Egress{
			Gateways: []overlay.GatewayGroup{{Name: "gws", Members: []netip.Addr{self, other}, Replication: &overlay.Replication{Port: 1}}},
			Policies: []overlay.EgressPolicy{{Name: "web", Gateways: "gws"}, {Name: "own", Gateways: "gws", UplinkAddress: true}},
		},
	}
	all := audiences(e)
	if hear := all[datapath.NameTag("web")]; len(hear) != 1 || hear[0].Remote != other {
		t.Errorf("of the pool's sessions hear %v", hear)
	}
	if hear := all[datapath.NameTag("own")]; len(hear) != 0 {
		t.Errorf("of the uplink's sessions hear %v", hear)
	}
}
