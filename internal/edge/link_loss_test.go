package edge

import (
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/selvage/selvage/internal/bfd"
	"github.com/selvage/selvage/internal/liveness"
	"github.com/selvage/selvage/internal/overlay"
)

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
	w.opts.OpenLiveness = func(*slog.Logger) (liveness.Monitor, error) {
		return pinnedLives{fakeLiveness{w}, w.hostState.Links["eth1"].Index, via1}, nil
	}
	c, _ := w.run()
	observed := w.called("observe")
	w.linksLost <- 4
	w.within("it is steered around the lost link", func() bool {
		paths, down := w.used()
		return slices.Equal(paths, []overlay.Pair{via0}) && slices.Equal(down, []overlay.Pair{via1})
	})
	if n := w.called("observe"); n != observed {
		t.Errorf("the host was looked at %d times", n-observed)
	}
	if !w.problem(c, via1.String(), "interface eth1 is down") {
		t.Error("no problem says so")
	}
	w.within("its session has ended, too", func() bool { return w.called("steer") == 2 })
}

// So they do where no path is watched. Tables that rest on a host of before the loss leave them where they are; those
// of a host on which the link is back have them return.
func TestLostLinkIsLeftUnwatched(t *testing.T) {
	w := newECMPWorld(t)
	w.config.Underlay.Liveness = nil
	c, _ := w.run()
	around := func() bool {
		paths, down := w.used()
		return slices.Equal(paths, []overlay.Pair{via0}) && slices.Equal(down, []overlay.Pair{via1})
	}
	observing := make(chan struct{})
	observed := sync.OnceFunc(func() { close(observing) })
	t.Cleanup(observed)
	before := w.called("observe")
	w.set(func() { w.stuck = map[string]chan struct{}{"observe": observing} })
	w.within("the host is being observed", func() bool { return w.called("observe") > before })
	applied := w.called("apply")
	w.linksLost <- 3 // a port's
	w.linksLost <- 4
	w.within("it is steered around the lost link", around)
	if n := w.called("steer"); n != 1 || w.called("apply") != applied {
		t.Errorf("steered %d times, tables were applied %d times meanwhile", n, w.called("apply")-applied)
	}
	if !w.problem(c, via1.String(), "interface eth1 is down") {
		t.Error("no problem says so")
	}
	observed()
	w.within("tables are applied", func() bool { return w.called("apply") > applied })
	if fetched(t, c.Status); !around() {
		t.Error("tables of a host that was observed before brought the link back")
	}
	w.set(func() {})
	w.within("the link is used again", func() bool {
		paths, down := w.used()
		return len(paths) == 2 && len(down) == 0
	})
}
