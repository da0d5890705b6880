package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/selvage/selvage/internal/api"
)

// TEPs writes one line for each remote and, where there is a choice or BFD runs,
// one for each path.
func TEPs(w Writer, teps []api.TEPInfo) error {
	err := table(w, "ADDRESS +NAME STATE INTERFACE NEXT-HOP +NEXT-MAC +MTU PATH-MTU +PROBED INNER-MTU +RX-PACKETS RX-BYTES +TX-PACKETS TX-BYTES SEGMENTS",
		teps, func(t api.TEPInfo) []any {
			return []any{
				t.Address, t.Name, t.State, t.Interface, addr(t.NextHop), t.NextMAC, positive(t.MTU), positive(t.PathMTU), probed(t),
				positive(t.InnerMTU), count(t.RxPackets), size(t.RxBytes), count(t.TxPackets), size(t.TxBytes),
				strings.Join(t.Segments, ","),
			}
		})
	if err == nil && slices.ContainsFunc(teps, hasPathsToTell) {
		fmt.Fprintln(w)
		err = paths(w, teps)
	}
	return err
}

// probed is where the path MTU comes from, and what is being looked into.
func probed(t api.TEPInfo) string {
	if t.ReportedMTU == 0 {
		return t.PathMTUState
	}
	return fmt.Sprintf("%s, %d reported", t.PathMTUState, t.ReportedMTU)
}

func hasPathsToTell(t api.TEPInfo) bool {
	return len(t.Paths) > 1 || slices.ContainsFunc(t.Paths, func(p api.PathInfo) bool { return p.State != "unknown" })
}

// paths writes one line for each path.
func paths(w Writer, teps []api.TEPInfo) error {
	type row struct {
		remote string
		api.PathInfo
	}
	var rows []row
	for _, t := range teps {
		for _, p := range t.Paths {
			rows = append(rows, row{cmp.Or(t.Name, t.Address.String()), p})
		}
	}
	// Where a route has several next hops, they and their interfaces tell its paths from each other.
	ways, several := "+INTERFACE", slices.ContainsFunc(rows, func(r row) bool { return r.Weight > 0 })
	if several {
		ways = "NEXT-HOP INTERFACE"
	}
	return table(w, "NAME LOCAL REMOTE "+ways+" PATH-MTU STATE FOR SHARE +SENT-NOW +TX-PACKETS TX-BYTES WHY", rows, func(r row) []any {
		var now gauge
		if r.PacketShare != nil {
			now = percent(*r.PacketShare)
		}
		cells := []any{r.remote, r.Local, r.PathInfo.Remote}
		if several {
			cells = append(cells, r.NextHop)
		}
		return append(cells, r.Interface, positive(r.PathMTU), r.State, span(r.Age),
			shares(r.Shares), now, count(r.TxPackets), size(r.TxBytes), r.Why)
	})
}

// shares are the parts of a path, those of pinned segments with the TEPs in order.
func shares(all []api.ShareInfo) string {
	texts := make([]string, len(all))
	for i, s := range all {
		texts[i] = string(percent(s.Share))
		if len(s.TEPs) > 0 {
			texts[i] = strings.Join(s.TEPs, ",") + ": " + texts[i]
		}
	}
	return strings.Join(texts, "; ")
}
