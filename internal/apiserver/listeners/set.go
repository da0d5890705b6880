package listeners

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/metrics"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

// soonEnds is when a certificate that ends is a problem.
const soonEnds = 7 * 24 * time.Hour

// Set holds the listeners of an edge. Its methods but Problems and Metrics are called by one goroutine.
type Set struct {
	behind http.Handler
	log    *slog.Logger

	mu       sync.Mutex // held while what is in force is replaced, or read by others
	inForce  map[string]*listener
	config   *overlay.HTTP
	prepared *preparation
	ending   sync.WaitGroup // of listeners that are no longer in force
}

// preparation is what may come into force: listeners by name, those in force among them, each with its certificate.
type preparation struct {
	config    *overlay.HTTP
	listeners map[string]*listener
	pairs     map[string]*pair
}

// wanted is one listener of a configuration.
type wanted struct {
	name string // metrics or api
	addr netip.AddrPort
	tls  *overlay.HTTPAPI // nil: in the clear
}

func wantedBy(config *overlay.HTTP) (all []wanted) {
	if config == nil {
		return nil
	}
	if config.Metrics.IsValid() {
		all = append(all, wanted{name: "metrics", addr: config.Metrics})
	}
	if config.API != nil {
		all = append(all, wanted{"api", config.API.Addr, config.API})
	}
	return all
}

// New listens nowhere yet. What comes is served by h.
func New(h http.Handler, log *slog.Logger) *Set {
	crossOrigin := http.NewCrossOriginProtection() // a browser with a certificate is led by no other site
	return &Set{behind: crossOrigin.Handler(h), log: log, inForce: make(map[string]*listener)}
}

// Prepare reads the files of a configuration and binds its addresses, so that Commit cannot fail. After an error all is as
// it was. It must be called in the network namespace of the edge.
func (s *Set) Prepare(config *overlay.HTTP) error {
	err := s.PrepareSome(config)
	if err != nil {
		s.Abort()
	}
	return err
}

// PrepareSome is Prepare that leaves out listeners that fail. The error names them.
func (s *Set) PrepareSome(config *overlay.HTTP) error {
	s.Abort()
	s.prepared = &preparation{config, make(map[string]*listener), make(map[string]*pair)}
	var texts []string
	for _, w := range wantedBy(config) {
		if err := s.prepare(w); err != nil {
			texts = append(texts, fmt.Sprintf("spec.http.%s: %v", w.name, err))
		}
	}
	if len(texts) > 0 {
		return errors.New(strings.Join(texts, "; "))
	}
	return nil
}

func (s *Set) prepare(w wanted) error {
	var p *pair
	l := s.inForce[w.name]
	if l != nil && l.addr != w.addr {
		l = nil
	}
	if w.tls != nil {
		var err error
		if p, err = loadPair(*w.tls, time.Now()); err != nil {
			if l == nil || !s.IsFor(s.prepared.config) {
				return err
			}
			p = l.pair.Load() // Look says what is wrong with the files
		}
	}
	if l == nil {
		var err error
		if l, err = open(w.name, w.addr); err != nil {
			return err
		}
	}
	s.prepared.listeners[w.name], s.prepared.pairs[w.name] = l, p
	return nil
}

// Abort forgets what was prepared.
func (s *Set) Abort() {
	if s.prepared == nil {
		return
	}
	for _, l := range s.prepared.listeners {
		if l.server == nil {
			_ = l.socket.Close()
		}
	}
	s.prepared = nil
}

// Commit puts what was prepared into force. Connections to addresses that stay go on.
func (s *Set) Commit() {
	p := s.prepared
	if p == nil {
		return
	}
	s.prepared = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, l := range s.inForce {
		if p.listeners[name] != l {
			s.log.Info("stopped listening", "listener", name, "address", l.addr)
			_ = l.socket.Close()
			s.ending.Go(func() { _ = l.end() }) // answers that run may take their time
		}
	}
	s.config, s.inForce = p.config, p.listeners
	for name, l := range p.listeners {
		l.pair.Store(p.pairs[name])
		if l.server == nil {
			l.begin(s.handler(name), s.log)
			s.log.Info("listening", "listener", name, "address", l.addr, "tls", p.pairs[name] != nil)
		}
	}
}

// IsFor reports whether a configuration is in force, though listeners of it may be left out.
func (s *Set) IsFor(config *overlay.HTTP) bool { return reflect.DeepEqual(s.config, config) }

// IsWhole reports whether every listener of the configuration in force listens.
func (s *Set) IsWhole() bool { return len(s.inForce) == len(wantedBy(s.config)) }

// Close ends all, and waits.
func (s *Set) Close() error {
	s.Abort()
	s.mu.Lock()
	all := s.inForce
	s.inForce = make(map[string]*listener)
	s.mu.Unlock()
	var errs []error
	for _, l := range all {
		errs = append(errs, l.end())
	}
	s.ending.Wait()
	return errors.Join(errs...)
}

// Look reads the files of the certificate again. Files that are refused are a problem, and the certificate before stays.
func (s *Set) Look() {
	l := s.inForce["api"]
	if l == nil {
		return
	}
	next, err := loadPair(*s.config.API, time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		if l.failed == nil || l.failed.Error() != err.Error() {
			s.log.Error("a certificate is refused, the one before stays", "err", err)
		}
	case !next.equal(l.pair.Load()):
		l.pair.Store(next)
		s.log.Info("a certificate was read again", "subject", next.leaf.Subject.String(), "ends", next.leaf.NotAfter.UTC().Format(time.DateTime))
	}
	l.failed = err
}

// Problems are those of the certificate.
func (s *Set) Problems(now time.Time) (list []problem.Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.inForce["api"]
	if l == nil {
		return nil
	}
	if l.failed != nil {
		list = append(list, problem.Warning("spec.http.api: the certificate is refused, the one before stays: %v", l.failed))
	}
	end := l.pair.Load().leaf.NotAfter
	if left := end.Sub(now); left <= 0 {
		list = append(list, problem.Error("spec.http.api: the certificate ended at %s, and clients refuse it: replace %s and %s", end.UTC().Format(time.DateTime), s.config.API.Certificate, s.config.API.Key))
	} else if left < soonEnds {
		list = append(list, problem.Warning("spec.http.api: the certificate ends at %s: replace %s and %s", end.UTC().Format(time.DateTime), s.config.API.Certificate, s.config.API.Key))
	}
	return list
}

// Metrics adds those of the listeners.
func (s *Set) Metrics(p *metrics.Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := wantedBy(s.config)
	if len(all) == 0 {
		return
	}
	each := func(kind metrics.Kind, name, help string, sample func(*listener)) {
		p.Family(kind, name, help)
		for _, w := range all {
			if l := s.inForce[w.name]; l != nil {
				sample(l)
			}
		}
	}
	p.Family(metrics.Gauge, "selvage_http_listener_up", "1 while the listener takes connections.")
	for _, w := range all {
		p.Flag(s.inForce[w.name] != nil, "listener", w.name)
	}
	each(metrics.Gauge, "selvage_http_connections", "Connections to the listener.", func(l *listener) {
		p.Count(uint64(l.connections()), "listener", l.name)
	})
	each(metrics.Counter, "selvage_http_connections_refused_total", "Connections beyond those that the listener, or one address, may have.", func(l *listener) {
		p.Count(l.refused.Load(), "listener", l.name)
	})
	each(metrics.Gauge, "selvage_http_certificate_not_after_time_seconds", "When the certificate in use ends, in seconds since 1970.", func(l *listener) {
		if pair := l.pair.Load(); pair != nil {
			p.Sample(float64(pair.leaf.NotAfter.Unix()), "listener", l.name)
		}
	})
	each(metrics.Gauge, "selvage_http_certificate_reload_failed", "1 while changed files are refused, and the certificate before stays.", func(l *listener) {
		if l.pair.Load() != nil {
			p.Flag(l.failed != nil, "listener", l.name)
		}
	})
}
