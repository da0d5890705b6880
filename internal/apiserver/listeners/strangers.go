package listeners

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// failures that an address may have at once, and how often it may have one more.
	mostFailures = 10
	failureEvery = 6 * time.Second
	// mostStrangers are remembered.
	mostStrangers = 4096
)

// strangers are addresses from which somebody failed to say who it is.
type strangers struct {
	mu   sync.Mutex
	list map[netip.Prefix]allowance
}

// allowance is what an address may yet do.
type allowance struct {
	left float64
	at   time.Time
}

// networkOf is what counts as one address: of IPv6 a host has many.
func networkOf(addr netip.Addr) netip.Prefix {
	bits := 32
	if addr = addr.Unmap().WithZone(""); addr.Is6() {
		bits = 64
	}
	network, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return network
}

// isBarred reports whether an address has failed so often that it is not listened to.
func (s *strangers) isBarred(addr netip.Addr, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, known := s.list[networkOf(addr)]
	return known && a.after(now) < 1
}

// fail counts a failure.
func (s *strangers) fail(addr netip.Addr, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	network := networkOf(addr)
	a, known := s.list[network]
	left := float64(mostFailures)
	if known {
		left = a.after(now)
	}
	if s.list == nil {
		s.list = make(map[netip.Prefix]allowance)
	}
	if !known && len(s.list) >= mostStrangers {
		s.forget(now)
	}
	s.list[network] = allowance{max(left-1, 0), now}
}

func (a allowance) after(now time.Time) float64 {
	return min(a.left+float64(now.Sub(a.at))/float64(failureEvery), mostFailures)
}

// forget makes room: those that may do all again are gone, or else some. mu is held.
func (s *strangers) forget(now time.Time) {
	for network, a := range s.list {
		if a.after(now) >= mostFailures {
			delete(s.list, network)
		}
	}
	for network := range s.list {
		if len(s.list) < mostStrangers {
			return
		}
		delete(s.list, network)
	}
}
