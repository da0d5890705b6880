package edge

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"runtime"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/fault"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/liveness"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/replica"
	"github.com/selvage/selvage/internal/writer"
)

// self is this edge as others know it.
func self(e overlay.Edge) netip.Addr { return gateway.Self(e) }

// egress is what an edge does as a gateway.
type egress struct {
	log           *slog.Logger
	liveness      *liveness.Watch
	faults        *fault.Faults
	writer        *writer.Writer
	nat           sessionsOf
	uplinks       uplinksOf
	enter         func() error // the network namespace of the edge
	offerPrefixes func()       // to neighbours, when addresses moved

	role        *gateway.Role
	replication *gateway.Replication
	announcer   *gateway.Announcer
	lease       gateway.Lease
}

// newEgress makes it, with the writer that goes by its role, before anything can ask for them.
func newEgress(e *edge) egress {
	nat := sessionsOf{&e.state}
	replication := gateway.NewReplication(gateway.ReplicationOptions{
		NAT: nat, Log: e.log, Open: e.opts.OpenReplication, Enter: e.ns.Enter, Report: e.faults.Report,
	})
	role := gateway.NewRole(e.log, replication)
	live := liveness.New(liveness.Options{
		Open: e.opts.OpenLiveness, Gateway: role, Log: e.log, Report: e.faults.Report,
		Changed: func() {
			e.egress.steerAndSave()
			e.bgp.FailNeighbours()
		},
	})
	w := writer.New(writer.Options{Edge: e.state.config, Role: role, Liveness: live, Enter: e.ns.Enter})
	uplinks := uplinksOf{w, &e.state, e.faults}
	return egress{
		log: e.log, liveness: live, faults: e.faults, writer: w, nat: nat, uplinks: uplinks, enter: e.ns.Enter, offerPrefixes: func() { e.bgp.OfferPrefixes() },
		role: role, replication: replication, announcer: gateway.NewAnnouncer(role, uplinks),
	}
}

func openReplication(o replica.Options) (gateway.Replicator, error) {
	r, err := replica.New(o)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// sessionsOf lends the sessions of an edge to its gateway.
type sessionsOf struct{ state *state }

func (n sessionsOf) WithSessions(do func(overlay.Edge, gateway.Sessions) error) error {
	_, err := read(n.state, "NAT sessions", func() (struct{}, error) {
		return struct{}{}, do(n.state.config, lent{n.state.dp.NAT, n.state.dp.Replicas})
	})
	return err
}

// lent are the sessions of a data path.
type lent struct {
	NAT
	Replicas
}

func (n sessionsOf) Events() (map[string]uint64, error) {
	return read(n.state, "events", func() (map[string]uint64, error) { return n.state.dp.Drops.Events() })
}

// keepLease has the lease be of a data path from now on; nil has none.
func (g *egress) keepLease(dp *DataPath) error {
	if dp == nil {
		return g.lease.Of(nil)
	}
	return g.lease.Of(dp.Clock)
}

// uplinksOf are the networks of an edge's uplinks.
type uplinksOf struct {
	writer *writer.Writer
	state  *state
	faults *fault.Faults
}

// Announce is called in the network namespace.
func (u uplinksOf) Announce(places []gateway.Place, owns func(gateway.Place) bool) {
	var errs []error
	u.writer.Frames(func(f writer.Frames) {
		for _, p := range places {
			if owns(p) {
				errs = append(errs, f.AnnounceAddress(p.Uplink, p.Addr))
			}
		}
	})
	u.faults.Report(announceProblem, errors.Join(errs...))
}

// Resolve is called in the network namespace.
func (u uplinksOf) Resolve(places []gateway.Place) (unknown int) {
	known := make(map[gateway.Place]bool)
	all, err := read(u.state, "neighbours", func() ([]datapath.Neighbour, error) { return u.state.dp.Hosts.Neighbours() })
	for _, n := range all {
		known[gateway.Place{Uplink: n.Segment, Addr: n.Addr}] = true
	}
	errs := []error{err}
	u.writer.Frames(func(f writer.Frames) {
		for _, p := range places {
			if !known[p] {
				unknown++
				errs = append(errs, f.SolicitHost(p.Uplink, p.Uplink, solicited(p.Addr), []netip.Addr{p.Addr}))
			}
		}
	})
	u.faults.Report(resolveProblem, errors.Join(errs...))
	return unknown
}

// solicited is the MAC address at which a host of an unknown one hears questions.
func solicited(addr netip.Addr) overlay.MAC {
	if addr.Is4() {
		return overlay.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	}
	b := addr.As16()
	return overlay.MAC{0x33, 0x33, 0xff, b[13], b[14], b[15]} // RFC 4291 section 2.7.1, RFC 2464 section 7
}

// resolveNextHops runs in the network namespace, until ctx ends.
func (g *egress) resolveNextHops(ctx context.Context) {
	runtime.LockOSThread() // for good, as announceAddresses
	if err := g.enter(); err != nil {
		g.log.Error(resolveProblem, "err", err)
	}
	gateway.NewNextHops(g.role, g.nat, g.uplinks).Run(ctx)
}

// announceAddresses runs the announcer in the network namespace, until ctx ends.
func (g *egress) announceAddresses(ctx context.Context) {
	runtime.LockOSThread() // for good: the thread is in the edge's network namespace
	if err := g.enter(); err != nil {
		g.log.Error(announceProblem, "err", err) // the uplinks may still be found from here
	}
	g.announcer.Run(ctx)
}

// watch judges the gateways anew when time or replication calls for it, until ctx
// ends.
func (g *egress) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.role.Due():
		case <-g.replication.Changed():
		}
		g.steerAndSave()
	}
}

// steerAndSave steers, and remembers the gateways for a later process.
func (g *egress) steerAndSave() {
	g.steer()
	g.faults.Report(rememberGateways, g.role.Save())
}

// steer moves flows from paths and gateways that died, or to those that came back.
func (g *egress) steer() {
	s := g.writer.Steer()
	g.announcer.Announce(s.Came)
	if s.Moved {
		g.offerPrefixes()
	}
	if s.Err != nil || s.Failed {
		g.faults.Report("steer the flows", s.Err)
	}
	alarm.LogChanges(g.log, s.Was, s.Now)
}
