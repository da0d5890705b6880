package edge

import (
	"errors"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/bgp"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/rib"
	"github.com/selvage/selvage/internal/writer"
)

// bgpHosts reads hosts from the data path.
type bgpHosts struct{ e *edge }

// AtPorts is called by the goroutine of Run.
func (b bgpHosts) AtPorts() ([]bgp.Host, error) {
	list, err := b.e.state.dp.Hosts.Hosts()
	hosts := make([]bgp.Host, 0, len(list))
	for _, h := range list {
		hosts = append(hosts, bgp.Host{
			Host: evpn.Host{Segment: h.Segment, MAC: h.MAC, Addr: h.Addr, ND: h.ND},
			Port: h.Port, ByBGP: h.Origin == datapath.OriginBGP, Static: h.Static, Idle: time.Duration(h.IdleNS),
		})
	}
	return hosts, err
}

// ByBGP is called by the goroutine of Run.
func (b bgpHosts) ByBGP() (macs []rib.BGPMAC, arpEntries []rib.ARPEntry, err error) {
	entries, err := b.e.state.dp.Hosts.FDB()
	if err != nil {
		return nil, nil, err
	}
	neighbours, err := b.e.state.dp.Hosts.Neighbours()
	for _, f := range entries {
		if f.Origin == datapath.OriginBGP {
			macs = append(macs, rib.BGPMAC{Segment: f.Segment, MAC: f.MAC, Remote: f.Remote, Sticky: f.Sticky})
		}
	}
	for _, n := range neighbours {
		if n.Origin == datapath.OriginBGP {
			arpEntries = append(arpEntries, rib.ARPEntry{Segment: n.Segment, Addr: n.Addr, MAC: n.MAC})
		}
	}
	return macs, arpEntries, err
}

// Solicit has hosts answer, some at a time.
func (b bgpHosts) Solicit(list []bgp.Solicitation) error {
	var errs []error
	for some := range slices.Chunk(list, askSome) {
		b.e.writer.Frames(func(f writer.Frames) {
			for _, a := range some {
				errs = append(errs, f.SolicitHost(a.Segment, a.Port, a.MAC, a.Addrs))
			}
		})
	}
	return errors.Join(errs...)
}

// askSome are asked before others may change tables again.
const askSome = 32
