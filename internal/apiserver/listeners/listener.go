package listeners

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/overlay"
)

// What one listener gives to strangers.
const (
	mostConnections    = 256
	mostOfOneAddress   = 64
	headerTimeout      = 5 * time.Second // of a TLS handshake too
	readTimeout        = 30 * time.Second
	writeTimeout       = 30 * time.Second
	idleTimeout        = 2 * time.Minute
	maxHeader          = 16 << 10
	maxBody            = 64 << 20
	stopTimeout        = 2 * time.Second
	keepAliveProbes    = 30 * time.Second
	anonymousNetworkOf = "somebody"
)

// listener is an address that is listened at. What it serves may change while it goes on.
type listener struct {
	addr     netip.AddrPort
	socket   net.Listener
	settings atomic.Pointer[settings]
	server   *http.Server
	served   chan struct{} // Serve has returned
	begun    bool
	ending   atomic.Bool
	tally    tally

	mu    sync.Mutex
	conns map[netip.Prefix]int
	open  int
}

// settings are what a listener does. They are replaced, never changed.
type settings struct {
	overlay.HTTPListener
	pair    *pair // nil: in the clear
	failed  error // of the last reading of its files, as the pair stays
	refused [32]byte
	clients clients
}

// tally is what is counted of a listener.
type tally struct {
	mu       sync.Mutex
	requests map[int]uint64 // by status
	failures atomic.Uint64  // of authentication
	refused  atomic.Uint64  // connections
}

func (t *tally) answered(status int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.requests == nil {
		t.requests = make(map[int]uint64)
	}
	t.requests[status]++
}

// open binds an address. It must be called in the network namespace of the edge.
func open(addr netip.AddrPort) (*listener, error) {
	config := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveProbes, Interval: keepAliveProbes}}
	network := "tcp4"
	if addr.Addr().Is6() {
		network = "tcp6"
	}
	socket, err := config.Listen(context.Background(), network, addr.String())
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use: choose another port, or stop what listens there (ss -ltnp shows it)", addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%s: this host has no such address: give it to an interface, or listen at another", addr)
	case err != nil:
		return nil, fmt.Errorf("listen at %s: %w", addr, err)
	}
	return &listener{addr: addr, socket: socket, served: make(chan struct{}), conns: make(map[netip.Prefix]int)}, nil
}

// begin serves h. There are settings.
func (l *listener) begin(h http.Handler, log *slog.Logger) {
	l.begun = true
	l.server = &http.Server{
		Handler: api.Patiently(h, writeTimeout), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), // strangers may cause as many lines as they like
	}
	go func() {
		defer close(l.served)
		if err := l.server.Serve(l); !errors.Is(err, http.ErrServerClosed) && !l.ending.Load() {
			log.Error("a listener ended", "listener", l.settings.Load().Name, "err", err)
		}
	}()
}

// Accept implements net.Listener. Who takes too many connections loses those beyond.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.socket.Accept()
		if err != nil {
			return nil, err
		}
		network := networkOf(addrOf(conn.RemoteAddr().String()))
		if !l.take(network) {
			l.tally.refused.Add(1)
			conn.Close()
			continue
		}
		counted := &countedConn{Conn: conn, left: func() { l.leave(network) }}
		if p := l.settings.Load().pair; p != nil {
			return tls.Server(counted, l.tls()), nil
		}
		return counted, nil
	}
}

// tls has each connection begin with the pair of that moment.
func (l *listener) tls() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if p := l.settings.Load().pair; p != nil {
			return p.tls, nil
		}
		return nil, errors.New("the listener speaks TLS no more")
	}}
}

func (l *listener) take(network netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= mostConnections || l.conns[network] >= mostOfOneAddress {
		return false
	}
	l.open++
	l.conns[network]++
	return true
}

func (l *listener) leave(network netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.conns[network]--; l.conns[network] <= 0 {
		delete(l.conns, network)
	}
}

func (l *listener) connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// Close implements net.Listener.
func (l *listener) Close() error {
	if l.ending.Load() {
		return nil // it is
	}
	return l.socket.Close()
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.socket.Addr() }

// stopListening has the address be free at once.
func (l *listener) stopListening() {
	l.ending.Store(true)
	l.socket.Close()
}

// end lets running answers end, and waits.
func (l *listener) end() error {
	if !l.begun {
		return l.socket.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := l.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = l.server.Close()
	}
	<-l.served
	return err
}

// countedConn is one that is counted until it is closed.
type countedConn struct {
	net.Conn
	once sync.Once
	left func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.once.Do(c.left)
	return c.Conn.Close()
}

// addrOf is the address of one with a port.
func addrOf(text string) netip.Addr {
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}
