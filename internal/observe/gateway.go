package observe

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/selvage/selvage/internal/api"
)

// Neighbours writes one line for each host whose MAC address is known. Only one that was
// learned from packets has an age.
func Neighbours(w Writer, neighbours []api.NeighbourInfo) error {
	return table(w, "SEGMENT ADDRESS MAC PORT REMOTE TYPE AGE", neighbours, func(n api.NeighbourInfo) []any {
		return []any{n.Segment, n.Address, n.MAC, n.Port, addr(n.Remote), n.Origin, learnedAge(n.Origin, n.Age)}
	})
}

// Routes writes one line for each next hop of each route.
func Routes(w Writer, routes []api.RouteInfo) error {
	type line struct {
		api.RouteInfo
		hop api.HopInfo
	}
	var lines []line
	for _, r := range routes {
		if len(r.Hops) == 0 {
			lines = append(lines, line{RouteInfo: r})
		}
		for _, hop := range r.Hops {
			lines = append(lines, line{r, hop})
		}
	}
	return table(w, "ROUTER PREFIX TYPE ORIGIN VIA SEGMENT MAC STATE", lines, func(l line) []any {
		origin := l.Origin
		if l.From != "" {
			origin += " from " + l.From
		}
		via, state := cmp.Or(addr(l.hop.Address), addr(l.hop.Remote)), l.hop.State
		if l.hop.Why != "" {
			state += ": " + l.hop.Why
		}
		return []any{l.Router, l.Prefix, l.Kind, origin, via, l.hop.Segment, l.hop.MAC, state}
	})
}

// Trace writes the packet, one line for each stage, the verdict, and the headers
// of the packet that leaves.
func Trace(w Writer, t api.TraceInfo) error {
	if _, err := fmt.Fprintf(w, "in: %s\n", t.Packet); err != nil {
		return err
	}
	widest := 0
	for _, s := range t.Steps {
		widest = max(widest, len(s.Stage))
	}
	for _, s := range t.Steps {
		fmt.Fprintf(w, "  %-*s  %s\n", widest, s.Stage, s.What)
	}
	fmt.Fprintf(w, "verdict: %s\n", t.Verdict)
	if len(t.Headers) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "out: %s\n", strings.Join(t.Headers, "\n     "))
	return err
}
