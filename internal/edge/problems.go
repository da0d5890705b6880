package edge

import (
	"slices"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/duplicate"
	"github.com/selvage/selvage/internal/failover"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/pathmtu/discovery"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/internal/transaction"
)

// appliedProblems are those of the tables and paths in force, and of the role as a gateway.
func appliedProblems(e *edge) []problem.Problem {
	return slices.Concat(e.problems, e.writer.InForce().Paths.Problems, e.role.Problems())
}

// allProblems are those of the tables, the paths and of what is tried again. mu is held.
func (e *edge) allProblems() []problem.Problem {
	problems := slices.Concat(
		appliedProblems(e), e.alarms.balance.Problems(), e.alarms.limits.Problems(),
		e.alarms.firewall.Last().Problems, e.alarms.nat.Last().Problems, e.bgp.Problems(), e.watchedProblems(),
	)
	return slices.Concat(problems, e.pins.problems(), e.faults.Problems(faultSeverity))
}

// watchedProblems are those that nobody else tells of when they begin and end.
func (e *edge) watchedProblems() []problem.Problem {
	now := time.Now()
	var frozen []problem.Problem
	if e.state.config.FDB.Duplicates.Moves > 0 { // otherwise what was frozen is forgotten
		frozen = e.hostEvents.Problems(now)
	}
	return slices.Concat(
		remoteProblems(e), frozen, e.loops.Problems(now), e.duplicates.Problems(), e.transactions.Problems(), e.listeners.Problems(now),
	)
}

// Faults of the edge itself.
const (
	changeHost       = "this host cannot be changed as the edge needs it"
	applyTables      = "apply to the data path"
	observeHost      = "observe the host"
	replicateProblem = "replicate sessions"
	leaseProblem     = "keep the lease of egress addresses"
	writeTables      = "write tables in the network namespace of the edge"
	closeDataPath    = "close the data path that was replaced"
	listenProblem    = "serve HTTP as spec.http asks, which is tried again"
)

// minorFaults are those with which packets still go where they should.
var minorFaults = []string{
	replicateProblem, gateway.RefreshReplicas, closeDataPath, transaction.KeepRevisions, readEvents, keepEvents, listenProblem,
}

func faultSeverity(what string) problem.Severity {
	if slices.Contains(minorFaults, what) || alarm.IsMinor(what) || discovery.IsMinor(what) || failover.IsMinor(what) || duplicate.IsMinor(what) {
		return problem.SeverityWarning
	}
	return problem.SeverityError
}
