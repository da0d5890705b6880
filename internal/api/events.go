package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/problem"
)

// EventQuery chooses events.
type EventQuery struct {
	event.Filter
	Limit  int // of the newest; 0: all that are kept
	Follow bool
}

// EventList is events, the oldest first.
type EventList struct {
	Events []event.Event `json:"events"`
	// Next is the number of the newest, also of one that was not chosen.
	Next uint64 `json:"next"`
	// Missed is how many there were after the number that was asked for, of all kinds, that are no longer kept.
	Missed uint64 `json:"missed"`
}

// FollowedEvent is a line of an answer that follows events: an event, or how many were missed.
type FollowedEvent struct {
	Event  *event.Event `json:"event,omitempty"`
	Missed uint64       `json:"missed,omitempty"`
}

// MIME types of answers that follow.
const (
	LinesType = "application/x-ndjson"
	SSEType   = "text/event-stream"
)

func (q EventQuery) values() url.Values {
	v := url.Values{}
	kinds := make([]string, len(q.Kinds))
	for i, k := range q.Kinds {
		kinds[i] = string(k)
	}
	setIf(v, ArgKind, strings.Join(kinds, ","), len(kinds) > 0)
	setIf(v, ArgSeverity, string(q.Severity), q.Severity != "")
	setIf(v, ArgObject, q.Object, q.Object != "")
	setIf(v, ArgAfter, strconv.FormatUint(q.After, 10), q.After > 0)
	setIf(v, ArgSince, q.Since.Format(time.RFC3339Nano), !q.Since.IsZero())
	setIf(v, ArgLimit, strconv.Itoa(q.Limit), q.Limit > 0)
	setIf(v, ArgFollow, "true", q.Follow)
	return v
}

// EventQueryOf reads what values writes.
func EventQueryOf(v url.Values) (q EventQuery, err error) {
	a := Arguments{Values: v}
	severities := make([]string, len(event.Severities))
	for i, s := range event.Severities {
		severities[i] = string(s)
	}
	q.Object, q.Severity = a.Text(ArgObject), problem.Severity(a.OneOf(ArgSeverity, severities))
	q.Limit, q.Follow = a.Number(ArgLimit, 0, MaxLimit), a.Flag(ArgFollow)
	q.After = argument(&a, ArgAfter, "the number of an event", func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) })
	q.Since = argument(&a, ArgSince, "a time as 2026-01-02T15:04:05Z", func(text string) (time.Time, error) { return time.Parse(time.RFC3339Nano, text) })
	var unknown error
	q.Kinds = argument(&a, ArgKind, "known", func(text string) (kinds []event.Kind, err error) {
		kinds, err = event.ParseKinds(text)
		unknown = err
		return kinds, err
	})
	if unknown != nil {
		return q, BadRequest{Err: unknown}
	}
	return q, a.End()
}

// Choose is the newest events of a list that q chooses.
func (q EventQuery) Choose(list []event.Event) []event.Event {
	chosen := []event.Event{}
	for _, e := range list {
		if q.Has(e) {
			chosen = append(chosen, e)
		}
	}
	if q.Limit > 0 && len(chosen) > q.Limit {
		chosen = slices.Clone(chosen[len(chosen)-q.Limit:])
	}
	return chosen
}

// Events fetches what happened, the oldest first.
func (c LogClient) Events(ctx context.Context, q EventQuery) (EventList, error) {
	q.Follow = false
	return Fetch[EventList](ctx, c.c, "events?"+q.values().Encode())
}

// Follow calls do with each event after q.After that q chooses, and with how many were missed, until ctx or the edge ends,
// or do has an error. It returns the number of the last one.
func (c LogClient) Follow(ctx context.Context, q EventQuery, do func(FollowedEvent) error) (last uint64, err error) {
	q.Follow, q.Limit = true, 0
	last = q.After
	body, err := c.c.Get(ctx, "/v1/events?"+q.values().Encode())
	if err != nil {
		return last, err
	}
	defer body.Close()
	dec := json.NewDecoder(body)
	for {
		var f FollowedEvent
		switch err := dec.Decode(&f); {
		case errors.Is(err, io.EOF):
			return last, nil
		case err != nil:
			return last, fmt.Errorf("edge %s: events: %w", c.c.name, err)
		}
		if f.Event != nil {
			last = f.Event.Number
		} else {
			last += f.Missed
		}
		if err := do(f); err != nil {
			return last, err
		}
	}
}
