package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/edge"
	"github.com/selvage/selvage/internal/observe"
)

// query says which edge to ask and how to print its answer.
type query struct {
	runtimeDir
	Edge   string `placeholder:"NAME" help:"Name of the edge; not needed when only one runs."`
	Output string `short:"o" enum:"table,json" default:"table" help:"Print a table or JSON: ${enum}."`
}

type statusCmd struct{ query }

// Run prints the edge at a glance.
func (c *statusCmd) Run(ctx context.Context, s *streams) error {
	return show(ctx, c.query, s.out, (*edge.Client).Status, func(w io.Writer, st edge.Status) error {
		return observe.Status(w, st, time.Now())
	})
}

type portsCmd struct{ query }

// Run lists local ports.
func (c *portsCmd) Run(ctx context.Context, s *streams) error {
	return show(ctx, c.query, s.out, (*edge.Client).Ports, observe.Ports)
}

type tepsCmd struct{ query }

// Run lists remote tunnel endpoints.
func (c *tepsCmd) Run(ctx context.Context, s *streams) error {
	return show(ctx, c.query, s.out, (*edge.Client).TEPs, observe.TEPs)
}

type fdbCmd struct {
	query
	Segment string `placeholder:"NAME" help:"Only this segment."`
	Static  bool   `help:"Only static entries."`
}

// Run lists MAC addresses.
func (c *fdbCmd) Run(ctx context.Context, s *streams) error {
	only := func(e edge.FDBEntry) bool {
		return (c.Segment == "" || e.Segment == c.Segment) && (!c.Static || e.Static)
	}
	return show(ctx, c.query, s.out, filtered((*edge.Client).FDB, only), observe.FDB)
}

type flowsCmd struct {
	query
	Segment string `placeholder:"NAME" help:"Only this segment."`
	Slow    bool   `help:"Only flows that are not on the fast path."`
}

// Run lists cached decisions.
func (c *flowsCmd) Run(ctx context.Context, s *streams) error {
	only := func(f edge.FlowInfo) bool {
		return (c.Segment == "" || f.Segment == c.Segment) && (!c.Slow || !f.FastPath)
	}
	return show(ctx, c.query, s.out, filtered((*edge.Client).Flows, only), observe.Flows)
}

type dropsCmd struct {
	query
	All bool `short:"a" help:"In the table, also reasons that never happened."`
}

// Run lists dropped packets by reason.
func (c *dropsCmd) Run(ctx context.Context, s *streams) error {
	return show(ctx, c.query, s.out, (*edge.Client).Drops, func(w io.Writer, drops []edge.DropInfo) error {
		return observe.Drops(w, drops, c.All)
	})
}

// ask is a question to an edge, such as (*edge.Client).Ports.
type ask[T any] func(*edge.Client, context.Context) (T, error)

// filtered asks and leaves out what only refuses.
func filtered[T any](question ask[[]T], only func(T) bool) ask[[]T] {
	return func(c *edge.Client, ctx context.Context) ([]T, error) {
		all, err := question(c, ctx)
		return slices.DeleteFunc(all, func(v T) bool { return !only(v) }), err
	}
}

// show asks the edge that q chooses and prints the answer.
func show[T any](ctx context.Context, q query, w io.Writer, question ask[T], table func(io.Writer, T) error) error {
	client, err := q.dial()
	if err != nil {
		return err
	}
	document, err := question(client, ctx)
	if err != nil {
		return err
	}
	if q.Output == "json" {
		return observe.JSON(w, document)
	}
	return table(w, document)
}

// dial returns a client of the edge that was named or is the only one.
func (q query) dial() (*edge.Client, error) {
	names, err := edge.Running(q.RuntimeDir)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("edges in %s answer root only; try sudo", q.RuntimeDir)
	case err != nil:
		return nil, err
	case q.Edge != "" && slices.Contains(names, q.Edge):
		return edge.Dial(q.RuntimeDir, q.Edge), nil
	case len(names) == 0:
		return nil, fmt.Errorf("no edge runs here (none answers in %s); start one with selvage edge -c FILE", q.RuntimeDir)
	case q.Edge != "":
		return nil, usageError{fmt.Errorf("edge %q does not run; running: %s", q.Edge, strings.Join(names, ", "))}
	case len(names) > 1:
		return nil, usageError{fmt.Errorf("several edges run; choose one with --edge: %s", strings.Join(names, ", "))}
	}
	return edge.Dial(q.RuntimeDir, names[0]), nil
}
