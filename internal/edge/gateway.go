package edge

import (
	"context"
	"errors"
	"net/netip"
	"runtime"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/replica"
	"github.com/selvage/selvage/internal/writer"
)

// self is this edge as others know it.
func self(e overlay.Edge) netip.Addr { return gateway.Self(e) }

// makeGateway makes what this edge does as a gateway, before anything can ask for it.
func (e *edge) makeGateway() {
	e.replication = gateway.NewReplication(gateway.ReplicationOptions{
		NAT: natOf{&e.state}, Log: e.log, Open: e.opts.OpenReplication, Enter: e.ns.enter, Report: e.faults.report,
	})
	e.role = gateway.NewRole(e.log, e.replication)
	e.announcer = gateway.NewAnnouncer(e.role, uplinksOf{e})
	e.writer = writer.New(writer.Options{Edge: e.state.config, Role: e.role, Liveness: &e.watched, Enter: e.ns.enter})
	e.pathSelector = pathSelector{e.writer, &e.watched}
}

func openReplication(o replica.Options) (gateway.Replicator, error) {
	r, err := replica.New(o)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// natOf lends the sessions of an edge to its gateway.
type natOf struct{ state *state }

func (n natOf) WithSessions(do func(overlay.Edge, gateway.Sessions) error) error {
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

func (n natOf) Events() (map[string]uint64, error) {
	return read(n.state, "events", func() (map[string]uint64, error) { return n.state.dp.Drops.Events() })
}

// keepLease has the lease be of a data path from now on; nil has none.
func (e *edge) keepLease(dp *DataPath) error {
	if dp == nil {
		return e.lease.Of(nil)
	}
	return e.lease.Of(dp.Clock)
}

// uplinksOf are the networks of an edge's uplinks.
type uplinksOf struct{ e *edge }

// Announce is called in the network namespace.
func (u uplinksOf) Announce(places []gateway.Place, owns func(gateway.Place) bool) {
	var errs []error
	u.e.writer.Frames(func(f writer.Frames) {
		for _, p := range places {
			if owns(p) {
				errs = append(errs, f.AnnounceAddress(p.Uplink, p.Addr))
			}
		}
	})
	u.e.faults.report(announceProblem, errors.Join(errs...))
}

// Resolve is called in the network namespace.
func (u uplinksOf) Resolve(places []gateway.Place) (unknown int) {
	known := make(map[gateway.Place]bool)
	all, err := read(&u.e.state, "neighbours", func() ([]datapath.Neighbour, error) { return u.e.state.dp.Hosts.Neighbours() })
	for _, n := range all {
		known[gateway.Place{Uplink: n.Segment, Addr: n.Addr}] = true
	}
	errs := []error{err}
	u.e.writer.Frames(func(f writer.Frames) {
		for _, p := range places {
			if !known[p] {
				unknown++
				errs = append(errs, f.SolicitHost(p.Uplink, p.Uplink, solicited(p.Addr), []netip.Addr{p.Addr}))
			}
		}
	})
	u.e.faults.report(resolveProblem, errors.Join(errs...))
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
func (e *edge) resolveNextHops(ctx context.Context) {
	runtime.LockOSThread() // for good, as announceAddresses
	if err := e.ns.enter(); err != nil {
		e.log.Error(resolveProblem, "err", err)
	}
	gateway.NewNextHops(e.role, natOf{&e.state}, uplinksOf{e}).Run(ctx)
}

// announceAddresses runs the announcer in the network namespace, until ctx ends.
func (e *edge) announceAddresses(ctx context.Context) {
	runtime.LockOSThread() // for good: the thread is in the edge's network namespace
	if err := e.ns.enter(); err != nil {
		e.log.Error(announceProblem, "err", err) // the uplinks may still be found from here
	}
	e.announcer.Run(ctx)
}

// watchGateways judges the gateways anew when time or replication calls for it, until ctx
// ends.
func (e *edge) watchGateways(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.role.Due():
		case <-e.replication.Changed():
		}
		e.steerAndSave()
	}
}

// steerAndSave steers, and remembers the gateways for a later process.
func (e *edge) steerAndSave() {
	e.steer()
	e.faults.report(rememberGateways, e.role.Save())
}
