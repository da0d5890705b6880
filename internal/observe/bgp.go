package observe

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/overlay"
)

// BGP writes the speaker at a glance, and one line for each family of each neighbour.
func BGP(w Writer, b api.BGPInfo) error {
	r := b.Routes
	var lines fields
	lines.add("BGP", "AS %d, router ID %s", b.AS, addr(b.RouterID))
	lines.add("Routes", "%d received, %d used (%d stale), %d not used, %d advertised", r.Received, r.Used, r.Stale, r.Unused, r.Advertised)
	if r.NoRoom > 0 {
		lines.add("", "%d without room: tables are full, or a neighbour advertises too many", r.NoRoom)
	}
	for _, why := range r.Why {
		lines.add("", "%d with a problem: %s", why.Routes, why.Why)
	}
	if b.Settling {
		lines.add("Kept", "what a previous process learned, until all neighbours have sent their routes")
	}
	if c := b.Convergence; c.Count > 0 {
		lines.add("Updates", "%s, in the maps after %s (median), %s (99 %%), %s (slowest)", count(c.Count), millis(c.P50), millis(c.P99), millis(c.Max))
	}
	if err := lines.write(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := bgpSessions(w, b.Neighbours); err != nil {
		return err
	}
	return problems(w, b.Problems)
}

// bgpUse is what became of routes, for the edge's status.
func bgpUse(b api.BGPUse) string {
	text := fmt.Sprintf("%s routes used, %s not, %s advertised", count(uint64(b.Used)), count(uint64(b.Unused)), count(uint64(b.Advertised)))
	if b.Stale > 0 {
		text += fmt.Sprintf(", %s stale", count(uint64(b.Stale)))
	}
	if b.Frozen > 0 {
		text += fmt.Sprintf(", %d frozen", b.Frozen)
	}
	return text
}

func millis(seconds float64) string { return strconv.FormatFloat(1000*seconds, 'f', 1, 64) + "ms" }

func bgpSessions(w Writer, neighbours []api.BGPNeighbourInfo) error {
	type row struct {
		api.BGPNeighbourInfo
		family api.BGPFamilyInfo
	}
	var rows []row
	for _, n := range neighbours {
		if len(n.Families) == 0 {
			rows = append(rows, row{BGPNeighbourInfo: n})
		}
		for _, f := range n.Families {
			rows = append(rows, row{n, f})
		}
	}
	return table(w, "NEIGHBOUR ADDRESS AS STATE FOR +BFD FAMILY RECEIVED +ACCEPTED ADVERTISED +FLAPS WHY", rows, func(r row) []any {
		return []any{
			r.Name, r.Address, r.AS, bgpState(r.BGPNeighbourInfo), span(r.Age), r.Liveness, bgpFamily(r.BGPNeighbourInfo, r.family),
			count(r.family.Received), count(r.family.Accepted), count(r.family.Advertised), r.Flaps, r.Why,
		}
	})
}

// bgpState is the session's, and whether the neighbour has said all that it has.
func bgpState(n api.BGPNeighbourInfo) string {
	if n.State == "established" && !n.Complete {
		return "established, not complete"
	}
	return n.State
}

// bgpFamily is the family's name, marked where the session does without it.
func bgpFamily(n api.BGPNeighbourInfo, f api.BGPFamilyInfo) string {
	if n.State == "established" && !f.Negotiated {
		return string(f.Family) + " (the neighbour lacks it)"
	}
	return string(f.Family)
}

// BGPNeighbour writes all about one session.
func BGPNeighbour(w Writer, n api.BGPNeighbourInfo) error {
	var lines fields
	line := lines.add
	line("Neighbour", "%s, %s, AS %d%s", n.Name, n.Address, n.AS, before(", router ID ", addr(n.RouterID)))
	line("State", "%s for %s, lost %d times", bgpState(n), span(n.Age), n.Flaps)
	if n.Why != "" {
		line("Why", "%s", n.Why)
	}
	line("BFD", "%s", n.Liveness)
	if n.State == "established" { // before, nothing is agreed on
		line("Timers", "hold %s, keepalive %s", span(n.Hold), span(n.Keep))
		line("Restart", "%s", bgpRestart(n.Restart))
		line("Capabilities", "%s", cmp.Or(strings.Join(n.Capabilities, ", "), "none"))
	}
	line("Malformed", "%d routes", n.Malformed)
	label := "Discarded"
	for _, d := range n.Discarded {
		line(label, "%s: %d", d.What, d.Count)
		label = ""
	}
	if n.Overflows > 0 {
		line("Overflows", "%d: the session was reset, as too many updates waited for the data path", n.Overflows)
	}
	if err := lines.write(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return table(w, "FAMILY RECEIVED ACCEPTED ADVERTISED LIMIT", n.Families, func(f api.BGPFamilyInfo) []any {
		return []any{bgpFamily(n, f), f.Received, f.Accepted, f.Advertised, positive(int(f.Limit))}
	})
}

// before is text with what comes before it, or nothing.
func before(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func bgpRestart(r api.BGPRestartInfo) string {
	if !r.Negotiated {
		return "not agreed on: the neighbour forgets this edge's routes with the session"
	}
	text := "graceful, the neighbour asks for " + string(span(r.Time))
	if r.LongLived && r.Stale > 0 {
		text += ", and for " + string(span(r.Stale)) + " as stale"
	}
	return text
}

// BGPRoutes writes one line for each route: what it is of, and what became of it; wide
// ones with their attributes.
func BGPRoutes(w Writer, routes []api.BGPRouteInfo) error {
	header := "TYPE +RD +TAG MAC ADDRESS VNI +L3VNI NEXT-HOP +GATEWAY +ROUTER-MAC +ENCAPSULATION +TARGETS +AS-PATH +LOCAL-PREF +MED +COMMUNITIES +UPLINK NEIGHBOUR +AGE USED FOR +NOTES WHY"
	return table(w, header, routes, func(r api.BGPRouteInfo) []any {
		path := make([]string, len(r.ASPath))
		for i, as := range r.ASPath {
			path[i] = strconv.FormatUint(uint64(as), 10)
		}
		return []any{
			r.Type, r.RD, positive(int(r.Tag)), macOf(r.MAC), bgpAddress(r), positive(int(r.VNI)), positive(int(r.L3VNI)), addr(r.NextHop), addr(r.Gateway),
			macOf(r.RouterMAC), r.Encapsulation, strings.Join(r.Targets, ","), strings.Join(path, ","), positive(int(r.LocalPref)), positive(int(r.MED)), strings.Join(r.Communities, ","), r.Uplink,
			cmp.Or(r.Neighbour, "self"), bgpAge(r), bgpUsed(r), r.For, bgpNotes(r), r.Why,
		}
	})
}

// bgpAge is since when a neighbour says so.
func bgpAge(r api.BGPRouteInfo) gauge {
	if r.Neighbour == "" {
		return ""
	}
	return span(r.Age)
}

func macOf(m *overlay.MAC) string {
	if m == nil {
		return ""
	}
	return m.String()
}

// bgpAddress is what a route is of, besides a MAC address.
func bgpAddress(r api.BGPRouteInfo) string {
	if r.Prefix != (netip.Prefix{}) {
		return r.Prefix.String()
	}
	return cmp.Or(addr(r.Address), addr(r.Originator))
}

func bgpUsed(r api.BGPRouteInfo) string {
	switch {
	case r.Neighbour == "":
		return "advertised"
	case r.Used && r.Stale:
		return "stale"
	case r.Used:
		return "yes"
	}
	return "no"
}

func bgpNotes(r api.BGPRouteInfo) string {
	var notes []string
	if r.Sequence > 0 {
		notes = append(notes, fmt.Sprintf("sequence %d", r.Sequence))
	}
	for _, n := range []struct {
		is   bool
		word string
	}{{r.Sticky, "sticky"}, {r.DefaultGateway, "gateway"}} {
		if n.is {
			notes = append(notes, n.word)
		}
	}
	return strings.Join(notes, ", ")
}

// BGPMoves writes frozen MAC addresses, and one line for each event, the newest first.
func BGPMoves(w Writer, m api.BGPMovesInfo) error {
	if len(m.Frozen) > 0 {
		err := table(w, "FROZEN SEGMENT SINCE WHY", m.Frozen, func(f api.BGPFrozen) []any {
			return []any{f.MAC, f.Segment, clock(f.Since), f.Detail}
		})
		if err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	return table(w, "AT WHAT SEGMENT MAC ADDRESS REMOTE DETAIL", m.Moves, func(e api.BGPMove) []any {
		mac := ""
		if e.MAC != (overlay.MAC{}) {
			mac = e.MAC.String()
		}
		return []any{clock(e.At), e.What, e.Segment, mac, addr(e.Address), addr(e.Remote), e.Detail}
	})
}
