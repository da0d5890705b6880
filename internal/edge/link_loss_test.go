package edge

import (
	"log/slog"
	"slices"
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
	if !w.problem(c, via1.String(), "its link was lost") {
		t.Error("no problem says so")
	}
}
