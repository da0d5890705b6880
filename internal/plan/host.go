package plan

import (
	"maps"
	"slices"

	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// HostProblems are what of e a host does not have, before an edge runs there: interfaces, addresses, routes and MTUs. Next hops,
// which nobody asks for yet, count as resolved, and devices that an edge makes are not missed.
func HostProblems(e overlay.Edge, v host.State) []problem.Problem {
	v.Routes = maps.Clone(v.Routes)
	for pair, path := range v.Routes {
		if path.NextMAC == (overlay.MAC{}) {
			path.NextMAC = overlay.MAC{2}
			v.Routes[pair] = path
		}
	}
	paths, dead := Teamed(e, FactsOf(e, v, nil, nil), PathPolicies{})
	_, problems := desiredUnderlays(e, v)
	_, more := desiredPorts(e, v)
	all := slices.Concat(problems, more, pathProblems(e, v), dead, portMTUs(e, v, paths))
	var once []problem.Problem
	for _, p := range all {
		if !slices.Contains(once, p) {
			once = append(once, p)
		}
	}
	return once
}
