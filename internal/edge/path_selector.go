package edge

import (
	"net/netip"
	"time"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
	"github.com/selvage/selvage/internal/writer"
)

// pathSelector is what documents read of which paths the flows take, and why.
type pathSelector struct {
	writer  *writer.Writer
	watched *watched
}

// pathPlan is a plan that is in force. It is replaced, never changed.
type pathPlan struct {
	pathPolicies plan.PathPolicies
	problems     []problem.Problem          // of teams
	since        map[overlay.Pair]time.Time // when each path went out of use, or came back
	moves        int                        // how often flows were given to other paths
}

// inForce is the plan of now.
func (s *pathSelector) inForce() pathPlan {
	p := s.writer.InForce().Paths
	return pathPlan{p.PathPolicies, p.Problems, p.Since, p.Moves}
}

// results are what liveness knows by now.
func (s *pathSelector) results() map[overlay.Pair]bfd.Result { return s.watched.Results() }

// problems are those of paths.
func (s *pathSelector) problems() []problem.Problem { return s.inForce().problems }

// neighbourLives are what is known of watched neighbours.
func (s *pathSelector) neighbourLives() map[netip.Addr]string { return s.watched.neighbourLives() }

// routes are those of all routers by now.
func (s *pathSelector) routes() []plan.Table {
	routing := s.writer.Routing()
	if routing == nil {
		return nil
	}
	return routing.All()
}
