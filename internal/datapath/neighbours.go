package datapath

import "time"

// neighbourAgeing is how many times longer than a MAC address a neighbour lives
// without ARP or ND: hosts renew theirs less often than they send.
const neighbourAgeing = 4

// Neighbours lists what is known of the hosts of segments.
func (d *Datapath) Neighbours() ([]Neighbour, error) {
	now, err := monotonicNS()
	if err != nil {
		return nil, err
	}
	at := make(map[bpfFdbKey]uint32)
	if err := walk(d.objs.Fdb, func(k bpfFdbKey, e bpfFdbEntry) { at[k] = e.Vport }); err != nil {
		return nil, err
	}
	list := []Neighbour{}
	err = walk(d.objs.Neighbours, func(k bpfNeighbourKey, e bpfNeighbour) {
		n := Neighbour{Segment: d.names.segments[k.Segment], Addr: addrOf(k.Addr.W), MAC: e.Mac, Static: e.Origin == bpfHostOriginORIGIN_STATIC, Origin: origins[e.Origin]}
		n.Port, n.Remote = d.vportName(at[bpfFdbKey{Segment: k.Segment, Mac: e.Mac}])
		if !n.Static {
			n.AgeNS = since(now, e.SeenNs)
		}
		list = append(list, n)
	})
	return list, err
}

// ageNeighbours forgets those that were silent.
func (d *Datapath) ageNeighbours(now uint64, ageing time.Duration) error {
	if ageing == 0 {
		return nil
	}
	return d.deleteNeighbours(func(_ bpfNeighbourKey, n bpfNeighbour) bool {
		return n.Origin == bpfHostOriginORIGIN_LEARNED && since(now, n.SeenNs) > neighbourAgeing*uint64(ageing)
	})
}
