// Package fault keeps what does not work now and is tried again, by what it is: a fault lasts until the same thing works.
//
// Its one invariant: who reports a fault waits for nobody, as it may be about to move flows. Do not use it for what a
// reading of the data path shows to be wrong: those are alarms.
package fault

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/problem"
)

// Faults are those of now. Each that begins, changes or ends is logged.
type Faults struct {
	log *slog.Logger
	mu  sync.Mutex
	now map[string]error
}

// New has none.
func New(log *slog.Logger) *Faults { return &Faults{log: log, now: make(map[string]error)} }

// Report keeps err as a fault until it is called with nil for the same thing.
func (f *Faults) Report(what string, err error) {
	was := f.set(what, err)
	switch {
	case err != nil && (was == nil || was.Error() != err.Error()):
		f.log.Error(what, event.Is(event.ProblemRaised), "err", err)
	case err == nil && was != nil:
		f.log.Info(what+": works again", event.Is(event.ProblemCleared))
	}
}

// set takes the news of something, with nil that it works, and returns what was wrong with it before.
func (f *Faults) set(what string, err error) (was error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was = f.now[what]
	if err == nil {
		delete(f.now, what)
	} else {
		f.now[what] = err
	}
	return was
}

// Of is what is wrong with something, nil when nothing is.
func (f *Faults) Of(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now[what]
}

// Problems are the faults, sorted by what they are. severity says how bad each is.
func (f *Faults) Problems(severity func(what string) problem.Severity) (list []problem.Problem) {
	f.mu.Lock()
	now := maps.Clone(f.now)
	f.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(now)) {
		list = append(list, problem.Problem{Severity: severity(what), Text: fmt.Sprintf("%s: %v", what, now[what])})
	}
	return list
}
