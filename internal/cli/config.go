package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/observe"
	"github.com/selvage/selvage/internal/problem"
)

type applyCmd struct {
	query
	DryRun  bool          `short:"n" xor:"when" help:"Show what would change, and what becomes of connections. Nothing changes."`
	Confirm time.Duration `xor:"when" placeholder:"TIME" help:"Go back by itself after this time, as in 60s, unless selvage confirm is run."`
	Wait    time.Duration `placeholder:"TIME" help:"Wait so long, as in 30s, for new problems to clear up; next hops and BGP sessions take a moment. 1s when left out."`
	File    string        `arg:"" optional:"" help:"Configuration file; the one that the edge was started with when left out."`
}

// Run has an edge take a configuration.
func (c *applyCmd) Run(ctx context.Context, s *streams) error {
	q, err := c.question(ctx)
	if err != nil {
		return err
	}
	var made newErrors
	question := func(client *api.Client, ctx context.Context) (api.ApplyInfo, error) {
		info, err := changing(ctx, client, c.Wait, func() (api.ApplyInfo, error) { return client.Config().Apply(ctx, q) })
		if wrong := (*api.QueryError)(nil); errors.As(err, &wrong) {
			err = usageError{err}
		}
		made = newErrors(problem.Count(info.NewProblems, problem.SeverityError))
		return info, err
	}
	err = show(ctx, c.query, s.out, question, observe.Applied)
	if err == nil && made > 0 {
		return made
	}
	return err
}

// question reads the file here: who types its name may be in another directory than the edge.
func (c *applyCmd) question(ctx context.Context) (api.ApplyQuery, error) {
	q := api.ApplyQuery{DryRun: c.DryRun, Confirm: c.Confirm, For: os.Getenv("SUDO_USER")}
	path := c.File
	if path == "" {
		client, err := c.dial()
		if err != nil {
			return q, err
		}
		status, err := client.Status(ctx)
		if err != nil {
			return q, err
		}
		path = status.Config
	}
	if _, err := config.Load(path); err != nil { // with the path as it was typed
		return q, usageError{err}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return q, fmt.Errorf("configuration %s: %w", path, err)
	}
	edge, source, err := config.LoadSource(path)
	if err != nil {
		return q, usageError{err}
	}
	if c.Edge == "" {
		c.Edge = edge.Name
	}
	q.Path = source.Path
	for _, f := range source.Files {
		q.Files = append(q.Files, api.ConfigFile{Path: f.Path, Text: string(f.Text)})
	}
	return q, nil
}

// Help says what kong's flags do not.
func (*applyCmd) Help() string {
	return "The edge checks the configuration, changes what differs, and answers when it is in force. What cannot be applied whole is rolled back, and the exit status is 1; " +
		"it is 2 when the file has mistakes, and 4 when it is in force and the edge has errors that it did not have before. A configuration from another file than the edge's own is in force until the edge starts again."
}

type reloadCmd struct {
	query
	DryRun bool   `short:"n" help:"Show what would change, and what becomes of connections. Nothing changes."`
	Name   string `arg:"" optional:"" help:"Name of the edge. Not needed when only one edge runs."`
}

// Run has an edge take its file again.
func (c *reloadCmd) Run(ctx context.Context, s *streams) error {
	if c.Name != "" {
		c.Edge = c.Name
	}
	question := func(client *api.Client, ctx context.Context) (api.ApplyInfo, error) {
		return changing(ctx, client, 0, func() (api.ApplyInfo, error) { return client.Config().Reload(ctx, os.Getenv("SUDO_USER"), c.DryRun) })
	}
	return show(ctx, c.query, s.out, question, observe.Applied)
}

// Help says what kong's flags do not.
func (*reloadCmd) Help() string {
	return "The edge reads its file, with its own rights and credentials, and answers when it is in force, as with systemctl reload selvage@NAME. " +
		"What cannot be applied whole is rolled back, and the exit status is 1; it is 2 when the file has mistakes."
}

type confirmCmd struct{ query }

// Run confirms.
func (c *confirmCmd) Run(ctx context.Context, s *streams) error {
	question := func(client *api.Client, ctx context.Context) (api.RevisionInfo, error) {
		return client.Config().Confirm(ctx)
	}
	return show(ctx, c.query, s.out, question, observe.Confirmed)
}

type rollbackCmd struct {
	query
	Revision int `arg:"" optional:"" help:"Number of the revision, see selvage history; the one before when left out."`
}

// Run goes back.
func (c *rollbackCmd) Run(ctx context.Context, s *streams) error {
	question := func(client *api.Client, ctx context.Context) (api.ApplyInfo, error) {
		return changing(ctx, client, 0, func() (api.ApplyInfo, error) {
			return client.Config().Rollback(ctx, c.Revision, os.Getenv("SUDO_USER"))
		})
	}
	return show(ctx, c.query, s.out, question, observe.Applied)
}

type historyCmd struct{ query }

// Run lists revisions.
func (c *historyCmd) Run(ctx context.Context, s *streams) error {
	question := func(client *api.Client, ctx context.Context) ([]api.RevisionInfo, error) {
		return client.Config().History(ctx)
	}
	return show(ctx, c.query, s.out, question, observe.History)
}

type showCmd struct {
	Config showConfigCmd `cmd:"" help:"Print the configuration in force as it was written, without passwords, and what BGP added to it."`
}

type showConfigCmd struct{ query }

// Run prints the configuration in force.
func (c *showConfigCmd) Run(ctx context.Context, s *streams) error {
	question := func(client *api.Client, ctx context.Context) (observe.RunningConfig, error) {
		info, err := client.Config().Show(ctx)
		if err != nil {
			return observe.RunningConfig{}, err
		}
		status, err := client.Status(ctx)
		if err != nil || status.BGP == nil {
			return observe.NewRunningConfig(info, nil), err
		}
		routes, err := client.BGP().Routes(ctx, api.BGPRouteQuery{})
		return observe.NewRunningConfig(info, routes), err
	}
	return show(ctx, c.query, s.out, question, observe.Config)
}
