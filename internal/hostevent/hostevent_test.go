package hostevent

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/selvage/selvage/internal/bgp"
	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/overlay"
)

// Ports take turns: a host that moved is announced at once, whatever comes to other ports.
func TestMovesTakeTurns(t *testing.T) {
	h := New(Options{})
	for range 10_000 {
		h.add(datapath.Move{Port: "p0"})
	}
	h.add(datapath.Move{Port: "p1"})
	list := h.take()
	if len(list) != mostMoves || list[1].Port != "p1" {
		t.Errorf("%d moves, and that of p1 is not the second", len(list))
	}
	if len(h.moved["p0"]) >= mostHostEvents {
		t.Errorf("%d moves of a port wait", len(h.moved["p0"]))
	}
}

// source is a data path whose hosts are those of the channel; it fails when there are none.
type source struct {
	events    chan []datapath.HostEvent
	mu        sync.Mutex
	announced []overlay.MAC
}

func (s *source) FollowHostEvents(ctx context.Context, do func([]datapath.HostEvent)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case list := <-s.events:
			if list == nil {
				return errors.New("so the test wants it")
			}
			do(list)
		}
	}
}

func (s *source) Announce(list []datapath.Move) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range list {
		s.announced = append(s.announced, m.MAC)
	}
	return nil
}

// listener counts what it hears.
type listener struct{ came, missed, loops, reports int }

func (l *listener) HostsCame(list []bgp.Host)         { l.came += len(list) }
func (l *listener) HostsMissed()                      { l.missed++ }
func (l *listener) Returned(datapath.Loop, time.Time) { l.loops++ }
func (l *listener) Reported()                         { l.reports++ }

// Each kind of event comes to who has to hear of it, and remotes that speak no BGP hear of MAC addresses alone. After
// an error hosts are followed again.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l, faults := &source{events: make(chan []datapath.HostEvent)}, &listener{}, map[string]error{}
		h := New(Options{Listener: l, Loops: l, Paths: l, Log: slog.New(slog.DiscardHandler), Report: func(what string, err error) { faults[what] = err }})
		h.Follow(s)
		defer h.Unfollow()
		s.events <- nil
		synctest.Wait()
		if faults[followHosts] == nil {
			t.Error("what cannot be followed is no fault")
		}
		byFrames, byBGP := overlay.MAC{2, 1}, overlay.MAC{2, 2}
		s.events <- []datapath.HostEvent{
			{},
			{Segment: "blue", Port: "p0", MAC: byFrames},
			{Segment: "blue", Port: "p0", MAC: byFrames, Addr: netip.MustParseAddr("10.0.0.1")},
			{Segment: "red", Port: "p1", MAC: byBGP},
			{Segment: "blue", Port: "p0", MAC: overlay.MAC{2, 3}, Frozen: time.Minute},
			{Loop: datapath.Loop{Port: "p0", At: "p1", Younger: "p1"}},
			{Reported: netip.MustParseAddr("192.0.2.2")},
			{Reported: netip.MustParseAddr("192.0.2.3")},
		}
		synctest.Wait()
		if got, want := *l, (listener{came: 4, missed: 1, loops: 1, reports: 1}); got != want {
			t.Errorf("received %+v, want %+v", got, want)
		}
		if p := h.Problems(time.Now()); len(p) != 1 {
			t.Errorf("problems %v, want the frozen address", p)
		}
		h.AnnounceMoves([]overlay.Segment{{Name: "blue", Remotes: []netip.Addr{netip.MustParseAddr("192.0.2.2")}}, {Name: "red", EVPN: &overlay.EVPNInstance{}}})
		if !slices.Equal(s.announced, []overlay.MAC{byFrames}) {
			t.Errorf("announced %v, want %v", s.announced, byFrames)
		}
		h.Unfollow()
		h.Unfollow()
	})
}
