package edge

import (
	"fmt"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/problem"
)

// mostFrozen bounds how many frozen MAC addresses are remembered, and frozenNamed how many a problem names.
const (
	mostFrozen  = 1024
	frozenNamed = 3
)

// frozenMACs are MAC addresses that moved too often, and until when they stay where they are.
type frozenMACs struct{ list []frozenMAC }

type frozenMAC struct {
	datapath.HostEvent
	until time.Time
}

// frozenPlace is where an address is frozen.
func frozenPlace(a datapath.HostEvent) string {
	if a.Remote.IsValid() {
		return "remote " + a.Remote.String()
	}
	return "port " + a.Port
}

// add remembers one; the oldest goes when there are too many.
func (f *frozenMACs) add(a datapath.HostEvent, now time.Time) {
	f.list = slices.DeleteFunc(f.list, func(o frozenMAC) bool {
		return o.until.Before(now) || o.MAC == a.MAC && o.Segment == a.Segment
	})
	if len(f.list) >= mostFrozen {
		f.list = f.list[1:]
	}
	f.list = append(f.list, frozenMAC{a, now.Add(a.Frozen)})
}

// problems are those that are frozen now.
func (f *frozenMACs) problems(now time.Time) []problem.Problem {
	frozen := slices.DeleteFunc(slices.Clone(f.list), func(o frozenMAC) bool { return !now.Before(o.until) })
	if len(frozen) == 0 {
		return nil
	}
	text := ""
	for _, o := range frozen[:min(frozenNamed, len(frozen))] {
		text += fmt.Sprintf("%s in segment %s stays at %s and was seen at %s too; ", o.MAC, o.Segment, frozenPlace(o.HostEvent), o.Other)
	}
	if more := len(frozen) - frozenNamed; more > 0 {
		text += fmt.Sprintf("and %d more; ", more)
	}
	return []problem.Problem{problem.Warning("MAC addresses are frozen, as they moved too often: %s"+
		"two hosts have one address, a host pretends to be another, or a cable or bridge joins the two places: `selvage fdb` shows them", text)}
}

func (e *edge) frozenProblems() []problem.Problem {
	e.hostEvents.mu.Lock()
	defer e.hostEvents.mu.Unlock()
	return e.hostEvents.frozen.problems(time.Now())
}
