package apiserver

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/selvage/selvage/internal/api"
)

// liveStub remembers what it was asked for.
type liveStub struct {
	asked []api.LiveQuery
	err   error
}

func (*liveStub) Live() api.LiveList {
	return api.LiveList{Version: 9, Objects: []api.LiveObject{
		{Kind: "port", Key: "p1", Version: 4, Object: json.RawMessage(`{"name":"p1"}`)}, {Kind: "neighbour", Key: "blue/10.0.0.5", Version: 5, Object: json.RawMessage(`{}`)},
	}}
}

func (l *liveStub) ChangeLive(_ context.Context, q api.LiveQuery, _ string) (api.LiveInfo, error) {
	l.asked = append(l.asked, q)
	return api.LiveInfo{Applied: true, Objects: []api.LiveObject{{Kind: "port", Key: "p1", Version: 10, Object: json.RawMessage(`{}`)}}}, l.err
}

// Methods, paths and conditions of HTTP are operations on live objects, and their conflicts are its statuses.
func TestLiveOverHTTP(t *testing.T) {
	for name, c := range map[string]struct {
		method, path, body string
		header             string
		err                error
		status             int
		etag               string
		want               string // the operation
	}{
		"all":              {method: "GET", path: "/v1/live", status: 200, etag: `"9"`},
		"one":              {method: "GET", path: "/v1/live/port/p1", status: 200, etag: `"4"`},
		"one with a /":     {method: "GET", path: "/v1/live/neighbour/blue/10.0.0.5", status: 200, etag: `"5"`},
		"none":             {method: "GET", path: "/v1/live/port/p2", status: 404},
		"put":              {method: "PUT", path: "/v1/live/port/p1?durable=true", body: `{"name":"p1"}`, status: 200, etag: `"10"`, want: `{"op":"put","kind":"port","key":"p1","object":{"name":"p1"},"durable":true}`},
		"put what is new":  {method: "PUT", path: "/v1/live/port/p1", body: `{}`, header: "If-None-Match: *", status: 200, etag: `"10"`, want: `{"op":"add","kind":"port","key":"p1","object":{}}`},
		"patch":            {method: "PATCH", path: "/v1/live/port/p1", body: `{"segment":"red"}`, header: `If-Match: "4"`, status: 200, etag: `"10"`, want: `{"op":"set","kind":"port","key":"p1","object":{"segment":"red"},"if_version":4}`},
		"delete":           {method: "DELETE", path: "/v1/live/fdb/blue/02:00:00:00:00:01", status: 200, etag: `"10"`, want: `{"op":"remove","kind":"fdb","key":"blue/02:00:00:00:00:01"}`},
		"several":          {method: "POST", path: "/v1/live", body: `{"operations":[{"op":"remove","kind":"port","key":"p1"}]}`, status: 200, want: `{"op":"remove","kind":"port","key":"p1"}`},
		"no version":       {method: "PATCH", path: "/v1/live/port/p1", body: `{}`, header: `If-Match: "x"`, status: 400},
		"no JSON":          {method: "POST", path: "/v1/live", body: `{`, status: 400},
		"unknown field":    {method: "POST", path: "/v1/live", body: `{"operation":[]}`, status: 400},
		"two values":       {method: "PUT", path: "/v1/live/port/p1", body: `{} {}`, status: 400},
		"unknown argument": {method: "DELETE", path: "/v1/live/port/p1?force=1", status: 400},
		"no method":        {method: "POST", path: "/v1/live/port/p1", status: 405},
		"conflict":         {method: "POST", path: "/v1/live", body: `{"operations":[]}`, err: &api.Conflict{Status: 412, Message: "other", Current: &api.LiveObject{Key: "p1", Object: json.RawMessage(`{}`)}}, status: 412, want: ""},
	} {
		stub := &liveStub{err: c.err}
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body))
		if name, value, ok := strings.Cut(c.header, ": "); ok {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		New(Options{Live: stub}).ServeHTTP(w, r)
		if w.Code != c.status || w.Header().Get("ETag") != c.etag {
			t.Errorf("%s: %d, ETag %s: %s", name, w.Code, w.Header().Get("ETag"), w.Body)
		}
		if c.want != "" {
			got, err := json.Marshal(stub.asked[0].Operations[0])
			if err != nil || string(got) != c.want {
				t.Errorf("%s: asked for %s, want %s, %v", name, got, c.want, err)
			}
		}
		if c.status == http.StatusPreconditionFailed && !strings.Contains(w.Body.String(), `"current":{"kind":"","key":"p1"`) {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
}
