package alarm

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/selvage/selvage/internal/datapath"
	"github.com/selvage/selvage/internal/problem"
)

// mostFrozen bounds how many frozen MAC addresses are remembered, and frozenNamed how many a problem names.
const (
	mostFrozen  = 1024
	frozenNamed = 3
)

// FrozenMACs are MAC addresses that moved too often, and until when they stay where they are. The
// zero value has none.
type FrozenMACs struct {
	mu   sync.Mutex
	list []frozenMAC
}

type frozenMAC struct {
	datapath.HostEvent
	until time.Time
}

// FrozenAt is where an address is frozen.
func FrozenAt(a datapath.HostEvent) string {
	if a.Remote.IsValid() {
		return "remote " + a.Remote.String()
	}
	return "port " + a.Port
}

// Add remembers one; the oldest goes when there are too many.
func (f *FrozenMACs) Add(a datapath.HostEvent, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = slices.DeleteFunc(f.list, func(o frozenMAC) bool {
		return o.until.Before(now) || o.MAC == a.MAC && o.Segment == a.Segment
	})
	if len(f.list) >= mostFrozen {
		f.list = f.list[1:]
	}
	f.list = append(f.list, frozenMAC{a, now.Add(a.Frozen)})
}

// Problems are those that are frozen now.
func (f *FrozenMACs) Problems(now time.Time) []problem.Problem {
	f.mu.Lock()
	frozen := slices.Clone(f.list)
	f.mu.Unlock()
	frozen = slices.DeleteFunc(frozen, func(o frozenMAC) bool { return !now.Before(o.until) })
	if len(frozen) == 0 {
		return nil
	}
	text := ""
	for _, o := range frozen[:min(frozenNamed, len(frozen))] {
		text += fmt.Sprintf("%s in segment %s stays at %s and was seen at %s too; ", o.MAC, o.Segment, FrozenAt(o.HostEvent), o.Other)
	}
	if more := len(frozen) - frozenNamed; more > 0 {
		text += fmt.Sprintf("and %d more; ", more)
	}
	return []problem.Problem{problem.Warning("MAC addresses are frozen, as they moved too often: %s"+
		"two hosts have one address, a host pretends to be another, or a cable or bridge joins the two places: `selvage fdb` shows them", text)}
}
