package observe

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/edge"
	"github.com/selvage/selvage/internal/problem"
)

// Rules writes one line for each rule of the policy.
func Rules(w Writer, rules []edge.RuleInfo) error {
	return table(w, "ORDER SECTION RULE ACTION CONNECTIONS PACKETS +BYTES LAST-HIT NOTES MATCHES", rules, func(r edge.RuleInfo) []any {
		var last gauge
		if r.LastHit != nil {
			last = span(*r.LastHit)
		}
		action := r.Action
		if r.Log {
			action += ",log"
		}
		return []any{
			r.Order, r.Section, r.Name, action, count(r.Connections), count(r.Packets), size(r.Bytes), last, ruleNotes(r), r.Matches,
		}
	})
}

func ruleNotes(r edge.RuleInfo) string {
	var notes []string
	if r.Unused {
		notes = append(notes, "UNUSED")
	}
	switch {
	case r.ShadowedBy != "" && r.Duplicate:
		notes = append(notes, "SAME AS "+r.ShadowedBy)
	case r.ShadowedBy != "":
		notes = append(notes, "SHADOWED BY "+r.ShadowedBy)
	}
	return strings.Join(notes, ", ")
}

// Sessions writes one line for each connection and, where packets of it are not on the
// fast path, why.
func Sessions(w Writer, list edge.SessionList) error {
	if err := sessions(w, list.Sessions); err != nil {
		return err
	}
	return shown(w, len(list.Sessions), list)
}

func sessions(w Writer, list []edge.SessionInfo) error {
	header := "PORT +DIRECTION PROTO SOURCE DESTINATION STATE +AGE +IDLE +ORIG-PACKETS ORIG-BYTES +REPLY-PACKETS REPLY-BYTES RULE PATH WHY"
	return table(w, header, list, func(s edge.SessionInfo) []any {
		state := s.State
		if s.PickedUp {
			state += ",picked-up"
		}
		rule := s.Rule
		switch {
		case rule == "":
			rule = "(gone)"
		case !s.Current:
			rule += " (of a former policy)"
		}
		return []any{
			s.Port, s.Direction, s.Proto, sessionEnd(s, s.Src, s.SrcPort), sessionEnd(s, s.Dst, s.DstPort), state, span(s.Age), span(s.Idle),
			count(s.OrigPackets), size(s.OrigBytes), count(s.ReplyPackets), size(s.ReplyBytes), rule, s.Path, s.Why,
		}
	})
}

// sessionEnd is an address, with its port where the protocol has ports.
func sessionEnd(s edge.SessionInfo, a netip.Addr, port uint16) string {
	if s.Proto != "tcp" && s.Proto != "udp" && s.Proto != "sctp" {
		return a.String()
	}
	return netip.AddrPortFrom(a, port).String()
}

// shown says how many there are beyond the lines that were written.
func shown(w Writer, lines int, list edge.SessionList) error {
	_, err := fmt.Fprintf(w, "\n%d of %d matching lines, of %d connections\n", lines, max(list.Matched, lines), list.Total)
	return err
}

// TopSessions writes one line for each sum, the most connections first.
func TopSessions(w Writer, list edge.SessionList) error {
	err := table(w, "WHAT CONNECTIONS SHARE WITHOUT-ANSWER PACKETS BYTES", list.Top, func(t edge.TopInfo) []any {
		what := t.What
		if what == "" {
			what = "(gone)"
		}
		return []any{what, t.Sessions, share(uint64(t.Sessions), uint64(list.Matched)), t.HalfOpen, count(t.Packets), size(t.Bytes)}
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\n%d of %d connections match\n", list.Matched, list.Total)
	return err
}

// Firewall writes how the connection tables do.
func Firewall(w Writer, f edge.FirewallInfo) error {
	mode := "out of state: as the rules say"
	if f.Strict {
		mode = "out of state: dropped"
	}
	var lines fields
	lines.add("Firewall", "%d rules, default %s, %s", f.Rules, f.Default, mode)
	lines.list("Alarm", problem.Texts(f.Problems))
	if err := lines.write(w); err != nil {
		return err
	}
	parts := []func(Writer, edge.FirewallInfo) error{firewallTables, firewallStates, firewallEvents}
	if len(f.HalfOpen) > 0 {
		parts = slices.Insert(parts, 2, halfOpenPorts)
	}
	for _, part := range parts {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := part(w, f); err != nil {
			return err
		}
	}
	return nil
}

func firewallTables(w Writer, f edge.FirewallInfo) error {
	return table(w, "TABLE USED SIZE FILLED MEMORY", f.Tables, func(t edge.TableInfo) []any {
		used, filled := "", gauge("")
		if t.Used != nil {
			used, filled = fmt.Sprint(*t.Used), share(uint64(*t.Used), uint64(t.Size))
		}
		return []any{t.Name, used, t.Size, filled, size(t.Bytes).String()}
	})
}

func firewallStates(w Writer, f edge.FirewallInfo) error {
	return table(w, "STATE CONNECTIONS", f.States, func(s edge.StateInfo) []any { return []any{s.Name, s.Sessions} })
}

// halfOpenPorts lists the ports with connections that nobody answered.
func halfOpenPorts(w Writer, f edge.FirewallInfo) error {
	ports := slices.SortedFunc(maps.Keys(f.HalfOpen), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.HalfOpen[b], f.HalfOpen[a]), cmp.Compare(a, b))
	})
	return table(w, "PORT WITHOUT-ANSWER LIMIT", ports, func(p string) []any {
		return []any{p, f.HalfOpen[p], positive(int(f.HalfOpenLimit))}
	})
}

func firewallEvents(w Writer, f edge.FirewallInfo) error {
	return table(w, "EVENT COUNT DESCRIPTION", f.Events, func(e edge.EventInfo) []any { return []any{e.Name, count(e.Count), e.Description} })
}

// WhatIf writes which rules of a new policy would cut connections, and some of these.
func WhatIf(w Writer, info edge.WhatIfInfo) error {
	fmt.Fprintf(w, "%d of %d connections would be cut\n", info.Cut, info.Total)
	if info.Cut == 0 {
		return nil
	}
	fmt.Fprintln(w)
	err := table(w, "CONNECTIONS CUT-BY", info.Rules, func(r edge.WhatIfRule) []any { return []any{r.Sessions, r.By} })
	if err != nil || len(info.Sessions) == 0 {
		return err
	}
	fmt.Fprintln(w)
	return table(w, "PORT +DIRECTION PROTO SOURCE DESTINATION STATE +AGE +IDLE ALLOWED-BY CUT-BY", info.Sessions, func(s edge.SessionInfo) []any {
		return []any{
			s.Port, s.Direction, s.Proto, sessionEnd(s, s.Src, s.SrcPort), sessionEnd(s, s.Dst, s.DstPort), s.State, span(s.Age), span(s.Idle), s.Rule, s.Why,
		}
	})
}
