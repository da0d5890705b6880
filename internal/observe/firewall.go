package observe

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/problem"
)

// Rules writes one line for each rule of the policy.
func Rules(w Writer, rules []api.RuleInfo) error {
	return table(w, "ORDER SECTION RULE ACTION CONNECTIONS PACKETS +BYTES LAST-HIT NOTES MATCHES", rules, func(r api.RuleInfo) []any {
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

func ruleNotes(r api.RuleInfo) string {
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
func Sessions(w Writer, list api.SessionList) error {
	if err := sessions(w, list.Sessions); err != nil {
		return err
	}
	return shown(w, list, "connections")
}

func sessions(w Writer, list []api.SessionInfo) error {
	header := "PORT +DIRECTION PROTO SOURCE DESTINATION STATE +AGE +IDLE +ORIG-PACKETS ORIG-BYTES +REPLY-PACKETS REPLY-BYTES RULE PATH WHY"
	return table(w, header, list, func(s api.SessionInfo) []any {
		state := s.State
		if s.PickedUp {
			state += ",picked-up"
		}
		rule := orGone(s.Rule)
		if s.Rule != "" && !s.Current {
			rule += " (of a previous policy)"
		}
		return []any{
			s.Port, s.Direction, s.Proto, sessionEnd(s, s.Src, s.SrcPort), sessionEnd(s, s.Dst, s.DstPort), state, span(s.Age), span(s.Idle),
			count(s.OrigPackets), size(s.OrigBytes), count(s.ReplyPackets), size(s.ReplyBytes), rule, s.Path, s.Why,
		}
	})
}

// sessionEnd is an address, with its port where the protocol has ports.
func sessionEnd(s api.SessionInfo, a netip.Addr, port uint16) string {
	if s.Proto != "tcp" && s.Proto != "udp" && s.Proto != "sctp" {
		return a.String()
	}
	return netip.AddrPortFrom(a, port).String()
}

// Firewall writes how the connection tables do.
func Firewall(w Writer, f api.FirewallInfo) error {
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
	if err := tablesAndStates(w, f.Tables, "CONNECTIONS", f.States); err != nil {
		return err
	}
	if len(f.HalfOpen) > 0 {
		fmt.Fprintln(w)
		if err := halfOpenPorts(w, f); err != nil {
			return err
		}
	}
	return tableEvents(w, f.Events)
}

// halfOpenPorts lists the ports with connections that nobody answered.
func halfOpenPorts(w Writer, f api.FirewallInfo) error {
	ports := slices.SortedFunc(maps.Keys(f.HalfOpen), func(a, b string) int {
		x, y := f.HalfOpen[a], f.HalfOpen[b]
		return cmp.Or(cmp.Compare(y.In+y.Out, x.In+x.Out), cmp.Compare(a, b))
	})
	return table(w, "PORT WITHOUT-ANSWER-IN WITHOUT-ANSWER-OUT LIMIT", ports, func(p string) []any {
		n := f.HalfOpen[p]
		return []any{p, n.In, n.Out, positive(int(n.Limit))}
	})
}

// WhatIf writes which rules of a new policy would cut connections, and some of these.
func WhatIf(w Writer, info api.WhatIfInfo) error {
	fmt.Fprintf(w, "%d of %d connections would be cut\n", info.Cut, info.Total)
	if info.Cut == 0 {
		return nil
	}
	fmt.Fprintln(w)
	err := table(w, "CONNECTIONS CUT-BY", info.Rules, func(r api.WhatIfRule) []any { return []any{r.Sessions, r.By} })
	if err != nil || len(info.Sessions) == 0 {
		return err
	}
	fmt.Fprintln(w)
	return table(w, "PORT +DIRECTION PROTO SOURCE DESTINATION STATE +AGE +IDLE ALLOWED-BY CUT-BY", info.Sessions, func(s api.SessionInfo) []any {
		return []any{
			s.Port, s.Direction, s.Proto, sessionEnd(s, s.Src, s.SrcPort), sessionEnd(s, s.Dst, s.DstPort), s.State, span(s.Age), span(s.Idle), s.Rule, s.Why,
		}
	})
}
