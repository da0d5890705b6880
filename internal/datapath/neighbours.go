package datapath

import (
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/rib"
)

// neighbourAgeing is how many times longer than a MAC address a neighbour lives
// without ARP or ND: hosts renew theirs less often than they send.
const neighbourAgeing = 4

// Neighbours lists what is known of the hosts of segments.
func (ho *Hosts) Neighbours() ([]Neighbour, error) {
	now, err := ho.prog.kernel.Clock.Monotonic()
	if err != nil {
		return nil, err
	}
	at := make(map[bpfFdbKey]uint32)
	if err := walk(ho.maps.Fdb, func(k bpfFdbKey, e bpfFdbEntry) { at[k] = e.Vport }); err != nil {
		return nil, err
	}
	list := []Neighbour{}
	err = walk(ho.maps.Neighbours, func(k bpfNeighbourKey, e bpfNeighbour) {
		n := Neighbour{Segment: ho.numbers.names.segments[k.Segment], Addr: addrOf(k.Addr.W), MAC: e.Mac, Static: e.Origin == bpfHostOriginORIGIN_STATIC, Origin: origins[e.Origin]}
		n.ND = ndFlags(n.Addr, e.Flags)
		n.Port, n.Remote = ho.numbers.vportName(at[bpfFdbKey{Segment: k.Segment, Mac: e.Mac}])
		if !n.Static {
			n.AgeNS = since(now, e.SeenNs)
		}
		list = append(list, n)
	})
	return list, err
}

// ndFlags is what a neighbour's entry says of an address, and neighbourFlags what its entry says
// then. Without a word of it, a host is no router and its advertisements override.
func ndFlags(addr netip.Addr, f bpfNeighbourFlags) (nd rib.NDFlags) {
	if !addr.Is6() {
		return 0
	}
	if f&bpfNeighbourFlagsNEIGHBOUR_ROUTER != 0 {
		nd |= rib.NDRouter
	}
	if f&bpfNeighbourFlagsNEIGHBOUR_NO_OVERRIDE == 0 {
		nd |= rib.NDOverride
	}
	return nd
}

func neighbourFlags(nd rib.NDFlags) (f bpfNeighbourFlags) {
	if nd&rib.NDRouter != 0 {
		f |= bpfNeighbourFlagsNEIGHBOUR_ROUTER
	}
	if nd != 0 && nd&rib.NDOverride == 0 {
		f |= bpfNeighbourFlagsNEIGHBOUR_NO_OVERRIDE
	}
	return f
}

// ageNeighbours forgets those that were silent.
func (ho *Hosts) ageNeighbours(now uint64, ageing time.Duration) error {
	if ageing == 0 {
		return nil
	}
	return ho.deleteNeighbours(func(_ bpfNeighbourKey, n bpfNeighbour) bool {
		return n.Origin == bpfHostOriginORIGIN_LEARNED && since(now, n.SeenNs) > neighbourAgeing*uint64(ageing)
	})
}
