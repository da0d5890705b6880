package edge

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/apiserver"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/peering"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/prove"
	"github.com/selvage/selvage/internal/prove/proof"
	"github.com/selvage/selvage/internal/transaction"
)

// configured is an edge as configurations come into force in it: by its goroutine, but for Effects.
type configured struct{ e *edge }

// Reopen loads the programs anew when next needs that, beside those that are in force: they are steered
// meanwhile, and replaced by the next tables. After an error they stay.
func (c configured) Reopen(next overlay.Edge) error {
	e := c.e
	was, will := e.successor.cfg, dataPathConfig(next, e.opts)
	if err := e.prepareListeners(next.HTTP); err != nil || reflect.DeepEqual(was, will) {
		return err
	}
	if err := e.successor.open(e.opts.OpenDataPath, will, e.state.dp); err != nil {
		e.listeners.Abort()
		err = fmt.Errorf("open the data path: %w", err)
		// Pins may be those of the one that failed.
		if again := e.successor.open(e.opts.OpenDataPath, was, e.state.dp); again != nil {
			err = errors.Join(err, fmt.Errorf("open the previous data path: %w", again))
		}
		return err
	}
	return nil
}

// Take makes host, data path and BGP what next asks for.
func (c configured) Take(next overlay.Edge, policies plan.Policies) error {
	return c.take(next, policies, c.e.reconcile)
}

// Adjust is Take where next has other objects alone: it looks at as little of the host as they need.
func (c configured) Adjust(next overlay.Edge, policies plan.Policies) error {
	return c.take(next, policies, func() { c.e.reconcileBy(observer(c).more) })
}

func (c configured) take(next overlay.Edge, policies plan.Policies, reconcile func()) error {
	e := c.e
	e.changes.configured(e.state.configured, next)
	e.state.mu.Lock()
	e.state.configured, e.state.config, e.state.policies = next, next, policies
	e.state.mu.Unlock()
	e.bgp.Configure()
	reconcile()
	e.bgp.Follow()
	err := cmp.Or(e.faults.Of(observeHost), e.faults.Of(applyTables))
	if err == nil {
		e.listeners.Commit()
		e.listen()
	}
	return err
}

// LeftOut is what of the tables in force could not be written.
func (c configured) LeftOut() error {
	c.e.state.mu.RLock()
	defer c.e.state.mu.RUnlock()
	return c.e.state.left
}

// Effects are what becomes of programs and connections.
func (c configured) Effects(was overlay.Edge, next transaction.Candidate) (api.ApplyEffects, error) {
	effects, err := read(&c.e.state, "connections", func() (api.ApplyEffects, error) {
		return apiserver.Effects(stateOf(c.e), next.Edge, next.Policies.Firewall)
	})
	effects.Programs = !reflect.DeepEqual(dataPathConfig(was, c.e.opts), dataPathConfig(next.Edge, c.e.opts))
	return effects, err
}

// peered is an edge as its BGP sees it.
type peered struct{ e *edge }

func (p peered) Configured() overlay.Edge { return p.e.state.configured }

func (p peered) SetConfig(merged overlay.Edge) {
	p.e.state.mu.Lock()
	defer p.e.state.mu.Unlock()
	p.e.state.config = merged
}

func (p peered) Hosts() peering.Hosts { return p.e.state.dp.Hosts }

func (p peered) PreviousRemotes(segments []overlay.Segment) (map[string][]netip.Addr, error) {
	return p.e.state.dp.Ports.PreviousRemotes(segments)
}

// loopPorts are the ports of an edge that its goroutine probes for loops, and its writer cuts off.
type loopPorts struct{ e *edge }

func (p loopPorts) ProbeLoops() error { return p.e.state.dp.HostEvents.ProbeLoops() }

// CutPorts is done before what the writer is about to write.
func (p loopPorts) CutPorts(names map[string]bool) (err error) {
	p.e.state.mu.Lock()
	defer p.e.state.mu.Unlock()
	p.e.writer.Urgent(func() { err = p.e.state.dp.Ports.CutPorts(names) })
	return err
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

// steered is an edge as its failover sees it.
type steered struct{ e *edge }

func (s steered) Neighbours() ([]datapath.Neighbour, error) {
	return read(&s.e.state, "neighbours", func() ([]datapath.Neighbour, error) { return s.e.state.dp.Hosts.Neighbours() })
}

func (s steered) OfferPrefixes() { s.e.bgp.OfferPrefixes() }

func (s steered) Enter() error { return s.e.ns.Enter() }

// provenEdge lends an edge to those that prove that it works.
type provenEdge struct{ e *edge }

func (p provenEdge) Facts() (f proof.Facts, err error) {
	if b := p.e.bgp.Process(); b != nil {
		f.Advertised = b.State().Statuses()
	}
	return read(&p.e.state, "proof", func() (proof.Facts, error) {
		f.Config, f.Host, f.Self, f.Routes = p.e.state.config, p.e.state.hostState, gateway.Self(p.e.state.config), p.e.writer.Routes()
		known, err := p.e.mtus.Read(p.e.state.dp.Paths)
		if err != nil {
			return f, err
		}
		lives := p.e.liveness.Results()
		for _, path := range p.e.writer.InForce().Paths.PathPolicies.Paths {
			f.Paths = append(f.Paths, proof.Path{
				TunnelPath: path, Life: lives[path.Pair].State, EndpointLife: lives[path.Endpoints()].State, MTUState: known.State(path.Endpoints()),
			})
		}
		if f.Neighbours, err = p.e.state.dp.Hosts.Neighbours(); err != nil {
			return f, err
		}
		f.FDB, err = p.e.state.dp.Hosts.FDB()
		return f, err
	})
}

// Open has the sockets opened by the goroutine of Run, for its network namespace.
func (p provenEdge) Open(tunnels []prove.Tunnel, timeout time.Duration) (*prove.Prober, error) {
	return inLoop(p.e.jobs, func() (*prove.Prober, error) {
		o := prove.Options{MAC: prove.MAC(gateway.Self(p.e.state.config)), Timeout: timeout}
		for _, name := range p.e.state.config.Underlay.Interfaces {
			if link, ok := p.e.state.hostState.Links[name]; ok && link.Up {
				o.Interfaces = append(o.Interfaces, link.Index)
			}
		}
		return prove.Open(o, tunnels)
	})
}
