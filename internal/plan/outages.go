package plan

import (
	"fmt"
	"maps"
	"net/netip"

	"github.com/selvage/selvage/internal/fib"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// Outages are what of an edge carries nothing now. Next hops there are out of use, as the kernel's are with
// ignore_routes_with_linkdown.
type Outages struct {
	// Remotes have no path that is in use, by their first addresses. Those of them with true have one that answers and
	// is held back.
	Remotes map[netip.Addr]bool
	// Segments are uplinks whose link is down, and segments with neither a port that is up nor a remote: why, by name.
	Segments map[string]string
}

// Equal reports whether both are the same.
func (o Outages) Equal(other Outages) bool {
	return maps.Equal(o.Remotes, other.Remotes) && maps.Equal(o.Segments, other.Segments)
}

// OutagesOf are those of e with the paths that are planned.
func OutagesOf(e overlay.Edge, v host.State, t PathPolicies) Outages {
	return Outages{Remotes: deadRemotes(e, t), Segments: deadSegments(e, v)}
}

// deadRemotes are those all of whose paths are out of use, and those without any.
func deadRemotes(e overlay.Edge, t PathPolicies) map[netip.Addr]bool {
	alive, held := make(map[netip.Addr]bool), make(map[netip.Addr]bool)
	for _, p := range t.Paths {
		alive[p.Edge] = alive[p.Edge] || p.Down == ""
		held[p.Edge] = held[p.Edge] || p.Held
	}
	dead := make(map[netip.Addr]bool)
	for _, remote := range Remotes(e) {
		if !alive[remote] {
			dead[remote] = held[remote]
		}
	}
	return dead
}

// deadSegments are those of routers by which no packet leaves.
func deadSegments(e overlay.Edge, v host.State) map[string]string {
	dead, lives := make(map[string]string), make(map[string]bool)
	for _, a := range Attachments(e) {
		why := linkDown(v, a.Interface)
		lives[a.Segment] = lives[a.Segment] || why == ""
		if a.Router != "" && why != "" {
			dead[a.Name] = why
		}
	}
	for _, s := range e.Segments {
		if s.Gateway != nil && !lives[s.Name] && len(remotesOf(s)) == 0 {
			dead[s.Name] = fmt.Sprintf("segment %s has no port that is up, and no remote", s.Name)
		}
	}
	return dead
}

// linkDown is why an interface carries nothing, "" when it does.
func linkDown(v host.State, name string) string {
	switch link, ok := v.Links[name]; {
	case !ok:
		return fmt.Sprintf("interface %s does not exist", name)
	case !link.Up:
		return fmt.Sprintf("interface %s is down", name)
	case link.NotEthernet != "":
		return notEthernet(link)
	}
	return ""
}

// notEthernet says that frames of a link cannot be forwarded.
func notEthernet(link host.Link) string {
	return fmt.Sprintf("interface %s has no Ethernet header (link/%s, as tun and WireGuard)", link.Name, link.NotEthernet)
}

// ofHop is why a next hop is out of use, "" when it is not.
func (o Outages) ofHop(hop fib.Hop) string {
	if !hop.Remote.IsValid() {
		return o.Segments[hop.Segment]
	}
	if _, dead := o.Remotes[hop.Remote]; dead {
		return fmt.Sprintf("no path to remote %s is in use", hop.Remote)
	}
	return ""
}

// isHeld reports whether a remote that is out of use answers.
func (o Outages) isHeld(hop fib.Hop) bool { return o.Remotes[hop.Remote] }

// routeProblems are those of static routes all of whose next hops are out of use, one for each router.
func routeProblems(tables []Table) (problems []problem.Problem) {
	for _, t := range tables {
		var first *Route
		more := 0
		for i, r := range t.Routes {
			switch {
			case r.Origin != Static || r.Counts():
			case first == nil:
				first = &t.Routes[i]
			default:
				more++
			}
		}
		if first == nil {
			continue
		}
		also := ""
		if more > 0 {
			also = fmt.Sprintf(" (and %d more static routes)", more)
		}
		problems = append(problems, problem.Error("router %s: the static route %s%s is not used, nor advertised: %s: add a next hop by another uplink or remote, or repair this one",
			t.Router, first.Prefix, also, first.Down[0].Why))
	}
	return problems
}
