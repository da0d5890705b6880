package edge

import (
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
)

// sweepBGP has go what a former process learnt and no neighbour said again.
func (e *edge) sweepBGP() {
	b := e.bgp.Load()
	if b == nil || e.learnt.former == nil {
		return
	}
	entries, err := e.dp.FDB()
	e.fault("read the FDB of a former process", err)
	if err != nil {
		return
	}
	neighbours, err := e.dp.Neighbours()
	e.fault("read the neighbours of a former process", err)
	if err != nil {
		return
	}
	b.post(func() { b.sweep(entries, neighbours) })
	e.learnt.former = nil
	e.reconcile()
}

// sweep ends those entries of BGP that the table does not have.
func (b *bgp) sweep(entries []datapath.FDBEntry, neighbours []datapath.Neighbour) {
	b.mu.Lock()
	all := b.table.All()
	b.mu.Unlock()
	stations, residents := make(map[residence]netip.Addr), make(map[station]overlay.MAC)
	for _, s := range all.Stations {
		stations[residence{s.Segment, s.MAC}] = s.Remote
	}
	for _, r := range all.Residents {
		residents[station{r.Segment, r.Addr}] = r.MAC
	}
	var gone evpn.Changes
	for _, f := range entries {
		if _, said := stations[residence{f.Segment, f.MAC}]; !said && f.Origin == datapath.OriginBGP {
			gone.Stations = append(gone.Stations, overlay.Station{Segment: f.Segment, MAC: f.MAC})
		}
	}
	for _, n := range neighbours {
		if _, said := residents[station{n.Segment, n.Addr}]; !said && n.Origin == datapath.OriginBGP {
			gone.Residents = append(gone.Residents, overlay.Resident{Segment: n.Segment, Addr: n.Addr})
		}
	}
	b.e.log.Info("BGP: what neighbours did not say again after the restart is gone", "macs", len(gone.Stations), "addresses", len(gone.Residents))
	b.put(gone, time.Time{})
}
