package edge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/api"
)

const (
	readTimeout = 5 * time.Second
	// writeTimeout is how long a client may leave a piece of an answer; all of it may take longer.
	writeTimeout = 30 * time.Second
	idleTimeout  = time.Minute
	// stopTimeout is how long running answers may take when the edge ends.
	stopTimeout = 2 * time.Second
)

// listen makes the socket, for root only from its first moment on, or for a group too: see
// readers. Who holds the edge's lock may replace a former process's.
func listen(path, group string) (net.Listener, error) {
	gid, mode := -1, uint32(0o600)
	if group != "" {
		g, err := user.LookupGroup(group)
		if err != nil {
			return nil, fmt.Errorf("group of the API socket: %w", err)
		}
		if gid, err = strconv.Atoi(g.Gid); err != nil {
			return nil, fmt.Errorf("group %s of the API socket: %w", group, err)
		}
		mode = 0o660
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove stale socket: %w", err)
	}
	// A socket's file gets the mode of the socket itself: set before it is bound.
	private := func(_, _ string, c syscall.RawConn) error {
		var chmod error
		err := c.Control(func(fd uintptr) { chmod = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, chmod)
	}
	config := net.ListenConfig{Control: private}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("API socket: %w", err)
	}
	if gid < 0 {
		return l, nil
	}
	if err := errors.Join(os.Chown(path, -1, gid), os.Chmod(path, os.FileMode(mode))); err != nil {
		return nil, errors.Join(fmt.Errorf("API socket for group %s: %w", group, err), l.Close())
	}
	return l, nil
}

// gate answers for an edge that has not started yet, and after that hands requests on.
type gate struct {
	name  string
	ready atomic.Pointer[http.Handler]
}

func (g *gate) open(h http.Handler) { g.ready.Store(&h) }

// ServeHTTP implements http.Handler.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := g.ready.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	w.Header().Set("Retry-After", "1")
	answer(w, http.StatusServiceUnavailable, api.Refusal{Error: fmt.Sprintf("edge %s is starting: ask again in a moment", g.name)})
}

// readers lets those who are not root read alone: with a group on the socket they may come.
func readers(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		uid, known := r.Context().Value(peerKey{}).(uint32)
		if known && uid != 0 && r.Method != http.MethodGet && r.Method != http.MethodHead {
			answer(w, http.StatusForbidden, api.Refusal{Error: "only root may change the edge: try sudo"})
			return
		}
		h.ServeHTTP(w, r)
	})
}

// server serves until stop, which waits for it.
type server struct {
	http   *http.Server
	failed chan error // one error when it cannot serve any more
	done   chan struct{}
}

func serve(l net.Listener, h http.Handler, log *slog.Logger) *server {
	s := &server{
		http: &http.Server{
			Handler: api.Patiently(h, writeTimeout), ReadTimeout: readTimeout, IdleTimeout: idleTimeout, ConnContext: withPeer,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		},
		failed: make(chan error, 1),
		done:   make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}()
	return s
}

// stop lets running answers end, removes the socket and waits.
func (s *server) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	<-s.done
	return err
}

func (e *edge) handler() http.Handler {
	mux := http.NewServeMux()
	get(mux, "/v1/status", e.statusDocument)
	get(mux, "/v1/config", e.configDocument)
	get(mux, "/v1/config/history", e.historyDocument)
	mux.HandleFunc("/v1/config/apply", e.applyHandler)
	mux.HandleFunc("/v1/config/confirm", e.confirmHandler)
	mux.HandleFunc("/v1/config/rollback", e.rollbackHandler)
	get(mux, "/v1/ports", e.portDocuments)
	get(mux, "/v1/interfaces", e.interfaceDocuments)
	get(mux, "/v1/teps", e.tepDocuments)
	mux.HandleFunc("/v1/teps/probe", e.probeHandler)
	list(mux, "/v1/fdb", e.fdbDocuments)
	list(mux, "/v1/neighbours", e.neighbourDocuments)
	ask(mux, "/v1/routes", e.routeDocuments)
	list(mux, "/v1/flows", e.flowDocuments)
	get(mux, "/v1/flow-cache", e.flowCacheDocument)
	get(mux, "/v1/drops", e.dropDocuments)
	ask(mux, "/v1/drops/owners", e.ownerDropDocuments)
	get(mux, "/v1/limits", e.limitDocuments)
	ask(mux, "/v1/trace", e.traceDocument)
	get(mux, "/v1/rules", e.ruleDocuments)
	get(mux, "/v1/firewall", e.firewallDocument)
	ask(mux, "/v1/sessions", e.sessionDocument)
	mux.HandleFunc("/v1/what-if", e.whatIfHandler)
	get(mux, "/v1/egress", e.egressDocument)
	mux.HandleFunc("/v1/egress/drain", e.drainHandler)
	mux.HandleFunc("/v1/egress/undrain", e.undrainHandler)
	get(mux, "/v1/nat", e.natDocument)
	ask(mux, "/v1/nat/sessions", e.natSessionDocument)
	ask(mux, "/v1/nat/port-usage", e.portUsageDocument)
	get(mux, "/v1/bgp", e.bgpDocument)
	ask(mux, "/v1/bgp/routes", e.bgpRouteDocuments)
	get(mux, "/v1/bgp/moves", e.bgpMovesDocument)
	mux.HandleFunc("/v1/bgp/thaw", e.thawHandler)
	mux.HandleFunc("/v1/bgp/reset", e.resetHandler)
	mux.HandleFunc("/v1/prove", e.proveHandler())
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		if !isRead(w, r) {
			return
		}
		text, err := e.metricsText()
		if err != nil {
			answer(w, http.StatusInternalServerError, api.Refusal{Error: err.Error()})
			return
		}
		w.Header().Set("Content-Type", metricsType)
		_, _ = w.Write(text) // as in answer
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answer(w, http.StatusNotFound, api.Refusal{Error: fmt.Sprintf("no document %s", r.URL.Path)})
	})
	return mux
}

// get serves the document that read makes at path. read must not keep the
// edge locked: writing waits for the client.
func get[T any](mux *http.ServeMux, path string, read func() (T, error)) {
	ask(mux, path, func(url.Values) (T, error) { return read() })
}

// ask is get of a document that depends on the query.
func ask[T any](mux *http.ServeMux, path string, read func(url.Values) (T, error)) {
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		if !isRead(w, r) {
			return
		}
		document, err := read(r.URL.Query())
		reply(w, document, err)
	})
}

// list is ask of entries. How many matched stands in a header, so that the document is a
// plain array.
func list[T any](mux *http.ServeMux, path string, read func(url.Values) (api.Entries[T], error)) {
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		if !isRead(w, r) {
			return
		}
		entries, err := read(r.URL.Query())
		w.Header().Set(api.MatchedHeader, strconv.Itoa(entries.Matched))
		reply(w, entries.List, err)
	})
}

// reply answers with the document, or says why there is none.
func reply(w http.ResponseWriter, document any, err error) {
	var wrong api.BadRequest
	switch {
	case errors.As(err, &wrong):
		answer(w, http.StatusBadRequest, api.Refusal{Error: wrong.Error()})
	case err != nil:
		answer(w, http.StatusInternalServerError, api.Refusal{Error: err.Error()})
	default:
		answer(w, http.StatusOK, document)
	}
}

// isRead refuses a request that is not to read.
func isRead(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	answer(w, http.StatusMethodNotAllowed, api.Refusal{Error: r.Method + " is not allowed, the API is read-only"})
	return false
}

func answer(w http.ResponseWriter, code int, document any) { api.Answer(w, code, document) }
