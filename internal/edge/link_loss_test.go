package edge

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/overlay"
)

// linkedHost is a host that tells of lost links, and linkedSessions what is told.
type linkedHost struct {
	Host
	lost chan int
}

func (h linkedHost) LinksLost() <-chan int { return h.lost }

type linkedSessions struct {
	Liveness
	lost   *[]int
	closed *int
}

func (s linkedSessions) LinkLost(ifindex int) { *s.lost = append(*s.lost, ifindex) }

func (s linkedSessions) Close() error { *s.closed++; return nil }

// Liveness is told of lost links from when it is opened until it is closed.
func TestLivenessEndsWithLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := linkedHost{lost: make(chan int, 4)}
		var lost []int
		closed := 0
		open := withLinks(func(*slog.Logger) (Liveness, error) { return linkedSessions{lost: &lost, closed: &closed}, nil }, h)
		l, err := open(nil)
		if err != nil {
			t.Fatal(err)
		}
		h.lost <- 7
		synctest.Wait()
		if len(lost) != 1 || lost[0] != 7 {
			t.Errorf("lost %v, want 7", lost)
		}
		for range 2 {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		h.lost <- 8
		synctest.Wait()
		if len(lost) != 1 || closed != 2 {
			t.Errorf("lost %v after the end, closed %d times", lost, closed)
		}
	})
}

// What cannot be opened is an error, and a host that tells of no links has liveness as it is.
func TestLivenessWithoutLinks(t *testing.T) {
	broken := errors.New("no liveness")
	if _, err := withLinks(func(*slog.Logger) (Liveness, error) { return nil, broken }, linkedHost{})(nil); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	plain := fakeLiveness{}
	open := func(*slog.Logger) (Liveness, error) { return plain, nil }
	for _, h := range []Host{fakeHost{}, linkedHost{}} {
		if l, err := withLinks(open, h)(nil); l != plain || err != nil {
			t.Errorf("%v, %v", l, err)
		}
	}
}

// pinnedLives are sessions of a world of which those of one interface end with it.
type pinnedLives struct {
	fakeLiveness
	ifindex int
	pair    overlay.Pair
}

func (l pinnedLives) LinkLost(ifindex int) {
	if ifindex == l.ifindex {
		l.w.live(l.pair, bfd.Down, "its link was lost")
	}
}

// Flows leave the link that is lost before the host is looked at.
func TestLostLinkIsLeft(t *testing.T) {
	w := newECMPWorld(t)
	h := linkedHost{fakeHost{w}, make(chan int, 1)}
	w.opts.OpenHost = func(string, *slog.Logger) (Host, error) { return h, nil }
	w.opts.OpenLiveness = func(*slog.Logger) (Liveness, error) {
		return pinnedLives{fakeLiveness{w}, w.hostState.Links["eth1"].Index, via1}, nil
	}
	c, _ := w.run()
	observed := w.called("observe")
	h.lost <- 4
	w.within("it is steered around the lost link", func() bool {
		paths, down := w.used()
		return slices.Equal(paths, []overlay.Pair{via0}) && slices.Equal(down, []overlay.Pair{via1})
	})
	if n := w.called("observe"); n != observed {
		t.Errorf("the host was looked at %d times", n-observed)
	}
	if !w.problem(c, via1.String(), "its link was lost") {
		t.Error("no problem says so")
	}
}
