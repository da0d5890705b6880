package plan

import (
	"net/netip"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
)

// Families says of which ones there are addresses: IPv4, IPv6.
type Families [2]bool

// Has reports whether there is one of the family of a.
func (f Families) Has(a netip.Addr) bool { return f[Family(a)] }

// FamiliesOf are those of which a policy has an address: of its own, or of its gateway's nodes, which have those of the gateway's next
// hops. There are none without a gateway.
func FamiliesOf(spec v1alpha1.EgressPolicySpec, status v1alpha1.EgressPolicyStatus, g *v1alpha1.EgressGateway) (has Families) {
	if g == nil {
		return has
	}
	all := status.Addresses
	if spec.Address.Type == v1alpha1.AddressNode {
		all = g.Spec.Uplink.NextHops
	}
	for _, text := range all {
		if a, err := netip.ParseAddr(text); err == nil {
			has[Family(a)] = true
		}
	}
	return has
}

// Family is where Families have that of an address.
func Family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}
