package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/event"
)

const (
	readTimeout = 5 * time.Second
	// writeTimeout is how long a client may leave a piece of an answer; all of it may take longer.
	writeTimeout = 30 * time.Second
	idleTimeout  = time.Minute
	// stopTimeout is how long running answers may take when the edge ends.
	stopTimeout = 2 * time.Second
)

// Listen makes the socket, for root only from its first moment on, or for a group too: see
// readers. Who holds the edge's lock may replace a former process's.
func Listen(path, group string) (net.Listener, error) {
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

// Gate answers for an edge that has not started yet, and after that hands requests on.
type Gate struct {
	name  string
	ready atomic.Pointer[http.Handler]
}

// NewGate is that of an edge, closed.
func NewGate(name string) *Gate { return &Gate{name: name} }

// Open hands requests on from now on.
func (g *Gate) Open(h http.Handler) { g.ready.Store(&h) }

// ServeHTTP implements http.Handler.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := g.ready.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	switch r.URL.Path {
	case "/healthz":
		answerHealth(w, r, []api.HealthCheck{{Name: "loop", OK: true, Message: "the edge is starting"}})
		return
	case "/readyz":
		answerHealth(w, r, []api.HealthCheck{{Name: "datapath", Message: "the edge is starting"}})
		return
	}
	w.Header().Set("Retry-After", "1")
	api.Answer(w, http.StatusServiceUnavailable, api.Refusal{Error: fmt.Sprintf("edge %s is starting: ask again in a moment", g.name)})
}

// Server serves until Stop, which waits for it.
type Server struct {
	http   *http.Server
	failed chan error // one error when it cannot serve any more
	done   chan struct{}
}

// Serve answers those who may read or change the edge.
func Serve(l net.Listener, h http.Handler, log *slog.Logger) *Server {
	s := &Server{
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

// Failed has one error when the server cannot serve any more.
func (s *Server) Failed() <-chan error { return s.failed }

// Stop lets running answers end, removes the socket and waits.
func (s *Server) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	<-s.done
	return err
}

// peerKey is the key of who asks, in the context of a request.
type peerKey struct{}

// withPeer notes who is at the other end of a connection.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return ctx
	}
	var peer *unix.Ucred
	if err := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil || peer == nil {
		return ctx
	}
	uid := int(peer.Uid)
	ctx = event.WithActor(ctx, event.Actor{How: event.BySocket, UID: &uid, PID: int(peer.Pid)})
	return context.WithValue(ctx, peerKey{}, peer.Uid)
}
