package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/gateway"
	"github.com/selvage/selvage/internal/logging"
)

// Options are whom the server asks.
type Options struct {
	Edge          Edge
	Configuration Configuration
	Transactions  Transactions
	Live          LiveObjects // nil without
	Drainer       Drainer
	Prover        Prover
	BGP           func() *BGP // nil without
	Log           *slog.Logger
	Events        *event.Log
	Levels        *logging.Levels // of the log; nil: they cannot be changed
	Metrics       http.Handler
	Health        Health
	Audit         func(context.Context, Audit) // of each request to change something; nil: nobody writes it down
}

// Drainer gives the work of this edge as a gateway away, or with nil takes it back.
type Drainer interface {
	SetDrain(ctx context.Context, d *gateway.Drain)
}

// Prover sends probes through the overlay.
type Prover interface {
	Prove(ctx context.Context, q api.ProveQuery) (api.ProveInfo, error)
}

// documents answers what is asked.
type documents struct{ o Options }

// New serves the API of an edge.
func New(o Options) http.Handler { return routesOf(o).mux }

func routesOf(o Options) *routes {
	d, c, mux := documents{o}, configurations{o}, &routes{mux: http.NewServeMux(), audit: o.Audit}
	get(mux, "/v1/status", d.status)
	get(mux, "/v1/config", c.document)
	get(mux, "/v1/config/history", c.history)
	mux.HandleFunc("/v1/config/apply", c.applyHandler)
	mux.HandleFunc("/v1/config/confirm", c.confirmHandler)
	mux.HandleFunc("/v1/config/reload", c.reloadHandler)
	mux.HandleFunc("/v1/config/rollback", c.rollbackHandler)
	if o.Live != nil {
		l := liveObjects{o.Live}
		mux.read("/v1/live", l.collection)
		mux.read("/v1/live/{kind}/{key...}", l.object)
	}
	get(mux, "/v1/ports", d.ports)
	get(mux, "/v1/interfaces", d.interfaces)
	get(mux, "/v1/teps", d.teps)
	list(mux, "/v1/fdb", d.fdb)
	list(mux, "/v1/neighbours", d.neighbours)
	ask(mux, "/v1/routes", d.routes)
	listFor(mux, "/v1/flows", d.flowsInTurn())
	get(mux, "/v1/flow-cache", d.flowCache)
	get(mux, "/v1/drops", d.drops)
	ask(mux, "/v1/drops/owners", d.ownerDrops)
	get(mux, "/v1/limits", d.limits)
	ask(mux, "/v1/trace", d.trace)
	get(mux, "/v1/rules", d.rules)
	get(mux, "/v1/firewall", d.firewall)
	ask(mux, "/v1/sessions", d.sessions)
	mux.HandleFunc("/v1/what-if", d.whatIfHandler)
	get(mux, "/v1/egress", d.egress)
	mux.HandleFunc("/v1/egress/drain", d.drainHandler)
	mux.HandleFunc("/v1/egress/undrain", d.undrainHandler)
	get(mux, "/v1/nat", d.nat)
	ask(mux, "/v1/nat/sessions", d.natSessions)
	ask(mux, "/v1/nat/port-usage", d.portUsage)
	b := bgpDocuments{o.BGP, o.Log}
	get(mux, "/v1/bgp", b.info)
	ask(mux, "/v1/bgp/routes", b.routes)
	get(mux, "/v1/bgp/moves", b.moves)
	mux.HandleFunc("/v1/bgp/thaw", b.thawHandler)
	mux.HandleFunc("/v1/bgp/reset", b.resetHandler)
	mux.HandleFunc("/v1/monitor", monitorHandler(o.Edge))
	mux.HandleFunc("/v1/prove", proveHandler(o.Prover))
	logs := logDocuments{o}
	get(mux, "/v1/log", logs.info)
	mux.HandleFunc("/v1/log/level", logs.levelHandler)
	mux.HandleFunc("/v1/debug/goroutines", goroutinesHandler)
	mux.HandleFunc("/v1/debug/memory", memoryHandler)
	ev := &events{log: o.Events}
	mux.read("/v1/events", ev.handler)
	serveProbes(mux, o)
	return mux
}

// serveProbes serves what monitoring asks, and answers who asks for what there is not.
func serveProbes(mux *routes, o Options) {
	mux.read("/metrics", func(w http.ResponseWriter, r *http.Request) {
		if isRead(w, r) {
			o.Metrics.ServeHTTP(w, r)
		}
	})
	mux.read("/healthz", healthHandler(o.Health))
	mux.read("/readyz", readyHandler(o.Health))
	mux.read("/", func(w http.ResponseWriter, r *http.Request) {
		api.Answer(w, http.StatusNotFound, api.Refusal{Error: fmt.Sprintf("no document %s", r.URL.Path)})
	})
}

// get serves the document that read makes at path. read must not keep the
// edge locked: writing waits for the client.
func get[T any](mux *routes, path string, read func() (T, error)) {
	ask(mux, path, func(url.Values) (T, error) { return read() })
}

// ask is get of a document that depends on the query.
func ask[T any](mux *routes, path string, read func(url.Values) (T, error)) {
	mux.read(path, func(w http.ResponseWriter, r *http.Request) {
		if !isRead(w, r) {
			return
		}
		document, err := read(r.URL.Query())
		reply(w, document, err)
	})
}

// list is ask of entries. How many matched stands in a header, so that the document is a
// plain array.
func list[T any](mux *routes, path string, read func(url.Values) (api.Entries[T], error)) {
	listFor(mux, path, func(_ context.Context, v url.Values) (api.Entries[T], error) { return read(v) })
}

// listFor is list of what takes a while, and ends with the request.
func listFor[T any](mux *routes, path string, read func(context.Context, url.Values) (api.Entries[T], error)) {
	mux.read(path, func(w http.ResponseWriter, r *http.Request) {
		if !isRead(w, r) {
			return
		}
		entries, err := read(r.Context(), r.URL.Query())
		w.Header().Set(api.MatchedHeader, strconv.Itoa(entries.Matched))
		reply(w, entries.List, err)
	})
}

// reply answers with the document, or says why there is none.
func reply(w http.ResponseWriter, document any, err error) {
	var wrong api.BadRequest
	var conflict *api.Conflict
	switch {
	case errors.As(err, &conflict):
		api.Answer(w, conflict.Status, conflict)
	case errors.As(err, &wrong):
		api.Answer(w, http.StatusBadRequest, api.Refusal{Error: wrong.Error()})
	case err != nil:
		api.Answer(w, http.StatusInternalServerError, api.Refusal{Error: err.Error()})
	default:
		api.Answer(w, http.StatusOK, document)
	}
}

// isRead refuses a request that is not to read.
func isRead(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	api.Answer(w, http.StatusMethodNotAllowed, api.Refusal{Error: r.Method + " is not allowed, the API is read-only"})
	return false
}
