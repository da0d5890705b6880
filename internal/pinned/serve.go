package pinned

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/apiserver"
)

// Client asks the edge as if it ran: what answers is this process.
func (e *Edge) Client() *api.Client { return api.DialBy(e.name, e.server.dial) }

// handler serves the documents that pins have.
func (e *Edge) handler() http.Handler {
	mux := http.NewServeMux()
	get(mux, "status", func(url.Values) (api.Status, error) { return e.status() })
	get(mux, "ports", func(url.Values) ([]api.PortInfo, error) { return e.ports() })
	get(mux, "interfaces", func(url.Values) ([]api.InterfaceInfo, error) { return e.interfaces() })
	get(mux, "teps", func(url.Values) ([]api.TEPInfo, error) { return e.teps() })
	get(mux, "routes", e.routes)
	get(mux, "flow-cache", func(url.Values) (api.FlowCacheInfo, error) { return e.flowCache() })
	get(mux, "drops", func(url.Values) ([]api.DropInfo, error) { return e.drops() })
	get(mux, "drops/owners", func(v url.Values) ([]api.OwnerDropInfo, error) {
		kind, err := apiserver.OwnerKindOf(v)
		if err != nil {
			return nil, err
		}
		drops, err := e.reader.OwnerDrops(kind)
		return apiserver.OwnerDropInfos(drops), err
	})
	get(mux, "limits", func(url.Values) ([]api.LimitInfo, error) { return e.limits() })
	entries(mux, "fdb", e.reader.FDB, apiserver.FDBEntries, api.ArgOrigin)
	entries(mux, "neighbours", e.reader.Neighbours, apiserver.NeighbourEntries, api.ArgAddr, api.ArgOrigin)
	entries(mux, "flows", e.reader.Flows, apiserver.FlowEntries, api.ArgAddr, api.ArgSlow)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		api.Answer(w, http.StatusServiceUnavailable, api.Refusal{Error: "it does not run, and its pins do not answer this: " +
			api.RestartOrRemove(cmp.Or(e.configPath, "FILE"), e.name)})
	})
	return mux
}

// get serves the document that read makes.
func get[T any](mux *http.ServeMux, what string, read func(url.Values) (T, error)) {
	mux.HandleFunc("GET /v1/"+what, func(w http.ResponseWriter, r *http.Request) {
		document, err := read(r.URL.Query())
		if err != nil {
			api.Answer(w, statusOf(err), api.Refusal{Error: err.Error()})
			return
		}
		api.Answer(w, http.StatusOK, document)
	})
}

// entries serves those of a table that a query chooses.
func entries[E, T any](mux *http.ServeMux, what string, read func() ([]E, error), choose func([]E, api.EntryQuery) api.Entries[T], args ...string) {
	mux.HandleFunc("GET /v1/"+what, func(w http.ResponseWriter, r *http.Request) {
		q, err := api.EntryQueryOf(r.URL.Query(), args...)
		if err != nil {
			api.Answer(w, statusOf(err), api.Refusal{Error: err.Error()})
			return
		}
		all, err := read()
		if err != nil {
			api.Answer(w, statusOf(err), api.Refusal{Error: err.Error()})
			return
		}
		chosen := choose(all, q)
		w.Header().Set(api.MatchedHeader, strconv.Itoa(chosen.Matched))
		api.Answer(w, http.StatusOK, chosen.List)
	})
}

func statusOf(err error) int {
	var wrong api.BadRequest
	if errors.As(err, &wrong) {
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// server serves connections of its own process, until close.
type server struct {
	http  *http.Server
	conns chan net.Conn
	ended chan struct{}
	end   sync.Once
	done  chan struct{} // Serve has returned
}

func serve(h http.Handler) *server {
	s := &server{http: &http.Server{Handler: h}, conns: make(chan net.Conn), ended: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(s)
	}()
	return s
}

func (s *server) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case s.conns <- there:
		return here, nil
	case <-s.ended:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (s *server) Accept() (net.Conn, error) {
	select {
	case conn := <-s.conns:
		return conn, nil
	case <-s.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *server) Close() error {
	s.end.Do(func() { close(s.ended) })
	return nil
}

// Addr implements net.Listener.
func (s *server) Addr() net.Addr { return &net.UnixAddr{Net: "pipe"} }

func (s *server) close() error {
	err := errors.Join(s.Close(), s.http.Close())
	<-s.done
	return err
}
