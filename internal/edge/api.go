package edge

import (
	"fmt"
	"net/http"

	"github.com/selvage/selvage/internal/apiserver"
	"github.com/selvage/selvage/internal/logging"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/prove/proof"
)

// read holds an edge still while f makes a document of it.
func read[T any](s *state, what string, f func() (T, error)) (document T, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.dp == nil {
		return document, fmt.Errorf("%s: the data path was lost, the edge stops", what)
	}
	if document, err = f(); err != nil {
		return document, fmt.Errorf("read %s: %w", what, err)
	}
	return document, nil
}

// handler serves the API.
func handler(e *edge) http.Handler {
	s, c := served{e}, e.transactions.Changes()
	return apiserver.New(apiserver.Options{
		Edge: s, Configuration: c, Transactions: c, Live: c, Drainer: e.failover, Prover: proof.NewProver(provenEdge{e}),
		BGP: s.bgp, Log: logging.For(e.log, "api"), Events: e.events, Levels: e.opts.LogLevels,
		Metrics: e.scrapes, Health: &e.health, Audit: apiserver.AuditTo(logging.For(e.log, "api")),
	})
}

// served is an edge as the API reads it.
type served struct{ e *edge }

// Read implements apiserver.Edge.
func (s served) Read(what string, do func(*apiserver.State) error) error {
	_, err := read(&s.e.state, what, func() (struct{}, error) { return struct{}{}, do(stateOf(s.e)) })
	return err
}

// TryRead implements apiserver.Scraped.
func (s served) TryRead(what string, do func(*apiserver.State) error) (done bool, err error) {
	if !s.e.state.mu.TryRLock() {
		return false, nil
	}
	defer s.e.state.mu.RUnlock()
	if s.e.state.dp == nil {
		return false, fmt.Errorf("%s: the data path was lost, the edge stops", what)
	}
	if err := do(stateOf(s.e)); err != nil {
		return true, fmt.Errorf("read %s: %w", what, err)
	}
	return true, nil
}

// ReadInLoop implements apiserver.Edge.
func (s served) ReadInLoop(what string, do func(*apiserver.State) error) error {
	_, err := inLoop(s.e.jobs, func() (struct{}, error) { return struct{}{}, s.Read(what, do) })
	return err
}

// stateOf is an edge as of now. Its mu is held.
func stateOf(e *edge) *apiserver.State {
	dp, nat := e.state.dp, e.alarms.nat.Last()
	return &apiserver.State{
		Process: apiserver.Process{
			Version: e.opts.Version, ConfigPath: e.opts.ConfigPath, Started: e.started, Adopted: e.adopted, NetNS: e.ns.Inode,
		},
		Config: e.state.config, Host: e.state.hostState,
		Rules: apiserver.Rules{Firewall: e.state.policies.Firewall, Shadows: e.state.policies.Shadows, Egress: e.state.policies.Egress},
		DataPath: apiserver.DataPath{
			Links: dp.Links, Hosts: dp.Hosts, Drops: dp.Drops, Counters: dp.Counters, Flows: dp.Flows, Limits: dp.Limits,
			Firewall: dp.Firewall, NAT: dp.NAT, Egress: dp.Egress, Tracer: dp.Tracer, Monitors: dp.Monitors,
		},
		Paths: servedPaths{e},
		Alarms: apiserver.Alarms{
			NextHops: e.alarms.nextHops, FlowCache: e.alarms.flowCache, Limits: e.alarms.limits,
			Firewall: e.alarms.firewall.Last(), PacketShares: e.alarms.balance.Shares(),
		},
		NAT: apiserver.NAT{
			GCStats: nat.GCStats, SweptAt: nat.SweptAt, Fullest: nat.Fullest, Problems: nat.Problems,
		},
		Gateways: e.role, Others: e.duplicates.Others(), Replication: e.replication, BGP: served{e}.bgp(), TablesFailed: e.faults.Of(applyTables) != nil, Problems: e.allProblems,
	}
}

// servedPaths are those of an edge, whose mu is held.
type servedPaths struct{ e *edge }

// InForce implements apiserver.Paths.
func (p servedPaths) InForce() plan.PathPolicies { return p.e.writer.InForce().Paths.PathPolicies }

// Routes implements apiserver.Paths.
func (p servedPaths) Routes() []plan.Table { return p.e.writer.Routes() }

// Read implements apiserver.Paths.
func (p servedPaths) Read() (r apiserver.PathReadings, err error) {
	known, err := p.e.mtus.Read(p.e.state.dp.Paths)
	if err != nil {
		return r, err
	}
	paths := p.e.writer.InForce().Paths
	r = apiserver.PathReadings{
		InForce: paths.PathPolicies, Since: paths.Since, Lives: p.e.liveness.Results(),
		MTUStates: make(map[overlay.Pair]string), Reported: make(map[overlay.Pair]int),
	}
	for _, path := range paths.PathPolicies.Paths {
		r.MTUStates[path.Endpoints()] = known.State(path.Endpoints())
	}
	for pair, reported := range known.Reported {
		r.Reported[pair] = reported.MTU
	}
	for _, outcome := range known.Outcomes() {
		r.Outcomes = append(r.Outcomes, apiserver.Outcome(outcome))
	}
	return r, nil
}

// bgp is nil without BGP.
func (s served) bgp() *apiserver.BGP {
	b := s.e.bgp.Process()
	if b == nil {
		return nil
	}
	return &apiserver.BGP{State: b.State(), Sessions: b, Lives: s.e.liveness.Neighbours}
}
