package edge

import (
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/evpn"
	"github.com/selvage/selvage/internal/overlay"
)

// sweepBGP has go what a former process learned and no neighbour said again.
func (e *edge) sweepBGP() {
	b := e.bgp.Load()
	if b == nil || e.learned.previous == nil {
		return
	}
	entries, err := e.dp.Hosts.FDB()
	e.reportProblem("read the FDB of a previous process", err)
	if err != nil {
		return
	}
	neighbours, err := e.dp.Hosts.Neighbours()
	e.reportProblem("read the neighbours of a previous process", err)
	if err != nil {
		return
	}
	b.post(func() { b.sweep(entries, neighbours) })
	e.learned.previous = nil
	e.reconcile()
}

// sweep ends those entries of BGP that the table does not have.
func (b *bgp) sweep(entries []datapath.FDBEntry, neighbours []datapath.Neighbour) {
	b.mu.Lock()
	all := b.table.All()
	b.mu.Unlock()
	bgpMACs, arpEntries := make(map[hostLocation]netip.Addr), make(map[segmentAddr]overlay.MAC)
	for _, s := range all.MACs {
		bgpMACs[hostLocation{s.Segment, s.MAC}] = s.Remote
	}
	for _, r := range all.Neighbours {
		arpEntries[segmentAddr{r.Segment, r.Addr}] = r.MAC
	}
	var gone evpn.Changes
	for _, f := range entries {
		if _, reported := bgpMACs[hostLocation{f.Segment, f.MAC}]; !reported && f.Origin == datapath.OriginBGP {
			gone.MACs = append(gone.MACs, overlay.BGPMAC{Segment: f.Segment, MAC: f.MAC})
		}
	}
	for _, n := range neighbours {
		if _, reported := arpEntries[segmentAddr{n.Segment, n.Addr}]; !reported && n.Origin == datapath.OriginBGP {
			gone.Neighbours = append(gone.Neighbours, overlay.ARPEntry{Segment: n.Segment, Addr: n.Addr})
		}
	}
	b.e.log.Info("BGP: removed what neighbours did not advertise again after the restart", "macs", len(gone.MACs), "addresses", len(gone.Neighbours))
	b.put(gone, time.Time{})
}
