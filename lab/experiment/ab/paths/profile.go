package paths

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/selvage/selvage/lab/agent"
	"github.com/selvage/selvage/lab/result"
	"github.com/selvage/selvage/lab/turns"
)

// profiles takes a slice of each case of TCP over each path, in which the agents look at processes,
// softirqs, kernel functions and drops. That takes time of the cores itself, so its figures are no
// samples. A path that failed in the rounds has none.
func (c *Command) profiles(ctx context.Context, e ends, r *result.Result) error {
	for _, name := range c.cases() {
		if name != caseTCP && name != caseReverse {
			continue
		}
		for _, p := range c.Path {
			if failedBefore(*r, name, p.Name) {
				continue
			}
			if err := c.profile(ctx, e, name, p, r); err != nil {
				return fmt.Errorf("profile: %s over %s: %w", name, p.Name, err)
			}
		}
	}
	return nil
}

func failedBefore(r result.Result, caseName, path string) bool {
	return slices.ContainsFunc(r.Samples, func(s result.Sample) bool {
		return s.Case == caseName && s.Target == path && s.Error != ""
	})
}

func (c *Command) profile(ctx context.Context, e ends, name string, p turns.Path, r *result.Result) error {
	roles := c.roles(name, p)
	profiles := make([]result.Profile, len(e.all()))
	t, err := runTrial(ctx, e, roles, func(ctx context.Context, i int, s *agent.Session, d time.Duration) (err error) {
		profiles[i], err = s.Profile(ctx, d, c.firstOfMachine(e, i))
		return err
	})
	if err != nil {
		return err
	}
	s, err := t.sample(roles)
	if err != nil {
		return err
	}
	for i := range profiles {
		profiles[i].Target, profiles[i].Case, profiles[i].Role = p.Name, name, roleOf(i)
		profiles[i].Gigabytes = s.Metrics[moved]
	}
	r.Profiles = append(r.Profiles, profiles...)
	return nil
}

// firstOfMachine says whether a place is the first of those on its machine: their cores are the same.
func (c *Command) firstOfMachine(e ends, i int) bool {
	all := e.all()
	return slices.IndexFunc(all, func(s *agent.Session) bool { return s.Hello.Machine == all[i].Hello.Machine }) == i
}
