package apiserver

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/event"
)

// logDocuments are of how the edge logs.
type logDocuments struct{ o Options }

func (d logDocuments) info() (info api.LogInfo, err error) {
	if d.o.Levels == nil {
		return info, api.BadRequest{Err: errors.New("this edge writes to the log of another program, which has the levels")}
	}
	info = api.LogInfo{Format: d.o.Levels.Format(), Lost: d.o.Levels.Lost(), Levels: []api.LogLevelInfo{}}
	for _, l := range d.o.Levels.List() {
		info.Levels = append(info.Levels, api.LogLevelInfo(l))
	}
	return info, nil
}

// levelHandler serves the wish for another level.
func (d logDocuments) levelHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	a := api.Arguments{Values: r.URL.Query()}
	subsystem, level := a.Text(api.ArgSubsystem), a.Text(api.ArgLevel)
	if err := a.End(); err != nil {
		reply(w, nil, err)
		return
	}
	if _, err := d.info(); err != nil {
		reply(w, nil, err)
		return
	}
	if err := d.o.Levels.Set(subsystem, level); err != nil {
		reply(w, nil, api.BadRequest{Err: err})
		return
	}
	d.o.Log.InfoContext(r.Context(), "log level changed until the edge restarts", event.Is(event.LogLevel), "log", cmp.Or(subsystem, "all"), "level", level)
	document, err := d.info()
	reply(w, document, err)
}
