package bfd

import (
	"errors"
	"maps"
	"net/netip"
	"slices"

	"github.com/selvage/selvage/internal/overlay"
)

// sockets are those of the sessions of a monitor, whose mu is held.
type sockets struct {
	listeners map[listenerKey]*socket
	senders   map[netip.Addr]*socket
	frames    *frames // nil without next hops
}

type listenerKey struct {
	local netip.Addr
	port  int
}

// open opens the sockets of a session.
func (s *sockets) open(p Peer) error {
	if s.senders[p.Local] == nil {
		sender, err := openSender(p.Local)
		if err != nil {
			return err
		}
		s.senders[p.Local] = sender
	}
	if p.reflected() && s.frames == nil {
		f, err := openFrames()
		if err != nil {
			return err
		}
		s.frames = f
	}
	return s.listen(listenerKey{p.Local, p.port()})
}

func (s *sockets) listen(key listenerKey) error {
	if s.listeners[key] != nil {
		return nil
	}
	listener, err := listen(key.local, key.port)
	if err != nil {
		return err
	}
	s.listeners[key] = listener
	return nil
}

// all are those that packets arrive on.
func (s *sockets) all() []*socket {
	return slices.AppendSeq(slices.Collect(maps.Values(s.listeners)), maps.Values(s.senders))
}

// closeUnused closes those that no session has.
func (s *sockets) closeUnused(sessions map[overlay.Pair]*peer) error {
	listeners, senders := map[listenerKey]bool{}, map[netip.Addr]bool{}
	for _, p := range sessions {
		listeners[listenerKey{p.Local, p.port()}] = true
		listeners[listenerKey{p.Local, reflectorPort}] = true
		senders[p.Local] = true
	}
	var errs []error
	for key, listener := range s.listeners {
		if !listeners[key] {
			errs = append(errs, listener.close())
			delete(s.listeners, key)
		}
	}
	for local, sender := range s.senders {
		if !senders[local] {
			errs = append(errs, sender.close())
			delete(s.senders, local)
		}
	}
	return errors.Join(errs...)
}
