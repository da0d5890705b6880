package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/api"
)

// Interfaces writes one line for each interface that packets may pass through.
func Interfaces(w Writer, interfaces []api.InterfaceInfo) error {
	return table(w, "NAME +INDEX ROLES HOOK TAKES-REDIRECTED MTU WHY", interfaces, func(i api.InterfaceInfo) []any {
		takes := "no"
		if i.TakesRedirected {
			takes = "yes"
		}
		whys := slices.DeleteFunc([]string{i.HookWhy, i.RedirectWhy}, func(s string) bool { return s == "" })
		return []any{i.Name, positive(i.Ifindex), strings.Join(i.Roles, ","), i.Hook, takes, positive(i.MTU), strings.Join(whys, "; ")}
	})
}

// FlowCache writes how the flow cache does: its hits, its tables, and what befell
// look-ups and decisions. Where it has rates, they stand in columns of their own.
func FlowCache(w Writer, f api.FlowCacheInfo) error {
	state := "off"
	if f.Enabled {
		state = "on"
	}
	hits := "no look-ups"
	if f.LookUps > 0 {
		hits = fmt.Sprintf("%s hits of %s look-ups", percent(f.HitRatio), count(f.LookUps))
	}
	var lines fields
	lines.add("Flow cache", "%s, %s", state, hits)
	if r := f.Rates; r != nil {
		w.Rates = nil // these are more exact
		hits = "no look-ups"
		if r.LookUps > 0 {
			hits = fmt.Sprintf("%s hits of %s look-ups/s", percent(r.HitRatio), rate(r.LookUps))
		}
		lines.add("Last "+string(span(r.Seconds)), "%s", hits)
	}
	lines.add("Alarm", "%s", cmp.Or(f.Problem, "none"))
	if err := lines.write(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := caches(w, f); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return events(w, f)
}

func caches(w Writer, f api.FlowCacheInfo) error {
	header := "CACHE USED SIZE FILLED MEMORY EVICTED"
	if f.Rates != nil {
		header += " EVICTED/S"
	}
	return table(w, header, f.Caches, func(c api.CacheInfo) []any {
		var evicted any = "" // by the kernel, which does not count
		if c.Evicted != nil {
			evicted = count(*c.Evicted)
		}
		cells := []any{c.Name, c.Used, c.Size, share(uint64(c.Used), uint64(c.Size)), size(c.Bytes).String(), evicted}
		if r := f.Rates; r != nil {
			perSecond := rate(r.Evicted[c.Name])
			if c.Evicted == nil && r.Evicted[c.Name] > 0 {
				perSecond = "≤" + perSecond
			}
			cells = append(cells, perSecond)
		}
		return cells
	})
}

// events lists the outcomes of look-ups with their shares, then what else is counted.
func events(w Writer, f api.FlowCacheInfo) error {
	header := "EVENT COUNT SHARE"
	if f.Rates != nil {
		header += " COUNT/S SHARE-NOW"
	}
	return table(w, header+" DESCRIPTION", f.Events, func(e api.EventInfo) []any {
		var of gauge
		if e.LookUp {
			of = share(e.Count, f.LookUps)
		}
		cells := []any{e.Name, count(e.Count), of}
		if r := f.Rates; r != nil {
			var now gauge
			if e.LookUp && r.LookUps > 0 {
				now = percent(r.Events[e.Name] / r.LookUps)
			}
			cells = append(cells, rate(r.Events[e.Name]), now)
		}
		return append(cells, e.Description)
	})
}

// share is a part of a whole that may be nothing.
func share(part, whole uint64) gauge {
	if whole == 0 {
		return ""
	}
	return percent(float64(part) / float64(whole))
}
