package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/selvage/selvage/internal/alarm"
	"github.com/selvage/selvage/internal/api"
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
	ctx, cancel := context.WithTimeout(ctx, max(wait, settling))
	defer cancel()
	look := time.NewTicker(settlingLook)
	defer look.Stop()
	for {
		after, err := client.Status(ctx)
		if err != nil {
			return info, nil // the time is over, or the edge ends: what is in force is
		}
		info.NewProblems = slices.DeleteFunc(alarm.NewKinds(before.Problems, after.Problems), func(p problem.Problem) bool { return p.Severity == problem.SeverityNote })
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
