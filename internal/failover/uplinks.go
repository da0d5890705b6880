package failover

import (
	"errors"
	"net/netip"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/writer"
)

// uplinks are the networks of an edge's uplinks.
type uplinks struct{ f *Failover }

// Announce is called in the network namespace.
func (u uplinks) Announce(places []gateway.Place, owns func(gateway.Place) bool) {
	var errs []error
	u.f.o.Writer.Frames(func(f writer.Frames) {
		for _, p := range places {
			if owns(p) {
				errs = append(errs, f.AnnounceAddress(p.Uplink, p.Addr))
			}
		}
	})
	u.f.o.Report(announceProblem, errors.Join(errs...))
}

// Resolve is called in the network namespace.
func (u uplinks) Resolve(places []gateway.Place) (unknown int) {
	known := make(map[gateway.Place]bool)
	all, err := u.f.o.Edge.Neighbours()
	for _, n := range all {
		known[gateway.Place{Uplink: n.Segment, Addr: n.Addr}] = true
	}
	errs := []error{err}
	u.f.o.Writer.Frames(func(f writer.Frames) {
		for _, p := range places {
			if !known[p] {
				unknown++
				errs = append(errs, f.SolicitHost(p.Uplink, p.Uplink, datapath.Solicited(p.Addr), []netip.Addr{p.Addr}))
			}
		}
	})
	u.f.o.Report(resolveProblem, errors.Join(errs...))
	return unknown
}
