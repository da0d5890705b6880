package edge

import (
	"net/netip"

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

// inForce is the plan of now.
func (s *pathSelector) inForce() writer.PathPlan { return s.writer.InForce().Paths }

// results are what liveness knows by now.
func (s *pathSelector) results() map[overlay.Pair]bfd.Result { return s.watched.Results() }

// problems are those of paths.
func (s *pathSelector) problems() []problem.Problem { return s.inForce().Problems }

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
