package apiserver

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/event"
)

// Changes, packets of others and the inside of the process are for those who may change the edge; they may ask the rest.
func TestAccess(t *testing.T) {
	var audited []Audit
	h := New(Options{Live: noLive{}, Edge: &lostEdge{}, BGP: func() *BGP { return nil }, Audit: func(_ context.Context, a Audit) { audited = append(audited, a) }})
	socket := func(uid uint32) func(*http.Request) *http.Request {
		return func(r *http.Request) *http.Request {
			return r.WithContext(context.WithValue(r.Context(), peerKey{}, uid))
		}
	}
	client := func(r *http.Request) *http.Request {
		return WithIdentity(r, Identity{Name: "c", MayChange: true, From: "192.0.2.9"})
	}
	for _, c := range []struct {
		name         string
		as           func(*http.Request) *http.Request
		method, path string
		want         int
		audits       bool
	}{
		{"root", socket(0), "POST", "/v1/bgp/reset", 400, true},
		{"root", socket(0), "POST", "/v1/config/apply", 400, true},
		{"root", socket(0), "GET", "/v1/nothing", 404, false},
		{"group", socket(1000), "GET", "/v1/fdb?mac=02", 400, false},
		{"group", socket(1000), "GET", "/v1/live", 200, false},
		{"group", socket(1000), "POST", "/v1/live", 403, true},
		{"group", socket(1000), "DELETE", "/v1/live/port/p0", 403, true},
		{"group", socket(1000), "POST", "/v1/egress/drain", 403, true},
		{"group", socket(1000), "POST", "/v1/prove", 403, true},
		{"group", socket(1000), "POST", "/v1/config/apply", 403, true},
		{"group", socket(1000), "DELETE", "/v1/status", 403, true},
		{"group", socket(1000), "POST", "/v1/monitor", 403, true}, // packets are other people's
		{"group", socket(1000), "GET", "/v1/monitor", 403, false},
		{"group", socket(1000), "GET", "/v1/debug/memory", 403, false},
		{"group", socket(1000), "GET", "/v1/debug/goroutines", 403, false},
		{"group", socket(1000), "GET", "/v1/what-if", 403, false},
		{"group", socket(1000), "GET", "/v1/prove", 403, false},
		{"group", socket(1000), "GET", "/v1/egress/drain", 403, false},
		{"group", socket(1000), "GET", "/v1/config/apply", 403, false},
		{"client", client, "POST", "/v1/monitor", 400, true},
		{"client", client, "POST", "/v1/config/apply", 400, true},
	} {
		audited = nil
		w := httptest.NewRecorder()
		h.ServeHTTP(w, c.as(httptest.NewRequest(c.method, c.path, nil)))
		if w.Code != c.want || len(audited) > 0 != c.audits {
			t.Errorf("%s %s by %s: %d %s, audit %+v", c.method, c.path, c.name, w.Code, w.Body, audited)
		}
		if c.audits && (audited[0].Status != c.want || audited[0].Path != c.path) {
			t.Errorf("%s %s by %s: audit %+v", c.method, c.path, c.name, audited[0])
		}
	}
}

func TestAuditOutcome(t *testing.T) {
	for status, want := range map[int]string{0: "unanswered", 200: "done", 400: "refused", 403: "denied", 429: "refused", 500: "failed"} {
		if got := (Audit{Status: status}).Outcome(); got != want {
			t.Errorf("%d is %q, want %q", status, got, want)
		}
	}
}

// noLive has no live objects.
type noLive struct{}

func (noLive) Live() api.LiveList { return api.LiveList{} }

func (noLive) ChangeLive(context.Context, api.LiveQuery, string) (api.LiveInfo, error) {
	return api.LiveInfo{}, nil
}

// Who asks for a change is who events name; one that is denied is an event, by whoever asked.
func TestActors(t *testing.T) {
	log := event.New()
	logger := slog.New(event.NewHandler(slog.DiscardHandler, log))
	served := &routes{mux: http.NewServeMux(), audit: AuditTo(logger)}
	served.HandleFunc("/v1/egress/drain", func(_ http.ResponseWriter, r *http.Request) {
		logger.InfoContext(r.Context(), "drain", event.Is(event.DrainStarted))
	})
	ask := func(as func(*http.Request) *http.Request) {
		r := httptest.NewRequest(http.MethodPost, "/v1/egress/drain", nil)
		r.Header.Set(api.ForHeader, "ann")
		served.mux.ServeHTTP(httptest.NewRecorder(), as(r))
	}
	peer := func(uid int) func(*http.Request) *http.Request {
		return func(r *http.Request) *http.Request {
			ctx := event.WithActor(r.Context(), event.Actor{How: event.BySocket, UID: &uid, PID: 77})
			return r.WithContext(context.WithValue(ctx, peerKey{}, uint32(uid)))
		}
	}
	ask(peer(0))
	ask(peer(4000000))
	ask(func(r *http.Request) *http.Request {
		return WithIdentity(r, Identity{Name: "deploy", From: "192.0.2.9"})
	})
	var got []string
	for _, e := range log.Read(event.Filter{}, 0).Events {
		got = append(got, string(e.Kind)+" by "+e.By.String())
	}
	want := []string{"drain-started by root for ann (PID 77)", "request-refused by uid 4000000 for ann (PID 77)", "request-refused by deploy for ann (192.0.2.9)"}
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}
