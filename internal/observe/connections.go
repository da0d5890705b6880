package observe

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/selvage/selvage/internal/api"
)

// What the firewall's connections and the sessions of NAT have in common.

// shown says how many there are beyond the lines that were written.
func shown[Info any](w Writer, list api.ConnectionList[Info], what string) error {
	lines := len(list.Sessions)
	_, err := fmt.Fprintf(w, "\n%d of %d matching lines, of %d %s\n", lines, max(list.Matched, lines), list.Total, what)
	return err
}

// TopSessions writes one line for each sum, the most connections first.
func TopSessions(w Writer, list api.SessionList) error { return top(w, list, "connections") }

// TopNATSessions writes one line for each sum, the most sessions first.
func TopNATSessions(w Writer, list api.NATSessionList) error { return top(w, list, "sessions") }

func top[Info any](w Writer, list api.ConnectionList[Info], what string) error {
	header := "WHAT " + strings.ToUpper(what) + " SHARE WITHOUT-ANSWER PACKETS BYTES"
	err := table(w, header, list.Top, func(t api.TopInfo) []any {
		return []any{orGone(t.What), t.Sessions, share(uint64(t.Sessions), uint64(list.Matched)), t.HalfOpen, count(t.Packets), size(t.Bytes)}
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\n%d of %d %s match\n", list.Matched, list.Total, what)
	return err
}

// orGone is the name of a rule or policy, unless it is gone.
func orGone(name string) string { return cmp.Or(name, "(gone)") }

// tablesAndStates writes how full tables are, and connections by state.
func tablesAndStates(w Writer, tables []api.TableInfo, what string, states []api.StateInfo) error {
	fmt.Fprintln(w)
	err := table(w, "TABLE USED SIZE FILLED MEMORY", tables, func(t api.TableInfo) []any {
		used, filled := "", gauge("")
		if t.Used != nil {
			used, filled = fmt.Sprint(*t.Used), share(uint64(*t.Used), uint64(t.Size))
		}
		return []any{t.Name, used, t.Size, filled, size(t.Bytes).String()}
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(w)
	return table(w, "STATE "+what, states, func(s api.StateInfo) []any { return []any{s.Name, s.Sessions} })
}

func tableEvents(w Writer, events []api.EventInfo) error {
	fmt.Fprintln(w)
	return table(w, "EVENT COUNT DESCRIPTION", events, func(e api.EventInfo) []any { return []any{e.Name, count(e.Count), e.Description} })
}
