package datapath

import (
	"fmt"
	"net/netip"

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/rib"
)

// LocalHost is a MAC address at a port, or an IP address of one.
type LocalHost struct {
	Segment, Port string
	MAC           overlay.MAC
	Addr          netip.Addr // unset: the MAC address itself
	Origin        Origin     // who says so
	Static        bool
	ND            rib.NDFlags // of an IPv6 address
	IdleNS        uint64      // since it was heard
}

// Hosts lists the hosts at ports, and their addresses that are known.
func (ho *Hosts) Hosts() ([]LocalHost, error) {
	fdb, err := ho.FDB()
	if err != nil {
		return nil, err
	}
	list := []LocalHost{}
	for _, e := range fdb {
		if e.Port != "" {
			list = append(list, LocalHost{
				Segment: e.Segment, Port: e.Port, MAC: e.MAC, Origin: e.Origin, Static: e.Static, IdleNS: e.AgeNS,
			})
		}
	}
	neighbours, err := ho.Neighbours()
	for _, n := range neighbours {
		if n.Port != "" {
			list = append(list, LocalHost{
				Segment: n.Segment, Port: n.Port, MAC: n.MAC, Addr: n.Addr, Origin: n.Origin, Static: n.Static, ND: n.ND, IdleNS: n.AgeNS,
			})
		}
	}
	return list, err
}

// Forget ends what a host's own packets told of its being at a port: it is elsewhere now.
func (ho *Hosts) Forget(segment string, mac overlay.MAC) error {
	id, ok := ho.numbers.names.segIDs[segment]
	if !ok {
		return fmt.Errorf("forget %s: there is no segment %q", mac, segment)
	}
	_, err := deleteHost(ho, ho.fdbTable(), bpfFdbKey{Segment: id, Mac: mac}, func(_ bpfFdbKey, e bpfFdbEntry) bool {
		return e.Origin == bpfHostOriginORIGIN_LEARNED && ho.numbers.names.ports[e.Vport] != ""
	})
	if err != nil {
		return fmt.Errorf("forget %s: %w", mac, err)
	}
	return ho.changes.changed()
}
