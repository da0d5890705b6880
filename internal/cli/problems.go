package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/host"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/plan"
	"github.com/selvage/selvage/internal/problem"
)

const (
	// settling is how long what a change makes wrong for a moment is waited for, such as next hops that have yet to answer.
	settling = time.Second
	// settlingLook is between looks meanwhile.
	settlingLook = 100 * time.Millisecond
)

// newErrors is the error of a change that is in force and made so many errors.
type newErrors int

func (n newErrors) Error() string {
	if n == 1 {
		return "it is in force, and there is 1 new error: see selvage status"
	}
	return fmt.Sprintf("it is in force, and there are %d new errors: see selvage status", int(n))
}

// hostErrors is the error of so many things that a host lacks.
type hostErrors int

func (n hostErrors) Error() string {
	return fmt.Sprintf("this host is not as the configuration needs it: %s above", plural(int(n), "error"))
}

// checkHost prints what this host lacks of what an edge needs, and counts the errors.
func checkHost(s *streams, e overlay.Edge) (hostErrors, error) {
	h, err := host.Open("", slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, fmt.Errorf("look at the host: %w", err)
	}
	state, err := h.Observe(plan.Want(e))
	if err = errors.Join(err, h.Close()); err != nil {
		return 0, fmt.Errorf("look at the host: %w", err)
	}
	list := plan.HostProblems(e, state)
	for i, p := range list {
		if i == mostHostProblems {
			fmt.Fprintf(s.err, "and %d more\n", len(list)-i)
			break
		}
		fmt.Fprintf(s.err, "%s: %s\n", p.Severity, p.Text)
	}
	return hostErrors(problem.Count(list, problem.SeverityError)), nil
}

// mostHostProblems are printed of each file.
const mostHostProblems = 50

// changing asks for a change of the configuration, and adds the problems that the edge has since then: those that stay for
// wait, at least settling.
func changing(ctx context.Context, client *api.Client, wait time.Duration, change func() (api.ApplyInfo, error)) (api.ApplyInfo, error) {
	before, err := client.Status(ctx)
	if err != nil {
		return change() // who may change may not ask, or an older edge answers otherwise
	}
	info, err := change()
	if err != nil || !info.Applied {
		return info, err
	}
	known := append(before.Problems, api.Unconfirmed(info.Revision.ID, time.Time{})) // with --confirm, and asked for
	ctx, cancel := context.WithTimeout(ctx, max(wait, settling))
	defer cancel()
	look := time.NewTicker(settlingLook)
	defer look.Stop()
	for {
		after, err := client.Status(ctx)
		if err != nil {
			return info, nil // the time is over, or the edge ends: what is in force is
		}
		info.NewProblems = slices.DeleteFunc(alarm.NewKinds(known, after.Problems), func(p problem.Problem) bool { return p.Severity == problem.SeverityNote })
		if len(info.NewProblems) == 0 {
			return info, nil
		}
		select {
		case <-ctx.Done():
			return info, nil
		case <-look.C:
		}
	}
}
