package bfd

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/overlay"
)

// Seamless BFD (RFC 7880, 7881) watches each of several next hops of a pair. A session of a pair as such
// cannot: both ends would need one for each next hop of either, and would have to agree on which belongs to which.
// Here only the end that has the next hops keeps a state. The other end reflects what arrives.

const (
	// reflectorPort is where a reflector listens (RFC 7881 section 3).
	reflectorPort = 7784
	// reflectsEvery is the least interval that a reflector announces.
	reflectsEvery = time.Millisecond
)

// reflectorOf is the discriminator of the reflector at addr: both ends know it without being told
// (RFC 7880 section 4.1 leaves the choice to us).
func reflectorOf(addr netip.Addr) uint32 {
	b := addr.AsSlice()
	return max(binary.BigEndian.Uint32(b[len(b)-4:]), 1)
}

// reflection is the answer to a packet, RFC 7880 section 7.2.2.
func reflection(p packet) packet {
	return packet{
		state: up, final: p.poll, multiplier: p.multiplier, mine: p.yours, yours: p.mine,
		desiredTx: p.desiredTx, requiredRx: reflectsEvery,
	}
}

// openReflectors has all TEPs of pairs reflect. Without, the sessions do what they can. mu is held.
func (m *Monitor) openReflectors(pairs map[overlay.Pair]bool) error {
	tried := make(map[netip.Addr]bool)
	var errs []error
	for pair := range pairs {
		if !tried[pair.Local] {
			tried[pair.Local] = true
			errs = append(errs, m.sockets.listen(listenerKey{pair.Local, reflectorPort}))
		}
	}
	return errors.Join(errs...)
}

// reflect answers a packet to the reflector, by the interface that it came from where the sender is behind
// a next hop there: then both ways fail together. mu is held.
func (m *Monitor) reflect(local netip.Addr, a receipt, p packet) Reason {
	pair := overlay.Pair{Local: local, Remote: a.from}
	peer := m.byPair[pair]
	switch {
	case peer == nil || p.yours != reflectorOf(local):
		return NoSession
	case a.ttl < sentTTL+1-peer.Hops:
		return TooFar
	case p.state == adminDown || !p.demand:
		return NotStarting
	}
	answer := reflection(p).marshal()
	for _, way := range m.vias[pair] {
		if way.Ifindex == a.ifindex && way.NextMAC != (overlay.MAC{}) {
			m.failed(peer, m.sockets.frames.send(way.Peer, reflectorPort, a.port, answer))
			return ""
		}
	}
	m.failed(peer, m.sockets.listeners[listenerKey{local, reflectorPort}].send(a.from, a.port, peer.Ifindex, answer))
	return ""
}

// reflected obeys the answer of a reflector. mu is held.
func (m *Monitor) reflected(local netip.Addr, a receipt, packet packet) Reason {
	p := m.byOwn[packet.yours]
	switch {
	case p == nil:
		return NoSession
	case p.session.reflector == 0 || p.Local != local || p.Remote != a.from || a.port != reflectorPort || packet.mine != p.session.reflector:
		return WrongSender
	case a.ttl < sentTTL+1-p.Hops:
		return TooFar
	}
	now := time.Now()
	p.received++
	p.session.receive(now, packet)
	m.tend(now, p)
	return ""
}

// followReflector is the state machine of the end that asks, RFC 7880 section 7.3.1.
func (s *session) followReflector(p packet) {
	switch {
	case p.state == up:
		s.become(up, noDiagnostic)
	case p.state == adminDown && s.state != down:
		s.become(down, neighborDown)
	}
}

// ways are the next hops that packets of p take, each its copy: those that are not known to be dead, or
// all where none is left. mu is held.
func (m *Monitor) ways(p *peer) []*peer {
	if p.Via != (overlay.Via{}) {
		return []*peer{p}
	}
	all := m.vias[p.Pair]
	if live := slices.DeleteFunc(slices.Clone(all), func(way *peer) bool { return !usable(way) }); len(live) > 0 {
		return live
	}
	return all
}

func usable(way *peer) bool { return way.health.state != Down }

// transmit sends a packet of p. A pair with several next hops sends it by each, so that one that dies is
// not missed: the pair is down when all are. mu is held.
func (m *Monitor) transmit(p *peer, payload []byte) error {
	sender, ways := m.sockets.senders[p.Local], m.ways(p)
	if len(ways) == 0 {
		return sender.send(p.Remote, p.port(), p.Ifindex, payload)
	}
	var errs []error
	for _, way := range ways {
		if way.NextMAC == (overlay.MAC{}) { // the kernel resolves it then
			errs = append(errs, sender.send(p.Remote, p.port(), way.Ifindex, payload))
		} else {
			errs = append(errs, m.sockets.frames.send(way.Peer, sender.port, p.port(), payload))
		}
	}
	return errors.Join(errs...)
}
