package place

import (
	"context"
	"errors"
	"sync"

	"github.com/selvage/selvage/lab/agent"
)

// OpenAll opens sessions at all places, side by side unless a password is asked for. Those that it returns have to be closed,
// also beside an error; one that could not be opened is nil.
func OpenAll(ctx context.Context, places []Place, o Options) ([]*agent.Session, error) {
	sessions, errs := make([]*agent.Session, len(places)), make([]error, len(places))
	var wait sync.WaitGroup
	for i, p := range places {
		open := func() { sessions[i], errs[i] = Open(ctx, p, o) }
		if o.Sudo == SudoPassword {
			open()
		} else {
			wait.Go(open)
		}
	}
	wait.Wait()
	return sessions, errors.Join(errs...)
}

// Each does so for all sessions that were opened, side by side.
func Each(sessions []*agent.Session, do func(i int, s *agent.Session) error) error {
	errs := make([]error, len(sessions))
	var wait sync.WaitGroup
	for i, s := range sessions {
		if s != nil {
			wait.Go(func() { errs[i] = do(i, s) })
		}
	}
	wait.Wait()
	return errors.Join(errs...)
}

// CloseAll ends all sessions that were opened; what was changed is restored.
func CloseAll(sessions []*agent.Session) error {
	return Each(sessions, func(_ int, s *agent.Session) error { return s.Close() })
}
