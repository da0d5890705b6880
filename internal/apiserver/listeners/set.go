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

	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/problem"
)

const (
	// soonEnds is when a certificate that ends is a problem.
	soonEnds = 7 * 24 * time.Hour
	// strangersEvery is how often a failure to authenticate is a line of the log.
	strangersEvery = time.Second
)

// Set are the listeners of an edge. Its methods but Problems and Metrics are called by one goroutine.
type Set struct {
	behind    http.Handler
	log       *slog.Logger
	strangers strangers
	logMu     sync.Mutex
	logNext   time.Time

	mu       sync.Mutex // held while what is in force is replaced, or read by others
	inForce  map[netip.AddrPort]*listener
	config   *overlay.HTTP
	left     []string // names of its listeners that are not in force
	clients  clients
	prepared *preparation
	ending   sync.WaitGroup // of listeners that are in force no more
}

// preparation is what may come into force.
type preparation struct {
	config   *overlay.HTTP
	left     []string // names of its listeners that cannot be had
	clients  clients
	settings map[netip.AddrPort]*settings
	fresh    map[netip.AddrPort]*listener // those that are not in force
}

// New listens nowhere yet. What comes is served by h.
func New(h http.Handler, log *slog.Logger) *Set {
	crossOrigin := http.NewCrossOriginProtection() // a browser with a certificate is led by no other site
	return &Set{behind: crossOrigin.Handler(h), log: log, inForce: make(map[netip.AddrPort]*listener)}
}

// Prepare reads the files of a configuration and binds its addresses, so that Commit cannot fail. After an error all is as
// it was. It must be called in the network namespace of the edge.
func (s *Set) Prepare(config *overlay.HTTP) error {
	p, errs := s.prepare(config)
	for _, c := range p.clients {
		if c.failed != nil {
			errs = append([]error{fmt.Errorf("spec.http.clients, %s: %w", c.Name, c.failed)}, errs...)
		}
	}
	if len(errs) > 0 {
		p.abort()
		return errs[0]
	}
	s.prepared = p
	return nil
}

// PrepareSome is Prepare that leaves out what cannot be had. The error says which listeners; clients without tokens are problems.
// Where the configuration is in force but for some listeners, it tries those alone.
func (s *Set) PrepareSome(config *overlay.HTTP) error {
	p, errs := s.prepare(config)
	s.prepared = p
	var texts []string
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	if len(texts) == 0 {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}

// prepare prepares what it can. errs are of listeners that cannot be had.
func (s *Set) prepare(config *overlay.HTTP) (p *preparation, errs []error) {
	s.Abort()
	p = &preparation{config: config, settings: make(map[netip.AddrPort]*settings), fresh: make(map[netip.AddrPort]*listener)}
	if config == nil {
		return p, nil
	}
	if s.IsFor(config) {
		p.clients = s.clients // Look reads them again
	} else {
		p.clients = loadClients(config.Clients)
	}
	for _, l := range config.Listeners {
		if err := s.prepareListener(p, l); err != nil {
			p.left, errs = append(p.left, l.Name), append(errs, fmt.Errorf("spec.http.listeners, %s: %w", l.Name, err))
		}
	}
	return p, errs
}

// loadClients are clients with their tokens, or with why there are none.
func loadClients(list []overlay.HTTPClient) (all clients) {
	for _, c := range list {
		next := client{HTTPClient: c}
		if c.TokenFile != "" {
			next.tokens, next.failed = loadTokens(c.TokenFile)
		}
		all = append(all, next)
	}
	return all
}

func (s *Set) prepareListener(p *preparation, l overlay.HTTPListener) (err error) {
	next := &settings{HTTPListener: l, clients: p.clients}
	now := s.inForce[l.Addr]
	if now != nil && s.IsFor(p.config) {
		p.settings[l.Addr] = now.settings.Load() // Look reads its files again
		return nil
	}
	if l.TLS != nil {
		if next.pair, err = loadPair(*l.TLS, time.Now()); err != nil {
			return err
		}
	}
	if now == nil {
		fresh, err := open(l.Addr)
		if err != nil {
			return err
		}
		p.fresh[l.Addr] = fresh
	}
	p.settings[l.Addr] = next
	return nil
}

func (p *preparation) abort() {
	for _, l := range p.fresh {
		_ = l.end() // nobody was served
	}
}

// Abort forgets what was prepared.
func (s *Set) Abort() {
	if s.prepared != nil {
		s.prepared.abort()
		s.prepared = nil
	}
}

// Commit has what was prepared be in force. Connections to addresses that stay go on.
func (s *Set) Commit() {
	p := s.prepared
	if p == nil {
		return
	}
	s.prepared = nil
	var ended []*listener
	s.mu.Lock()
	s.config, s.clients, s.left = p.config, p.clients, p.left
	for addr, l := range s.inForce {
		if p.settings[addr] == nil {
			ended = append(ended, l)
			delete(s.inForce, addr)
		}
	}
	for addr, next := range p.settings {
		l := s.inForce[addr]
		if l == nil {
			l = p.fresh[addr]
			s.inForce[addr] = l
		}
		l.settings.Store(next)
		if !l.begun {
			l.begin(door{l, s}, s.log)
			s.log.Info("listening", "listener", next.Name, "address", addr, "serves", words(next.Serve), "tls", next.pair != nil)
		}
	}
	s.mu.Unlock()
	for _, l := range ended {
		s.log.Info("listening no more", "listener", l.settings.Load().Name, "address", l.addr)
		l.stopListening()
		s.ending.Go(func() { _ = l.end() }) // answers that run may take their time
	}
}

// IsFor reports whether a configuration is in force, though listeners of it may be left out.
func (s *Set) IsFor(config *overlay.HTTP) bool { return reflect.DeepEqual(s.config, config) }

// IsWhole reports whether no listener of the configuration in force is left out.
func (s *Set) IsWhole() bool { return len(s.left) == 0 }

// Close ends all, and waits.
func (s *Set) Close() error {
	s.Abort()
	var errs []error
	s.mu.Lock()
	all := s.inForce
	s.inForce = make(map[netip.AddrPort]*listener)
	s.mu.Unlock()
	for _, l := range all {
		l.stopListening()
		errs = append(errs, l.end())
	}
	s.ending.Wait()
	return errors.Join(errs...)
}

// Look reads files again that have changed. What is wrong with them is a problem, and what was read before stays.
func (s *Set) Look() {
	if s.config == nil {
		return
	}
	changed := s.lookClients()
	now := time.Now()
	for _, l := range s.inForce {
		was := l.settings.Load()
		next := *was
		next.clients = s.clients
		again := s.lookPair(&next, now)
		if again || changed {
			l.settings.Store(&next)
		}
	}
}

// lookClients reads the files of tokens.
func (s *Set) lookClients() (changed bool) {
	next := make(clients, 0, len(s.clients))
	for _, c := range s.clients {
		if c.TokenFile != "" {
			t, err := loadTokens(c.TokenFile)
			switch {
			case err != nil && (c.failed == nil || c.failed.Error() != err.Error()):
				s.log.Error("the tokens of a client are refused, those before stay", "client", c.Name, "err", err)
				changed = true
			case err == nil && (c.failed != nil || t.hash != c.tokens.hash || t.public != c.tokens.public):
				s.log.Info("the tokens of a client were read again", "client", c.Name, "tokens", len(t.sums))
				changed = true
			}
			c.failed = err
			if err == nil {
				c.tokens = t
			}
		}
		next = append(next, c)
	}
	if changed {
		s.mu.Lock()
		s.clients = next
		s.mu.Unlock()
	}
	return changed
}

// lookPair reads the files of a certificate.
func (s *Set) lookPair(l *settings, now time.Time) (changed bool) {
	if l.TLS == nil {
		return false
	}
	certificate, key, ca, err := readFiles(*l.TLS)
	hash := sum(certificate, key, ca)
	switch {
	case err == nil && hash == l.pair.hash:
		changed = l.failed != nil // they are back
		l.failed, l.refused = nil, [32]byte{}
		return changed
	case err == nil && hash == l.refused:
		return false
	}
	var next *pair
	if err == nil {
		next, err = newPair(*l.TLS, certificate, key, ca, now)
	}
	if err != nil {
		if l.failed == nil || l.failed.Error() != err.Error() || hash != l.refused {
			s.log.Error("a certificate is refused, the one before stays", "listener", l.Name, "err", err)
		}
		l.failed, l.refused = err, hash
		return true
	}
	l.pair, l.failed, l.refused = next, nil, [32]byte{}
	s.log.Info("a certificate was read again", "listener", l.Name, "subject", next.leaf.Subject.String(), "ends", next.leaf.NotAfter.UTC().Format(time.DateTime))
	return true
}

// Problems are those of files.
func (s *Set) Problems(now time.Time) (list []problem.Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		switch {
		case c.failed != nil && c.tokens == nil:
			list = append(list, problem.Warning("spec.http: client %s has no tokens: %v", c.Name, c.failed))
		case c.failed != nil:
			list = append(list, problem.Warning("spec.http: the tokens of client %s are refused, those before stay: %v", c.Name, c.failed))
		case c.tokens != nil && c.tokens.public:
			list = append(list, problem.Warning("spec.http: other users may read the tokens of client %s: chmod o-r %s", c.Name, c.TokenFile))
		}
	}
	for _, addr := range sorted(s.inForce) {
		l := s.inForce[addr].settings.Load()
		if l.pair == nil {
			continue
		}
		if l.failed != nil {
			list = append(list, problem.Warning("spec.http: the certificate of listener %s is refused, the one before stays: %v", l.Name, l.failed))
		}
		left := l.pair.leaf.NotAfter.Sub(now)
		switch {
		case left <= 0:
			list = append(list, problem.Error("spec.http: the certificate of listener %s ended at %s, and clients refuse it: replace %s and %s",
				l.Name, l.pair.leaf.NotAfter.UTC().Format(time.DateTime), l.TLS.Certificate, l.TLS.Key))
		case left < soonEnds:
			list = append(list, problem.Warning("spec.http: the certificate of listener %s ends at %s: replace %s and %s",
				l.Name, l.pair.leaf.NotAfter.UTC().Format(time.DateTime), l.TLS.Certificate, l.TLS.Key))
		}
	}
	return list
}

// logStranger writes one line a second at most: strangers may cause as many as they like.
func (s *Set) logStranger(listener string, from netip.Addr, given bool, r *http.Request) {
	s.logMu.Lock()
	now := time.Now()
	due := !now.Before(s.logNext)
	if due {
		s.logNext = now.Add(strangersEvery)
	}
	s.logMu.Unlock()
	if !due {
		return
	}
	why := "no token or certificate"
	if given {
		why = "unknown token"
	}
	path := r.URL.Path
	s.log.Warn("a request is refused", "listener", listener, "from", from, "method", r.Method, "path", path[:min(len(path), 100)], "why", why)
}
