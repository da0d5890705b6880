package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/selvage/selvage/internal/api"
)

// liveMost bounds a request about live objects, in bytes.
const liveMost = 64 << 20

// LiveObjects are objects that are added while the edge runs.
type LiveObjects interface {
	Live() api.LiveList
	// ChangeLive changes all that is asked for, or nothing.
	ChangeLive(ctx context.Context, q api.LiveQuery, by string) (api.LiveInfo, error)
}

// liveObjects answers about them.
type liveObjects struct{ o LiveObjects }

// collection serves all of them, and changes of several.
func (l liveObjects) collection(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		list := l.o.Live()
		w.Header().Set("ETag", etag(list.Version))
		reply(w, list, nil)
	case http.MethodPost:
		var q api.LiveQuery
		if err := body(w, r, &q); err != nil {
			reply(w, nil, err)
			return
		}
		info, err := l.o.ChangeLive(r.Context(), q, requester(r, q.For))
		reply(w, info, err)
	default:
		notAllowed(w, r, "GET, HEAD, POST")
	}
}

// object serves one of them.
func (l liveObjects) object(w http.ResponseWriter, r *http.Request) {
	o := api.LiveOperation{Kind: r.PathValue("kind"), Key: r.PathValue("key")}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		l.get(w, o)
		return
	case http.MethodPut:
		o.Op = api.LivePut
		if r.Header.Get("If-None-Match") == "*" {
			o.Op = api.LiveAdd
		}
	case http.MethodPatch:
		o.Op = api.LiveSet
	case http.MethodDelete:
		o.Op = api.LiveRemove
	default:
		notAllowed(w, r, "GET, HEAD, PUT, PATCH, DELETE")
		return
	}
	err := l.conditions(r, &o)
	if err == nil && r.Method != http.MethodDelete {
		err = body(w, r, &o.Object)
	}
	if err != nil {
		reply(w, nil, err)
		return
	}
	a := api.Arguments{Values: r.URL.Query()}
	q := api.LiveQuery{Operations: []api.LiveOperation{o}, For: a.Text(api.ArgFor), DryRun: a.Text(api.ArgDryRun) == "true"}
	if durable := a.Text(api.ArgDurable); durable != "" {
		lasting := durable == "true"
		q.Operations[0].Durable = &lasting
	}
	if err := a.End(); err != nil {
		reply(w, nil, err)
		return
	}
	info, err := l.o.ChangeLive(r.Context(), q, requester(r, q.For))
	if err == nil && len(info.Objects) == 1 {
		w.Header().Set("ETag", etag(info.Objects[0].Version))
	}
	reply(w, info, err)
}

func (l liveObjects) get(w http.ResponseWriter, o api.LiveOperation) {
	for _, has := range l.o.Live().Objects {
		if has.Kind == o.Kind && has.Key == o.Key {
			w.Header().Set("ETag", etag(has.Version))
			reply(w, has, nil)
			return
		}
	}
	reply(w, nil, &api.Conflict{Status: http.StatusNotFound, Message: fmt.Sprintf("there is no live %s %q", o.Kind, o.Key)})
}

// conditions are those of RFC 9110 section 13.1: a change of a version, or of what is not there.
func (liveObjects) conditions(r *http.Request, o *api.LiveOperation) error {
	match := r.Header.Get("If-Match")
	if match == "" || match == "*" {
		return nil
	}
	version, err := strconv.ParseUint(strings.Trim(match, `"`), 10, 64)
	if err != nil || version == 0 {
		return api.BadRequest{Err: fmt.Errorf("If-Match: %s is no version: take that of the ETag", match)}
	}
	o.IfVersion = version
	return nil
}

func etag(version uint64) string { return strconv.Quote(strconv.FormatUint(version, 10)) }

// body reads the JSON of a request, which is all of it.
func body(w http.ResponseWriter, r *http.Request, into any) error {
	patiently(w)
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, liveMost)) // all of it, or the server would not tell that the asker is gone
	if err == nil {
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.DisallowUnknownFields()
		if err = d.Decode(into); err == nil && d.More() {
			err = fmt.Errorf("more than one JSON value")
		}
	}
	if err != nil {
		return api.BadRequest{Err: fmt.Errorf("live objects: %w", err)}
	}
	return nil
}

func notAllowed(w http.ResponseWriter, r *http.Request, allowed string) {
	w.Header().Set("Allow", allowed)
	api.Answer(w, http.StatusMethodNotAllowed, api.Refusal{Error: r.Method + " is not allowed here, use " + allowed})
}
