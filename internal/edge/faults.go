package edge

import (
	"log/slog"
	"maps"
	"sync"
)

// faults are what does not work now, by what it is. Who reports one may be about to steer, so
// its lock is held for nothing else.
type faults struct {
	log *slog.Logger
	mu  sync.Mutex
	now map[string]error
}

// report keeps err as a problem until the same thing works again. It waits for nobody.
func (f *faults) report(what string, err error) {
	was := f.set(what, err)
	switch {
	case err != nil && (was == nil || was.Error() != err.Error()):
		f.log.Error(what, "err", err)
	case err == nil && was != nil:
		f.log.Info(what + ": works again")
	}
}

// set takes the news of something, with nil that it works, and returns what was wrong with it before.
func (f *faults) set(what string, err error) (was error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was = f.now[what]
	switch {
	case err == nil:
		delete(f.now, what)
	case f.now == nil:
		f.now = map[string]error{what: err}
	default:
		f.now[what] = err
	}
	return was
}

// of is what is wrong with something, nil when nothing is.
func (f *faults) of(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now[what]
}

// all are those of now.
func (f *faults) all() map[string]error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.now)
}
