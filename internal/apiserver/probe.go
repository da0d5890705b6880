package apiserver

import (
	"cmp"
	"net/http"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/event"
)

// probeHandler serves the wish for probes. They go on after the answer, with what is known
// until then: who asked looks for Pending.
func (d documents) probeHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	if err := d.o.Offloads.Ask(r.URL.Query().Get(api.ArgRemote)); err != nil {
		reply(w, nil, api.BadRequest{Err: err})
		return
	}
	d.o.Log.InfoContext(r.Context(), "offload probe asked for", event.Is(event.OffloadProbe), "remote", cmp.Or(r.URL.Query().Get(api.ArgRemote), "all"))
	document, err := d.teps()
	reply(w, document, err)
}
