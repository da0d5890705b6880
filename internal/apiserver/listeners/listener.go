package listeners

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/apiserver"
	"github.com/selvage/selvage/internal/overlay"
)

// What a client may take.
const (
	mostConnections  = 256
	mostOfOneAddress = 64              // of IPv6: of a /64
	headerTimeout    = 5 * time.Second // of a TLS handshake too
	readTimeout      = 30 * time.Second
	writeTimeout     = 30 * time.Second
	idleTimeout      = 2 * time.Minute
	maxHeader        = 16 << 10
	maxBody          = 64 << 20
	stopTimeout      = 2 * time.Second
	keepAliveProbes  = 30 * time.Second
)

// handler serves the API to clients with a certificate, and otherwise metrics and health alone.
func (s *Set) handler(name string) http.Handler {
	if name == "api" {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			id := apiserver.Identity{Name: nameOf(r.TLS.PeerCertificates[0]), From: addrOf(r.RemoteAddr).String(), MayChange: true}
			s.behind.ServeHTTP(w, apiserver.WithIdentity(r, id))
		})
	}
	mux := http.NewServeMux()
	for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			s.behind.ServeHTTP(w, apiserver.WithIdentity(r, apiserver.Identity{Name: "anonymous", From: addrOf(r.RemoteAddr).String()}))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		api.Answer(w, http.StatusNotFound, api.Refusal{Error: "this listener serves /metrics, /healthz and /readyz; spec.http.api serves the API"})
	})
	return mux
}

// nameOf is the first name in a certificate.
func nameOf(cert *x509.Certificate) string {
	switch {
	case cert.Subject.CommonName != "":
		return cert.Subject.CommonName
	case len(cert.DNSNames) > 0:
		return cert.DNSNames[0]
	case len(cert.URIs) > 0:
		return cert.URIs[0].String()
	}
	return "serial " + cert.SerialNumber.String()
}

// pair is a certificate with its key, and the authorities of clients.
type pair struct {
	leaf  *x509.Certificate
	roots *x509.CertPool
	tls   *tls.Config
}

func (p *pair) equal(other *pair) bool { return p.leaf.Equal(other.leaf) && p.roots.Equal(other.roots) }

func loadPair(files overlay.HTTPAPI, now time.Time) (*pair, error) {
	cert, err := tls.LoadX509KeyPair(files.Certificate, files.Key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", files.Certificate, files.Key, err)
	}
	if now.After(cert.Leaf.NotAfter) {
		return nil, fmt.Errorf("%s: the certificate ended at %s: get another one", files.Certificate, cert.Leaf.NotAfter.UTC().Format(time.DateTime))
	}
	ca, err := os.ReadFile(files.ClientCA)
	if err != nil {
		return nil, err
	}
	p := &pair{leaf: cert.Leaf, roots: x509.NewCertPool()}
	if !p.roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s has no certificate in PEM form", files.ClientCA)
	}
	p.tls = &tls.Config{
		Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		ClientCAs: p.roots, ClientAuth: tls.RequireAndVerifyClientCert,
	}
	return p, nil
}

// listener listens at one address. It has a server once it is in force.
type listener struct {
	name    string
	addr    netip.AddrPort
	socket  net.Listener
	server  *http.Server
	served  chan struct{}        // Serve has returned
	pair    atomic.Pointer[pair] // nil: in the clear
	failed  error                // from the last reading of its files; guarded by the set
	refused atomic.Uint64

	mu    sync.Mutex
	conns map[netip.Prefix]int
	open  int
}

func open(name string, addr netip.AddrPort) (*listener, error) {
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
	return &listener{name: name, addr: addr, socket: socket, served: make(chan struct{}), conns: make(map[netip.Prefix]int)}, nil
}

// begin serves.
func (l *listener) begin(h http.Handler, log *slog.Logger) {
	l.server = &http.Server{
		Handler: api.Patiently(h, writeTimeout), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, Protocols: new(http.Protocols),
		TLSConfig: &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return l.pair.Load().tls, nil }},
		ErrorLog:  slog.NewLogLogger(log.Handler(), slog.LevelDebug), // strangers may cause as many lines as they like
	}
	l.server.Protocols.SetHTTP1(true)
	secure := l.pair.Load() != nil
	go func() {
		defer close(l.served)
		serve := l.server.Serve
		if secure {
			serve = func(s net.Listener) error { return l.server.ServeTLS(s, "", "") }
		}
		if err := serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			log.Error("a listener ended", "listener", l.name, "err", err)
		}
	}()
}

// Accept implements net.Listener. It closes connections beyond the bounds.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.socket.Accept()
		if err != nil {
			return nil, err
		}
		network := networkOf(addrOf(conn.RemoteAddr().String()))
		if l.take(network) {
			return &countedConn{Conn: conn, left: func() { l.leave(network) }}, nil
		}
		l.refused.Add(1)
		conn.Close()
	}
}

// Close implements net.Listener.
func (l *listener) Close() error { return l.socket.Close() }

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.socket.Addr() }

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

// end lets running answers end, and waits.
func (l *listener) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := l.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = l.server.Close()
	}
	<-l.served
	if errors.Is(err, net.ErrClosed) { // it was closed before
		return nil
	}
	return err
}

// countedConn is a connection that counts until it is closed.
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

func addrOf(text string) netip.Addr {
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}

// networkOf is what counts as one address: an IPv6 host has many.
func networkOf(addr netip.Addr) netip.Prefix {
	bits := 32
	if addr = addr.WithZone(""); addr.Is6() {
		bits = 64
	}
	network, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return network
}
