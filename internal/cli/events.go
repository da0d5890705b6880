package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/edge"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/observe"
	"github.com/selvage/selvage/internal/problem"
)

type eventsCmd struct {
	query
	Follow   bool   `short:"f" help:"Show the newest ten and then each event when it happens, until Ctrl-C. An edge that restarts is waited for."`
	Since    string `placeholder:"TIME" help:"Show only events since then: 10m, 2h, or a time as 2026-01-02T15:04:05Z."`
	Kind     string `placeholder:"KINDS" help:"Show only these kinds, separated by commas. The first word of several stands for all, as in bgp,mac-moved."`
	Severity string `placeholder:"LEVEL" enum:",note,warning,error" default:"" help:"Show only events of this severity and worse: note, warning or error."`
	Object   string `placeholder:"NAME" help:"Show only events of this port, remote, neighbour or other object."`
	Limit    int    `help:"Show at most this many, the newest; 0 shows all that are kept." default:"0"`
}

// Help says what kong's flags do not.
func (*eventsCmd) Help() string {
	return "Each event has a number; the numbers have no gaps, also over restarts of the edge. An edge keeps some thousands. " +
		"Events of an edge that does not run are read from its runtime directory. With --follow -o json each line is a document: {\"event\": …}, or {\"missed\": N} when that many were no longer kept."
}

// followTail is how many former events --follow shows, and retryEvery how often an edge that stopped is asked again.
const (
	followTail = 10
	retryEvery = 500 * time.Millisecond
)

func (c *eventsCmd) question() (q api.EventQuery, err error) {
	if err := checkLimit(c.Limit); err != nil {
		return q, err
	}
	q.Limit, q.Object, q.Severity = c.Limit, c.Object, problem.Severity(c.Severity)
	if c.Kind != "" {
		if q.Kinds, err = event.ParseKinds(c.Kind); err != nil {
			return q, usageError{fmt.Errorf("--kind: %w", err)}
		}
	}
	if c.Since != "" {
		if q.Since, err = sinceTime(c.Since, time.Now()); err != nil {
			return q, usageError{err}
		}
	}
	return q, nil
}

// sinceTime reads a time, or how long ago that is.
func sinceTime(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("--since: %q is neither a duration such as 10m nor a time such as 2026-01-02T15:04:05Z", text)
	}
	return at, nil
}

// Run lists events, and follows them.
func (c *eventsCmd) Run(ctx context.Context, s *streams) error {
	q, err := c.question()
	if err != nil {
		return err
	}
	if c.Follow && q.Limit == 0 && q.Since.IsZero() {
		q.Limit = followTail
	}
	client, err := c.dial()
	var abandoned edge.Abandoned
	switch {
	case errors.As(err, &abandoned) && !c.Follow:
		return c.ofFile(s, abandoned.Name, q)
	case err != nil:
		return err
	}
	list, err := client.Log().Events(ctx, q)
	switch {
	case err != nil:
		return err
	case c.Follow:
		return c.follow(ctx, s, client, q, list)
	}
	return c.print(s, list)
}

func (c *eventsCmd) print(s *streams, list api.EventList) error {
	if c.Output == "json" {
		return observe.JSON(s.out, list)
	}
	for _, e := range list.Events {
		if err := c.line(s, api.FollowedEvent{Event: &e}); err != nil {
			return err
		}
	}
	return nil
}

// line prints one event, or how many were missed.
func (c *eventsCmd) line(s *streams, f api.FollowedEvent) error {
	switch {
	case c.Output == "json":
		return json.NewEncoder(s.out).Encode(f)
	case f.Event == nil:
		return observe.MissedEvents(s.err, f.Missed)
	}
	return observe.Event(observe.Writer{Writer: s.out, Wide: c.Output == "wide"}, *f.Event)
}

// follow prints a list and what comes after it.
func (c *eventsCmd) follow(ctx context.Context, s *streams, client *api.Client, q api.EventQuery, list api.EventList) error {
	for _, e := range list.Events {
		if err := c.line(s, api.FollowedEvent{Event: &e}); err != nil {
			return err
		}
	}
	q.After = list.Next
	var printed error
	for told := false; ; {
		last, err := client.Log().Follow(ctx, q, func(f api.FollowedEvent) error {
			told, printed = false, c.line(s, f)
			return printed
		})
		var wrong *api.QueryError
		switch {
		case ctx.Err() != nil:
			return nil
		case printed != nil:
			return printed
		case errors.As(err, &wrong):
			return err
		}
		if !told {
			told = true
			fmt.Fprintln(s.err, "selvage: the edge does not answer; waiting for it")
		}
		q.After = last
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryEvery):
		}
	}
}

// ofFile prints events of an edge that does not run.
func (c *eventsCmd) ofFile(s *streams, name string, q api.EventQuery) error {
	all, err := event.ReadFile(filepath.Join(c.RuntimeDir, name+".events"))
	if err != nil {
		return err
	}
	if c.Output != "json" {
		fmt.Fprintf(s.err, "selvage: edge %s does not run; its events are those until it ended\n", name)
	}
	list := api.EventList{Events: q.Choose(all)}
	if len(all) > 0 {
		list.Next = all[len(all)-1].Number
	}
	return c.print(s, list)
}
