package apiserver

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/revision"
)

// Bounds of a change of the configuration.
const (
	applyMost    = 512 << 20 // bytes of a request
	applyTimeout = 5 * time.Minute
	leastConfirm = time.Second
	mostConfirm  = 24 * time.Hour
)

// Configuration is what is in force.
type Configuration interface {
	// InForce is the configuration that is wanted now, without what BGP told.
	InForce() (overlay.Edge, revision.Revision)
	// History are the revisions that were in force, the newest first.
	History() ([]revision.Revision, error)
	// Info says of a revision whether it is in force, and whether it stays.
	Info(r revision.Revision) api.RevisionInfo
}

// Transactions bring configurations into force, whole or not at all.
type Transactions interface {
	// Apply does so with r, or only says what it would change. With confirm it goes back by itself
	// after that time.
	Apply(ctx context.Context, r revision.Revision, dryRun bool, confirm time.Duration) (api.ApplyInfo, error)
	// Reload does so with the file that the edge was started with, as it is now.
	Reload(ctx context.Context, by string, dryRun bool) (api.ApplyInfo, error)
	// Rollback goes back to a revision; 0 is the one before.
	Rollback(ctx context.Context, id int, by string) (api.ApplyInfo, error)
	// Confirm has the configuration stay that waits for it.
	Confirm(ctx context.Context) (api.RevisionInfo, error)
}

// configurations answers about them, and passes changes on.
type configurations struct{ o Options }

// document is the configuration in force, as it was written.
func (c configurations) document() (api.ConfigInfo, error) {
	edge, r := c.o.Configuration.InForce()
	info := api.ConfigInfo{Revision: c.o.Configuration.Info(r), Files: []api.ConfigFile{}, Live: []api.LiveObject{}}
	if c.o.Live != nil {
		info.Live = c.o.Live.Live().Objects
	}
	hidden := secrets(edge)
	for _, f := range r.Source.Files {
		info.Files = append(info.Files, api.ConfigFile{Path: f.Path, Text: api.WithoutSecrets(string(f.Text), hidden)})
	}
	return info, nil
}

// secrets are the passwords and keys of a configuration.
func secrets(e overlay.Edge) (list []string) {
	if e.BGP != nil {
		for _, n := range e.BGP.Neighbours {
			list = append(list, n.Password)
		}
	}
	if e.Egress != nil {
		for _, g := range e.Egress.Gateways {
			if g.Replication != nil {
				list = append(list, string(g.Replication.Key))
			}
		}
	}
	return list
}

func (c configurations) history() ([]api.RevisionInfo, error) {
	list, err := c.o.Configuration.History()
	if err != nil {
		return nil, err
	}
	infos := make([]api.RevisionInfo, 0, len(list))
	for _, r := range list {
		infos = append(infos, c.o.Configuration.Info(r))
	}
	return infos, nil
}

// requester is who asks, and on whose behalf.
func requester(r *http.Request, behalf string) string {
	id := IdentityOf(r)
	by := id.Name
	if behalf = cmp.Or(event.ActorOf(r.Context()).For, behalf); behalf != "" && behalf != by {
		by += " for " + behalf
	}
	if id.From != fromSocket {
		by += " at " + id.From
	}
	return by
}

func (c configurations) applyHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	patiently(w)
	var q api.ApplyQuery
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, applyMost)) // all of it, or the server would not tell that the asker is gone
	if err == nil {
		err = json.Unmarshal(text, &q)
	}
	if err != nil {
		reply(w, nil, api.BadRequest{Err: fmt.Errorf("apply: %w", err)})
		return
	}
	if q.Confirm != 0 && (q.Confirm < leastConfirm || q.Confirm > mostConfirm) {
		reply(w, nil, api.BadRequest{Err: fmt.Errorf("confirm: %s is not a time from %s to %s", q.Confirm, leastConfirm, mostConfirm)})
		return
	}
	source := config.Source{Path: q.Path}
	for _, f := range q.Files {
		source.Files = append(source.Files, config.File{Path: f.Path, Text: []byte(f.Text)})
	}
	next := revision.Revision{By: requester(r, q.For), What: "apply", Path: q.Path, Source: source}
	info, err := c.o.Transactions.Apply(r.Context(), next, q.DryRun, q.Confirm)
	reply(w, info, err)
}

func (c configurations) reloadHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	patiently(w)
	a := api.Arguments{Values: r.URL.Query()}
	behalf, dryRun := a.Text(api.ArgFor), a.Flag(api.ArgDryRun)
	if err := a.End(); err != nil {
		reply(w, nil, err)
		return
	}
	info, err := c.o.Transactions.Reload(r.Context(), requester(r, behalf), dryRun)
	reply(w, info, err)
}

func (c configurations) rollbackHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	patiently(w)
	a := api.Arguments{Values: r.URL.Query()}
	id, behalf := a.Number(api.ArgRevision, 0, api.MaxLimit), a.Text(api.ArgFor)
	if err := a.End(); err != nil {
		reply(w, nil, err)
		return
	}
	info, err := c.o.Transactions.Rollback(r.Context(), id, requester(r, behalf))
	reply(w, info, err)
}

func (c configurations) confirmHandler(w http.ResponseWriter, r *http.Request) {
	if !isChange(w, r) {
		return
	}
	info, err := c.o.Transactions.Confirm(r.Context())
	reply(w, info, err)
}

// patiently lets a request take longer to come than others do.
func patiently(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(applyTimeout)) // else the usual time must do
}
