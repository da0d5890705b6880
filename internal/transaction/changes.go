package transaction

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/apiserver"
	"github.com/selvage/selvage/internal/event"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/revision"
)

// Changes are what the API has brought into force. Who changes the configuration has the turn
// until it is.
type Changes struct{ t *Transactions }

// Changes are those of t.
func (t *Transactions) Changes() Changes { return Changes{t} }

// InForce is the configuration that is wanted now.
func (c Changes) InForce() (overlay.Edge, revision.Revision) {
	now := c.t.current()
	return now.Edge, now.Revision
}

// History are the revisions that were in force.
func (c Changes) History() ([]revision.Revision, error) {
	store, err := revision.Open(c.t.o.StateDir, c.t.current().Edge.Name)
	if err != nil {
		return nil, err
	}
	return store.List()
}

// Apply implements apiserver.Transactions.
func (c Changes) Apply(ctx context.Context, r revision.Revision, dryRun bool, confirm time.Duration) (api.ApplyInfo, error) {
	if !dryRun {
		if err := c.t.turn.take(ctx, c.t.loop.Ended()); err != nil {
			return api.ApplyInfo{}, err
		}
		defer c.t.turn.pass()
	}
	info, err := c.applySource(ctx, r, dryRun, confirm)
	if !dryRun {
		c.t.count(err)
	}
	return info, err
}

// Reload implements apiserver.Transactions.
func (c Changes) Reload(ctx context.Context, by string, dryRun bool) (api.ApplyInfo, error) {
	if err := c.t.turn.take(ctx, c.t.loop.Ended()); err != nil {
		return api.ApplyInfo{}, err
	}
	defer c.t.turn.pass()
	next, err := c.t.readFile(by)
	if err != nil {
		if !dryRun {
			c.t.count(err)
			c.refused(ctx, revision.Revision{Path: c.t.o.Path, What: reloadWord}, err)
		}
		return api.ApplyInfo{}, api.BadRequest{Err: fmt.Errorf("the file is not taken, the configuration before stays in force:\n%w", err)}
	}
	info, err := c.propose(ctx, next, dryRun, 0)
	if !dryRun {
		c.t.count(err)
	}
	return info, err
}

// Rollback implements apiserver.Transactions.
func (c Changes) Rollback(ctx context.Context, id int, by string) (api.ApplyInfo, error) {
	if err := c.t.turn.take(ctx, c.t.loop.Ended()); err != nil {
		return api.ApplyInfo{}, err
	}
	defer c.t.turn.pass()
	info, err := c.rollback(ctx, id, by)
	c.t.count(err)
	return info, err
}

// Confirm implements apiserver.Transactions.
func (c Changes) Confirm(ctx context.Context) (api.RevisionInfo, error) {
	if err := c.inLoop(func() error { return c.t.confirm(ctx) }); err != nil {
		return api.RevisionInfo{}, api.BadRequest{Err: err}
	}
	return c.Info(c.t.current().Revision), nil
}

// Info says of a revision whether it is in force, and whether it stays.
func (c Changes) Info(r revision.Revision) api.RevisionInfo {
	c.t.mu.RLock()
	defer c.t.mu.RUnlock()
	info := api.RevisionInfo{
		ID: r.ID, When: r.When, By: r.By, What: r.What, Path: r.Path, InForce: r.ID == c.t.inForce.ID, Unconfirmed: r.Unconfirmed,
	}
	if c.t.awaited != nil && c.t.awaited.id == r.ID {
		info.Unconfirmed, info.Until = true, c.t.awaited.until
	}
	return info
}

// rollback goes back to a revision; while one waits for its confirmation, 0 is the one before it.
// The caller has the turn.
func (c Changes) rollback(ctx context.Context, id int, by string) (api.ApplyInfo, error) {
	waits := c.t.waiting()
	if waits != nil && id == 0 {
		return c.goBackNow(ctx, waits, by)
	}
	r, err := c.t.earlier(id)
	if errors.Is(err, fs.ErrNotExist) {
		return api.ApplyInfo{}, api.BadRequest{Err: fmt.Errorf("%w: see selvage history", err)}
	}
	if err != nil {
		return api.ApplyInfo{}, err
	}
	if waits != nil {
		if _, err := c.goBackNow(ctx, waits, by); err != nil {
			return api.ApplyInfo{}, err
		}
	}
	return c.applySource(ctx, revision.Revision{By: by, What: rollbackWord + strconv.Itoa(r.ID), Path: r.Path, Source: r.Source}, false, 0)
}

// goBackNow goes back from a configuration that waits for its confirmation.
func (c Changes) goBackNow(ctx context.Context, waits *awaited, by string) (api.ApplyInfo, error) {
	info, err := c.difference(c.t.current(), waits.back)
	if err == nil {
		err = c.inLoop(func() error {
			if c.t.awaited != waits { // it went back by itself
				return nil
			}
			return c.t.goBack(fmt.Sprintf("rollback of revision %d", waits.id), by)
		})
	}
	if err != nil {
		return api.ApplyInfo{}, fmt.Errorf("revision %d is in force still: %w", waits.id, err)
	}
	c.t.o.Log.InfoContext(ctx, "the configuration went back", event.Is(event.ConfigRolledBack), "from", waits.id, "revision", c.t.current().Revision.ID)
	return c.applied(info), nil
}

// applySource reads another configuration and brings it into force, unless only what it changes is asked.
func (c Changes) applySource(ctx context.Context, r revision.Revision, dryRun bool, confirm time.Duration) (api.ApplyInfo, error) {
	next, err := c.parse(c.t.current(), r)
	if err != nil {
		if !dryRun {
			c.refused(ctx, r, err)
		}
		return api.ApplyInfo{}, api.BadRequest{Err: err}
	}
	return c.propose(ctx, next, dryRun, confirm)
}

// propose says what a configuration changes, and has it come into force unless that is all that is asked.
func (c Changes) propose(ctx context.Context, next Candidate, dryRun bool, confirm time.Duration) (api.ApplyInfo, error) {
	info, err := c.difference(c.t.current(), next)
	if err != nil {
		return info, err
	}
	if dryRun {
		info.Revision = c.Info(c.t.current().Revision)
		return info, nil
	}
	if err := c.inLoop(func() error { return c.t.transact(next, confirm) }); err != nil {
		c.refused(ctx, next.Revision, err)
		return info, fmt.Errorf("the configuration is not in force, the one before is: %w", err)
	}
	kind := event.ConfigApplied
	if isRollback(next.Revision) {
		kind = event.ConfigRolledBack
	}
	c.t.o.Log.InfoContext(ctx, "configuration applied", event.Is(kind), "revision", c.t.current().Revision.ID, "what", next.What, "changes", len(info.Changes)+info.Omitted)
	return c.applied(info), nil
}

// parse reads and compiles the text of a revision.
func (c Changes) parse(was Candidate, r revision.Revision) (Candidate, error) {
	config, source, err := c.t.o.Parse(r.Source)
	r.Source = source
	if err == nil {
		err = c.t.sameName(config, source.Path)
	}
	if err != nil {
		return Candidate{}, err
	}
	return compile(was, config, r)
}

// refused tells of a configuration that did not come into force.
func (c Changes) refused(ctx context.Context, r revision.Revision, err error) {
	c.t.o.Log.WarnContext(ctx, "configuration refused: the one before is in force", event.Is(event.ConfigRefused), "path", r.Path, "what", r.What, "err", err)
}

// applied completes an answer when its configuration is in force.
func (c Changes) applied(info api.ApplyInfo) api.ApplyInfo {
	info.Applied, info.Revision = true, c.Info(c.t.current().Revision)
	if left := c.t.edge.LeftOut(); left != nil {
		info.LeftOut = left.Error()
	}
	return info
}

// difference is what changes between two configurations, and what that does to what runs.
func (c Changes) difference(was, next Candidate) (info api.ApplyInfo, err error) {
	info = api.ApplyInfo{Edge: next.Edge.Name, Changes: apiserver.Changes(was.Source, next.Source)}
	info.Omitted = max(0, len(info.Changes)-api.MaxChanges)
	info.Changes = info.Changes[:len(info.Changes)-info.Omitted]
	info.Effects, err = c.t.edge.Effects(was.Edge, next)
	info.Effects.BGPResets = apiserver.BGPResets(was.Edge.BGP, next.Edge.BGP)
	return info, err
}

// inLoop has f done by the goroutine of the edge.
func (c Changes) inLoop(f func() error) (err error) {
	if ended := c.t.loop.Do(func() { err = f() }); ended != nil {
		return ended
	}
	return err
}
