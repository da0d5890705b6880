package edge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strconv"
	"time"

	"github.com/selvage/selvage/internal/api"
	"github.com/selvage/selvage/internal/apiserver"
	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/overlay"
	"github.com/selvage/selvage/internal/revision"
)

// changes are what the API has brought into force. Who changes the configuration has the turn
// until it is.
type changes struct{ e *edge }

// InForce is the configuration that is wanted now.
func (c changes) InForce() (overlay.Edge, revision.Revision) {
	now := c.e.transactions.current()
	return now.edge, now.Revision
}

// History are the revisions that were in force.
func (c changes) History() ([]revision.Revision, error) {
	store, err := revision.Open(c.e.opts.StateDir, c.e.transactions.current().edge.Name)
	if err != nil {
		return nil, err
	}
	return store.List()
}

// Apply implements apiserver.Transactions.
func (c changes) Apply(ctx context.Context, r revision.Revision, dryRun bool, confirm time.Duration) (api.ApplyInfo, error) {
	if !dryRun {
		if err := c.e.transactions.turn.take(ctx, c.e.jobs.ended); err != nil {
			return api.ApplyInfo{}, err
		}
		defer c.e.transactions.turn.pass()
	}
	return c.applySource(r.Source, r, dryRun, confirm)
}

// Rollback implements apiserver.Transactions.
func (c changes) Rollback(ctx context.Context, id int, by string) (api.ApplyInfo, error) {
	if err := c.e.transactions.turn.take(ctx, c.e.jobs.ended); err != nil {
		return api.ApplyInfo{}, err
	}
	defer c.e.transactions.turn.pass()
	return c.rollback(id, by)
}

// Confirm implements apiserver.Transactions.
func (c changes) Confirm() (api.RevisionInfo, error) {
	_, err := inLoop(c.e.jobs, func() (struct{}, error) { return struct{}{}, c.e.transactions.confirm() })
	if err != nil {
		return api.RevisionInfo{}, api.BadRequest{Err: err}
	}
	return c.Info(c.e.transactions.current().Revision), nil
}

// Info says of a revision whether it is in force, and whether it stays.
func (c changes) Info(r revision.Revision) api.RevisionInfo {
	c.e.state.mu.RLock()
	defer c.e.state.mu.RUnlock()
	info := api.RevisionInfo{
		ID: r.ID, When: r.When, By: r.By, What: r.What, Path: r.Path, InForce: r.ID == c.e.transactions.inForce.ID, Unconfirmed: r.Unconfirmed,
	}
	if c.e.transactions.awaited != nil && c.e.transactions.awaited.id == r.ID {
		info.Unconfirmed, info.Until = true, c.e.transactions.awaited.until
	}
	return info
}

// rollback goes back to a revision; while one waits for its confirmation, 0 is the one before it.
// The caller has the turn.
func (c changes) rollback(id int, by string) (api.ApplyInfo, error) {
	c.e.state.mu.RLock()
	waits := c.e.transactions.awaited
	c.e.state.mu.RUnlock()
	if waits != nil && id == 0 {
		return c.goBackNow(waits, by)
	}
	r, err := c.e.transactions.earlier(id)
	if errors.Is(err, fs.ErrNotExist) {
		return api.ApplyInfo{}, api.BadRequest{Err: fmt.Errorf("%w: see selvage history", err)}
	}
	if err != nil {
		return api.ApplyInfo{}, err
	}
	if waits != nil {
		if _, err := c.goBackNow(waits, by); err != nil {
			return api.ApplyInfo{}, err
		}
	}
	return c.applySource(r.Source, revision.Revision{By: by, What: rollbackWord + strconv.Itoa(r.ID), Path: r.Path, Source: r.Source}, false, 0)
}

// goBackNow goes back from a configuration that waits for its confirmation.
func (c changes) goBackNow(waits *awaited, by string) (api.ApplyInfo, error) {
	info, err := c.difference(c.e.transactions.current(), waits.back)
	if err == nil {
		_, err = inLoop(c.e.jobs, func() (struct{}, error) {
			if c.e.transactions.awaited != waits { // it went back by itself
				return struct{}{}, nil
			}
			return struct{}{}, c.e.transactions.goBack(fmt.Sprintf("rollback of revision %d", waits.id), by)
		})
	}
	if err != nil {
		return api.ApplyInfo{}, fmt.Errorf("revision %d is in force still: %w", waits.id, err)
	}
	return c.applied(info), nil
}

// applySource says what another configuration changes, and has it come into force unless that
// is all that is asked.
func (c changes) applySource(source config.Source, r revision.Revision, dryRun bool, confirm time.Duration) (api.ApplyInfo, error) {
	config, err := c.e.opts.Parse(source)
	if err == nil {
		err = c.e.transactions.sameName(config, source.Path)
	}
	if err != nil {
		return api.ApplyInfo{}, api.BadRequest{Err: err}
	}
	was := c.e.transactions.current()
	next, err := newCandidate(was, config, r)
	if err != nil {
		return api.ApplyInfo{}, api.BadRequest{Err: err}
	}
	info, err := c.difference(was, next)
	if err != nil {
		return info, err
	}
	if dryRun {
		info.Revision = c.Info(c.e.transactions.current().Revision)
		return info, nil
	}
	_, err = inLoop(c.e.jobs, func() (struct{}, error) { return struct{}{}, c.e.transactions.transact(next, confirm) })
	if err != nil {
		return info, fmt.Errorf("the configuration is not in force, the one before is: %w", err)
	}
	c.e.log.Info("configuration applied", "by", r.By, "changes", len(info.Changes)+info.Omitted)
	return c.applied(info), nil
}

// applied completes an answer when its configuration is in force.
func (c changes) applied(info api.ApplyInfo) api.ApplyInfo {
	info.Applied, info.Revision = true, c.Info(c.e.transactions.current().Revision)
	if left := c.e.transactions.leftOut(); left != nil {
		info.LeftOut = left.Error()
	}
	return info
}

// difference is what changes between two configurations, and what that does to what runs.
func (c changes) difference(was, next candidate) (info api.ApplyInfo, err error) {
	info = api.ApplyInfo{Edge: next.edge.Name, Changes: apiserver.Changes(was.Source, next.Source)}
	info.Omitted = max(0, len(info.Changes)-api.MaxChanges)
	info.Changes = info.Changes[:len(info.Changes)-info.Omitted]
	info.Effects, err = read(&c.e.state, "connections", func() (api.ApplyEffects, error) {
		return apiserver.Effects(stateOf(c.e), next.edge, next.policies.Firewall)
	})
	info.Effects.Programs = !reflect.DeepEqual(dataPathConfig(was.edge, c.e.opts), dataPathConfig(next.edge, c.e.opts))
	info.Effects.BGPResets = apiserver.BGPResets(was.edge.BGP, next.edge.BGP)
	return info, err
}
