package observe

import (
	"fmt"
	"slices"

	"github.com/selvage/selvage/internal/api"
)

// Limits writes one line for each limit; those of which nothing is used only if all is set.
func Limits(w Writer, limits []api.LimitInfo, all bool) error {
	shown := slices.Clone(limits)
	if !all {
		shown = slices.DeleteFunc(shown, func(l api.LimitInfo) bool { return l.Used == 0 && l.Exceeded == 0 })
	}
	return table(w, "KIND OWNER LIMIT USED MAX EXCEEDED MODE +DESCRIPTION", shown, func(l api.LimitInfo) []any {
		used, most := fmt.Sprint(l.Used), fmt.Sprint(l.Max)
		if l.Unit == "per-second" {
			used, most = "", most+"/s"
		}
		if l.Max == 0 {
			most = "none"
		}
		return []any{l.Kind, l.Owner, l.Limit, used, most, count(l.Exceeded), l.Mode, l.Description}
	})
}

// usedOf is what is used of the limit, of how much.
func usedOf(limits []api.LimitInfo, name string) gauge {
	for _, l := range limits {
		switch {
		case l.Limit != name:
		case l.Max == 0:
			return gauge(fmt.Sprint(l.Used))
		default:
			return gauge(fmt.Sprintf("%d/%d", l.Used, l.Max))
		}
	}
	return ""
}

// exceeded is how much was above the limits.
func exceeded(limits []api.LimitInfo, names ...string) (n uint64) {
	for _, l := range limits {
		if slices.Contains(names, l.Limit) {
			n += l.Exceeded
		}
	}
	return n
}
