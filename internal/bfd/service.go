package bfd

import "time"

// Service is what an end says of what it does for others while its session is up: that
// it is alive does not mean that it can serve. On the wire it is the diagnostic, which says
// nothing else of a session that is up (RFC 5880 section 4.1) but that the sender holds it back.
type Service uint8

// The values of Service.
const (
	InService Service = iota
	// Draining has its users go elsewhere, while it serves on those that it has.
	Draining
	// OutOfService is alive and serves nobody, such as because its own uplink is down
	// (RFC 5880 section 6.8.17).
	OutOfService
	// Apart is in service, and takes another gateway, which may serve too, for gone. Who knows no such word takes it for
	// in service.
	Apart
)

func (s Service) String() string {
	switch s {
	case Draining:
		return "draining"
	case OutOfService:
		return "out of service"
	case Apart:
		return "in service, apart from another gateway"
	}
	return "in service"
}

// diagnostic is s on the wire.
func (s Service) diagnostic() diagnostic {
	switch s {
	case Draining:
		return adminDiagnostic
	case OutOfService:
		return concatenatedPathDown
	case Apart:
		return pathDown
	}
	return noDiagnostic
}

// serviceOf reads what diagnostic writes. Others are about a former session.
func serviceOf(d diagnostic) Service {
	switch d {
	case adminDiagnostic:
		return Draining
	case concatenatedPathDown:
		return OutOfService
	case pathDown:
		return Apart
	}
	return InService
}

// serve changes what this end says of itself. Where the session is up the other end is
// told at once.
func (s *session) serve(service Service) {
	if s.service == service {
		return
	}
	s.service = service
	s.hurry = s.hurry || s.state == up
}

// hold changes whether this end uses the session that is up. The other end is told where
// there is nothing more important to say.
func (s *session) hold(holds bool) {
	if s.holds == holds {
		return
	}
	s.holds = holds
	s.hurry = s.hurry || s.state == up && s.service == InService
}

// said is the diagnostic of the next packet.
func (s *session) said() diagnostic {
	switch {
	case s.state != up:
		return s.diag
	case s.service == InService && s.holds:
		return reversePathDown
	}
	return s.service.diagnostic()
}

// heldByRemote reports whether the other end says that it does not use the session yet.
func (s *session) heldByRemote() bool {
	return s.state == up && s.remoteState == up && s.remoteDiag == reversePathDown
}

// remoteService is what the other end says of itself; while the session is not up at both
// ends, nothing.
func (s *session) remoteService() Service {
	if s.state != up || s.remoteState != up {
		return InService
	}
	return serviceOf(s.remoteDiag)
}

// SetService says what this end does for others: in all sessions, those to come too.
func (m *Monitor) SetService(service Service) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.service == service || m.closed {
		return
	}
	m.service = service
	now := time.Now()
	for _, p := range m.byPair {
		p.session.serve(service)
		m.tend(now, p)
	}
	m.wake()
}
