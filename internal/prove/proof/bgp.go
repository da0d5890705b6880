package proof

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/evpn"
)

// receivedOf is a remote in a segment, or in the L3 segment of a router, which is called by the
// router's name then.
type receivedOf struct {
	name   string
	remote netip.Addr
}

// hearsay is what BGP says of one.
type hearsay struct {
	used, unused, stale int
	problems            []string // each once
}

// hearsays are what BGP says of all remotes; nothing without BGP.
func hearsays(routes []evpn.Status) map[receivedOf]hearsay {
	all := make(map[receivedOf]hearsay)
	for i := range routes {
		r := &routes[i]
		if !r.Neighbour.IsValid() || r.For == "" {
			continue
		}
		at := receivedOf{r.For, r.Route.NextHop}
		h := all[at]
		switch {
		case !r.Used:
			h.unused++
		case r.Stale:
			h.stale++
			h.used++
		default:
			h.used++
		}
		if r.Problem != "" && !slices.Contains(h.problems, r.Problem) {
			h.problems = append(h.problems, r.Problem)
		}
		all[at] = h
	}
	return all
}

// words says it to an operator.
func (h hearsay) words() string {
	words := fmt.Sprintf("BGP: %d routes from there are used", h.used)
	if h.stale > 0 {
		words += fmt.Sprintf(" (%d are stale, their session was lost)", h.stale)
	}
	if h.unused > 0 {
		words += fmt.Sprintf(", %d are not", h.unused)
	}
	if len(h.problems) > 0 {
		slices.Sort(h.problems)
		words += ": " + strings.Join(h.problems, ", ") + "; `selvage bgp routes --unused` says more"
	}
	return words
}
