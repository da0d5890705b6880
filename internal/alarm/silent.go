package alarm

import (
	"net/netip"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
)

const (
	// silentFor is how long a remote may be silent, and silentPackets how many packets to it make that a problem.
	silentFor     = time.Minute
	silentPackets = 10
)

// RemoteCounters are packets to and from remotes.
type RemoteCounters interface {
	TEPs() (map[netip.Addr]datapath.TEPCounters, error)
}

type watchedRemote struct {
	since    time.Time
	sent     uint64 // by then
	now      datapath.TEPCounters
	answered bool // since then
}

// Silent tells which configured remotes are sent packets and send none.
type Silent struct {
	o Options

	mu      sync.Mutex
	remotes map[netip.Addr]watchedRemote
}

// NewSilent has seen nothing.
func NewSilent(o Options) *Silent { return &Silent{o: o, remotes: make(map[netip.Addr]watchedRemote)} }

// Look takes a reading about the remotes of a configuration, without those that BGP told of, whose session says whether they
// are there; so do BFD sessions, where those are configured.
func (s *Silent) Look(configured overlay.Edge, counters RemoteCounters, now time.Time) {
	remotes := plan.Remotes(configured)
	if configured.Underlay.Liveness != nil {
		remotes = nil
	}
	read, err := counters.TEPs()
	s.o.Report(readCounters, err)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make(map[netip.Addr]watchedRemote, len(remotes))
	for _, r := range remotes {
		is := read[r]
		w, known := s.remotes[r]
		if !known {
			w = watchedRemote{since: now, sent: is.Tx.Packets, now: is}
		}
		w.answered = w.answered || is.Rx.Packets != w.now.Rx.Packets
		w.now = is
		next[r] = w
	}
	s.remotes = next
}

// Problems are the silent ones. answers reports whether a remote answers echo requests.
func (s *Silent) Problems(config overlay.Edge, answers func(netip.Addr) bool, now time.Time) (list []problem.Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range plan.Remotes(config) {
		w, known := s.remotes[r]
		sent := w.now.Tx.Packets - w.sent
		if !known || w.answered || sent < silentPackets || now.Sub(w.since) < silentFor {
			continue
		}
		const fix = "look whether an edge runs there that has this edge as a remote, with the same VNI and UDP port, and whether a firewall is in between"
		silence := now.Sub(w.since).Round(time.Second)
		if answers(r) {
			list = append(list, problem.Note("remote %s has sent no tunnel packet in %s, and was sent %d: it answers pings, so it may be idle, or %s", r, silence, sent, fix))
			continue
		}
		list = append(list, problem.Warning("remote %s has sent nothing in %s, and was sent %d packets: %s", r, silence, sent, fix))
	}
	return list
}
