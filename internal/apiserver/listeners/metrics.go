package listeners

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"

	"github.com/selvage/selvage/internal/metrics"
)

// sorted are the addresses in order.
func sorted(list map[netip.AddrPort]*listener) []netip.AddrPort {
	return slices.SortedFunc(maps.Keys(list), netip.AddrPort.Compare)
}

// Metrics has nothing to say where nobody listens.
func (s *Set) Metrics(p *metrics.Page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config == nil {
		return
	}
	addrs := sorted(s.inForce)
	p.Family(metrics.Gauge, "selvage_http_listener_up", "1 while the listener takes connections.")
	for _, l := range s.config.Listeners {
		p.Flag(s.inForce[l.Addr] != nil, "listener", l.Name)
	}
	each := func(kind metrics.Kind, name, help string, sample func(*listener, string)) {
		p.Family(kind, name, help)
		for _, addr := range addrs {
			sample(s.inForce[addr], s.inForce[addr].settings.Load().Name)
		}
	}
	each(metrics.Gauge, "selvage_http_connections", "Connections to the listener.", func(l *listener, name string) {
		p.Count(uint64(l.connections()), "listener", name)
	})
	each(metrics.Counter, "selvage_http_connections_refused_total", "Connections beyond those that the listener, or one address, may have.", func(l *listener, name string) {
		p.Count(l.tally.refused.Load(), "listener", name)
	})
	each(metrics.Counter, "selvage_http_authentication_failures_total", "Requests whose client is not known.", func(l *listener, name string) {
		p.Count(l.tally.failures.Load(), "listener", name)
	})
	each(metrics.Counter, "selvage_http_requests_total", "Requests that were answered, by status.", func(l *listener, name string) {
		l.tally.mu.Lock()
		defer l.tally.mu.Unlock()
		for _, status := range slices.Sorted(maps.Keys(l.tally.requests)) {
			p.Count(l.tally.requests[status], "listener", name, "code", strconv.Itoa(status))
		}
	})
	each(metrics.Gauge, "selvage_http_certificate_not_after_time_seconds", "When the certificate in use ends, in seconds since 1970.", func(l *listener, name string) {
		if pair := l.settings.Load().pair; pair != nil {
			p.Sample(float64(pair.leaf.NotAfter.Unix()), "listener", name)
		}
	})
	each(metrics.Gauge, "selvage_http_certificate_reload_failed", "1 while changed files are refused, and the certificate before stays.", func(l *listener, name string) {
		if s := l.settings.Load(); s.pair != nil {
			p.Flag(s.failed != nil, "listener", name)
		}
	})
}
