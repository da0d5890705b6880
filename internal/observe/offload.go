package observe

import (
	"slices"

	"github.com/selvage/selvage/internal/api"
)

// offloads writes one line for each path whose offloads are probed.
func offloads(w Writer, teps []api.TEPInfo) error {
	type row struct {
		remote string
		api.PathInfo
	}
	var rows []row
	for _, t := range teps {
		for _, p := range t.Paths {
			if p.Offload != nil {
				rows = append(rows, row{nameOf(t), p})
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return table(w, "NAME LOCAL REMOTE INTERFACE OFFLOADS IN-FORCE +PROBED WHY", rows, func(r row) []any {
		o, when := r.Offload, ""
		if !o.When.IsZero() {
			when = o.When.Format("2006-01-02 15:04:05")
		}
		inForce := ""
		if o.Mode != "" {
			inForce = yesNo(o.Applied)
		}
		if o.Pending {
			when = "now"
		}
		return []any{r.remote, r.Local, r.PathInfo.Remote, r.Interface, o.Mode, inForce, when, o.Why}
	})
}

// nameOf is what a remote is called.
func nameOf(t api.TEPInfo) string {
	if t.Name != "" {
		return t.Name
	}
	return t.Address.String()
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func hasOffloads(t api.TEPInfo) bool {
	return slices.ContainsFunc(t.Paths, func(p api.PathInfo) bool { return p.Offload != nil })
}
